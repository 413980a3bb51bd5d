"""Sums, products, quotients and roots of numbers: each is rounded once at most, and its bound is made of its operands'."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

from anydml.kernels.code.values import Value
from anydml.kernels.elementwise.choices import negative
from anydml.kernels.elementwise.functions import paired
from anydml.kernels.elementwise.numbers import (
    SLACK,
    Lazy,
    Number,
    U,
    decided_size,
    either,
    moderate,
    odd_of,
    of_pair,
    of_single,
    once,
    outward,
    places,
    ranged,
    saturation,
)


def _made(x: Number, a: Number, b: Number, *, odd: Lazy | None, native: Callable[[Value, Value], Value] | None) -> Number:
    """A result of exact numbers: exact where it fits; else rounded once."""
    if native and a.single is not None and b.single is not None:
        one, two = a.single, b.single
        x = replace(x, native=once(lambda: native(one, two)))
        if x.digits <= 24 and x.quantum is not None and x.quantum >= -149 and x.largest < 2.0**127:
            return replace(of_single(native(one, two), x.digits, x.quantum, x.low, x.high), guard=x.guard)
    if x.digits <= 53:
        return replace(x, exact=True, odd=x.wide)
    return replace(x, rel=U, digits=53, odd=odd and once(odd))


def add(a: Number, b: Number, sign: int = 1) -> Number:
    """a + b, or a - b."""
    body = a.body
    c = b if sign > 0 else negative(b)
    if c.constant and c.low == c.high == 0 and a.single is None:
        return _plus_zero(a, c)
    low, high = outward(a.low + c.low, a.high + c.high)
    wide = once(lambda: a.wide() + b.wide() if sign > 0 else a.wide() - b.wide())
    least = None if a.quantum is None or c.quantum is None else min(a.quantum, c.quantum)
    x = Number(body, wide, low=low, high=high, quantum=least, least=least, guard=either(a.guard, b.guard))
    if a.exact and b.exact:
        x = replace(x, digits=places(low, high, least))

        def native(one: Value, two: Value) -> Value:
            return one + two if sign > 0 else one - two

        rest = once(lambda: _lost(a.wide(), c.wide(), wide()))
        return _made(replace(x, rest=rest), a, b, odd=lambda: odd_of(wide(), rest()), native=native)
    x = replace(x, quantum=None, digits=53)
    if (a.positive and c.positive) or (a.high <= 0 and c.high <= 0):
        errors = [n.err for n in (a, b) if n.err is not None]
        err = _plus(errors)
        return replace(x, rel=max(a.rel, b.rel) * SLACK + U, err=err, saturated=saturation(a, b), least=_least_sum(a, c))
    a, b = decided_size(a), decided_size(b)
    x = replace(x, guard=either(x.guard, a.guard, b.guard))
    inexact = [n for n in (a, b) if not n.exact]
    return replace(x, rel=U, err=once(lambda: _sum([n.error() for n in inexact]) * SLACK))


def _plus_zero(a: Number, zero: Number) -> Number:
    """a + 0 or a - 0, which change no more than the sign of a zero."""

    def of(make: Lazy | None) -> Lazy | None:
        return None if make is None else once(lambda: make() + zero.wide())

    return replace(a, wide=once(lambda: a.wide() + zero.wide()), native=None, odd=of(a.odd))


def _plus(errors: list[Lazy]) -> Lazy | None:
    return once(lambda: _sum([e() for e in errors])) if errors else None


def _sum(values: list[Value]) -> Value:
    found = values[0]
    for v in values[1:]:
        found = found + v
    return found


def _least_sum(a: Number, b: Number) -> int | None:
    """`least` of the sum of two numbers that are not negative: either may be 0, if it is not known to be more."""
    found = None if a.least is None or b.least is None else min(a.least, b.least)
    for low in (a.low, b.low):
        if 0 < low < math.inf:
            found = max(found if found is not None else -1074, math.frexp(low)[1] - 1)
    return found


def _lost(a: Value, b: Value, s: Value) -> Value:
    """a + b - s, where s is the float64 nearest to a + b."""
    part = s - a
    return (a - (s - part)) + (b - part)


def power_of_two(x: Number) -> bool:
    """Whether a number is a constant 2^k, within float32's range."""
    return x.constant and x.exact and x.low > 0 and math.frexp(x.low)[0] == 0.5 and abs(math.log2(x.low)) < 150


