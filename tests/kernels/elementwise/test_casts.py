"""Compiled casts of numbers close to limits, compared with the reference, on every instruction set."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import anydml as dml
from anydml.kernels.code import targets

ISAS = [target.name for target in targets.targets()]
by_isa = pytest.mark.parametrize("isa", ISAS)
REFERENCE = dml.Device("reference")
INTEGERS = ("int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64")
FLOATS = ("float16", "float32", "float64")


def same(x: NDArray[Any], to: str, isa: str) -> None:
    device = dml.Device(isa=isa)
    compiled = device.compile(
        dml.Cast(
            input_tensor=dml.TensorDesc.of(x),
            output_tensor=dml.TensorDesc(dml.TensorDesc.of(np.empty(1, to)).data_type, x.shape),
        )
    )
    assert compiled.kernel_name == "elementwise:compiled", (x.dtype, to)
    made = dml.cast(x, output_data_type=to, device=device)
    expected = dml.cast(x, output_data_type=to, device=REFERENCE)
    differ = made.view(f"u{made.itemsize}") != expected.view(f"u{made.itemsize}")
    assert not differ.any(), [(a, b, c) for a, b, c in zip(x[differ], made[differ], expected[differ], strict=True)][:5]


@by_isa
@pytest.mark.parametrize("to", INTEGERS)
@pytest.mark.parametrize("of", ["float16", "float32"])
def test_floats_to_integers(of: str, to: str, isa: str) -> None:
    limits = np.iinfo(to)
    near = [float(n) + d for n in (limits.min, limits.max, 0) for d in (-1, -0.75, -0.5, 0, 0.5, 0.75, 1)]
    with np.errstate(over="ignore"):
        exact = np.array([*near, -0.0, np.nan, -np.nan, np.inf, -np.inf, 1e-45, 3e9, -3e9, 1e30], np.float64).astype(of)
        beside = np.concatenate([np.nextafter(exact, np.array(to, of)) for to in (np.inf, -np.inf)])
    same(np.concatenate([exact, beside]), to, isa)


@by_isa
@pytest.mark.parametrize("to", FLOATS)
@pytest.mark.parametrize("of", INTEGERS)
def test_integers_to_floats(of: str, to: str, isa: str) -> None:
    limits, rng = np.iinfo(of), np.random.default_rng(0)
    drawn = rng.integers(limits.min, limits.max, 200, np.dtype(of).type, endpoint=True)
    # ties of float32 and float16, and their neighbours
    ties = [(m << s) + d for m in (3, 2049, (1 << 24) + 1, (1 << 24) + 3) for s in range(12) for d in (-1, 0, 1)]
    inside = np.array([n for n in (*ties, limits.min, limits.max) if limits.min <= n <= limits.max], of)
    same(np.concatenate([drawn, inside]), to, isa)


@by_isa
def test_all_halves_widen(isa: str) -> None:
    halves = np.arange(1 << 16, dtype=np.uint16).view(np.float16)
    made = dml.cast(halves, output_data_type="float32", device=dml.Device(isa=isa))
    with np.errstate(invalid="ignore"):
        expected = np.where(np.isnan(halves), np.float32(np.nan), halves.astype(np.float32))
    assert made.tobytes() == expected.tobytes()


@by_isa
def test_floats_narrow_to_halves(isa: str) -> None:
    """Every half, the numbers in the middle of two, and the neighbours of both."""
    halves = np.arange(0x7C01, dtype=np.uint16).view(np.float16).astype(np.float32)
    halves[-1] = 65536  # the number after the largest half
    middle = (halves[:-1] + halves[1:]) / 2
    x = np.concatenate([halves, middle])
    x = np.concatenate([x, np.nextafter(x, np.float32(np.inf)), np.nextafter(x, np.float32(0)), [np.nan, np.inf]]).astype(
        np.float32
    )
    x = np.concatenate([x, -x])
    made = dml.cast(x, output_data_type="float16", device=dml.Device(isa=isa))
    with np.errstate(over="ignore"):
        expected = np.where(np.isnan(x), np.float16(np.nan), x.astype(np.float16))
    assert made.tobytes() == expected.tobytes()
