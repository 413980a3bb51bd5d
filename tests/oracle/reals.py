"""Real numbers that no fraction is, as intervals that are narrowed until a question is decided; arithmetic on values.

Every step of an interval is MPFR's, rounded outwards. The rule that lets every question end: what lies within
2**-1024 of a boundary, relatively, is on it, and a sum within 2**-1024 of its largest term is zero.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from functools import cache
from typing import Any

import gmpy2
from gmpy2 import mpfr, mpq

from .numbers import EXACT, INFINITY, NAN, ONE, Format, Value, fraction_bits, magnitude_bits, special_bits

Interval = tuple[Any, Any]
PRECISIONS = (64, 160, 400, 1100, 2400, 5000)
NEAR = mpq(1, 2**1024)
LESS, MORE = (mpfr(1 + mpq(sign, 2**1020), 1100) for sign in (-1, 1))  # beyond what is near


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
        """An exact number."""
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
        """For a >= 0 and b > 0."""
        return self.down.div(a[0], b[1]), self.up.div(a[1], b[0])

    def rising(self, function: str, a: Interval) -> Interval:
        """A function of MPFR's that never falls."""
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
    """A number other than zero: a function from an arithmetic to an interval that holds it.

    An end that is zero has the number's sign: the number is nearer to zero than MPFR's exponents reach. A number that may
    be so near says its logarithm, too, that of its magnitude.
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
            low, high = end_bits(lo, f), end_bits(hi, f)
            if k.precision < 1024:
                if low == high:
                    return low
                continue
            # Nearness counts from here on, also where the side of the boundary shows.
            below, above = (
                end_bits(k.down.mul(lo, LESS if lo > 0 else MORE), f),
                end_bits(k.up.mul(hi, MORE if hi > 0 else LESS), f),
            )
            if below == above:
                return low
            boundary = between(below, above, f)
            ends = [abs(mpq(end) - boundary) <= NEAR * abs(boundary) for end in (lo, hi)]
            if all(ends):
                return fraction_bits(boundary, f)
            if low == high and not any(ends):
                return low
        raise ArithmeticError("a real number that is not near a boundary could not be rounded")

    def sign(self) -> int:
        for k in ladder():
            if sign := sign_of(self.bounds(k)):
                return sign
        raise ArithmeticError("a real number has no sign")


def sign_of(interval: Interval) -> int:
    """1 or -1, or 0 where the interval does not tell."""
    lo, hi = interval
    if not gmpy2.is_signed(lo):
        return 1 if hi > 0 else 0
    return -1 if gmpy2.is_signed(hi) and lo < 0 else 0


def end_bits(x: Any, f: Format) -> int:
    """The bits of an end of an interval, rounded to a format."""
    if gmpy2.is_nan(x):
        raise ArithmeticError("an interval lost its end")
    if gmpy2.is_zero(x) or gmpy2.is_infinite(x):
        return special_bits(float(x), f)
    m, e = x.as_mantissa_exp()
    magnitude = magnitude_bits(abs(m), int(e), f)
    return magnitude | f.sign if m < 0 else magnitude


def between(low: int, high: int, f: Format) -> Any:
    """The boundary between two neighbours of a format, above the largest number as if there were one more."""

    def number(pattern: int) -> Any:
        magnitude = pattern & ~f.sign
        place = max((magnitude >> (f.precision - 1)) - 1, 0)
        x = mpq((magnitude - (place << (f.precision - 1))) << place) * mpq(1, 1 << -f.least)
        return -x if pattern & f.sign else x

    if abs((low & ~f.sign) - (high & ~f.sign)) != 1 or (low ^ high) & f.sign:
        raise ArithmeticError("an interval of many bits holds several numbers")
    return (number(low) + number(high)) / 2


# --- arithmetic on values, IEEE 754 where one is a zero, an infinity or NaN ---


def interval(value: Value, k: Arithmetic) -> Interval:
    """Of an mpq or a Real."""
    return k.of(value) if type(value) is EXACT else value.bounds(k)


def touches_zero(value: Value) -> bool:
    """Whether the number is nearer to zero than MPFR's exponents reach."""
    return isinstance(value, Real) and any(gmpy2.is_zero(end) for end in value.bounds(arithmetic(PRECISIONS[0])))


def log_magnitude(value: Value, k: Arithmetic) -> Interval:
    """ln of the magnitude of an mpq or a Real."""
    if type(value) is EXACT:
        return k.rising("log", k.of(abs(value)))
    if value.logarithm is not None:
        found: Interval = value.logarithm(k)
        return found
    lo, hi = value.bounds(k)
    if gmpy2.is_zero(lo) or gmpy2.is_zero(hi):
        raise ArithmeticError("a number too near to zero does not say its logarithm")
    return k.rising("log", k.negative((lo, hi)) if gmpy2.is_signed(hi) else (lo, hi))


