"""Changes of signs, and one of two numbers: what rounds nothing."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

from anydml.kernels.code.values import Value
from anydml.kernels.elementwise.functions import paired
from anydml.kernels.elementwise.numbers import (
    SLACK,
    Lazy,
    Number,
    U,
    either,
    of_pair,
    of_single,
    once,
    places,
    saturation,
)


def _of_signs(a: Number, single: Callable[[Value], Value], low: float, high: float) -> Number:
    """A change of signs, which keeps all else."""

    def of(make: Lazy | None) -> Lazy | None:
        return None if make is None else once(lambda: single(make()))

    return replace(
        a,
        wide=once(lambda: single(a.wide())),
        single=None if a.single is None else single(a.single),
        native=of(a.native),
        odd=of(a.odd),
        rest=None,
        low=low,
        high=high,
    )


def negative(a: Number) -> Number:
    if a.pair is not None:
        return of_pair(paired.negative(a.pair), a.guard)
    return _of_signs(a, lambda v: -v, -a.high, -a.low)


def absolute(a: Number) -> Number:
    low = 0.0 if a.low < 0 < a.high else min(abs(a.low), abs(a.high))
    assert a.pair is None or a.wide()  # it has no magnitude
    return _of_signs(a, lambda v: v.magnitude(), low, a.largest)


def extreme(a: Number, b: Number, which: str) -> Number:
    """ "maximum" or "minimum": NaN if either is, and -0 < +0. Every rounding keeps the order, so that it may come first."""

    def make(x: Value, y: Value) -> Value:
        if a.constant == b.constant:
            return x.body.intrinsic(which, x, y)
        (value, limit), constant = ((y, x), a) if a.constant else ((x, y), b)
        # where a value is as large as the limit, these differ for zeros alone: the larger one is wanted, or the smaller one
        negative = math.copysign(1, constant.low) < 0
        if which == "maximum" and not negative and (a.ordered or b.ordered):  # an instruction of x86, but for NaN
            return x.body.chosen(value.compared("ogt", limit), value, limit)
        beyond = {"maximum": "olt" if negative else "ole", "minimum": "oge" if negative else "ogt"}[which]
        return x.body.chosen(value.compared(beyond, limit), limit, value)

    pick = max if which == "maximum" else min
    low, high = pick(a.low, b.low), pick(a.high, b.high)

    def join_errors(one: Value, two: Value) -> Value:
        # far apart, the bound is that of the one that is taken; NaN, which is no bound, stays where it may be either
        x, y, both = a.wide(), b.wide(), one + two
        near = (x - y).magnitude().compared("ule", both * SLACK)
        first = x.compared("ogt" if which == "maximum" else "olt", y)
        return a.body.chosen(near, both, a.body.chosen(first, one, two))

    relative = a.err is None and b.err is None
    joined = _joined(a, b, make, low, high, either(a.guard, b.guard), None if relative else join_errors)
    return replace(joined, ordered=all(n.ordered or n.constant for n in (a, b)))


def select(condition: Value, a: Number, b: Number, guard: Value | None) -> Number:
    """a in the lanes where the condition holds, else b; a guard of one that is not looked at does not count."""
    masks = [guard]
    if a.guard is not None:
        masks.append(a.guard & condition)
    if b.guard is not None:
        masks.append(b.guard & ~condition)

    one, two = (x.single if x.pair is None else x.pair for x in (a, b))
    if one is not None and two is not None and (a.pair is not None or b.pair is not None):
        return of_pair(paired.chosen(condition, one, two), either(*masks))

    def make(x: Value, y: Value) -> Value:
        return x.body.chosen(condition, x, y)

    return _joined(a, b, make, min(a.low, b.low), max(a.high, b.high), either(*masks), make)


def _joined(
    a: Number,
    b: Number,
    make: Callable[[Value, Value], Value],
    low: float,
    high: float,
    guard: Value | None,
    join_errors: Callable[[Value, Value], Value] | None,
) -> Number:
    """One of two numbers in each lane; join_errors: the bound, from those of both, None where the larger relative one holds."""
    if a.single is not None and b.single is not None:
        x = of_single(make(a.single, b.single), max(a.digits, b.digits), min(a.quantum or 0, b.quantum or 0), low, high)
        return replace(x, guard=guard)
    quantum = None if a.quantum is None or b.quantum is None else min(a.quantum, b.quantum)

    def of(x: Lazy | None, y: Lazy | None) -> Lazy | None:
        return None if x is None or y is None else once(lambda: make(x(), y()))

    digits = max(a.digits, b.digits)
    x = Number(
        a.body,
        once(lambda: make(a.wide(), b.wide())),
        exact=a.exact and b.exact,
        native=of(_native(a), _native(b)),
        odd=of(_odd_of(a), _odd_of(b)),
        low=low,
        high=high,
        quantum=quantum,
        digits=min(digits, places(low, high, quantum)),
        least=None if a.least is None or b.least is None else min(a.least, b.least),
        rel=max(a.rel, b.rel),
        saturated=saturation(a, b),
        guard=guard,
    )
    if x.saturated and x.least is not None and x.largest < 2.0**x.saturated:
        x = replace(x, saturated=0)
    if x.exact:
        return x
    if _rounded(a) and _rounded(b) and places(low, high, quantum) <= 53:
        return replace(x, exact=True, rel=0.0, odd=x.wide)  # one rounding, of what needs none
    if join_errors is not None:

        def err() -> Value:
            one, two = (a.body.constant(a.wide().kind, 0.0) if n.exact else n.error() for n in (a, b))
            return join_errors(one, two)

        return replace(x, rel=0.0, err=once(err))
    return x


def _rounded(a: Number) -> bool:
    """Whether wide is t rounded half to even."""
    return a.exact or (a.odd is not None and a.rel == U and a.err is None)


def _native(a: Number) -> Lazy | None:
    if a.single is not None:
        single = a.single
        return lambda: single
    return a.native


def _odd_of(a: Number) -> Lazy | None:
    return a.wide if a.exact else a.odd
