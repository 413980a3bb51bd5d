"""ELEMENT_WISE_QUANTIZED_LINEAR_ADD: sums of scaled bytes, estimated in float32, compared with integers and the reference."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import anydml as dml
from anydml import TensorDesc
from anydml.kernels.code import llvm
from anydml.kernels.code.targets import targets
from anydml.kernels.elementwise import family
from anydml.kernels.elementwise.estimated import quantised_sum
from every_kernel import SOAK

pytestmark = pytest.mark.skipif(llvm.unavailable() is not None, reason="there is no LLVM here")
Array = np.ndarray[Any, Any]
PAIRS = np.stack(np.meshgrid(np.arange(256), np.arange(256), indexing="ij")).reshape(2, 1, 1, 256, 256).astype(np.uint8)
SMALLEST, LARGEST = 2.0**-149, 3.4e38
SCALES = (
    (1 / 16, 6 / 255, 6 / 255),  # every 32nd quotient is close to a tie
    (0.1, 0.1, 0.2),  # every second one is a tie
    (1.0, 1.0, 2.0),
    (8.0, 0.125, 1.0),
    (0.3, 0.7, 0.11),
    (-0.3, 0.7, -0.11),
    (2.0**-13, 2.0**-14, 1.0),
    (3 * 2.0**-149, SMALLEST, 2 * SMALLEST),
    (LARGEST, SMALLEST, LARGEST),
    (300.0, 300.0, 1.0),
    (9e3, -9e3, 1.0),
    (LARGEST, -LARGEST, SMALLEST),
    (0.0, 1.0, 3.0),
    (2.0, 1e38, 2.0**100),  # quotients beyond int32 that float64 is certain of
    (3e7, -1e7, 1.0),
)
INF, NAN = np.inf, np.nan
WRONG = ((1.0, 1.0, 0.0), (1.0, INF, 1.0), (NAN, 1.0, 1.0), (1.0, 1.0, INF), (INF, INF, -1.0), (0.0, 1.0, NAN))


def single(x: float) -> TensorDesc:
    return TensorDesc("FLOAT32", (1, 1, 1, 1))


def arrays(a: Array, b: Array, scales: tuple[float, ...], zeros: tuple[int, ...] | None, dtype: Any) -> dict[str, Array]:
    made = {"a_tensor": a, "b_tensor": b}
    for k, name in enumerate(("a", "b", "output")):
        made[f"{name}_scale_tensor"] = np.full((1, 1, 1, 1), scales[k], np.float32)
        if zeros is not None:
            made[f"{name}_zero_point_tensor"] = np.full((1, 1, 1, 1), zeros[k], dtype if name == "output" else a.dtype)
    return made


def desc_of(inputs: dict[str, Array], output: TensorDesc) -> dml.ElementWiseQuantizedLinearAdd:
    return dml.ElementWiseQuantizedLinearAdd(**{k: TensorDesc.of(x) for k, x in inputs.items()}, output_tensor=output)


def summed(inputs: dict[str, Array], dtype: Any, **how: Any) -> Array:
    """The output, whose bytes were all different before."""
    output = np.full(inputs["a_tensor"].shape, 0x55, dtype)
    compiled = dml.Device("cpu", **how).compile(desc_of(inputs, TensorDesc.of(output)))
    assert compiled.kernel_name == "elementwise:compiled"
    compiled.bind(**inputs, output_tensor=output).execute()
    return output


def expected(inputs: dict[str, Array], dtype: Any) -> Array:
    """In integers: scales are multiples of 2^-149."""
    names = ("a", "b", "output")
    a, b, y = (int(float(inputs[f"{name}_scale_tensor"].item()) * 2.0**149) for name in names)
    zeros = [int(inputs.get(f"{name}_zero_point_tensor", np.zeros(1, np.uint8)).item()) for name in names]
    total = (inputs["a_tensor"].astype(object) - zeros[0]) * a + (inputs["b_tensor"].astype(object) - zeros[1]) * b
    total, y = (total, y) if y > 0 else (-total, -y)
    down, rest = total // y, total % y
    up = (2 * rest > y) | ((2 * rest == y) & (down % 2 == 1))
    limits = np.iinfo(dtype)
    return np.asarray(np.clip(down + up + zeros[2], limits.min, limits.max), dtype)


@pytest.mark.parametrize("dtype", [np.uint8, np.int8])
def test_every_pair_of_bytes(dtype: Any) -> None:
    for scales in SCALES if SOAK else SCALES[:8:2] + SCALES[8:]:
        for zeros in (None, (128, 3, 100)) if dtype == np.uint8 else ((-128, 127, -5),):
            inputs = arrays(PAIRS[0].view(dtype), PAIRS[1].view(dtype), scales, zeros, dtype)
            np.testing.assert_array_equal(summed(inputs, dtype), expected(inputs, dtype), str((scales, zeros)))


@pytest.mark.parametrize("scales", WRONG)
def test_scales_that_are_no_numbers_to_divide_by(scales: tuple[float, ...]) -> None:
    a, b = PAIRS[:, ..., ::37, ::41].copy()
    inputs = arrays(a, b, scales, (7, 7, 9), np.uint8)
    wanted = np.empty_like(a)
    dml.Device("reference").compile(desc_of(inputs, TensorDesc.of(a))).bind(**inputs, output_tensor=wanted).execute()
    np.testing.assert_array_equal(summed(inputs, np.uint8), wanted)


@pytest.mark.parametrize("isa", [t.name for t in targets()] if llvm.unavailable() is None else [])
def test_instruction_sets_layouts_and_threads(isa: str) -> None:
    rng = np.random.default_rng(3)
    a, b = rng.integers(0, 256, (2, 3, 5, 67, 131), np.uint8)
    for scales, zeros in ((SCALES[0], (128, 0, 0)), (SCALES[1], (1, 2, 3)), (SCALES[4], None)):
        inputs = arrays(a.transpose(0, 2, 3, 1), b.transpose(0, 2, 3, 1), scales, zeros, np.int8)
        inputs["b_tensor"] = inputs["b_tensor"][:1, :, :1]
        inputs["b_tensor"] = np.broadcast_to(inputs["b_tensor"], inputs["a_tensor"].shape)
        for threads in (1, 2):
            np.testing.assert_array_equal(summed(inputs, np.int8, isa=isa, threads=threads), expected(inputs, np.int8))


def test_float32_estimates_them(monkeypatch: pytest.MonkeyPatch) -> None:
    found = []

    def matched(*given: Any) -> Any:
        found.append(quantised_sum(*given))
        return found[-1]

    monkeypatch.setattr(family, "quantised_sum", matched)
    summed(arrays(PAIRS[0], PAIRS[1], (1.0, 1.0, 1.0), (1, 2, 3), np.uint8), np.uint8)
    assert found[0] is not None
    assert [t.zero is not None for t in found[0].terms] == [True, True]