def sign(value: Value) -> float:
    """-1.0 or 1.0, or a zero, an infinity or NaN itself."""
    if type(value) is float:
        return value
    if type(value) is EXACT:
        return 1.0 if value > 0 else -1.0
    return float(value.sign())


def negative(a: Value) -> Value:
    if isinstance(a, Real):
        return Real(lambda k: k.negative(a.bounds(k)), a.logarithm)
    return -a


def add(a: Value, b: Value) -> Value:
    kinds = type(a), type(b)
    if kinds == (EXACT, EXACT):
        return a + b or 0.0
    if float in kinds:
        if kinds == (float, float):
            return a + b
        special, other = (a, b) if kinds[0] is float else (b, a)
        return other if special == 0 else special
    if touches_zero(a) and touches_zero(b):
        return sum_near_zero(a, b)
    return nonzero(lambda k: (interval(a, k), interval(b, k)))


def sum_near_zero(a: Value, b: Value) -> Value:
    """A sum of two that MPFR cannot tell from zero: it has the sign of the larger."""

    def bounds(k: Arithmetic) -> Interval:
        return k.add(a.bounds(k), b.bounds(k))

    if sign(a) == sign(b):
        return Real(bounds)
    for k in ladder():
        difference = k.add(log_magnitude(a, k), k.negative(log_magnitude(b, k)))
        larger = sign_of(difference)
        if k.precision > 1024 and max(abs(mpq(end)) for end in difference) <= NEAR:
            return 0.0
        if larger:
            most = (a if larger > 0 else b).bounds
            return Real(most)  # too large by less than itself, which no rounding shows
    raise ArithmeticError("a sum could not be told from zero")


def nonzero(terms: Callable[[Arithmetic], tuple[Interval, Interval]]) -> Value:
    """A sum of two, one of them approximate: a Real, or zero if it is that or nearer to it than 2**-1024."""

    def bounds(k: Arithmetic) -> Interval:
        return k.add(*terms(k))

    for k in ladder():
        lo, hi = bounds(k)
        found = sign_of((lo, hi)) != 0
        if k.precision < 1024:
            if found:
                return Real(bounds)
            continue
        largest = max(abs(end) for term in terms(k) for end in term)
        near = [abs(mpq(end)) <= NEAR * mpq(largest) for end in (lo, hi)]
        if all(near):
            return 0.0
        if found and not any(near):
            return Real(bounds)
    raise ArithmeticError("a sum could not be told from zero")


def subtract(a: Value, b: Value) -> Value:
    return add(a, negative(b))


def multiply(a: Value, b: Value) -> Value:
    kinds = type(a), type(b)
    if kinds == (EXACT, EXACT):
        return a * b
    if float in kinds:
        return sign(a) * sign(b)
    return Real(lambda k: k.multiply(interval(a, k), interval(b, k)), lambda k: k.add(log_magnitude(a, k), log_magnitude(b, k)))


def divide(a: Value, b: Value) -> Value:
    """The divisor is not a Real."""
    if type(b) is EXACT:
        return multiply(a, 1 / b)
    if b != b or b == 0:
        if b != b or (type(a) is float and (a != a or a == 0)):
            return NAN
        return math.copysign(INFINITY, sign(a)) * math.copysign(1.0, b)
    return sign(a) * math.copysign(0.0, b)


def is_nan(a: Value) -> bool:
    return type(a) is float and a != a


def compare(a: Value, b: Value) -> int:
    """-1, 0 or 1 for numbers other than NaN; zeros of both signs are equal."""
    if type(a) is EXACT and type(b) is EXACT:
        return int(a > b) - int(a < b)
    if isinstance(a, Real) or isinstance(b, Real):
        if (a if type(a) is float else b) != 0.0:
            raise TypeError("a Real is compared with zero only")
        return int(sign(a)) if isinstance(a, Real) else -int(sign(b))
    p, q = (0 if type(x) is EXACT or x == 0 else math.copysign(1, x) for x in (a, b))
    if p or q:
        return int(p > q) - int(p < q)
    a, b = (x if type(x) is EXACT else 0 for x in (a, b))
    return int(a > b) - int(a < b)


def greater(a: Value, b: Value) -> bool:
    return not is_nan(a) and not is_nan(b) and compare(a, b) > 0


def maximum(a: Value, b: Value) -> Value:
    """NaN if one is; -0 is below +0."""
    if is_nan(a) or is_nan(b):
        return NAN
    order = compare(a, b)
    if order == 0 and type(a) is float and a == 0:
        return b if math.copysign(1.0, a) < 0 else a
    return b if order < 0 else a


