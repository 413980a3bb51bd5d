"""Arithmetic in twice float64's precision, with absolute bounds that are 0 in the lanes where nothing was rounded."""

from __future__ import annotations

import math
from typing import NamedTuple

from anydml.kernels.code.values import Value
from anydml.kernels.numbers.floats.numbers import SLACK
from anydml.kernels.numbers.floats.rounding import rounded_to_whole
from anydml.kernels.numbers.functions.pairs import Pair, exact_product, lost_product, quick_sum, two_sum
from anydml.kernels.numbers.lanes import Truth, either

FAR = 2.0**700
NEAR = 2.0**-1026  # half of the ratio at which a sum counts as 0 beside its operands; the other half is for roundings
SMALL = 2.0**-900  # from here on down, the parts of products and quotients may have lost digits
LEAST_BOUND = 2.0**-1070  # for products rounded below the normal float64, and for products with a bounded factor
REL = 2.0**-96  # the error of quotients and roots: more than `pairs` states, which leaves room for later operations


class Precise(NamedTuple):
    """|pair - t| <= err; guard: the undecided lanes. signed: the lanes where a 0 has the right sign; None: nowhere.

    A zero whose bound is 0, an infinity and NaN are exact.
    """

    pair: Pair
    err: Value
    guard: Value | None
    signed: Value | None = None


def select(condition: Truth, a: Precise, b: Precise) -> Precise:
    mask, guard = condition.mask, condition.guards(a.guard, b.guard)
    signed = Truth(mask).guards(a.signed, b.signed)
    return Precise(a.pair.where(mask, b.pair), mask.body.chosen(mask, a.err, b.err), guard, signed)


def compared(op: str, a: Precise, b: Precise) -> Truth:
    difference = add(a, negative(b))
    d = difference.pair.head  # it has the sign of the sum, and is 0 only if the sum is
    how = {"less": "olt", "less_equal": "ole", "equal": "oeq"}[op]
    mask = d.compared(how, 0.0)
    same = ~finite(a.pair.head) & ~finite(b.pair.head)  # the difference of equal infinities is NaN
    mask = (mask & ~same) | (a.pair.head.compared(how, b.pair.head) & same)
    return Truth(mask, either(difference.guard, unsigned(difference)))


def negative(a: Precise) -> Precise:
    return Precise(-a.pair, a.err, a.guard, a.signed)


def absolute(a: Precise) -> Precise:
    return Precise(a.pair.magnitude(), a.err, a.guard, a.signed)


def add(a: Precise, b: Precise) -> Precise:
    head, tail = two_sum(a.pair.head, b.pair.head)
    tails, lost = two_sum(a.pair.tail, b.pair.tail)
    low, lost_too = two_sum(tail, tails)
    err = (a.err + b.err + (lost.magnitude() + lost_too.magnitude())) * SLACK
    made = with_sign(head, low)
    # a sum that small beside the larger operand counts as 0
    one, two = a.pair.head.magnitude(), b.pair.head.magnitude()
    larger = head.body.chosen(one.compared("ogt", two), one, two)
    nothing = (made.head.magnitude() + err).compared("ole", larger * NEAR) & err.compared("une", 0.0)
    made = made.where(~nothing, 0.0)
    err = head.body.chosen(nothing, 0.0, err)
    return _or_infinite(Precise(made, err, either(a.guard, b.guard), _sum_signed(a, b)), head)


def with_sign(head: Value, tail: Value) -> Pair:
    """head + tail, where either may be larger after cancellation; if the tail is 0, the head with its sign."""
    found, left = two_sum(head, tail)
    return Pair(head.body.chosen(tail.compared("oeq", 0.0), head, found), left)


def _sum_signed(a: Precise, b: Precise) -> Value | None:
    """The lanes where a sum of 0 has the right sign: numbers that cancel give +0, and so does +0 plus any 0."""
    if a.signed is None or b.signed is None:
        return None
    known = a.signed & b.signed
    for x in (a, b):
        assert x.signed is not None
        known = known | x.pair.head.compared("une", 0.0) | (x.signed & x.pair.head.bits().compared("eq", 0))
    return known


