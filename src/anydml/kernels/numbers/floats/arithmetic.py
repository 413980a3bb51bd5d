"""Sums, products, quotients and roots of numbers: each is rounded at most once, and its bound follows from its operands'."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction

from anydml.kernels.code.values import Value
from anydml.kernels.numbers.floats.choices import negative
from anydml.kernels.numbers.floats.numbers import (
    SLACK,
    Lazy,
    Number,
    U,
    decided_size,
    moderate,
    odd_of,
    of_pair,
    of_single,
    once,
    ranged,
    saturation,
)
from anydml.kernels.numbers.functions import pair_intervals
from anydml.kernels.numbers.known import known_constant
from anydml.kernels.numbers.lanes import either


def _made(x: Number, a: Number, b: Number, *, odd: Lazy | None, native: Callable[[Value, Value], Value] | None) -> Number:
    """The result of exact operands: exact if its digits fit, else rounded once."""
    if native and a.single is not None and b.single is not None:
        one, two = a.single, b.single
        x = replace(x, native=once(lambda: native(one, two)), operands=(a.known, b.known))
        k = x.known
        if k.digits <= 24 and k.quantum is not None and k.quantum >= -149 and k.largest < 2.0**127:
            return of_single(native(one, two), k, x.guard)
    if x.known.digits <= 53:
        return replace(x, exact=True, odd=x.wide)
    return replace(x, rel=U, odd=odd and once(odd))


def add(a: Number, b: Number, sign: int = 1) -> Number:
    """a + b, or a - b."""
    body = a.body
    c = b if sign > 0 else negative(b)
    if c.known.only == 0 and a.single is None:
        return _plus_zero(a, c)
    wide = once(lambda: a.wide() + b.wide() if sign > 0 else a.wide() - b.wide())
    x = Number(body, wide, a.known + c.known, guard=either(a.guard, b.guard))
    if a.exact and b.exact:

        def native(one: Value, two: Value) -> Value:
            return one + two if sign > 0 else one - two

        rest = once(lambda: _lost(a.wide(), c.wide(), wide()))
        return _made(replace(x, rest=rest), a, b, odd=lambda: odd_of(wide(), rest()), native=native)
    if a.known.agrees(c.known):
        errors = [n.err for n in (a, b) if n.err is not None]
        err = _plus(errors)
        return replace(x, rel=max(a.rel, b.rel) * SLACK + U, err=err, saturated=saturation(a, b))
    a, b = decided_size(a), decided_size(b)
    x = replace(x, guard=either(x.guard, a.guard, b.guard))
    inexact = [n for n in (a, b) if not n.exact]
    return replace(x, rel=U, err=once(lambda: _sum([n.error() for n in inexact]) * SLACK))


def _plus_zero(a: Number, zero: Number) -> Number:
    """a + 0 or a - 0, which can only change the sign of a zero."""

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


def _lost(a: Value, b: Value, s: Value) -> Value:
    """a + b - s, where s is the float64 nearest to a + b."""
    part = s - a
    return (a - (s - part)) + (b - part)


def power_of_two(x: Number) -> bool:
    """Whether a number is a constant 2^k, within float32's range."""
    c = x.known.only
    return x.exact and c is not None and c > 0 and math.frexp(c)[0] == 0.5 and abs(math.log2(c)) < 150


def scaled(a: Number, k: int) -> Number:
    """a * 2^k, which keeps all digits."""
    factor, single = 2.0**k, a.single

    def of(make: Lazy | None) -> Lazy | None:
        return None if make is None else once(lambda: make() * factor)

    return replace(
        a,
        wide=once(lambda: a.wide() * factor),
        known=a.known.scaled(k),
        single=None,
        native=None if single is None else once(lambda: single * factor),
        operands=() if single is None else (a.known, known_constant(Fraction(factor))),
        odd=of(a.odd),
        rest=of(a.rest),
        err=of(a.err),
        saturated=max(1, a.saturated - abs(k)) if a.saturated else 0,
    )


