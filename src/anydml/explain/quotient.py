"""Exact quotients accumulator * a_scale * b_scale / output_scale, from which the result of every way of rounding follows.

The float64 estimate has a relative error of at most 2^-50. That decides the floor and the side of one half, except next to an
integer or a half. Integers and ties are found by divisibility, and the few other undecided quotients by fractions.
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from anydml.exact.float32 import significands

LARGEST = 2.0**40  # quotients are clamped to it; every output type here saturates far below
HALF = Fraction(1, 2)


class Quotient:
    """Quotients of accumulators (int64, below 2^53 in magnitude) and float32 scales that broadcast against them.

    floor: the integer at or below each. half: -1, 0 or 1 if the fraction above it is below, at or above one half.
    whole: whether that fraction is 0. estimate: the quotient in float64.
    """

    def __init__(self, q: NDArray[np.int64], a: NDArray[Any], b: NDArray[Any], y: NDArray[Any]) -> None:
        (am, ae), (bm, be), (ym, ye) = map(significands, (a, b, y))
        p, divisor, e = am * bm * np.sign(ym), np.abs(ym), ae + be - ye
        self._terms = q, p, divisor, e
        with np.errstate(over="ignore", under="ignore"):
            self.estimate = x = np.ldexp(q * p.astype(np.float64) / divisor, e.astype(np.int32))
        lowest = q & -q
        divides = q % (divisor // np.gcd(p, divisor)) == 0  # p and the divisor are odd; powers of two are in e
        self.whole = divides & ((e >= 0) | (q == 0) | (lowest >= np.int64(1) << np.clip(-e, 0, 62)))
        ties = divides & (e < 0) & (e > -63) & (lowest == np.int64(1) << np.clip(-1 - e, 0, 62))
        x = np.clip(x, -LARGEST, LARGEST)
        floor = np.where(self.whole, np.rint(x), np.floor(x))
        above = x - floor - 0.5
        self.floor = floor.astype(np.int64)
        self.half = np.where(ties, 0, np.where(self.whole, -1, np.sign(above))).astype(np.int8)
        error = np.abs(x) * 2.0**-49
        near = (np.abs(above) <= error) | (np.abs(x - np.rint(x)) <= error)
        near &= ~(self.whole | ties) & (np.abs(x) < LARGEST)
        for i in np.argwhere(near):
            at = tuple(i.tolist())
            exact = self.exact(at)
            self.floor[at] = math.floor(exact)
            rest = exact - math.floor(exact)
            self.half[at] = (rest > HALF) - (rest < HALF)

    @property
    def half_even(self) -> NDArray[np.int64]:
        """The nearest integers; at a tie, the even one."""
        rounded: NDArray[np.int64] = self.floor + ((self.half > 0) | ((self.half == 0) & (self.floor & 1 == 1)))
        return rounded

    @property
    def ties(self) -> NDArray[np.bool_]:
        ties: NDArray[np.bool_] = self.half == 0
        return ties

    def exact(self, at: tuple[int, ...]) -> Fraction:
        """One quotient as an exact fraction."""
        q, p, divisor, e = (int(np.broadcast_to(x, self.estimate.shape)[at]) for x in self._terms)
        return Fraction(q * p, divisor) * Fraction(2) ** e
