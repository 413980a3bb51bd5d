"""Elements that were divided, rounded or clamped differently before quantisation: each cause is named; correct outputs have
none."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

import anydml as dml
import oracle

F32 = np.float32
HALF = Fraction(1, 2)
SPECIAL = np.array([np.inf, -np.inf, np.nan, 0.0, -0.0], F32)


def away(v: Fraction) -> int:
    return math.floor(v + HALF) if v > 0 else math.ceil(v - HALF)


def wrapped(v: int) -> int:
    return v % 256


# of the quotient in float32 and the zero point; None: of the operands
OTHERWISE: dict[str, Callable[[Fraction, int], int]] = {
    "half_up": lambda v, z: math.floor(v + HALF) + z,
    "half_away_from_zero": lambda v, z: away(v) + z,
    "truncation": lambda v, z: math.trunc(v) + z,
    "rounding_down": lambda v, z: math.floor(v) + z,
    "zero_point_before_rounding": lambda v, z: oracle.round_half_even(v + z),
    "wrapping_output": lambda v, z: wrapped(oracle.round_half_even(v) + z),
}


def quantised(x: Any, scale: Any, zero_point: int, rounded: Callable[[Fraction, int], int]) -> Any:
    """The elements of an implementation that rounds in this way; elements that are not finite are correct."""
    due = dml.element_wise_quantize_linear(x, scale, np.uint8(zero_point))
    with np.errstate(all="ignore"):
        quotients = x.astype(F32) / scale.astype(F32)
    for at, v in np.ndenumerate(quotients):
        if np.isfinite(v):
            due[at] = min(max(rounded(Fraction(float(v)), zero_point), 0), 255)
    return due


@pytest.mark.parametrize("dtype", [F32, np.float16])
@pytest.mark.parametrize("name", OTHERWISE)
def test_another_rounding_is_named(name: str, dtype: Any) -> None:
    random = np.random.default_rng(len(name))
    reach = 300 if name == "wrapping_output" else 40
    x = np.concatenate([np.arange(-reach, reach, 0.25), random.uniform(-reach, reach, 200)]).astype(dtype)
    x = np.concatenate([x, SPECIAL.astype(dtype)])
    scale = np.asarray(0.5, dtype)
    actual = quantised(x, scale, 131, OTHERWISE[name])
    found = dml.compare(dml.element_wise_quantize_linear, x, scale, np.uint8(131), actual=actual)
    assert found.differing > 20
    assert found.causes[0].name == name
    assert found.causes[0].equal == x.size


def test_scales_of_an_axis_and_an_output_without_a_zero_point_are_looked_at() -> None:
    scale = np.array([0.5, 0.25, -2, 1], F32)
    x = (np.arange(-100, 100, 0.5).reshape(-1, 4) * scale).astype(F32)
    actual = quantised(x, scale, 0, OTHERWISE["half_away_from_zero"])
    found = dml.compare(dml.element_wise_quantize_linear, x, scale, actual=actual)
    assert "half_away_from_zero" in [cause.name for cause in found.causes]
    assert found.causes[0].equal == x.size


def test_a_reciprocal_and_a_quotient_that_is_not_rounded_are_told_apart() -> None:
    scale = F32(0.3)
    x = F32(np.arange(1, 120) * 0.5) * scale  # close to ties
    ways = {
        "reciprocal_output_scale": np.rint(x * (F32(1) / scale)),
        "exact_requantisation": np.array([oracle.round_half_even(Fraction(float(v)) / Fraction(float(scale))) for v in x]),
    }
    for name, values in ways.items():
        found = dml.compare(dml.element_wise_quantize_linear, x, scale, np.uint8(7), actual=(values + 7).astype(np.uint8))
        assert found.differing
        assert found.causes[0].name == name
        assert found.causes[0].equal == x.size
        assert found.causes[0].rounding


def test_integers_and_scales_of_no_use_have_no_cause() -> None:
    numbers = np.arange(-8, 8, dtype=np.int32)
    due = dml.element_wise_quantize_linear(numbers, F32(2), np.int8(0))
    assert not dml.compare(dml.element_wise_quantize_linear, numbers, F32(2), np.int8(0), actual=due + np.int8(1)).causes
    x, scale = np.array([1, 2, 0, 4], F32), np.array([0, np.inf, np.nan, 1], F32)
    due = dml.element_wise_quantize_linear(x, scale, np.uint8(0))
    assert dml.compare(dml.element_wise_quantize_linear, x, scale, np.uint8(0), actual=due).equal
    assert not dml.compare(dml.element_wise_quantize_linear, x, scale, np.uint8(0), actual=due ^ np.uint8(1)).causes
