"""Functions of 16-bit tensors as TensorFlow Lite computes them: by interpolation between the entries of a table."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from anydml.explain.deviations.fixed_point import multiplied, multiplier_and_shift

Array = NDArray[np.int64]

# sigmoid(i / 24) * 2^16; these entries are one more than the nearest integers
ONE_MORE = (
    4, 8, 12, 14, 15, 16, 17, 19, 20, 21, 22, 25, 27, 28, 29, 30, 31, 33, 34, 35, 37, 39, 40, 41, 43, 44, 45, 46, 49, 50, 54,
    62, 63, 64, 66, 82, 86, 93, 100, 103, 112, 116, 135, 255,
)  # fmt: skip
SIGMOID = np.rint(65536 / (1 + np.exp(-np.arange(256) / 24))).astype(np.int64)
SIGMOID[list(ONE_MORE)] += 1
SIGMOID = np.append(SIGMOID, SIGMOID[-1])  # beyond the last entry, results are 1
UNIT = 4096 * 3  # steps of an argument to 1, where the table is read
LEAST, MOST = -(1 << 15), (1 << 15) - 1


def sigmoid(q: Array, scale: float) -> Array:
    """The sigmoid of integers times a scale, in steps of 2^-15."""
    x, found = _interpolated(q, scale, 9, shifts=1, largest=0x7FFF << 10)
    found = np.where(x >= 0, found + (1 << 9), (1 << 25) - found + (1 << 9) - 1)
    return np.asarray(found >> 10)


def tanh(q: Array, scale: float) -> Array:
    """The hyperbolic tangent of integers times a scale, in steps of 2^-15: 2 sigmoid(2 x) - 1."""
    x, found = _interpolated(q, scale, 8, shifts=2, largest=0xFFFF << 8)
    found = np.where(x >= 0, found - (1 << 23) + (1 << 7), -found + (1 << 23) + (1 << 7) - 1)
    return np.asarray(found >> 8)


def _interpolated(q: Array, scale: float, places: int, *, shifts: int, largest: int) -> tuple[Array, Array]:
    """The arguments in steps of 1 / UNIT, and the table's value at each magnitude, with more binary places.

    shifts: scales of 2^-12 times a power of two below this are exact.
    """
    exponent = math.log2(scale)
    left = 12 + round(exponent)
    if exponent == round(exponent) and 0 <= left < shifts:
        x = q * (3 << left)
    else:
        multiplier, right = scale * UNIT, 0
        while multiplier <= MOST / 2 and right <= 30:
            multiplier, right = multiplier * 2, right + 1
        x = q * int(multiplier) + (1 << right >> 1) >> right
    size = np.abs(x)
    at = np.minimum(size >> places, 255)
    between = (SIGMOID[at] << places) + (size & (1 << places) - 1) * (SIGMOID[at + 1] - SIGMOID[at])
    return x, np.where(size >> places >= 255, largest, between)


def softmax(q: Array, scale: float, beta: float) -> Array:
    """The softmax of integers times a scale along the last dimension, in steps of 2^-15, by tables of exp and 1 / (1 + x)."""
    steps = q - q.max(axis=-1, keepdims=True)
    at = multiplied(steps, *multiplier_and_shift(np.asarray(scale * beta / (10 / 65535), np.float64))) + MOST
    powers = _looked_up(EXP, np.clip(at, LEAST, MOST))
    total = powers.sum(axis=-1, keepdims=True)
    zeros = np.asarray(32 - np.frexp(total.astype(np.float64))[1], np.int64)  # in front of the sum, of 32 bits
    shifted = (total << zeros - 1) + (1 << 13) >> 14
    reciprocal = _looked_up(RECIPROCAL, np.clip(shifted - (1 << 15) - (1 << 16), LEAST, MOST))
    right = 31 - zeros
    return np.asarray(np.minimum(powers * reciprocal + (1 << right - 1) >> right, MOST))


def _table(function: Callable[[NDArray[Any]], NDArray[Any]], low: float, high: float) -> Array:
    """A function from `low` to `high` at 513 places, in steps of 2^-15; half of the error between two is moved to the first."""
    step = (high - low) / 512
    at = low + np.arange(512) * step
    unit = 65536 / (65535 * (2 / 65535))
    here, middle, after = (function(x) * unit for x in (at, at + step / 2, at + step))
    straight = _round((after + _round(here)) / 2)
    found = _round(here) - _round((straight - _round(middle)) / 2)
    whole = np.append(found, _round(function(np.array(high)) * unit)).astype(np.int64)
    return np.asarray(np.clip(whole, LEAST, MOST))


def _round(x: NDArray[Any]) -> NDArray[Any]:
    """Half away from zero."""
    return np.asarray(np.copysign(np.floor(np.abs(x) + 0.5), x))


def _looked_up(table: Array, x: Array) -> Array:
    at, rest = 256 + (x >> 7), x & 127
    return np.asarray(table[at] + ((table[at + 1] - table[at]) * rest + 64 >> 7))


EXP = _table(np.exp, -10.0, 0.0)
RECIPROCAL = _table(lambda x: 1 / (1 + x), 0.0, 1.0)