def _certain(a: Precise) -> Value:
    """The lanes where the sign of a nonzero number is known."""
    return a.err.compared("oeq", 0.0) | (a.err * 2.0).compared("olt", a.pair.head.magnitude())


def all_signed(x: Value) -> Value:
    """All lanes: a 0 that was read has its sign."""
    return x.body.constant(x.kind.of("i1"), True)


def finite(x: Value) -> Value:
    """The lanes that are neither infinite nor NaN."""
    return x.magnitude().compared("olt", math.inf)


def _or_infinite(a: Precise, head: Value) -> Precise:
    """The result of an operation, or its head where that is infinite or NaN because of the operands."""
    within = finite(head)
    pair = Pair(head, head.lift(0.0)).where(~within, a.pair)
    return a._replace(pair=pair, err=head.body.chosen(within, a.err, 0.0))


def is_zero(a: Precise) -> Value:
    """The lanes that are certainly 0."""
    return a.pair.head.compared("oeq", 0.0) & a.err.compared("oeq", 0.0)


def unsigned(a: Precise) -> Value:
    """The lanes where the bound leaves the sign undecided."""
    return a.pair.head.magnitude().compared("ule", a.err) & a.err.compared("une", 0.0)


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
    # products of tails below the normal float64 may have lost digits, or all of them: 2^-1075 each
    some = [tail.compared("une", 0.0) for tail in (x.tail, y.tail)]
    tiny = (some[0] & first.magnitude().compared("olt", SMALL)) | (some[1] & second.magnitude().compared("olt", SMALL))
    tiny = tiny | (some[0] & some[1] & last.compared("olt", SMALL))
    err = err + last * 2.0 + head.body.chosen(tiny, LEAST_BOUND, head.lift(0.0))
    off = a.err * (y.head.magnitude() * SLACK + b.err) + b.err * x.head.magnitude() * SLACK
    # a bound that is not 0 must not become 0
    body, inexact = head.body, a.err.compared("une", 0.0) | b.err.compared("une", 0.0)
    err = (err + off + body.chosen(off.compared("olt", SMALL) & inexact, off.lift(LEAST_BOUND), 0.0)) * SLACK
    zero = is_zero(a) | is_zero(b)
    err = body.chosen(zero, 0.0, err)
    made = Pair(body.chosen(low.compared("oeq", 0.0) | zero, head, made.head), made.tail)
    small = made.head.magnitude().compared("olt", 1 / FAR) & ~zero
    err = body.chosen(small & err.compared("olt", LEAST_BOUND), LEAST_BOUND, err)
    beyond = ~finite(head) & (finite(x.head) & finite(y.head) | unsigned(a) | unsigned(b))
    signed = None
    if a.signed is not None and b.signed is not None:  # a product of 0 has the sign of both factors
        signed = a.signed & b.signed & _certain(a) & _certain(b)
    return _or_infinite(Precise(made, err, either(a.guard, b.guard, beyond), signed), head)


def divide(a: Precise, b: Precise) -> Precise:
    made = a.pair / b.pair
    size, under = made.head.magnitude(), b.pair.head.magnitude()
    same = _is_product(a.pair, made.head, b.pair.head) & b.pair.tail.compared("oeq", 0.0) & made.tail.compared("oeq", 0.0)
    few = (a.pair.head.magnitude().compared("olt", SMALL) | size.compared("olt", SMALL)) & a.pair.head.compared("une", 0.0)
    rounded = size.body.chosen(same & ~few, 0.0, size * REL)
    off = (a.err + size * b.err) / (under - b.err * 2.0) * SLACK
    # a bound that is not 0 must not become 0, and digits are lost below the normal float64
    few = few | (off.compared("olt", LEAST_BOUND) & (a.err.compared("une", 0.0) | b.err.compared("une", 0.0)))
    err = rounded + off + size.body.chosen(few, size.lift(LEAST_BOUND) / under + LEAST_BOUND, 0.0)
    none = b.pair.head.compared("uno", 0.0)
    zero, special = is_zero(a), none | ~finite(a.pair.head)  # 0 / b for a nonzero b
    made = Pair(a.pair.head / b.pair.head, made.tail.lift(0.0)).where(zero | special, made)
    guard = (~finite(b.pair.head) | (b.err * 4.0).compared("uge", under)) & ~none
    signed = a.signed and a.signed & zero
    return Precise(made, size.body.chosen(zero | special, 0.0, err), either(a.guard, b.guard, guard), signed)