def scaled(a: Number, k: int) -> Number:
    """a * 2^k, which keeps all digits."""
    factor, single = 2.0**k, a.single

    def of(make: Lazy | None) -> Lazy | None:
        return None if make is None else once(lambda: make() * factor)

    def moved(exponent: int | None) -> int | None:
        return None if exponent is None else exponent + k

    return replace(
        a,
        wide=once(lambda: a.wide() * factor),
        single=None,
        native=None if single is None else once(lambda: single * factor),
        odd=of(a.odd),
        rest=of(a.rest),
        err=of(a.err),
        low=a.low * factor,
        high=a.high * factor,
        quantum=moved(a.quantum),
        least=moved(a.least),
        saturated=max(1, a.saturated - abs(k)) if a.saturated else 0,
    )


def multiply(a: Number, b: Number) -> Number:
    body, same = a.body, a is b
    for x, y in ((a, b), (b, a)):
        if x.pair is not None and y.single is not None:
            return of_pair(paired.scaled(x.pair, y.single), either(a.guard, b.guard))
        if power_of_two(y):
            return scaled(x, int(math.log2(y.low)))
    saturated, zero = 0, None
    if same:
        a = b = decided_size(a)
    elif a.saturated or b.saturated:
        a, b = (a, b) if a.saturated else (b, a)
        k, fixed = moderate(b), b.constant and b.low == b.high != 0
        # of infinity and 0, a product is NaN: neither may come about by saturation
        if k is not None and a.saturated - k >= 300 and (fixed or a.largest < 2.0**300):
            saturated = a.saturated - k
            factor = b
            zero = once(lambda: factor.wide().compared("oeq", 0.0)) if b.exact and not fixed else None
            if not fixed:
                tiny = a.wide().magnitude().compared("olt", 2.0**-a.saturated)
                b = b.guarded(tiny & b.wide().magnitude().compared("oeq", math.inf))
        else:
            a, b = decided_size(a), decided_size(b)
    ends = [_product(x, y) for x in (a.low, a.high) for y in (b.low, b.high)]
    low, high = outward(0.0 if same else min(ends), max(ends))
    wide = once(lambda: a.wide() * b.wide())
    least = None if a.least is None or b.least is None else a.least + b.least
    x = Number(body, wide, low=low, high=high, least=least, saturated=saturated, zero=zero, guard=either(a.guard, b.guard))
    if a.exact and b.exact and a.quantum is not None and b.quantum is not None and a.quantum + b.quantum >= -1074:
        quantum = a.quantum + b.quantum
        x = replace(x, quantum=quantum, digits=min(a.digits + b.digits, places(low, high, quantum)))
        odd = (lambda: odd_of(wide(), body.fused(a.wide(), b.wide(), -wide()))) if body.has_fma else None
        return ranged(_made(x, a, b, odd=odd, native=lambda one, two: one * two))
    if a.err is None and b.err is None:
        return ranged(replace(x, rel=(a.rel + b.rel) * SLACK + U), a, b)

    def err() -> Value:
        terms = []
        if not a.exact:
            terms.append(a.error() * b.wide().magnitude())
        if not b.exact:
            size = a.wide().magnitude()
            terms.append(b.error() * (size if a.exact else size + a.error()))
        return _sum(terms) * SLACK

    # the signs of zeros and infinities are those of both factors, and one whose bound holds 0 has none, unless it is known
    # not to be negative: then it changes no zero's sign, and infinities alone are left
    unsigned = []
    for one, other in ((a, b), (b, a)):
        if other.err is not None:
            v = one.wide()
            special = v.magnitude().compared("oeq", math.inf) if other.positive else (v + v).compared("oeq", v)
            unsigned.append(special & other.wide().magnitude().compared("ule", other.error()))
    x = x.guarded(*unsigned)
    return ranged(replace(x, rel=U, err=once(err)), a, b)


