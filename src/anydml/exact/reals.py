"""Extended real numbers and IEEE 754's operations on them, with unbounded range and precision.

A number is a rational `fmpq` (its zero is +0), one of the floats -0.0, inf, -inf and nan, or an `arb`: an interval that
contains the real number, at the precision that `refined` sets. `Undecided` is raised if an interval is too wide for a
decision (an order, a sign, a rounding); `refined` then evaluates again with more bits. This always ends: by definition, a
number within 2^-1024 of a boundary, relatively, is on it, and a sum within 2^-1024 of its largest term's magnitude is zero.
Both are tested once more than `NEAR` bits are needed; `CUTOFF` bits suffice to see it.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, TypeAlias, TypeVar

from flint import arb, ctx, fmpq, fmpz

from anydml.exact.formats import Format, half_even, nearest, significand

Real: TypeAlias = Any  # fmpq | float | arb: python-flint ships no types
T = TypeVar("T")

ZERO, ONE = fmpq(0), fmpq(1)
NEGATIVE_ZERO, INFINITY, NAN = -0.0, math.inf, math.nan
FIRST, CUTOFF, LAST = 64, 4096, 1 << 17  # bits: at first; where near means equal; of a bug
NEAR = 1024


class Undecided(Exception):
    """An interval is too wide for a decision."""


def refined(evaluate: Callable[[], T]) -> T:
    """The result of an evaluation that may be `Undecided`, repeated with twice as many bits until it is not."""
    bits = FIRST
    while True:
        ctx.prec = bits
        try:
            return evaluate()
        except Undecided:
            if ctx.prec != bits:  # the precision is the process's, and another thread may have changed it
                continue
            bits *= 2
            if bits > LAST:
                raise ArithmeticError(f"a decision needs more than {LAST} bits") from None


# --- reading and storing ---


def decoded(bits: int, form: Format) -> Real:
    """The number that a bit pattern encodes."""
    if not form.is_finite(bits):
        if form.suffix or bits & ~form.sign != form.infinity:
            return NAN
        return -INFINITY if bits & form.sign else INFINITY
    m, e = significand(bits, form)
    if m == 0:
        return NEGATIVE_ZERO if bits & form.sign else ZERO
    return fmpq(m << e) if e >= 0 else fmpq(m, 1 << -e)


def encoded(a: Real, form: Format) -> int:
    """The bit pattern of a number rounded once, half to even; NaNs are positive and quiet, without payload."""
    if type(a) is fmpq:
        return nearest(int(a.p), int(a.q), form) if a else 0
    if type(a) is float:
        if a != a:
            return form.quiet_nan
        negative = math.copysign(1, a) < 0
        return form.beyond(form.sign if negative else 0) if a else form.negative_zero if negative else 0
    low, high = _end(a.lower(), form), _end(a.upper(), form)
    if ctx.prec > NEAR:
        smaller = min(low, high, key=lambda p: p & ~form.sign)
        beside = [smaller, smaller - 1] if low == high and smaller & ~form.sign else [smaller]
        for boundary in (_midpoint(pattern, form) for pattern in beside):
            if _is_near(a, boundary):
                return nearest(int(boundary.p), int(boundary.q), form)
    if low == high:
        return low
    if ctx.prec >= CUTOFF and low ^ high == form.sign and not low & ~form.sign:
        return 0  # both ends round to zero, and its sign is not known
    raise Undecided


def _is_near(a: Any, boundary: fmpq) -> bool:
    """Whether a number in an interval of more than NEAR bits counts as on a boundary."""
    return bool(abs(a - boundary) < abs(arb(boundary)) * arb(2) ** -NEAR)


def _end(x: Any, form: Format) -> int:
    """The rounded bit pattern of an exact end of an interval."""
    if not x.is_finite():
        raise Undecided
    m, e = map(int, x.mid().man_exp())
    if m == 0:
        return 0
    sign, top = form.sign if m < 0 else 0, m.bit_length() + e
    if top > form.highest + 1:
        return form.beyond(sign)
    if top < form.lowest - 1:
        return form.negative_zero if sign else 0
    return nearest(m << e, 1, form) if e >= 0 else nearest(m, 1 << -e, form)


def _midpoint(bits: int, form: Format) -> fmpq:
    """The boundary between a finite bit pattern and the next one away from zero."""
    m, e = significand(bits, form)
    return fmpq(2 * m + (-1 if bits & form.sign else 1)) * fmpq(2) ** (e - 1)


def whole(a: Real) -> int:
    """A number as an int, which it must be; ValueError for infinities and NaN."""
    if type(a) is float:
        if a - a != 0:
            raise ValueError(f"{a} is not an integer")
        return 0
    if type(a) is arb:
        a = floor(a)
    return int(a.p)


def magnitude(a: Any) -> Any:
    """The least known upper bound of a number's magnitude, as an exact arb."""
    return as_arb(a).abs_upper()


