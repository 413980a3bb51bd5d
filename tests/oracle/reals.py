"""Real numbers that are not fractions, as intervals that are narrowed until a question is decided.

Each operation on intervals uses MPFR, rounded outwards. So that every question ends, a number within 2**-1024 of a boundary,
relatively, counts as on it, and a sum within 2**-1024 of its largest term is zero.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from functools import cache
from typing import Any

import gmpy2
from gmpy2 import mpfr, mpq

from .numbers import ONE, Format, fraction_bits, magnitude_bits, special_bits

Interval = tuple[Any, Any]
PRECISIONS = (64, 160, 400, 1100, 2400, 5000)
NEAR = mpq(1, 2**1024)
FAR = 2000  # of a logarithm to base 2 or e: no format has such numbers
LESS, MORE = (mpfr(1 + mpq(sign, 2**1020), 1100) for sign in (-1, 1))  # factors for the ends of the range that counts as equal


class Undecided(ArithmeticError):
    """The oracle has too few digits, or too small exponents, for a question about hostile numbers."""


class Arithmetic:
    """Interval arithmetic at one precision."""

    def __init__(self, precision: int) -> None:
        self.precision = precision
        self.down, self.up = (
            gmpy2.context(precision=precision, round=direction, emin=gmpy2.get_emin_min(), emax=gmpy2.get_emax_max())
            for direction in (gmpy2.RoundDown, gmpy2.RoundUp)
        )
        self.one = self.of(ONE)
        self.root_of_two = self.rising("sqrt", self.of(mpq(2)))

    def of(self, x: Any) -> Interval:
        """An exact number as an interval."""
        n, d = x.numerator, x.denominator
        if n.bit_length() <= self.precision >= d.bit_length() and d & (d - 1) == 0:
            same = self.down.div(n, d)  # exact, and much faster than a conversion
            return same, same
        return mpfr(x, 0, self.down), mpfr(x, 0, self.up)

    def negative(self, a: Interval) -> Interval:
        return self.down.minus(a[1]), self.up.minus(a[0])

    def add(self, a: Interval, b: Interval) -> Interval:
        return self.down.add(a[0], b[0]), self.up.add(a[1], b[1])

    def sum(self, terms: Iterable[Interval]) -> Interval:
        lo, hi = mpfr(0, 0, self.down), mpfr(0, 0, self.up)
        down, up = self.down.add, self.up.add
        for a, b in terms:
            lo, hi = down(lo, a), up(hi, b)
        return lo, hi

    def multiply(self, a: Interval, b: Interval) -> Interval:
        if gmpy2.is_signed(a[1]):
            return self.negative(self.multiply(self.negative(a), b))
        if gmpy2.is_signed(b[1]):
            return self.negative(self.multiply(a, self.negative(b)))
        if not gmpy2.is_signed(a[0]) and not gmpy2.is_signed(b[0]):
            return self.down.mul(a[0], b[0]), self.up.mul(a[1], b[1])
        corners = [(x, y) for x in a for y in b]
        return min(self.down.mul(*corner) for corner in corners), max(self.up.mul(*corner) for corner in corners)

    def divide(self, a: Interval, b: Interval) -> Interval:
        """a / b, for a >= 0 and b > 0."""
        return self.down.div(a[0], b[1]), self.up.div(a[1], b[0])

    def rising(self, function: str, a: Interval) -> Interval:
        """A non-decreasing function of MPFR."""
        lo = getattr(self.down, function)(a[0])
        return lo, self.down.next_above(lo) if a[0] is a[1] else getattr(self.up, function)(a[1])

    def falling(self, function: str, a: Interval) -> Interval:
        return getattr(self.down, function)(a[1]), getattr(self.up, function)(a[0])


@cache
def arithmetic(precision: int) -> Arithmetic:
    return Arithmetic(precision)


def ladder() -> Iterable[Arithmetic]:
    return map(arithmetic, PRECISIONS)


class Real:
    """A number other than zero: a function from an arithmetic to an interval that contains it.

    If the number may be closer to zero than the smallest MPFR number, an end is a zero with the number's sign; then it also has
    a function to an interval of the logarithm of its magnitude.
    """

    __slots__ = ("bounds", "logarithm")

    def __init__(
        self, bounds: Callable[[Arithmetic], Interval], logarithm: Callable[[Arithmetic], Interval] | None = None
    ) -> None:
        self.bounds = bounds
        self.logarithm = logarithm

    def rounded(self, f: Format) -> int:
        """The bits of the nearest number of a format."""
        for k in ladder():
            lo, hi = self.bounds(k)
            if (far := self._far(k, f)) is not None:
                return far
            low, high = end_bits(lo, f), end_bits(hi, f)
            if k.precision < 1024:
                if low == high:
                    return low
                continue
            # from this precision on, numbers count as equal to a boundary even if their side is known
            below, above = (
                end_bits(k.down.mul(lo, LESS if lo > 0 else MORE), f),
                end_bits(k.up.mul(hi, MORE if hi > 0 else LESS), f),
            )
            if below == above:
                return low
            boundary = between(below, above, f)
            ends = [is_near(end, boundary) for end in (lo, hi)]
            if all(ends):
                return fraction_bits(boundary, f)
            if low == high and not any(ends):
                return low
        raise Undecided("a real number that is not near a boundary could not be rounded")

    def _far(self, k: Arithmetic, f: Format) -> int | None:
        """The bits of a number beyond MPFR's range, if its logarithm determines them."""
        lo, hi = self.bounds(k)
        if self.logarithm is None or all(gmpy2.is_finite(end) and not gmpy2.is_zero(end) for end in (lo, hi)):
            return None
        side, (least, most) = sign_of((lo, hi)), self.logarithm(k)
        if side and most < -FAR:
            return special_bits(math.copysign(0.0, side), f)
        return special_bits(math.copysign(math.inf, side), f) if side and least > FAR else None

    def sign(self) -> int:
        for k in ladder():
            if sign := sign_of(self.bounds(k)):
                return sign
        raise Undecided("a real number has no sign")


