"""Data that resemble those of real layers, which are harder than normal data: exact on every instruction set, without
Python."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from test_windows import F16, F32, pooling

import anydml as dml
import nest_cases
from agreement import SOAK, bits, expected
from anydml import DataType, TensorDesc
from anydml.kernels.code import llvm
from anydml.kernels.evaluate.evaluator import Evaluator
from anydml.kernels.windows import tuning as windows_tuning
from anydml.schema.enumerations import AxisDirection
from every_kernel import CallsOf, Ran, without_dot_products
from tuned import tuned

sys.path.insert(0, str(Path(__file__).parents[2]))
from benchmarks.cliff_cases import CASES, IN_HALF, KINDS, Array, Data

pytestmark = pytest.mark.skipif(llvm.unavailable() is not None, reason="without LLVM there are no kernels that could be wrong")

ISAS = [row.name for row in without_dot_products()]


def layered(rng: np.random.Generator, kind: str, sizes: tuple[int, ...], dtype: np.dtype[Any]) -> Array:
    make = (IN_HALF if dtype == np.float16 else KINDS).get(kind, KINDS[kind])
    with np.errstate(all="ignore"):
        made: Array = make(rng.standard_normal(sizes)).astype(dtype)
    return made


def compare(desc: Any, inputs: dict[str, Array], replaced: list[str], isa: str, kernel: str) -> int:
    """Assert that outputs equal the oracle's for every kind of data of some inputs; return their number."""
    compiled = dml.Device("cpu", isa=isa, threads=1).compile(desc)
    assert compiled.kernel_name == kernel
    tensors = {t.name: t.desc for t in desc.tensors()}
    arrays = {n: strided(t) for n, t in tensors.items()}
    bound = compiled.bind(**arrays)
    rng, outputs = np.random.default_rng(0), 0
    for kind in KINDS:
        given = inputs | {name: layered(rng, kind, inputs[name].shape, inputs[name].dtype) for name in replaced}
        for name, x in given.items():
            arrays[name][...] = x
        bound.execute()
        for name, array in expected(desc, given).items():
            np.testing.assert_array_equal(bits(arrays[name]), bits(array), err_msg=f"{kind}, {isa}: {desc}")
            outputs += array.size
    return outputs


def strided(t: TensorDesc) -> Array:
    """An array with the strides of a desc."""
    strides, itemsize = t.explicit_strides, t.data_type.dtype.itemsize
    memory = np.zeros(1 + sum((n - 1) * s for n, s in zip(t.sizes, strides, strict=True)), t.data_type.dtype)
    return np.lib.stride_tricks.as_strided(memory, t.sizes, [s * itemsize for s in strides])


NESTS = ("LOCAL_RESPONSE_NORMALIZATION_GRAD", "ROI_ALIGN1", "ROI_ALIGN_GRAD", "RESAMPLE3")


@pytest.mark.parametrize("name", NESTS)
@pytest.mark.filterwarnings("ignore:overflow", "ignore:invalid value")
def test_nests_are_exact_on_data_of_layers(name: str, ran: Ran) -> None:
    outputs = at = drawn = 0
    while drawn < 3 * SOAK:
        at += 1
        desc, inputs = nest_cases.case(name, np.random.default_rng([at, *name.encode()]), "ordinary")
        floats = [n for n, x in inputs.items() if x.dtype.kind == "f" and n != "roi_tensor"]
        kernel = dml.Device("cpu").compile(desc).kernel_name
        if kernel != "nests:compiled" or not floats:
            continue
        outputs += compare(desc, inputs, floats, ISAS[drawn % len(ISAS)], kernel)
        drawn += 1
    ran(outputs, 100)


@pytest.mark.parametrize("local", [(1e-4, 0.75, 1.0), (1.0, 0.5, 0.0), (2.0, 1.5, 2.0), (1.0, 1.0, 1.0)])
@pytest.mark.parametrize("data_type", [F32, F16])
@pytest.mark.filterwarnings("ignore:overflow", "ignore:invalid value", "ignore:divide by zero")
def test_local_responses_on_data_of_layers(local: tuple[float, ...], data_type: DataType, ran: Ran) -> None:
    """With a bias of 0, there are quotients of zeros."""
    alpha, beta, bias = local
    t = TensorDesc(data_type, (1, 5, 3, 9))
    desc = dml.LocalResponseNormalization(
        input_tensor=t, output_tensor=t, cross_channel=beta != 0.5, local_size=3, alpha=alpha, beta=beta, bias=bias
    )
    inputs = {"input_tensor": np.empty(t.sizes, data_type.dtype)}
    isas = ISAS if SOAK > 1 else ISAS[data_type == F16 :: 2] or ISAS
    ran(sum(compare(desc, inputs, ["input_tensor"], isa, "nests:compiled") for isa in isas), 100)