def as_arb(a: Real) -> Any:
    """A finite number as an interval at the current precision."""
    return a if type(a) is arb else arb(0) if type(a) is float else arb(a)


# --- signs, order ---


def is_zero(a: Real) -> bool:
    return a == 0 if type(a) is not arb else bool(a.is_zero())


def is_nan(a: Real) -> bool:
    return type(a) is float and a != a


def is_infinite(a: Real) -> bool:
    return type(a) is float and a - a != 0 and a == a


def sign(a: Real) -> float:
    """A float with the sign of a number: 0.0, -0.0, +-1.0, +-inf or nan."""
    if type(a) is float:
        return a
    if type(a) is fmpq:
        return 0.0 if not a else 1.0 if a > 0 else -1.0
    if a > 0:
        return 1.0
    if a < 0:
        return -1.0
    if a.is_zero():
        return 0.0
    raise Undecided


def _of_float(x: float) -> Real:
    return ZERO if x == 0 and math.copysign(1, x) > 0 else x


def less(a: Real, b: Real) -> bool:
    """IEEE 754's a < b: false if either is NaN; zeros are equal."""
    return _compare(a, b) == -1


def less_equal(a: Real, b: Real) -> bool:
    """IEEE 754's a <= b: false if either is NaN; zeros are equal."""
    return _compare(a, b) in (-1, 0)


def equal(a: Real, b: Real) -> bool:
    """IEEE 754's a == b: false if either is NaN; zeros are equal."""
    return _compare(a, b) == 0


def _compare(a: Real, b: Real) -> int | None:
    """-1, 0 or 1; None if either is NaN."""
    if type(a) is fmpq and type(b) is fmpq:
        difference = (a - b).p
        return 0 if not difference else -1 if difference < 0 else 1
    if is_nan(a) or is_nan(b):
        return None
    if is_infinite(a) or is_infinite(b):
        x, y = (a if is_infinite(a) else 0.0), (b if is_infinite(b) else 0.0)
        return 0 if x == y else -1 if x < y else 1
    side = sign(subtract(a, b))
    return 0 if side == 0 else -1 if side < 0 else 1


def maximum(a: Real, b: Real) -> Real:
    """IEEE 754-2019's maximum: NaN if either is, and -0 < +0."""
    if type(a) is fmpq and type(b) is fmpq:
        return b if a < b else a
    if is_nan(a) or is_nan(b):
        return NAN
    if is_zero(a) and is_zero(b):
        return b if type(a) is float else a
    if type(a) is arb or type(b) is arb:
        try:
            return b if less(a, b) else a
        except Undecided:
            return as_arb(a).max(as_arb(b))  # it does not matter which of them
    return b if less(a, b) else a


def minimum(a: Real, b: Real) -> Real:
    """IEEE 754-2019's minimum: NaN if either is, and -0 < +0."""
    return negative(maximum(negative(a), negative(b)))


# --- arithmetic ---


def add(a: Real, b: Real) -> Real:
    if type(a) is fmpq and type(b) is fmpq:
        return a + b
    if type(a) is float or type(b) is float:
        if type(a) is float and a == 0:
            return b
        if type(b) is float and b == 0:
            return a
        if type(a) is float:
            return a + b if type(b) is float else a
        return b
    total = a + b
    if ctx.prec > NEAR:
        return settled(total, max(magnitude(a), magnitude(b), key=_size))
    return total