def _product(x: float, y: float) -> float:
    return 0.0 if x == 0 or y == 0 else x * y


def divide(a: Number, b: Number) -> Number:
    body = a.body
    if power_of_two(b):
        return scaled(a, -int(math.log2(b.low)))
    saturated = 0
    for one, other in ((a, b), (b, a)):
        k = moderate(other)
        if one.saturated and other.constant and other.low == other.high != 0 and k is not None and one.saturated - k >= 300:
            saturated = one.saturated - k
    if not saturated:
        a, b = decided_size(a), decided_size(b)
    wide = once(lambda: a.wide() / b.wide())
    smallest = math.ldexp(1.0, b.least) if b.least is not None and b.least > -1022 else 0.0
    smallest = max(smallest, b.low, -b.high)
    largest = outward(0, a.largest / smallest)[1] if smallest else math.inf
    least = None if a.least is None or b.largest == math.inf else a.least - math.frexp(b.largest)[1] - 1
    sign = (a.low >= 0 and b.low >= 0) or (a.high <= 0 and b.high <= 0)
    low, high = (0.0 if sign else -largest), largest
    x = Number(body, wide, low=low, high=high, least=least, guard=either(a.guard, b.guard), saturated=saturated)
    if a.exact and b.exact:
        x = replace(x, digits=1 << 20)
        quotient = a.quantum is not None and a.quantum >= -900 and b.quantum is not None and b.quantum >= -400

        def odd() -> Value:
            remainder = body.fused(-wide(), b.wide(), a.wide())
            return odd_of(wide(), remainder.signed_as((remainder.bits() ^ b.wide().bits()).cast(remainder.kind)))

        made = _made(x, a, b, odd=odd if quotient and body.has_fma else None, native=lambda one, two: one / two)
        return ranged(made, a, divisor=b)
    if a.err is None and b.err is None:
        return ranged(replace(x, rel=(a.rel + b.rel) * SLACK + U), a, divisor=b)
    guard = None
    if not b.exact:  # by NaN, it is NaN; by a 0 that is off by nothing, infinite or NaN
        guard = (b.error() * 2.0).compared("uge", b.wide().magnitude()) & b.wide().compared("ord", b.wide())
        guard = guard & b.error().compared("une", 0.0)

    def err() -> Value:
        # |a/b - v| <= (A + |v| B) / (|b| - B)
        top = [] if a.exact else [a.error()]
        under = b.wide().magnitude()
        if not b.exact:
            top.append(b.error() * wide().magnitude())
            under = under - b.error()
        return _sum(top) / under * SLACK

    if a.err is not None:  # so has that of a number by infinity
        guard = either(guard, b.wide().magnitude().compared("oeq", math.inf) & a.wide().magnitude().compared("ule", a.error()))
    return ranged(replace(x, rel=U * SLACK, err=once(err)), a, divisor=b).guarded(guard)


def root(a: Number) -> Number:
    """The square root; of -0, -0, and of what is below, NaN."""
    body = a.body
    a = decided_size(a)
    wide = once(lambda: a.wide().root())
    least = None if a.least is None else a.least // 2 - 1
    high = outward(0, math.sqrt(a.high))[1] if a.high > 0 else 0.0
    x = Number(body, wide, low=0.0, high=high, least=least, guard=a.guard)
    if a.exact:
        x = replace(x, digits=1 << 20)

        def odd() -> Value:
            return odd_of(wide(), body.fused(-wide(), wide(), a.wide()))

        fits = a.quantum is not None and a.quantum >= -900
        return _made(x, a, a, odd=odd if fits and body.has_fma else None, native=lambda one, _: one.root())
    if a.err is None:
        return replace(x, rel=a.rel * SLACK / 2 + U)
    guard = a.wide().compared("olt", a.error() * 4.0)

    def err() -> Value:  # twice what it needs
        return body.chosen(a.error().compared("oeq", 0.0), 0.0, a.error() / wide())

    return replace(x, rel=U, err=once(err)).guarded(guard)
