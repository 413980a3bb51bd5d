"""Functions of arguments so small that a few terms of a series decide on which side of a tie a value is."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

from anydml.kernels.numbers.doubled.arithmetic import LEAST_BOUND, Precise
from anydml.kernels.numbers.functions.pairs import Pair
from anydml.kernels.numbers.lanes import Truth

TINY = 2.0**-40  # below this, the square of an argument is less than the relative error that a term may have
LEAST = 2.0**-300  # above this, the cube of an argument is a normal float64
NEAR = 2.0**-48  # more than the roundings of a term and the terms after it


def tiny(a: Precise) -> Truth:
    size = a.pair.head.magnitude()
    return Truth(size.compared("olt", TINY) & size.compared("ogt", LEAST))


def _odd(third: float) -> Callable[[Precise], Precise]:
    """The series x + third x^3 of an odd function."""

    def of(a: Precise) -> Precise:
        x = a.pair.head
        cube = x * x * x * third
        err = a.err * 2.0 + (a.pair.tail.magnitude() + cube.magnitude()) * NEAR
        return Precise(Pair(x, a.pair.tail + cube), err, None)

    return of


def _second(first: float, second: float) -> Callable[[Precise], Precise]:
    """The series first x + second x^2; first is a power of two."""

    def of(a: Precise) -> Precise:
        x, tail = a.pair.head, a.pair.tail * first
        square = x * x * second
        err = a.err * 2.0 + (tail.magnitude() + x * x) * (4 * TINY)
        return Precise(Pair(x * first, tail + square), err, None)

    return of


def _linear(at_zero: float, slope: float) -> Callable[[Precise], Precise]:
    """The series at_zero + slope x."""

    def of(a: Precise) -> Precise:
        x = a.pair.head
        err = (a.err + a.pair.tail.magnitude()) * 2.0 + x * x
        if slope != 1:
            err = err + x.magnitude() * NEAR
        return Precise(Pair(x.lift(at_zero), x * slope), err, None)

    return of


def _sigmoid(a: Precise) -> Precise:
    """The series 1/2 + x / 4; its next term is -x^3 / 48."""
    x = a.pair.head
    least = x.body.chosen(x.compared("une", 0.0), x.lift(LEAST_BOUND), 0.0)  # the next term may be too small for a float64
    err = a.err + a.pair.tail.magnitude() + x.magnitude() * (x * x) + least
    return Precise(Pair(x.lift(0.5), x * 0.25), err, None)


SERIES: Mapping[str, Callable[[Precise], Precise]] = {
    **{op: _odd(third) for op, third in (("sinh", 1 / 6), ("tanh", -1 / 3), ("asinh", -1 / 6), ("atanh", 1 / 3))},
    **{op: _odd(third) for op, third in (("sin", -1 / 6), ("tan", 1 / 3), ("asin", 1 / 6), ("atan", -1 / 3))},
    "expm1": _second(1.0, 0.5),
    "log1p": _second(1.0, -0.5),
    "gelu": _second(0.5, 1 / math.sqrt(2 * math.pi)),
    "exp": _linear(1.0, 1.0),
    "sigmoid": _sigmoid,
    "erfc": _linear(1.0, -2 / math.sqrt(math.pi)),
}