def minimum(a: Value, b: Value) -> Value:
    return negative(maximum(negative(a), negative(b)))


# --- functions of exact values ---


def exponential(x: Value) -> Value:
    if type(x) is float:
        return ONE if x == 0 else 0.0 if x == -INFINITY else x
    return Real(lambda k: k.rising("exp", k.of(x)), lambda k: k.of(x))


def exponential_less_one(x: Value) -> Value:
    if type(x) is float:
        return 0.0 if x == 0 else -ONE if x == -INFINITY else x
    return Real(lambda k: k.rising("expm1", k.of(x)))


def hyperbolic_tangent(x: Value) -> Value:
    if type(x) is float:
        return x if x == 0 or x != x else mpq(int(math.copysign(1, x)))
    return Real(lambda k: k.rising("tanh", k.of(x)))


def logistic(x: Value) -> Value:
    """1 / (1 + e^-x)."""
    if type(x) is float:
        if x != x:
            return NAN
        return mpq(1, 2) if x == 0 else ONE if x > 0 else 0.0

    def bounds(k: Arithmetic) -> Interval:
        power = k.rising("exp", k.of(-abs(x)))
        return k.divide(k.one if x > 0 else power, k.add(k.one, power))

    def log(k: Arithmetic) -> Interval:
        rest = k.negative(k.rising("log1p", k.rising("exp", k.of(-abs(x)))))
        return rest if x > 0 else k.add(k.of(x), rest)

    return Real(bounds, log)


def softplus(x: Value) -> Value:
    """ln(1 + e^x)."""
    if type(x) is float and x != 0:
        return 0.0 if x == -INFINITY else x
    if type(x) is float:
        return logarithm(mpq(2))

    def bounds(k: Arithmetic) -> Interval:
        rest = k.rising("log1p", k.rising("exp", k.of(-abs(x))))
        return k.add(k.of(x), rest) if x > 0 else rest

    def log(k: Arithmetic) -> Interval:
        """Of ln(1 + t), t = e^x: x + ln(1 - t / 2) and more, x at most."""
        t = k.rising("exp", k.of(x))
        return k.down.sub(k.of(x)[0], t[1]), k.of(x)[1]

    return Real(bounds, log if x < 0 else None)


def logarithm(x: Value) -> Value:
    if type(x) is float:
        return -INFINITY if x == 0 else x if x > 0 else NAN
    if x == 1:
        return 0.0
    return Real(lambda k: k.rising("log", k.of(x))) if x > 0 else NAN


def gaussian_linear_unit(x: Value) -> Value:
    """x (1 + erf(x / sqrt 2)) / 2, where 1 + erf(a) = erfc(-a)."""
    if type(x) is float:
        return -0.0 if x == -INFINITY else x

    def bounds(k: Arithmetic) -> Interval:
        argument = k.divide(k.of(abs(x)), k.root_of_two)
        return k.multiply(k.of(x / 2), k.falling("erfc", k.negative(argument) if x > 0 else argument))

    def log(k: Arithmetic) -> Interval:
        """erfc(a) is e^(-a^2) / (a sqrt pi), less a part of 1 / (2 a^2) at most."""
        pi = (k.down.const_pi(), k.up.const_pi())
        main = k.add(k.of(-x * x / 2), k.negative(k.rising("log", k.rising("sqrt", k.multiply(k.of(mpq(2)), pi)))))
        return k.add(main, (k.down.log1p(k.of(-1 / (x * x))[0]), k.of(mpq(0))[1]))

    return Real(bounds, log if x < -2 else None)


def angle(y: Value, x: Value) -> Value:
    """atan2 of C."""
    if is_nan(y) or is_nan(x):
        return NAN
    side = math.copysign(1.0, sign(y))
    left = math.copysign(1.0, sign(x)) < 0
    if type(y) is float and y == 0:
        return _quarters(4 * side) if left else y
    if type(y) is float:  # infinite
        both = type(x) is float and x != 0
        return _quarters(side * (2 if not both else 3 if left else 1))
    if type(x) is float:
        if x == 0:
            return _quarters(2 * side)
        return _quarters(4 * side) if left else math.copysign(0.0, side)
    length = max(z.numerator.bit_length() + z.denominator.bit_length() for z in (y, x))
    there = mpfr(y, length), mpfr(x, length)  # exactly

    def bounds(k: Arithmetic) -> Interval:
        return k.down.atan2(*there), k.up.atan2(*there)

    return Real(bounds)


def _quarters(of_pi: float) -> Real:
    return Real(lambda k: k.multiply(k.of(mpq(of_pi) / 4), (k.down.const_pi(), k.up.const_pi())))
