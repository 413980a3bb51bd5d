"""Polynomials with proven bounds, and the order in which they are evaluated; emitters and proofs share both."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple, TypeVar

from anydml.kernels.code.values import Value

U = 2.0**-53  # the relative error of one rounding to float64
_Number = TypeVar("_Number")


def floats(table: str) -> tuple[float, ...]:
    """A table of hexadecimal numbers."""
    return tuple(map(float.fromhex, table.split()))


def integers(table: str) -> tuple[int, ...]:
    """A table of decimal integers, such as the bits of numbers."""
    return tuple(map(int, table.split()))


class Polynomial(NamedTuple):
    """An approximation of a function on low .. high.

    Evaluated in float64, with or without fused operations, at an argument with the relative error `argument`, its relative
    error is at most `rel`, compared to the function at the exact argument. chains: the number of parts that are evaluated in
    parallel.
    """

    function: str
    low: float
    high: float
    argument: float
    rel: float
    chains: int
    coefficients: tuple[float, ...]

    def __call__(self, x: Value) -> Value:
        return evaluated(x, self.coefficients, self.chains, x.body.fused, lambda a: a * a)


class Quotient(NamedTuple):
    """The same as a quotient of polynomials; `rel` does not include the rounding of the final division."""

    function: str
    low: float
    high: float
    rel: float
    chains: int
    above: tuple[float, ...]
    below: tuple[float, ...]

    def __call__(self, x: Value) -> tuple[Value, Value]:
        above, below = (evaluated(x, part, self.chains, x.body.fused, lambda a: a * a) for part in (self.above, self.below))
        return above, below


def evaluated(
    x: _Number,
    coefficients: Sequence[float],
    chains: int,
    fused: Callable[[_Number, _Number | float, _Number | float], _Number],
    square: Callable[[_Number], _Number],
) -> _Number:
    """A polynomial by Horner's rule; with more than one chain, even and odd coefficients are evaluated separately.

    fused(a, b, c) is a * b + c. There are at least two coefficients for each chain.
    """
    if chains > 1:
        x2 = square(x)
        even, odd = (evaluated(x2, coefficients[i::2], chains // 2, fused, square) for i in (0, 1))
        return fused(odd, x, even)
    *others, second, top = coefficients
    value = fused(x, top, second)
    for c in reversed(others):
        value = fused(value, x, c)
    return value