def root(a: Precise) -> Precise:
    made = a.pair.root()
    same = _is_product(a.pair, made.head, made.head) & made.tail.compared("oeq", 0.0)
    few = a.pair.head.compared("olt", SMALL) & a.pair.head.compared("une", 0.0)  # the square of the root has lost digits
    rounded = made.head * REL + made.head.body.chosen(few, made.head.lift(LEAST_BOUND) / made.head, 0.0)
    rounded = made.head.body.chosen(same & ~few, 0.0, rounded)
    err = made.head.body.chosen(a.err.compared("oeq", 0.0), rounded, rounded + a.err / made.head)
    made = a.pair.where(is_zero(a), made)
    guard = either(a.guard, ~finite(a.pair.head), (a.err * 4.0).compared("ugt", a.pair.head))
    return Precise(made, err, guard, a.signed)


def _is_product(made: Pair, x: Value, y: Value) -> Value:
    """Whether a pair certainly equals x y."""
    head, tail = exact_product(x, y)
    known = lost_product(x, y, head).compared("oeq", 0.0)
    return head.compared("oeq", made.head) & tail.compared("oeq", made.tail) & known


def extreme(a: Precise, b: Precise, *, larger: bool) -> Precise:
    which = compared("less", b, a) if larger else compared("less", a, b)
    found = select(which, a, b)
    x, y = a.pair.head, b.pair.head
    signs = x.bits() & y.bits() if larger else x.bits() | y.bits()
    zeros = is_zero(a) & is_zero(b)  # -0 is less than +0
    head = x.body.chosen(zeros, signs.cast(x.kind), found.pair.head)
    head = x.body.chosen(x.compared("uno", y), math.nan, head)
    signed = (
        None if a.signed is None or b.signed is None or found.signed is None else a.signed & b.signed | (found.signed & ~zeros)
    )
    return _or_infinite(found._replace(pair=Pair(head, found.pair.tail), signed=signed), head)


# --- integers ---


def to_whole(op: str, a: Precise) -> Precise:
    """A number rounded to an integer; op: floor, ceil, truncate, half_to_even or half_away."""
    low, high = (whole_of(op, *two_sum(a.pair.head, a.pair.tail + err)) for err in ends_of(a))
    differ = low.head.compared("une", high.head) | low.tail.compared("une", high.tail)
    found = Precise(with_sign(low.head, low.tail), low.head.lift(0.0), differ)
    off = a._replace(err=(a.err + 1.0) * SLACK, guard=None)  # 1 is small compared to a number that large
    far = a.pair.head.magnitude().compared("oge", 2.0**53)
    guard = either(a.guard, differ & ~far, ~finite(a.pair.head))
    return select(Truth(differ & far), off, found)._replace(guard=guard)


def ends_of(a: Precise) -> tuple[Value, Value]:
    """The bound below and above, enlarged by the possible error of adding it to the tail."""
    least = a.pair.tail.magnitude() * 2.0**-50  # makes the sum differ from the tail
    body = least.body
    err = body.chosen(a.err.compared("olt", least) & a.err.compared("une", 0.0), least, a.err) * (1 + 2.0**-50)
    return -err, err


def whole_of(op: str, head: Value, tail: Value) -> Pair:
    """head + tail rounded to an integer."""
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
    # from 2^53 on, the head is even, so only the tail is rounded; NaN if the tail has an undecided half
    far = head.magnitude().compared("oge", 2.0**53)
    rest = rounded_to_whole(op, tail)
    if op not in ("floor", "ceil"):
        cut = (tail - rest).magnitude().compared("oeq", 0.5) & head.magnitude().compared("oge", 2.0**52)
        near, rest = body.chosen(cut, math.nan, near), body.chosen(cut, math.nan, rest)
    return Pair(head, rest).where(far, Pair(near, head.lift(0.0)))