def settled(total: Any, largest: Any) -> Real:
    """A sum at more than NEAR bits; ZERO if it is within 2^-1024 of its largest term's magnitude."""
    return ZERO if magnitude(total) <= largest * arb(2) ** -NEAR else total


def _size(x: Any) -> Any:
    mantissa, exponent = x.mid().man_exp()
    return int(exponent) + int(mantissa).bit_length() if mantissa else -(1 << 62)


def negative(a: Real) -> Real:
    if type(a) is fmpq:
        return -a if a else NEGATIVE_ZERO
    return ZERO if type(a) is float and a == 0 else -a


def subtract(a: Real, b: Real) -> Real:
    if type(a) is fmpq and type(b) is fmpq:
        return a - b
    return add(a, negative(b))


def multiply(a: Real, b: Real) -> Real:
    if type(a) is fmpq and type(b) is fmpq:
        product = a * b
        return product if product or (a >= 0 and b >= 0) else NEGATIVE_ZERO
    if type(a) is float or type(b) is float or is_zero(a) or is_zero(b):
        return _of_float(sign(a) * sign(b))
    return a * b


def divide(a: Real, b: Real) -> Real:
    if type(a) is fmpq and type(b) is fmpq and a and b:
        return a / b
    if type(a) is float or type(b) is float or is_zero(a) or is_zero(b):
        x, y = sign(a), sign(b)
        if y == 0:
            return NAN if x == 0 or x != x else math.copysign(INFINITY, x) * math.copysign(1, y)
        return _of_float(x / y)
    if type(b) is arb and b.contains(0):
        raise Undecided
    return a / b


def absolute(a: Real) -> Real:
    if type(a) is float:
        return ZERO if a == 0 else abs(a)
    return abs(a)


# --- integers near a number ---


def floor(a: Real) -> Real:
    """The largest integer that is not above a; zeros, infinities and NaN stay."""
    return _integral(a, lambda q: q.p // q.q)


def ceil(a: Real) -> Real:
    """The smallest integer that is not below a; negative numbers that round to zero give -0."""
    return _integral(a, lambda q: -(-q.p // q.q))


def truncate(a: Real) -> Real:
    """The nearest integer toward zero."""
    return _integral(a, lambda q: q.p // q.q if q > 0 else -(-q.p // q.q))


def half_to_even(a: Real) -> Real:
    """The nearest integer; at a tie, the even one."""
    return _integral(a, lambda q: half_even(int(q.p), int(q.q)))


def half_away(a: Real) -> Real:
    """The nearest integer; at a tie, the one away from zero."""
    return _integral(a, lambda q: (2 * q.p + q.q) // (2 * q.q) if q > 0 else -((2 * -q.p + q.q) // (2 * q.q)))


def _integral(a: Real, of_rational: Callable[[Any], Any]) -> Real:
    if type(a) is float:
        return a
    if type(a) is arb:
        low, high = (_exactly(end) for end in (a.lower(), a.upper()))
        below, above = fmpz(of_rational(low)), fmpz(of_rational(high))
        if ctx.prec > NEAR:
            boundary = fmpq(half_even(int((low + high).p), int((low + high).q)), 2)  # the nearest multiple of 1/2
            if _is_near(a, boundary):
                return _integral(boundary, of_rational)
        if below != above or (below == 0 and low < 0 < high):
            raise Undecided
        return NEGATIVE_ZERO if below == 0 and low < 0 else fmpq(below)
    if not a:
        return a
    found = fmpq(of_rational(a))
    return found if found or a > 0 else NEGATIVE_ZERO


def _exactly(end: Any) -> fmpq:
    """An exact arb as a rational number; Undecided if it is too large to write out.

    One that is too small to write out is replaced by another between the same integers.
    """
    if not end.is_finite():
        raise Undecided
    mantissa, exponent = end.mid().man_exp()
    if int(exponent) > LAST:
        raise Undecided
    if int(exponent) < -2 * LAST:  # a mantissa has at most LAST bits
        return fmpq(1 if mantissa > 0 else -1, 16)
    return fmpq(mantissa) * fmpq(2) ** int(exponent)
