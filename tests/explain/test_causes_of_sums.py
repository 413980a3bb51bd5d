"""Additions and means of quantised tensors that were rounded in another way: each way is named."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

import anydml as dml
import fixed_point
import oracle

F32 = np.float32
HALF = Fraction(1, 2)

OTHERWISE: dict[str, Callable[[Fraction], int]] = {
    "half_up": lambda v: math.floor(v + HALF),
    "half_away_from_zero": lambda v: math.floor(v + HALF) if v > 0 else math.ceil(v - HALF),
    "truncation": math.trunc,
    "rounding_down": math.floor,
}


def clamped(x: int) -> int:
    return min(max(x, -128), 127)


def one(value: Any, dtype: Any, count: int = 1) -> Any:
    return np.full((1,) * count, value, dtype)


@pytest.mark.parametrize("name", OTHERWISE)
@pytest.mark.parametrize("scales", [(0.5, 0.5, 1.0), (0.1, 0.3, 0.2), (0.75, 2.0**-4, 1.5)])
def test_another_rounding_of_a_sum_is_named(name: str, scales: tuple[float, float, float]) -> None:
    random = np.random.default_rng(0)
    a, b = random.integers(-128, 128, (2, 400)).astype(np.int8)
    s = [F32(x) for x in scales]
    exact = [Fraction(float(x)) for x in s]
    reals = [((x + 3) * exact[0] + (y - 5) * exact[1]) / exact[2] for x, y in zip(a.tolist(), b.tolist(), strict=True)]
    actual = np.array([clamped(OTHERWISE[name](v) + 9) for v in reals], np.int8)
    call = dict(a=a, a_scale=one(s[0], F32), a_zero_point=one(-3, np.int8), b=b, b_scale=one(s[1], F32),
                b_zero_point=one(5, np.int8), output_scale=one(s[2], F32), output_zero_point=one(9, np.int8))  # fmt: skip
    found = dml.compare(dml.element_wise_quantized_linear_add, **call, actual=actual)
    if found.equal:  # there is no tie
        assert name.startswith("half")
        assert scales[0] == 0.1
        return
    assert name in [cause.name for cause in found.causes if cause.equal == actual.size]
    due = np.array([clamped(oracle.round_half_even(v) + 9) for v in reals], np.int8)
    assert found.differing == np.count_nonzero(due != actual)


@pytest.mark.parametrize("include", [False, True])
@pytest.mark.parametrize("name", [*OTHERWISE, "mean_of_integers"])
def test_another_rounding_of_a_mean_is_named(name: str, include: bool) -> None:
    random = np.random.default_rng(1)
    x = random.integers(-128, 128, (2, 3, 6, 8)).astype(np.int8)
    zero = 11
    actual = np.zeros((2, 3, 3, 4), np.int8)
    for n, c, i, j in np.ndindex(*actual.shape):
        window = [x[n, c, p, q] for p in range(2 * i - 1, 2 * i + 1) for q in range(2 * j - 1, 2 * j + 1) if p >= 0 and q >= 0]
        values = [int(v) for v in window]
        count = 4 if include else len(values)
        if name == "mean_of_integers":
            actual[n, c, i, j] = fixed_point.average(sum(values), count)
        else:
            actual[n, c, i, j] = clamped(OTHERWISE[name](Fraction(sum(v - zero for v in values), count)) + zero)
    call: dict[str, Any] = dict(input=x, input_scale=one(0.3, F32, 4), output_scale=one(0.3, F32, 4),
                                input_zero_point=one(zero, np.int8, 4), output_zero_point=one(zero, np.int8, 4),
                                window_size=(2, 2), strides=(2, 2), start_padding=(1, 1), end_padding=(0, 0),
                                include_padding=include)  # fmt: skip
    found = dml.compare(dml.quantized_linear_average_pooling, **call, actual=actual)
    assert found.differing
    named = [cause.name for cause in found.causes if cause.equal == actual.size]
    assert (name in named) == (name != "mean_of_integers" or not include)


def test_scales_of_channels_and_unlike_scales_have_no_cause() -> None:
    x = np.arange(16, dtype=np.int8).reshape(1, 2, 2, 4)
    scale = np.array([1, 2], F32).reshape(1, 2, 1, 1)
    due = dml.quantized_linear_average_pooling(x, scale, scale, window_size=(2, 2), strides=(2, 2))
    off = due + np.int8(1)
    assert not dml.compare(
        dml.quantized_linear_average_pooling, x, scale, scale, window_size=(2, 2), strides=(2, 2), actual=off
    ).causes