def is_near(end: Any, boundary: Any) -> bool:
    """Whether an end of an interval counts as on a boundary between two numbers of a format."""
    if not gmpy2.is_finite(end):
        return False
    mantissa, exponent = end.as_mantissa_exp()
    if abs(int(exponent) + abs(int(mantissa)).bit_length()) > FAR:  # the exact number would have as many digits as its exponent
        return False
    return bool(abs(mpq(end) - boundary) <= NEAR * abs(boundary))


def is_near_zero(end: Any, largest: Any) -> bool:
    """Whether an end of a sum's interval counts as zero, relative to the largest end of its terms; without exact numbers."""
    exact = arithmetic(PRECISIONS[-1]).up  # exact at this precision
    magnitude = exact.minus(end) if gmpy2.is_signed(end) else end
    return bool(gmpy2.is_finite(largest) and magnitude <= exact.div_2exp(largest, 1024))


def sign_of(interval: Interval) -> int:
    """1 or -1; 0 if the interval contains both signs."""
    lo, hi = interval
    if not gmpy2.is_signed(lo):
        return 1 if hi > 0 else 0
    return -1 if gmpy2.is_signed(hi) and lo < 0 else 0


def end_bits(x: Any, f: Format) -> int:
    """The bits of an end of an interval, rounded to a format."""
    if gmpy2.is_nan(x):
        raise Undecided("an interval lost its end")
    if gmpy2.is_zero(x) or gmpy2.is_infinite(x):
        return special_bits(float(x), f)
    m, e = x.as_mantissa_exp()
    magnitude = magnitude_bits(abs(m), int(e), f)
    return magnitude | f.sign if m < 0 else magnitude


def between(low: int, high: int, f: Format) -> Any:
    """The boundary between two neighbours of a format; above the largest number, that to the next one."""

    def number(pattern: int) -> Any:
        magnitude = pattern & ~f.sign
        place = max((magnitude >> (f.precision - 1)) - 1, 0)
        x = mpq((magnitude - (place << (f.precision - 1))) << place) * mpq(1, 1 << -f.least)
        return -x if pattern & f.sign else x

    if abs((low & ~f.sign) - (high & ~f.sign)) != 1 or (low ^ high) & f.sign:
        raise Undecided("an interval of many bits holds several numbers")
    return (number(low) + number(high)) / 2
