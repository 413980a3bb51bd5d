"""Arithmetic in twice float64's precision, with absolute bounds, which are 0 in the lanes where nothing was rounded."""

from __future__ import annotations

import math
from typing import NamedTuple

from anydml.kernels.code.values import Value
from anydml.kernels.elementwise.functions.pairs import Pair, exact_product, lost_product, quick_sum, two_sum
from anydml.kernels.elementwise.numbers import SLACK, either
from anydml.kernels.elementwise.rounding import rounded_to_whole

FAR = 2.0**700
REL = 2.0**-96  # of operations that are no sums: more than `pairs` promises, for what comes after


class Precise(NamedTuple):
    """|pair - t| <= err; guard: the lanes that stay open."""

    pair: Pair
    err: Value
    guard: Value | None


class Condition(NamedTuple):
    mask: Value
    guard: Value | None


def select(condition: Condition, a: Precise, b: Precise) -> Precise:
    mask = condition.mask
    guards = [condition.guard, a.guard and a.guard & mask, b.guard and b.guard & ~mask]
    return Precise(a.pair.where(mask, b.pair), mask.body.chosen(mask, a.err, b.err), either(*guards))


def compared(op: str, a: Precise, b: Precise) -> Condition:
    difference = add(a, negative(b))
    d = difference.pair.head  # its sign is that of the sum; 0 only if that is
    how = {"less": "olt", "less_equal": "ole", "equal": "oeq"}[op]
    near = d.magnitude().compared("ule", difference.err) & difference.err.compared("une", 0.0)
    return Condition(d.compared(how, 0.0), either(difference.guard, near))


def negative(a: Precise) -> Precise:
    return Precise(-a.pair, a.err, a.guard)


def absolute(a: Precise) -> Precise:
    return Precise(a.pair.magnitude(), a.err, a.guard)


def add(a: Precise, b: Precise) -> Precise:
    head, tail = two_sum(a.pair.head, b.pair.head)
    tails, lost = two_sum(a.pair.tail, b.pair.tail)
    low, lost_too = two_sum(tail, tails)
    err = (a.err + b.err + (lost.magnitude() + lost_too.magnitude())) * SLACK
    return Precise(_normal(head, low), err, either(a.guard, b.guard))


def _normal(head: Value, tail: Value) -> Pair:
    """head + tail, where either may be the larger after cancellation."""
    return Pair(*two_sum(head, tail))


def subtract(a: Precise, b: Precise) -> Precise:
    return add(a, negative(b))


def multiply(a: Precise, b: Precise) -> Precise:
    x, y = a.pair, b.pair
    head, low = exact_product(x.head, y.head)
    first, rest = exact_product(x.tail, y.head)
    second, rest_too = exact_product(x.head, y.tail)
    low, lost = two_sum(low, first)
    low, lost_too = two_sum(low, second)
    made = quick_sum(head, low)
    err = (rest.magnitude() + rest_too.magnitude()) + (lost.magnitude() + lost_too.magnitude())
    for factors in ((x.head, y.head, head), (x.tail, y.head, first), (x.head, y.tail, second)):
        err = err + lost_product(*factors)
    last = (x.tail * y.tail).magnitude()
    # products of tails that are no normal float64 may have lost digits, or all of themselves
    some = [tail.compared("une", 0.0) for tail in (x.tail, y.tail)]
    tiny = (some[0] & first.magnitude().compared("olt", 2.0**-900)) | (some[1] & second.magnitude().compared("olt", 2.0**-900))
    tiny = tiny | (some[0] & some[1] & last.compared("olt", 2.0**-900))
    err = err + last * 2.0 + head.body.chosen(tiny, 2.0**-850, head.lift(0.0))
    err = err + (a.err * (y.head.magnitude() * SLACK + b.err) + b.err * x.head.magnitude() * SLACK)
    small = made.head.magnitude().compared("olt", 1 / FAR)
    return Precise(made, err * SLACK, either(a.guard, b.guard, small & made.head.compared("une", 0.0)))


