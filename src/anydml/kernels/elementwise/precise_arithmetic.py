"""Arithmetic in twice float64's precision, with absolute bounds, which are 0 in the lanes where nothing was rounded."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import NamedTuple

from anydml.kernels.code.engine import Uncompilable
from anydml.kernels.code.values import Value
from anydml.kernels.elementwise.functions import doubled
from anydml.kernels.elementwise.functions.pairs import Pair, exact_product, two_sum
from anydml.kernels.elementwise.numbers import SLACK, either
from anydml.kernels.elementwise.rounding import rounded_to_whole
from anydml.kernels.elementwise.transcendental import KINDS, STEEP

FAR = 2.0**700
REL = 2.0**-96  # of operations that are no sums: more than `pairs` promises, for what comes after
TINY = 2.0**-40  # below it, the square of an argument is below what is promised of a term
LEAST = 2.0**-300  # above it, the cube of an argument is a normal float64
NEAR = 2.0**-48  # more than the roundings of a term, and what follows it


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
    cross = (x.tail * y.head).magnitude() + (x.head * y.tail).magnitude()
    made = x * y
    if made.head.body.has_fma:
        # without tails, the product of the heads is exact; else the tail is rounded twice, and lacks the product of theirs
        some = cross.compared("une", 0.0)
        rounded = (made.tail.magnitude() + cross * 2.0) * 2.0**-51
        err = made.head.body.chosen(some, rounded, 0.0) + (x.tail * y.tail).magnitude() * 2.0
    else:
        # the product of two numbers of 26 bits has no tail
        long = ((x.head.bits() | y.head.bits()) & ((1 << 27) - 1)).compared("ne", 0)
        err = made.head.body.chosen(long | cross.compared("une", 0.0), made.head.magnitude() * REL, 0.0)
    err = err + (a.err * (y.head.magnitude() * SLACK + b.err) + b.err * x.head.magnitude() * SLACK)
    small = made.head.magnitude().compared("olt", 1 / FAR)
    return Precise(made, err * SLACK, either(a.guard, b.guard, small & made.head.compared("une", 0.0)))


def divide(a: Precise, b: Precise) -> Precise:
    made = a.pair / b.pair
    size, under = made.head.magnitude(), b.pair.head.magnitude()
    rounded = size * REL
    if size.body.has_fma:  # a quotient that is a float64 is known by its product
        head, tail = exact_product(made.head, b.pair.head)
        same = head.compared("oeq", a.pair.head) & tail.compared("oeq", a.pair.tail) & b.pair.tail.compared("oeq", 0.0)
        rounded = size.body.chosen(same & made.tail.compared("oeq", 0.0), 0.0, rounded)
    err = rounded + (a.err + size * b.err) / (under - b.err * 2.0) * SLACK
    return Precise(made, err, either(a.guard, b.guard, (b.err * 4.0).compared("uge", under)))


def root(a: Precise) -> Precise:
    made = a.pair.root()
    err = made.head * REL + a.err / made.head
    return Precise(made, err, either(a.guard, (a.err * 4.0).compared("ugt", a.pair.head)))


def extreme(a: Precise, b: Precise, *, larger: bool) -> Precise:
    which = compared("less", b, a) if larger else compared("less", a, b)
    return select(which, a, b)


def function(op: str, args: list[Precise]) -> Precise:
    kind = KINDS.get(op)
    if kind is None or (op not in doubled.UNARY and op not in doubled.BINARY):
        raise Uncompilable(f"{op} is not compiled in twice float64's precision")
    a, x = args[0], args[0].pair
    found = doubled.UNARY[op](x.head, x.tail) if op in doubled.UNARY else doubled.BINARY[op](x, args[1].pair)
    size = found.head.magnitude()
    far = either(found.guard, ~(size.compared("olt", FAR) & size.compared("ogt", 1 / FAR)), *(arg.guard for arg in args[1:]))
    if op in doubled.BINARY:  # of exact numbers that are not 0
        for arg in args:
            far = either(far, arg.err.compared("une", 0.0), arg.pair.head.compared("oeq", 0.0))
        made = Precise(Pair(found.head, found.tail), size * (found.rel * SLACK), far)
        if op == "pow":
            # ties are common in the least powers alone; other exact powers stay open
            y = args[1].pair
            real = y.tail.compared("une", 0.0) | rounded_to_whole("floor", y.head).compared("une", y.head)
            made = made._replace(guard=either(far, x.head.compared("olt", 0.0) & real))
            square, zero = multiply(a, a), x.head.lift(0.0)
            one = Precise(Pair(x.head.lift(1.0), zero), zero, None)
            for exponent, product in ((0.0, one), (1.0, a), (2.0, square), (3.0, multiply(square, a))):
                made = select(Condition(y.head.compared("oeq", exponent), None), product, made)
        elif a.pair.head.body.has_fma:
            made = _tiny_angle(a, args[1], made)
        return made._replace(guard=either(made.guard, *(arg.guard for arg in args)))
    err = size * (found.rel * SLACK)
    exact = a.err.compared("oeq", 0.0)
    if kind.slope is None:
        made = Precise(Pair(found.head, found.tail), err, either(far, ~exact))
    else:
        slope = kind.slope(x.head, found.head)
        steep = a.err.compared("uge", STEEP) | a.err.compared("uge", x.head.magnitude() * STEEP)
        made = Precise(Pair(found.head, found.tail), err + a.err * slope * 2.0, either(far, steep & ~exact))
    if op in _TINY:
        size = x.head.magnitude()
        tiny = size.compared("olt", TINY) & size.compared("ogt", LEAST)
        made = select(Condition(tiny, None), _TINY[op](a), made)
    return made._replace(guard=either(a.guard, made.guard))


# --- beside a tie: arguments so small that a few terms of a series tell on which side a value is ---


def _odd(third: float) -> Callable[[Precise], Precise]:
    """x + third x^3, of odd functions."""

    def of(a: Precise) -> Precise:
        x = a.pair.head
        cube = x * x * x * third
        err = a.err * 2.0 + (a.pair.tail.magnitude() + cube.magnitude()) * NEAR
        return Precise(Pair(x, a.pair.tail + cube), err, None)

    return of


def _second(first: float, second: float) -> Callable[[Precise], Precise]:
    """first x + second x^2; first is a power of two."""

    def of(a: Precise) -> Precise:
        x, tail = a.pair.head, a.pair.tail * first
        square = x * x * second
        err = a.err * 2.0 + (tail.magnitude() + x * x) * (4 * TINY)
        return Precise(Pair(x * first, tail + square), err, None)

    return of


def _linear(at_zero: float, slope: float) -> Callable[[Precise], Precise]:
    """at_zero + slope x."""

    def of(a: Precise) -> Precise:
        x = a.pair.head
        err = (a.err + a.pair.tail.magnitude()) * 2.0 + x * x
        if slope != 1:
            err = err + x.magnitude() * NEAR
        return Precise(Pair(x.lift(at_zero), x * slope), err, None)

    return of


def _sigmoid(a: Precise) -> Precise:
    """1/2 + x / 4, whose next term is -x^3 / 48."""
    x = a.pair.head
    return Precise(Pair(x.lift(0.5), x * 0.25), a.err + a.pair.tail.magnitude() + x.magnitude() * (x * x), None)


def _tiny_angle(y: Precise, x: Precise, made: Precise) -> Precise:
    """q - q^3 / 3 where q = y / x is a float64, of exact numbers."""
    a, b = y.pair.head, x.pair.head
    q = a / b
    size = q.magnitude()
    tiny = size.compared("olt", TINY) & size.compared("ogt", LEAST) & b.compared("ogt", 0.0)
    tiny = tiny & q.body.fused(-q, b, a).compared("oeq", 0.0)
    cube = q * q * q * (-1 / 3)
    guard = either(y.err.compared("une", 0.0), x.err.compared("une", 0.0))
    tiny = tiny & y.pair.tail.compared("oeq", 0.0) & x.pair.tail.compared("oeq", 0.0)
    return select(Condition(tiny, None), Precise(Pair(q, cube), cube.magnitude() * NEAR, guard), made)


_TINY: Mapping[str, Callable[[Precise], Precise]] = {
    **{op: _odd(third) for op, third in (("sinh", 1 / 6), ("tanh", -1 / 3), ("asinh", -1 / 6), ("atanh", 1 / 3))},
    **{op: _odd(third) for op, third in (("sin", -1 / 6), ("tan", 1 / 3), ("asin", 1 / 6), ("atan", -1 / 3))},
    "expm1": _second(1.0, 0.5),
    "log1p": _second(1.0, -0.5),
    "gelu": _second(0.5, 1 / math.sqrt(2 * math.pi)),
    "exp": _linear(1.0, 1.0),
    "sigmoid": _sigmoid,
    "erfc": _linear(1.0, -2 / math.sqrt(math.pi)),
}


# --- integers ---


def to_whole(op: str, a: Precise) -> Precise:
    """floor, ceil, truncate, half_to_even or half_away."""
    low, high = (_whole(op, *two_sum(a.pair.head, a.pair.tail + err)) for err in ends_of(a))
    differ = low.head.compared("une", high.head) | low.tail.compared("une", high.tail)
    found = Precise(_normal(low.head, low.tail), low.head.lift(0.0), differ)
    off = a._replace(err=a.err + 1.0, guard=None)  # which is little of a large number
    far = a.pair.head.magnitude().compared("oge", 2.0**53)
    return select(Condition(differ & far, None), off, found)._replace(guard=either(a.guard, differ & ~far))


def ends_of(a: Precise) -> tuple[Value, Value]:
    """The bound below and above, with what adding it to the tail may lose."""
    return -a.err * (1 + 2.0**-50), a.err * (1 + 2.0**-50)


def _whole(op: str, head: Value, tail: Value) -> Pair:
    """head + tail to an integer."""
    body = head.body
    if op == "truncate":
        return _whole("ceil", head, tail).where(head.compared("olt", 0.0), _whole("floor", head, tail))
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
