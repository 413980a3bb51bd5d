"""Values with a bound of their error, and what all functions share: constants, minima and maxima, exact products."""

from __future__ import annotations

import math
from typing import NamedTuple

from anydml.kernels.code.values import Value

INFINITY = math.inf
ROUNDER = 1.5 * 2.0**52  # adding it rounds to an integer, which is then in the low bits


class Approximate(NamedTuple):
    """A value with its bound: |value - f(x)| <= rel |f(x)| for every finite x whose f(x) is 0 or between 2^-1000 and 2^1000.

    The bound does not hold in the lanes of the guard. If f(x) is beyond 2^+-1000, the value is beyond it on the same side.
    """

    value: Value
    rel: float
    guard: Value | None = None


def at_most(x: Value, most: Value | float) -> Value:
    """The smaller of both; NaN stays NaN."""
    return x.body.chosen(x.compared("ogt", most), most, x)


def at_least(x: Value, least: Value | float) -> Value:
    """The larger of both; NaN stays NaN."""
    return x.body.chosen(x.compared("olt", least), least, x)


def product(x: Value, y: Value) -> tuple[Value, Value]:
    """x y as a sum: exactly with fused operations, else within 2^-77 of it. The first part equals x y within 2^-24."""
    if x.body.has_fma:
        high = x * y
        return high, x.body.fused(x, y, -high)
    (x_head, x_tail), y_head = _halves(x), _halves(y)[0]
    return x_head * y_head, x_head * (y - y_head) + x_tail * y


def _halves(x: Value) -> tuple[Value, Value]:
    """x as a sum of numbers of 26 and 27 bits."""
    head = (x.bits() & -(1 << 27)).cast(x.kind)
    return head, x - head


def square(z: Value) -> tuple[Value, Value]:
    """z^2 as a sum: the first part has at most 53 bits; the second has an error of 2 u and is at most 2^-25 of the first."""
    if z.body.has_fma:
        high = z * z
        return high, z.body.fused(z, z, -high)
    head, tail = _halves(z)
    return head * head, tail * (z + head)
