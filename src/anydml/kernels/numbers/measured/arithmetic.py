"""Sums, products and quotients of real numbers: each is rounded once, and its rounding error is part of its bound."""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction

from anydml.kernels.code.values import Value
from anydml.kernels.numbers.functions.pairs import exact_product, lost_product, two_sum
from anydml.kernels.numbers.known import FAR, known_constant, known_integer
from anydml.kernels.numbers.lanes import broadcast, either, in_lanes
from anydml.kernels.numbers.measured.real import DIVISORS, DOUBLE, ONE, SLACK, TINY, Real, U, fraction, kept, ranged, sum_of


def _is_binary(x: Fraction) -> bool:
    """Whether a fraction is a power of two, not too far from 1."""
    n, d = abs(x.numerator), x.denominator
    return n & (n - 1) == 0 and d & (d - 1) == 0 and abs(n.bit_length() - d.bit_length()) < 100


def times(x: Real, k: int | Fraction) -> Real:
    """The number's value times a constant that float64 holds; the factor stays."""
    k = Fraction(k)
    if k == 1:
        return x
    c = float(k)
    if _is_binary(k):
        shift = math.frexp(abs(c))[1] - 1
        known = x.known.scaled(shift) if c > 0 else -x.known.scaled(shift)
        err = None if x.err is None else x.err * abs(c)
        made = replace(x, value=x.value * c, err=err, known=known, constant=None)
        if abs(c) > 1 or (x.exact and known.has_quantum(-1000)):
            return made if known.largest < FAR or x.known.largest == 0 else ranged(made, x)
        if x.err is not None and err is not None:
            made = replace(made, err=kept(err, x.err))
        return ranged(made, x, nonzero=x.value.compared("une", 0.0))
    constant = Real(x.body.constant(DOUBLE, c), known=known_constant(k))
    return replace(multiply(replace(x, factor=ONE, constant=None), constant), factor=x.factor)


def _held(k: Fraction) -> bool:
    """Whether float64 holds a constant."""
    return abs(math.log2(abs(k))) < 500 and known_constant(k).quantum is not None


def plain(x: Real) -> Real:
    """The number with the factor 1, rounded if its digits do not fit."""
    f = x.factor
    if f == 1:
        return replace(x, constant=None)
    x = replace(x, factor=ONE, constant=None)
    if _held(f):
        return times(x, f)
    top, bottom = Fraction(f.numerator), Fraction(f.denominator)
    if _held(top) and _held(bottom):
        return divide(times(x, top), fraction(x.body, bottom), folded=False)
    about = float(f)
    value = x.value * about
    # a zero stays a zero; the factor and the product are rounded, each by at most u
    err = value.magnitude() * (4 * U)
    if x.err is not None:
        err = err + kept(x.err * abs(about), x.err)
    made = Real(value, err, x.known * known_constant(f), guard=x.guard)
    return ranged(made, x, nonzero=x.value.compared("une", 0.0))


def aligned(a: Real, b: Real) -> tuple[Real, Real]:
    """Two numbers, converted to one factor."""
    if a.factor == b.factor:
        return a, b
    for zero, other, swapped in ((a, b, False), (b, a, True)):
        if zero.known.largest == 0:  # zeros and special numbers fit any factor
            made = replace(zero, factor=other.factor, constant=None)
            return (other, made) if swapped else (made, other)
    f, g = a.factor, b.factor
    unit = Fraction(math.gcd(f.numerator * g.denominator, g.numerator * f.denominator), f.denominator * g.denominator)
    one, two = f / unit, g / unit
    if max(abs(one), abs(two)) < 1 << 53:
        return replace(times(a, one), factor=unit), replace(times(b, two), factor=unit)
    return plain(a), plain(b)


def add(a: Real, b: Real) -> Real:
    a, b = aligned(a, b)
    x, y = broadcast(a.value, b.value)
    known, guard = a.known + b.known, either(a.guard, b.guard)
    if a.exact and b.exact and known.digits <= 53:
        return Real(x + y, None, known, a.factor, guard)
    value, rest = two_sum(x, y)
    # rounding errors of sums are exact, even if they are subnormal
    err = sum_of(rest.magnitude(), a.err, b.err)
    return ranged(Real(value, err, known, a.factor, guard), a, b)


def negative(a: Real) -> Real:
    return replace(a, value=-a.value, known=-a.known, constant=None)


def subtract(a: Real, b: Real) -> Real:
    return add(a, negative(b))


