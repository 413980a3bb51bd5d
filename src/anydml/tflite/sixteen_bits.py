"""Sigmoid and tanh in 16-bit fixed point, as gemmlowp computes them: exp by a polynomial, and a division by Newton's method."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.int64]

# of 15 binary places: exp(-1/8), 1/3, and exp(-1/4), exp(-1/2), exp(-1), .. exp(-8)
EIGHTH, THIRD = 28918, 10923
POWERS = (25520, 19875, 12055, 4435, 600, 11)
# of 13 binary places: 48/17 and -32/17, from which the division begins
FIRST, SLOPE = 23130, -15420
ONE, LARGEST = 1 << 13, (1 << 15) - 1


def sigmoid(q: Array) -> Array:
    """The sigmoid of integers in steps of 2^-12, in steps of 2^-15."""
    inverse, _ = _divided(_exp(-np.abs(q), 3))
    above = _left(inverse, 1)
    return np.where(q > 0, above, np.where(q < 0, LARGEST - above, 1 << 14))


def tanh(q: Array, left: int) -> Array:
    """The hyperbolic tangent of integers in steps of 2^-12, in steps of 2^-15. left: 1 for steps of 2^-11, which saturate."""
    q = _left(q, left)
    inverse, one = _divided(_exp(-np.abs(q), 4))
    return np.asarray(np.sign(q) * _left(inverse - one, 2))


def _divided(x: Array) -> tuple[Array, int]:
    """2 / (1 + x) and 1 in steps of 2^-13, for x of 15 binary places."""
    half = x + LARGEST + 1 >> 1
    found = FIRST + _product(half, SLOPE)
    for _ in range(3):
        found = found + _left(_product(found, ONE - _product(half, found)), 2)
    return found, ONE


def _exp(x: Array, whole: int) -> Array:
    """Exp of x <= 0, of 15 binary places. whole: the bits of x before its binary point, without the sign."""
    places = 15 - whole
    quarter = 1 << places - 2
    low = (x & quarter - 1) - quarter
    found = _exp_near_0(_left(low, whole))
    for exponent, power in zip(range(-2, whole), POWERS, strict=False):
        found = np.where(low - x & 1 << places + exponent, _product(found, power), found)
    return np.asarray(np.where(x == 0, LARGEST, found))


def _exp_near_0(x: Array) -> Array:
    """Exp of -1/4 to 0, by its Taylor polynomial at -1/8."""
    x = x + (1 << 12)
    square = _product(x, x)
    fourth = _right(_product(square, square), 2)
    rest = _right(_product(fourth + _product(square, x), THIRD) + square, 1)
    return np.asarray(np.minimum(EIGHTH + _product(x + rest, EIGHTH), LARGEST))


def _product(a: Array, b: Any) -> Array:
    return np.asarray(a * b + (1 << 14) >> 15)


def _left(x: Array, places: int) -> Array:
    return np.asarray(np.clip(x << places, -1 - LARGEST, LARGEST))


def _right(x: Array, places: int) -> Array:
    """Rounded half away from zero."""
    return np.asarray(np.sign(x) * (np.abs(x) + (1 << places - 1) >> places))
