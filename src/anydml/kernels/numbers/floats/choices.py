"""Operations that round nothing: changes of sign, and the choice between two numbers."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

from anydml.kernels.code.values import Value
from anydml.kernels.numbers.floats.numbers import SLACK, Lazy, Number, U, of_pair, of_single, once, saturation
from anydml.kernels.numbers.functions import pair_intervals
from anydml.kernels.numbers.known import Known, places
from anydml.kernels.numbers.lanes import Truth, either


def _of_signs(a: Number, single: Callable[[Value], Value], known: Known) -> Number:
    """The number with another sign; everything else stays the same."""

    def of(make: Lazy | None) -> Lazy | None:
        return None if make is None else once(lambda: single(make()))

    return replace(
        a,
        wide=once(lambda: single(a.wide())),
        known=known,
        single=None if a.single is None else single(a.single),
        native=of(a.native),
        odd=of(a.odd),
        rest=None,
    )


def negative(a: Number) -> Number:
    if a.pair is not None:
        return of_pair(pair_intervals.negative(a.pair), a.guard)
    return _of_signs(a, lambda v: -v, -a.known)


def absolute(a: Number) -> Number:
    assert a.pair is None or a.wide()  # for a pair, this raises Uncompilable: it has no magnitude
    return _of_signs(a, lambda v: v.magnitude(), abs(a.known))


def extreme(a: Number, b: Number, which: str) -> Number:
    """ "maximum" or "minimum": NaN if either is, and -0 < +0. Every rounding keeps the order, so that it may come first."""

    def make(x: Value, y: Value) -> Value:
        if a.known.constant == b.known.constant:
            return x.body.intrinsic(which, x, y)
        (value, limit), constant = ((y, x), a.known) if a.known.constant else ((x, y), b.known)
        # a value equal to the limit differs from it only if they are zeros: the larger or the smaller zero is wanted
        negative = math.copysign(1, constant.low) < 0
        # one instruction of x86, which differs for NaN
        if which == "maximum" and not negative and (a.known.ordered or b.known.ordered):
            return x.body.chosen(value.compared("ogt", limit), value, limit)
        beyond = {"maximum": "olt" if negative else "ole", "minimum": "oge" if negative else "ogt"}[which]
        return x.body.chosen(value.compared(beyond, limit), limit, value)

    def join_errors(one: Value, two: Value) -> Value:
        # if the operands are far apart, the bound is the chosen one's; a bound of NaN stays where either may be chosen
        x, y, both = a.wide(), b.wide(), one + two
        near = (x - y).magnitude().compared("ule", both * SLACK)
        first = x.compared("ogt" if which == "maximum" else "olt", y)
        return a.body.chosen(near, both, a.body.chosen(first, one, two))

    relative = a.err is None and b.err is None
    known = a.known.larger(b.known) if which == "maximum" else a.known.smaller(b.known)
    return _joined(a, b, make, known, either(a.guard, b.guard), None if relative else join_errors)


def select(condition: Truth, a: Number, b: Number) -> Number:
    """a in the lanes where the condition holds, else b."""
    guard = condition.guards(a.guard, b.guard)
    one, two = (x.single if x.pair is None else x.pair for x in (a, b))
    if one is not None and two is not None and (a.pair is not None or b.pair is not None):
        return of_pair(pair_intervals.chosen(condition.mask, one, two), guard)

    def make(x: Value, y: Value) -> Value:
        return x.body.chosen(condition.mask, x, y)

    return _joined(a, b, make, a.known | b.known, guard, make)


def _joined(
    a: Number,
    b: Number,
    make: Callable[[Value, Value], Value],
    known: Known,
    guard: Value | None,
    join_errors: Callable[[Value, Value], Value] | None,
) -> Number:
    """One of two numbers in each lane; join_errors: a function that gives the bound from both; None: the larger relative
    bound."""
    if a.single is not None and b.single is not None:
        return of_single(make(a.single, b.single), known, guard)

    def of(x: Lazy | None, y: Lazy | None) -> Lazy | None:
        return None if x is None or y is None else once(lambda: make(x(), y()))

    x = Number(
        a.body,
        once(lambda: make(a.wide(), b.wide())),
        known,
        exact=a.exact and b.exact,
        native=of(_native(a), _native(b)),
        operands=_operands(a, b),
        odd=of(_odd_of(a), _odd_of(b)),
        rel=max(a.rel, b.rel),
        saturated=saturation(a, b),
        guard=guard,
    )
    if x.saturated and known.least is not None and known.largest < 2.0**x.saturated:
        x = replace(x, saturated=0)
    if x.exact:
        return x
    if _rounded(a) and _rounded(b) and places(known.low, known.high, known.quantum) <= 53:
        return replace(x, exact=True, rel=0.0, odd=x.wide)  # a single rounding, which changes nothing
    if join_errors is not None:

        def err() -> Value:
            one, two = (a.body.constant(a.wide().kind, 0.0) if n.exact else n.error() for n in (a, b))
            return join_errors(one, two)

        return replace(x, rel=0.0, err=once(err))
    return x


def _rounded(a: Number) -> bool:
    """Whether `wide` is t rounded half to even."""
    return a.exact or (a.odd is not None and a.rel == U and a.err is None)


def _native(a: Number) -> Lazy | None:
    if a.single is not None:
        single = a.single
        return lambda: single
    return a.native


def _operands(a: Number, b: Number) -> tuple[Known, ...]:
    """The operands of both numbers' last operations, where a float32 has none but itself; () if those of one are not known."""
    one, two = ((x.known,) if x.single is not None else x.operands for x in (a, b))
    return (*one, *two) if one and two else ()


def _odd_of(a: Number) -> Lazy | None:
    return a.wide if a.exact else a.odd