def multiply(a: Number, b: Number) -> Number:
    body, same = a.body, a is b
    for x, y in ((a, b), (b, a)):
        if x.pair is not None and y.single is not None:
            return of_pair(pair_intervals.scaled(x.pair, y.single), either(a.guard, b.guard))
        if power_of_two(y):
            return scaled(x, int(math.log2(y.known.low)))
    saturated, zero = 0, None
    if same:
        a = b = decided_size(a)
    elif a.saturated or b.saturated:
        a, b = (a, b) if a.saturated else (b, a)
        k, fixed = moderate(b), bool(b.known.only)
        # infinity times 0 is NaN: neither may be the result of saturation
        if k is not None and a.saturated - k >= 300 and (fixed or a.known.largest < 2.0**300):
            saturated = a.saturated - k
            factor = b
            zero = once(lambda: factor.wide().compared("oeq", 0.0)) if b.exact and not fixed else None
            if not fixed:
                tiny = a.wide().magnitude().compared("olt", 2.0**-a.saturated)
                b = b.guarded(tiny & b.wide().magnitude().compared("oeq", math.inf))
        else:
            a, b = decided_size(a), decided_size(b)
    known = a.known.squared() if same else a.known * b.known
    wide = once(lambda: a.wide() * b.wide())
    x = Number(body, wide, known, saturated=saturated, zero=zero, guard=either(a.guard, b.guard))
    if a.exact and b.exact and known.quantum is not None and known.quantum >= -1074:
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

    # Zeros and infinities have the signs of both factors. A factor whose bound includes 0 has no certain sign, unless it is
    # known not to be negative: then no zero's sign is wrong, and only infinities matter.
    unsigned = []
    for one, other in ((a, b), (b, a)):
        if other.err is not None:
            v = one.wide()
            special = v.magnitude().compared("oeq", math.inf) if other.known.positive else (v + v).compared("oeq", v)
            unsigned.append(special & other.wide().magnitude().compared("ule", other.error()))
    x = x.guarded(*unsigned)
    return ranged(replace(x, rel=U, err=once(err)), a, b)


def divide(a: Number, b: Number) -> Number:
    body = a.body
    if power_of_two(b):
        return scaled(a, -int(math.log2(b.known.low)))
    saturated = 0
    for one, other in ((a, b), (b, a)):
        k = moderate(other)
        if one.saturated and other.known.only and k is not None and one.saturated - k >= 300:
            saturated = one.saturated - k
    if not saturated:
        a, b = decided_size(a), decided_size(b)
    wide = once(lambda: a.wide() / b.wide())
    x = Number(body, wide, a.known / b.known, guard=either(a.guard, b.guard), saturated=saturated)
    if a.exact and b.exact:
        quotient = a.known.has_quantum(-900) and b.known.has_quantum(-400)

        def odd() -> Value:
            remainder = body.fused(-wide(), b.wide(), a.wide())
            return odd_of(wide(), remainder.signed_as((remainder.bits() ^ b.wide().bits()).cast(remainder.kind)))

        made = _made(x, a, b, odd=odd if quotient and body.has_fma else None, native=lambda one, two: one / two)
        return ranged(made, a, divisor=b)
    if a.err is None and b.err is None:
        return ranged(replace(x, rel=(a.rel + b.rel) * SLACK + U), a, divisor=b)
    guard = None
    if not b.exact:  # a divisor of NaN gives NaN; one that is exactly 0 gives an infinity or NaN
        guard = (b.error() * 2.0).compared("uge", b.wide().magnitude()) & b.wide().compared("ord", b.wide())
        guard = guard & b.error().compared("une", 0.0)
    if not a.exact:  # 0 divided by 0 is NaN, but where it stands for a number, an infinity
        lost = b.wide().compared("oeq", 0.0) & a.error().compared("oge", a.wide().magnitude())
        guard = either(guard, lost & a.error().compared("one", 0.0))

    def err() -> Value:
        # |a/b - v| <= (A + |v| B) / (|b| - B)
        top = [] if a.exact else [a.error()]
        under = b.wide().magnitude()
        if not b.exact:
            top.append(b.error() * wide().magnitude())
            under = under - b.error()
        return _sum(top) / under * SLACK

    if a.exact and not a.known.has_quantum(-900):  # v b may be so small that B |v| is rounded to 0
        size = a.wide().magnitude()
        guard = either(guard, size.compared("olt", 2.0**-900) & size.compared("une", 0.0))
    if a.err is not None:  # a bounded number divided by infinity is a zero of uncertain sign, too
        guard = either(guard, b.wide().magnitude().compared("oeq", math.inf) & a.wide().magnitude().compared("ule", a.error()))
    return ranged(replace(x, rel=U * SLACK, err=once(err)), a, divisor=b).guarded(guard)


def root(a: Number) -> Number:
    """The square root; -0 for -0, NaN for negative numbers."""
    body = a.body
    a = decided_size(a)
    wide = once(lambda: a.wide().root())
    x = Number(body, wide, a.known.root(), guard=a.guard)
    if a.exact:

        def odd() -> Value:
            return odd_of(wide(), body.fused(-wide(), wide(), a.wide()))

        return _made(x, a, a, odd=odd if a.known.has_quantum(-900) and body.has_fma else None, native=lambda one, _: one.root())
    if a.err is None:
        return replace(x, rel=a.rel * SLACK / 2 + U)
    guard = a.wide().compared("olt", a.error() * 4.0)

    def err() -> Value:  # twice what is needed
        return body.chosen(a.error().compared("oeq", 0.0), 0.0, a.error() / wide())

    return replace(x, rel=U, err=once(err)).guarded(guard)
