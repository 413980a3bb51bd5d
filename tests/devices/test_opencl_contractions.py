"""Contractions on OpenCL devices: of floats by tiles, pairs, sums in three parts and the last decision; of integers by tiles.

Tiles are those of GPUs, or blocks that a processor's core computes. In `make test`, tests take turns with them.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import anydml as dml
import hostile_data
import integer_convolutions
import matmul_cases
from anydml import UnsupportedError
from anydml.kernels.code import llvm
from anydml.kernels.opencl import platform
from anydml.kernels.opencl.contract import calls, family, integers
from drawn_contractions import Bound, convolution, gemm, named, rows_times_columns
from every_kernel import SOAK, Ran
from guard_pages import AVAILABLE

pytestmark = [
    pytest.mark.skipif(llvm.unavailable() is not None or not AVAILABLE, reason="nothing can be compiled, or guarded"),
    pytest.mark.filterwarnings("ignore:overflow", "ignore:invalid value", "ignore:underflow"),
]
NAME = "contract.floats:opencl"
INTEGER_CONVOLUTIONS = "CONVOLUTION_INTEGER", "QUANTIZED_LINEAR_CONVOLUTION"
M, K, N = 67, 150, 130  # several tiles, none of them whole
Matrices = tuple[NDArray[np.float32], NDArray[np.float32]]


@pytest.fixture(scope="module", params=["first", "second", "exact"] if SOAK > 1 else ["first"])  # drivers compile slowly
def there(request: pytest.FixtureRequest) -> dml.Device:
    try:
        return dml.Device("opencl", stage=request.param)
    except UnsupportedError as error:
        pytest.skip(str(error))


@pytest.fixture(autouse=True)
def _tiles_for_all(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (family, integers):
        monkeypatch.setattr(module, "FEW", 0)
        monkeypatch.setattr(module, "FEW_TERMS", -1)


@pytest.fixture
def computing(there: dml.Device, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> dml.Device:
    """The device, with the tiles of GPUs or with blocks."""
    monkeypatch.setattr(platform.opened(there.machine.opencl), "is_processor", request.param == "blocks")
    return there


def by(first: str, second: str) -> pytest.MarkDecorator:
    """Parametrizes a test with one kind of tiles, in `make soak` with both."""
    return pytest.mark.parametrize("computing", [first, second] if SOAK > 1 else [first], indirect=True)


@by("tiles", "blocks")
def test_generated_products_and_convolutions(computing: dml.Device, ran: Ran) -> None:
    """Any layout and type, with data that no stage may get wrong."""
    there = computing
    outputs, descs = 0, 40 * (SOAK - 1) if there.machine.stage == "first" else SOAK
    for case in range(max(descs, 1)):
        rng = np.random.default_rng([39, case + (descs == 0)])  # a convolution, if there is one case
        desc = convolution(rng) if case % 2 or not descs else gemm(rng, (40, 64, 70))
        bound = Bound(desc, there, at_end=case % 4 < 2, kernel_name=NAME)
        for kind in hostile_data.KINDS if there.machine.stage == "first" else hostile_data.KINDS[:1]:
            bound.fill(rng, kind)
            bound.check()
        outputs += bound.executed
    ran(outputs, 1)


def matrices() -> Iterator[tuple[str, Matrices]]:
    """Factors whose sums are easy, or exact, or ties, or cancel, or are decided by one number."""
    rng = np.random.default_rng(39)

    def normal(*sizes: int) -> NDArray[np.float32]:
        return rng.standard_normal(sizes, np.float32)

    def rounded(x: NDArray[np.float32], parts: int) -> NDArray[np.float32]:
        return (np.rint(x * parts) / parts).astype(np.float32)

    half, other = normal(M, K // 2), normal(K // 2, N)
    both = np.concatenate([half, half], 1)
    yield "normal", (normal(M, K), normal(K, N))
    yield "one in 20 is not 0", (normal(M, K), (rng.random((K, N)) < 0.05).astype(np.float32))
    yield "integers", (rounded(normal(M, K), 1000) * 1000, rounded(normal(K, N), 1000) * 1000)
    yield "fractions of 12 bits", (rounded(normal(M, K), 4096), rounded(normal(K, N), 4096))
    yield "sums that are 0", (both, np.concatenate([other, -other]))
    yield "sums that nearly cancel", (both, np.concatenate([other, -other + np.float32(1e-6) * normal(K // 2, N)]))
    yield (
        "wide exponents",
        tuple((x * 10.0 ** rng.uniform(-18, 18, x.shape)).astype(np.float32) for x in (normal(M, K), normal(K, N))),
    )  # type: ignore[misc]
    yield "subnormal numbers", (normal(M, K) * np.float32(1e-40), normal(K, N))
    yield "zeros of both signs", (np.full((M, K), -0.0, np.float32), np.abs(normal(K, N)))
    a, b = normal(M, K), normal(K, N)
    a[::7, 3], b[5, ::11], b[9, ::13] = np.inf, np.nan, -np.inf
    yield "infinities and NaN", (a, b)


@by("blocks", "tiles")
def test_products_of_several_tiles_have_the_bits_of_the_cpu(computing: dml.Device, ran: Ran) -> None:
    there = computing
    desc = rows_times_columns(M, K, N)
    compiled, wanted = there.compile(desc), dml.Device("cpu").compile(desc)
    assert compiled.kernel_name == NAME
    several = list(matrices()) if there.machine.stage == "first" else list(matrices())[:1]
    for name, (a, b) in several:
        outputs = []
        for one in (compiled, wanted):
            made = np.zeros((M, N), np.float32)
            one.bind(a_tensor=a, b_tensor=b, output_tensor=made).execute()
            outputs.append(made)
        np.testing.assert_array_equal(outputs[0].view(np.uint32), outputs[1].view(np.uint32), name)
    ran(len(several) * M * N, M * N)


@by("tiles", "blocks")
def test_generated_products_of_integers(computing: dml.Device, ran: Ran) -> None:
    """Any layout, type, granularity of zero points and kind of scales, beside the oracle, and every byte near the output."""
    outputs = 0
    for case in range(1 if SOAK == 1 else 40 if computing.machine.stage == "first" else 4):
        recipe = matmul_cases.random_recipe(random.Random(case), quantized=case % 3 != 1, longest=2000)
        outputs += exact(computing, matmul_cases.make(replace(recipe, owned=frozenset())))
    ran(outputs, 1)


@by("blocks", "tiles")
def test_generated_convolutions_of_integers(computing: dml.Device, ran: Ran) -> None:
    outputs = 0
    for case in range(1 if SOAK == 1 else 40 if computing.machine.stage == "first" else 4):
        outputs += exact(computing, integer_convolutions.make(integer_convolutions.random_recipe(random.Random(case))))
    ran(outputs, 1)


def exact(device: dml.Device, case: Any) -> int:
    """The number of outputs, after a check that they are exact, and that nothing beside them is written."""
    placed = {**case.inputs, "output_tensor": case.output}
    tensors = {
        name: dml.TensorDesc(dml.DataType.of(x.tensor.dtype), x.tensor.shape, strides=x.strides) for name, x in placed.items()
    }
    product = isinstance(case, matmul_cases.Case)
    name = ("MATRIX_MULTIPLY_INTEGER", "QUANTIZED_LINEAR_MATRIX_MULTIPLY") if product else INTEGER_CONVOLUTIONS
    compiled = device.compile(named(name[case.recipe.quantized])(**tensors, **({} if product else case.attributes)))
    assert compiled.kernel_name == "contract:opencl", case.recipe
    wanted = {name: x.memory.copy() for name, x in placed.items()}
    bound = compiled.bind(**{name: x.tensor for name, x in placed.items()})
    for _ in range(2):
        bound.execute()
    y = case.output
    shift = y.tensor.ctypes.data - y.memory.ctypes.data
    shape, dtype = case.expected.shape, case.expected.dtype
    np.ndarray(shape, dtype, wanted["output_tensor"].data, shift, y.tensor.strides)[...] = case.expected
    for field, memory in wanted.items():
        np.testing.assert_array_equal(placed[field].memory, memory, f"{field} of {case.recipe}")
    return int(case.expected.size)


def test_sums_of_bytes_beyond_32_bits(there: dml.Device) -> None:
    """They wrap in INT32, and those that are requantised are left to another kernel."""
    ends = np.full((1, 34_000), 255, np.uint8)
    want = dml.matrix_multiply_integer(ends, ends.T, device="cpu")
    np.testing.assert_array_equal(dml.matrix_multiply_integer(ends, ends.T, device=there), want)
    t = {name: dml.TensorDesc(kind, sizes) for name, kind, sizes in (
        ("a_tensor", "UINT8", (1, 34_000)), ("b_tensor", "UINT8", (34_000, 1)), ("output_tensor", "UINT8", (1, 1)),
        *((f"{x}_scale_tensor", "FLOAT32", (1,)) for x in ("a", "b", "output")),
    )}  # fmt: skip
    assert there.compile(dml.QuantizedLinearMatrixMultiply(**t)).kernel_name != "contract:opencl"


def test_more_rows_than_kernels_number_are_refused(there: dml.Device, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(family, "MOST", 100)
    assert there.compile(rows_times_columns(100, 70, 100)).kernel_name == NAME
    assert there.compile(rows_times_columns(101, 70, 100)).kernel_name != NAME
    assert there.compile(rows_times_columns(100, 70, 101)).kernel_name != NAME


def test_long_work_is_cut(there: dml.Device, monkeypatch: pytest.MonkeyPatch) -> None:
    """Launches of one tile, whose number grows."""
    monkeypatch.setattr(calls, "UNITS", 1)
    desc = rows_times_columns(200, 5, 300)
    a, b = (np.random.default_rng(k).standard_normal(sizes, np.float32) for k, sizes in enumerate([(200, 5), (5, 300)]))
    outputs = []
    for device in (there, dml.Device("cpu")):
        made = np.zeros((200, 300), np.float32)
        bound = device.compile(desc).bind(a_tensor=a, b_tensor=b, output_tensor=made)
        for _ in range(2):
            bound.execute()
        outputs.append(made)
    np.testing.assert_array_equal(outputs[0].view(np.uint32), outputs[1].view(np.uint32))
