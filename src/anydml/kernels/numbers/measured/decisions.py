"""Roots, choices, roundings to integers, and comparisons of real numbers, with the lanes that bounds leave undecided."""

from __future__ import annotations

import math
from dataclasses import replace

from anydml.kernels.code.values import Value
from anydml.kernels.numbers.floats import comparisons, rounding
from anydml.kernels.numbers.functions.pairs import exact_product, lost_product
from anydml.kernels.numbers.known import FAR
from anydml.kernels.numbers.lanes import Truth, broadcast, chosen, either, in_lanes
from anydml.kernels.numbers.measured.arithmetic import aligned, plain
from anydml.kernels.numbers.measured.functions import as_number, of_number
from anydml.kernels.numbers.measured.real import DOUBLE, SLACK, TINY, Real, kept


def root(a: Real) -> Real:
    """The square root."""
    a = plain(a)
    body, x = a.body, a.value
    value = x.root()
    product, more = exact_product(value, value)
    rest = ((x - product) - more).magnitude()
    if not body.has_fma:
        rest = rest + lost_product(value, value, product)
    regular = x.compared("ogt", 0.0) & x.compared("olt", math.inf)
    err = body.chosen(regular & rest.compared("une", 0.0), rest / value * SLACK + TINY, 0.0)
    guard = either(a.guard, regular & x.compared("olt", 1 / FAR))
    if a.err is not None:
        err = err + body.chosen(regular, kept(a.err / value, a.err), 0.0)
        unsure = a.err.compared("une", 0.0) & ~x.compared("ogt", a.err * 2.0) & x.magnitude().compared("olt", math.inf)
        guard = either(guard, unsure)
    return Real(value, err, a.known.root(), guard=guard)


def absolute(a: Real) -> Real:
    return replace(a, value=a.value.magnitude(), known=abs(a.known), constant=None)


def extreme(a: Real, b: Real, *, largest: bool) -> Real:
    """The larger or the smaller: NaN if either is, and -0 < +0."""
    a, b = aligned(a, b)
    x, y = broadcast(a.value, b.value)
    body = x.body
    first = x.compared("ogt" if largest else "olt", y)
    same = x.bits() & y.bits() if largest else x.bits() | y.bits()
    found = body.chosen(first, x, y)
    found = body.chosen(x.compared("oeq", y), same.cast(x.kind), found)
    found = body.chosen(x.compared("uno", y), x + y, found)
    err = None
    if a.err is not None or b.err is not None:
        e, f = (_of_finite(z, x.kind.lanes) for z in (a, b))
        # where it is certain which number is chosen, the result has its bound
        sure = (x - y).magnitude().compared("ogt", (e + f) * SLACK)  # the slack is more than the difference's rounding
        err = body.chosen(sure, body.chosen(first, e, f), body.chosen(e.compared("ogt", f), e, f))
        err = body.chosen(e.compared("uno", f), e + f, err)
    known = a.known.larger(b.known) if largest else a.known.smaller(b.known)
    return Real(found, err, known, a.factor, either(a.guard, b.guard))


def _of_finite(a: Real, lanes: int) -> Value:
    """The bound of a number, 0 where the number is infinite: infinities are exact, whatever bound is stored with them."""
    if a.err is None:
        return in_lanes(a.body.constant(DOUBLE, 0.0), lanes)
    err = in_lanes(a.err, lanes)
    return err if a.known.finite else a.body.chosen(in_lanes(a.value, lanes).magnitude().compared("oeq", math.inf), 0.0, err)


def select(condition: Truth, a: Real, b: Real) -> Real:
    """a where the condition holds, else b."""
    a, b = aligned(a, b)
    err = None
    body = a.body
    if a.err is not None or b.err is not None:
        e, f = (body.constant(DOUBLE, 0.0) if x.err is None else x.err for x in (a, b))
        err = chosen(condition.mask, e, f)
    guard = condition.guards(a.guard, b.guard)
    return Real(chosen(condition.mask, a.value, b.value), err, a.known | b.known, a.factor, guard)


def to_whole(op: str, a: Real) -> Real:
    """A number rounded to an integer; op: floor, ceil, truncate, half_to_even or half_away."""
    return of_number(rounding.to_whole(op, as_number(plain(a))))


def compared(op: str, a: Real, b: Real) -> Truth:
    """The lanes where a is less than b (or at most b, or equal)."""
    a, b = aligned(a, b)
    lanes = max(x.kind.lanes for x in (a.value, b.value, a.err or a.value, b.err or b.value))
    return comparisons.compared(op, as_number(a, lanes), as_number(b, lanes))