def multiply(a: Real, b: Real) -> Real:
    for other, k in ((a, b.constant), (b, a.constant)):
        if k is not None:
            return _by_constant(other, k)
    x, y = broadcast(a.value, b.value)
    factor, known, guard = a.factor * b.factor, a.known * b.known, either(a.guard, b.guard)
    exact = a.exact and b.exact
    if exact and known.has_quantum(-1000) and known.largest < FAR and known.digits <= 53:
        return Real(x * y, None, known, factor, guard)
    value, rest = exact_product(x, y)
    err = rest.magnitude()
    if not a.body.has_fma and min(a.digits, b.digits) > 26:
        err = err + lost_product(x, y, value)
    others: list[Value] = []
    for p, q in ((y.magnitude(), a.err), (x.magnitude(), b.err), (a.err, b.err)):
        if p is not None and q is not None:
            others.append(kept(product_of(p, q), p, q))
    err_ = sum_of(err * SLACK if others else err, *others)
    made = Real(value, err_, known, factor, guard)
    small = None if exact and known.has_quantum(-960) else x.compared("une", 0.0) & y.compared("une", 0.0)
    return ranged(made, a, b, nonzero=small)


def _by_constant(x: Real, k: Fraction) -> Real:
    constant = None if x.constant is None else x.constant * k
    made = x if k > 0 else negative(x)
    return replace(made, factor=x.factor * abs(k), constant=constant)


def product_of(a: Value, b: Value) -> Value:
    a, b = broadcast(a, b)
    return a * b


def divide(a: Real, b: Real, *, folded: bool = True) -> Real:
    if folded and b.constant is not None:
        return _by_constant(a, 1 / b.constant)
    if folded and b.exact and b.known.has_quantum(0) and b.factor == 1 and b.known.largest <= DIVISORS:
        # a common multiple of all possible divisors: its quotients are integers, or infinite
        common = math.lcm(*range(1, int(b.known.largest) + 1))
        value = b.value.lift(float(common)) / b.value
        whole = Real(value, known=replace(known_integer(-common, common), finite=False), guard=b.guard)
        return replace(multiply(a, whole), factor=a.factor / common)
    if not folded:
        assert b.constant is not None
        b = Real(b.body.constant(DOUBLE, float(b.constant)), known=known_constant(b.constant))
    x, y = broadcast(a.value, b.value)
    body = a.body
    q = x / y
    guard = either(a.guard, b.guard)
    # a zero or a special number divides exactly
    nonzero = x.compared("une", 0.0)
    if body.has_fma:
        rest = body.fused(-q, y, x)
        lost: Value | None = None
    else:
        product, more = exact_product(q, y)
        rest = (x - product) - more
        lost = lost_product(q, y, product)
    rest = rest.magnitude()
    if lost is not None:
        rest = rest + lost
    size = y.magnitude()
    # 0 / y, x / 0 and infinite operands have no rounding error
    finite = size.compared("olt", math.inf)
    regular = q.magnitude().compared("olt", math.inf) & nonzero & finite & rest.compared("une", 0.0)
    err = body.chosen(regular, rest / size * SLACK + TINY, 0.0)
    others = []
    least = size
    if b.err is not None:
        divisor = in_lanes(b.err, size.kind.lanes)
        least = size - divisor
        guard = either(guard, ~least.compared("ogt", 0.0) & divisor.compared("une", 0.0) & finite)
        # a zero stays a zero, whatever the divisor is; a small quotient that is not 0 is guarded below
        others.append(kept(q.magnitude() * divisor / least, divisor, q))
    if a.err is not None:
        top = in_lanes(a.err, size.kind.lanes)
        others.append(kept(top / least, top))
    known, bound = a.known / b.known, sum_of(err, *others)
    # with a dividend at least this large, the remainder is exact, and so is the last place of the quotient
    large = a.exact and a.known.has_quantum(-800)
    guards = [guard]
    if not large:
        guards.append(nonzero & x.magnitude().compared("olt", 1 / FAR))
    if not large or b.known.largest > 2.0**100:
        guards.append(nonzero & finite & q.magnitude().compared("olt", 1 / FAR))
    if not known.largest < FAR:
        divided = y.compared("une", 0.0) & x.magnitude().compared("olt", math.inf)
        guards.append(divided & q.magnitude().compared("ogt", FAR))
    return Real(q, bound, known, a.factor / b.factor, either(*guards))
