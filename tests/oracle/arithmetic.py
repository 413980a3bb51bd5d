"""Arithmetic on values: as in IEEE 754 for zeros, infinities and NaN, and without rounding for all others."""

from __future__ import annotations

import math
from collections.abc import Callable

import gmpy2
from gmpy2 import mpq

from .numbers import EXACT, INFINITY, NAN, Value
from .reals import NEAR, PRECISIONS, Arithmetic, Interval, Real, Undecided, arithmetic, is_near_zero, ladder, sign_of


def interval(value: Value, k: Arithmetic) -> Interval:
    """The interval of an mpq or a Real."""
    return k.of(value) if type(value) is EXACT else value.bounds(k)


def touches_zero(value: Value) -> bool:
    """Whether the number may be closer to zero than the smallest MPFR number."""
    return isinstance(value, Real) and any(gmpy2.is_zero(end) for end in value.bounds(arithmetic(PRECISIONS[0])))


def is_vast(value: Value) -> bool:
    """Whether the number may be larger than the largest MPFR number."""
    return isinstance(value, Real) and not all(gmpy2.is_finite(end) for end in value.bounds(arithmetic(PRECISIONS[0])))


def log_magnitude(value: Value, k: Arithmetic) -> Interval:
    """An interval of ln |value|, for an mpq or a Real."""
    if type(value) is EXACT:
        return k.rising("log", k.of(abs(value)))
    if value.logarithm is not None:
        found: Interval = value.logarithm(k)
        return found
    for finer in (k, *ladder()):  # a precision at which terms that cancel can be distinguished
        lo, hi = value.bounds(finer)
        if not gmpy2.is_zero(lo) and not gmpy2.is_zero(hi):
            break
    else:
        raise Undecided("a number too near to zero does not say its logarithm")
    return k.rising("log", k.negative((lo, hi)) if gmpy2.is_signed(hi) else (lo, hi))


def sign(value: Value) -> float:
    """-1.0 or 1.0; a zero, an infinity or NaN itself."""
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
    if (touches_zero(a) and touches_zero(b)) or is_vast(a) or is_vast(b):
        return sum_by_logarithms(a, b)
    return nonzero(lambda k: (interval(a, k), interval(b, k)))


def sum_by_logarithms(a: Value, b: Value) -> Value:
    """The sum of two numbers that MPFR cannot distinguish from zero, or one of which exceeds its range; it has the sign of the
    larger."""

    def bounds(k: Arithmetic) -> Interval:
        return k.add(interval(a, k), interval(b, k))

    if sign(a) == sign(b):

        def log(k: Arithmetic) -> Interval:
            (low, high), (least, most) = log_magnitude(a, k), log_magnitude(b, k)
            return max(low, least), k.up.add(max(high, most), 1)  # at most twice as large

        return Real(bounds, log)
    for k in ladder():
        difference = k.add(log_magnitude(a, k), k.negative(log_magnitude(b, k)))
        larger = sign_of(difference)
        known = all(map(gmpy2.is_finite, difference))
        if known and k.precision > 1024 and max(abs(mpq(end)) for end in difference) <= NEAR:
            return 0.0
        if larger:
            return difference_of(a, b) if larger > 0 else difference_of(b, a)
    raise Undecided("a sum could not be told from zero")


def difference_of(more: Value, less: Value) -> Real:
    """The sum of two numbers with different signs, the larger first. Its bound is too large by less than itself, which no
    rounding shows."""

    def log(k: Arithmetic) -> Interval:
        """An interval of ln(more - less), with more - less = more (1 - less / more)."""
        most = log_magnitude(more, k)
        ratio = k.up.exp(k.up.sub(log_magnitude(less, k)[1], most[0]))
        return k.down.add(most[0], k.down.log1p(k.down.minus(ratio))), most[1]

    return Real(lambda k: interval(more, k), log)


def nonzero(terms: Callable[[Arithmetic], tuple[Interval, Interval]]) -> Value:
    """The sum of two numbers, one of which is approximate: a Real, or zero if it is closer than 2**-1024 to zero."""

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
        near = [is_near_zero(end, largest) for end in (lo, hi)]
        if all(near):
            return 0.0
        if found and not any(near):
            return Real(bounds)
    raise Undecided("a sum could not be told from zero")


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
    """a / b; b is not a Real."""
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
    """-1, 0 or 1, for numbers other than NaN; zeros of both signs are equal."""
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
    """The larger one; NaN if either is NaN; -0 is below +0."""
    if is_nan(a) or is_nan(b):
        return NAN
    order = compare(a, b)
    if order == 0 and type(a) is float and a == 0:
        return b if math.copysign(1.0, a) < 0 else a
    return b if order < 0 else a


def minimum(a: Value, b: Value) -> Value:
    return negative(maximum(negative(a), negative(b)))