def divide(a: Precise, b: Precise) -> Precise:
    made = a.pair / b.pair
    size, under = made.head.magnitude(), b.pair.head.magnitude()
    same = _is_product(a.pair, made.head, b.pair.head) & b.pair.tail.compared("oeq", 0.0) & made.tail.compared("oeq", 0.0)
    rounded = size.body.chosen(same, 0.0, size * REL)
    err = rounded + (a.err + size * b.err) / (under - b.err * 2.0) * SLACK
    return Precise(made, err, either(a.guard, b.guard, (b.err * 4.0).compared("uge", under)))


def root(a: Precise) -> Precise:
    made = a.pair.root()
    same = _is_product(a.pair, made.head, made.head) & made.tail.compared("oeq", 0.0)
    rounded = made.head.body.chosen(same, 0.0, made.head * REL)
    err = made.head.body.chosen(a.err.compared("oeq", 0.0), rounded, rounded + a.err / made.head)
    return Precise(made, err, either(a.guard, (a.err * 4.0).compared("ugt", a.pair.head)))


def _is_product(made: Pair, x: Value, y: Value) -> Value:
    """Whether a pair is x y, as far as that is known."""
    head, tail = exact_product(x, y)
    known = lost_product(x, y, head).compared("oeq", 0.0)
    return head.compared("oeq", made.head) & tail.compared("oeq", made.tail) & known


def extreme(a: Precise, b: Precise, *, larger: bool) -> Precise:
    which = compared("less", b, a) if larger else compared("less", a, b)
    return select(which, a, b)


# --- integers ---


def to_whole(op: str, a: Precise) -> Precise:
    """floor, ceil, truncate, half_to_even or half_away."""
    low, high = (whole_of(op, *two_sum(a.pair.head, a.pair.tail + err)) for err in ends_of(a))
    differ = low.head.compared("une", high.head) | low.tail.compared("une", high.tail)
    found = Precise(_normal(low.head, low.tail), low.head.lift(0.0), differ)
    off = a._replace(err=a.err + 1.0, guard=None)  # which is little of a large number
    far = a.pair.head.magnitude().compared("oge", 2.0**53)
    return select(Condition(differ & far, None), off, found)._replace(guard=either(a.guard, differ & ~far))


def ends_of(a: Precise) -> tuple[Value, Value]:
    """The bound below and above, with what adding it to the tail may lose."""
    least = a.pair.tail.magnitude() * 2.0**-50  # so that the sum is another number than the tail
    body = least.body
    err = body.chosen(a.err.compared("olt", least) & a.err.compared("une", 0.0), least, a.err) * (1 + 2.0**-50)
    return -err, err


def whole_of(op: str, head: Value, tail: Value) -> Pair:
    """head + tail to an integer."""
    body = head.body
    if op == "truncate":
        return whole_of("ceil", head, tail).where(head.compared("olt", 0.0), whole_of("floor", head, tail))
    whole = rounded_to_whole(op, head)
    if op in ("floor", "ceil"):
        beside, step = ("olt", -1.0) if op == "floor" else ("ogt", 1.0)
        near = body.chosen(whole.compared("oeq", head) & tail.compared(beside, 0.0), whole + step, whole)
    else:
        half = (head - whole).magnitude().compared("oeq", 0.5) & tail.compared("one", 0.0)
        near = body.chosen(half, head + head.lift(0.5).signed_as(tail), whole)
    # from 2^53 on, the head is even, and what is done is done to the tail; NaN where a tail of a half has no such sign
    far = head.magnitude().compared("oge", 2.0**53)
    rest = rounded_to_whole(op, tail)
    if op not in ("floor", "ceil"):
        cut = (tail - rest).magnitude().compared("oeq", 0.5) & head.magnitude().compared("oge", 2.0**52)
        near, rest = body.chosen(cut, math.nan, near), body.chosen(cut, math.nan, rest)
    return Pair(head, rest).where(far, Pair(near, head.lift(0.0)))