@pytest.mark.parametrize("data_type", [F32, F16])
@pytest.mark.parametrize(("name", "fields"), [("AVERAGE_POOLING1", {}), ("LP_POOLING1", {"p": 1}), ("LP_POOLING1", {"p": 2})])
@pytest.mark.filterwarnings("ignore:overflow", "ignore:invalid value")
def test_windows_are_exact_on_data_of_layers(
    name: str, fields: dict[str, Any], data_type: DataType, ran: Ran, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Windows that slide over columns, with and without unrolled code, and windows of whole images."""
    tuned(monkeypatch, windows_tuning, general=0)
    usual: list[dict[str, Any]] = [
        dict(sizes=(1, 2, 9, 40), window=(3, 3), start=(1, 1), end=(1, 1)),
        dict(sizes=(1, 2, 9, 41), window=(2, 2), strides=(2, 2)),
        dict(sizes=(1, 2, 9, 30), window=(3, 3), strides=(1, 3), dilations=(1, 2), start=(2, 2), end=(2, 1)),
        dict(sizes=(1, 17, 5, 5), window=(3, 3), layout=(425, 1, 85, 17), out=(153, 1, 51, 17)),
        dict(sizes=(1, 9, 5, 5), window=(5, 5)),
    ]
    outputs = 0
    for at, given in enumerate(usual):
        sizes = given.pop("sizes")
        desc = pooling(name, data_type, sizes, **given, **fields)
        inputs = {"input_tensor": np.empty(sizes, data_type.dtype)}
        for isa in ISAS if SOAK > 1 else [ISAS[(at + (data_type == F16)) % len(ISAS)]]:
            outputs += compare(desc, inputs, ["input_tensor"], isa, "windows:compiled")
    ran(outputs, 1000)


def test_lengths_that_are_half_between_two_elements(calls_of: CallsOf) -> None:
    """Squares of 2049 elements, or of 2^24 + 1, and float32 numbers close to them: decided in machine code."""
    decided = calls_of(Evaluator, "stored")
    rng = np.random.default_rng(3)
    outputs = 0
    for data_type, odd in ((F16, 2049), (F32, (1 << 24) + 1)):
        x = np.zeros((1, 1, 4, 64), data_type.dtype)
        for k in range(32):  # three equal elements, and a fourth with which the sum of squares is (2 odd / 3)^2, or close to it
            x[0, 0, :2, 2 * k : 2 * k + 2] = odd // 3 if k % 2 else (odd - 1) / 2
            x[0, 0, 2:, 2 * k] = np.ldexp(odd - 1, -3)
            x[0, 0, 3, 2 * k + 1] = np.ldexp(1.0, int(rng.integers(-20, 1)))
        # (m + 1/2)^2 as a sum of four squares: m^2, and three others
        m = float(odd - 1)
        x[0, 0, :2, 0:2] = np.array([[m, 1.0], [np.sqrt(m), np.sqrt(m)]]).round()
        desc = pooling("LP_POOLING1", data_type, x.shape, (2, 2), strides=(2, 2), p=2)
        for isa in ISAS:
            compiled = dml.Device("cpu", isa=isa, threads=1).compile(desc)
            made = np.empty(desc.output_tensor.sizes, x.dtype)
            compiled.bind(input_tensor=x, output_tensor=made).execute()
            np.testing.assert_array_equal(bits(made), bits(expected(desc, {"input_tensor": x})["output_tensor"]))
            outputs += made.size
    assert not decided
    assert outputs


@pytest.mark.parametrize("data_type", [F32, F16])
@pytest.mark.parametrize("direction", ["DECREASING", "INCREASING"])
def test_the_first_of_rows_of_layers(data_type: DataType, direction: str, ran: Ran) -> None:
    """Rows with many equal elements, of which the first ones must be found."""
    x = TensorDesc(data_type, (2, 1500))
    y = TensorDesc(data_type, (2, 12))
    desc = dml.TopK1(
        input_tensor=x,
        output_value_tensor=y,
        output_index_tensor=TensorDesc(DataType.UINT32, (2, 12)),
        axis=1,
        k=12,
        axis_direction=AxisDirection[direction],
    )
    inputs = {"input_tensor": np.empty(x.sizes, data_type.dtype)}
    ran(sum(compare(desc, inputs, ["input_tensor"], isa, "order:compiled") for isa in ISAS), 500)


LEFT = 40  # elements that Python may decide: a few, as of normal data
BEGUN = (
    "LOCAL_RESPONSE",
    "ROI_ALIGN1",
    "ROI_ALIGN_GRAD",
    "ADAM",
    "LP_POOLING1 of 2",
    "LP_POOLING1 of 4",
    "AVERAGE_POOLING1 of",
    "MULTIHEAD_ATTENTION1",
)


@pytest.mark.parametrize("name", [name for name in CASES if name.startswith(BEGUN)])
def test_what_layers_have_is_decided_in_machine_code(name: str, calls_of: CallsOf, ran: Ran) -> None:
    """Of ten thousand elements of each kind of data, count those that reach the exact evaluation."""
    decided, calls = calls_of(Evaluator, "stored"), 0
    for dtype in (np.float32, np.float16) if SOAK > 1 or "POOLING" in name or "ROI" in name else (np.float32,):
        compiled = None
        for kind in KINDS:
            desc, inputs, outputs = CASES[name](Data(kind, dtype))
            compiled = compiled or dml.Device("cpu", threads=1).compile(desc)
            made = {o: np.empty(d.sizes, d.data_type.dtype) for o, d, _ in filter(None, outputs)}
            compiled.bind_described({**inputs, **made}).execute()
            assert len(decided) <= LEFT, f"{kind}: {len(decided)} elements"
            decided.clear()
            calls += 1
    ran(calls, len(KINDS))
