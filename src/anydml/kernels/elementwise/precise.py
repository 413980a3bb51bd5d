"""Formulas in twice float64's precision: what float64's bounds leave open, ties and zeros among it.

A value is a pair and an absolute bound, which is 0 in the lanes where nothing was rounded; so a tie is known as one. Zeros,
infinities, NaN and what lies far out stay open.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from typing import NamedTuple, cast

from anydml.kernels.code.engine import Uncompilable
from anydml.kernels.code.values import Body, Kind, Value
from anydml.kernels.elementwise import halves
from anydml.kernels.elementwise.functions import doubled
from anydml.kernels.elementwise.functions.pairs import Pair, quick_sum, two_sum
from anydml.kernels.elementwise.numbers import SLACK, either, odd_of
from anydml.kernels.elementwise.transcendental import KINDS, STEEP
from anydml.kernels.match.maps import Formula
from anydml.schema.expression import Constant
from anydml.tensor import DataType

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


def stored(
    body: Body, formula: Formula, streams: Sequence[Value], data_type: DataType, lanes: int
) -> tuple[Value, Value | None]:
    """The bits of what a formula gives, and the lanes that stay open; Uncompilable where it has other operations."""
    if data_type not in (DataType.FLOAT32, DataType.FLOAT16):
        raise Uncompilable("no float is stored")
    items: list[Precise | Condition] = []
    for op, args, data in formula:
        items.append(_item(body, op, [items[a] for a in args], data, streams, lanes))
    x = items[-1]
    assert isinstance(x, Precise)
    return _rounded(x, data_type)


def _rounded(x: Precise, data_type: DataType) -> tuple[Value, Value | None]:
    """The bits of a number in a float type, and the lanes that stay open."""
    head, tail = x.pair.head, x.pair.tail
    size = head.magnitude()
    inside = size.compared("ogt", 1 / FAR) & size.compared("olt", FAR)
    ends = []
    for err in (-x.err, x.err):
        end = quick_sum(head, tail + err * (1 + 2.0**-50))
        ends.append(odd_of(end.head, end.tail))
    if data_type == DataType.FLOAT16:
        low, high = (halves.narrowed(halves.odd_single(end)) for end in ends)
    else:
        low, high = (end.converted("fptrunc", end.kind.of("float")).bits() for end in ends)
    bounded = x.err.compared("ole", size * 2.0**-40)
    return high, either(~(inside & bounded), low.compared("ne", high), x.guard)


def _item(
    body: Body, op: str, args: list[Precise | Condition], data: object, streams: Sequence[Value], lanes: int
) -> Precise | Condition:
    kind = Kind("double", lanes)
    if op == "stream":
        stream, data_type = cast("tuple[int, DataType]", data)
        return _read(streams[stream], data_type)
    if op == "constant":
        assert isinstance(data, Constant)
        return _constant(body, kind, data)
    if op == "same":
        return args[0]
    if op == "select":
        condition, one, two = args
        assert isinstance(condition, Condition)
        assert isinstance(one, Precise)
        assert isinstance(two, Precise)
        return _select(condition, one, two)
    if op in ("both", "either"):
        a, b = args
        assert isinstance(a, Condition)
        assert isinstance(b, Condition)
        return Condition(a.mask & b.mask if op == "both" else a.mask | b.mask, either(a.guard, b.guard))
    if op == "not":
        (a,) = args
        assert isinstance(a, Condition)
        return Condition(~a.mask, a.guard)
    numbers = [a for a in args if isinstance(a, Precise)]
    if op in ("less", "less_equal", "equal"):
        return _compared(op, *numbers)
    if op == "is_nan":
        return Condition(body.constant(kind.of("i1"), False), numbers[0].guard)
    if op in _ARITHMETIC:
        return _ARITHMETIC[op](*numbers)
    if op == "round" and data in (DataType.FLOAT32, DataType.FLOAT16):
        bits, open_ = _rounded(numbers[0], cast("DataType", data))
        read = _read(bits, cast("DataType", data))
        return read._replace(guard=either(read.guard, open_))
    if op == "limits":
        return numbers[1]  # infinite ones stay open
    if op == "power" and isinstance(data, int) and data >= 1:
        made = numbers[0]
        for _ in range(data - 1):
            made = _multiply(made, numbers[0])
        return made
    return _function(op, numbers)


def _read(bits: Value, data_type: DataType) -> Precise:
    kind = bits.kind
    if data_type in (DataType.FLOAT32, DataType.FLOAT16):
        single = bits.cast(kind.of("float")) if data_type == DataType.FLOAT32 else halves.widened(bits)
        head = single.converted("fpext", kind.of("double"))
    elif data_type.element_bits <= 32 and data_type.dtype.kind in "iu":
        signed = data_type.dtype.kind == "i"
        wide = bits.converted("sext" if signed else "zext", kind.of("i64"))
        head = wide.converted("sitofp", kind.of("double"))
    else:
        raise Uncompilable(f"{data_type} is not read in twice float64's precision")
    zero = head.lift(0.0)
    return Precise(Pair(head, zero), zero, ~head.magnitude().compared("olt", math.inf))


def _constant(body: Body, kind: Kind, c: Constant) -> Precise:
    if not isinstance(c.value, Fraction):
        raise Uncompilable("a constant that is no number")
    head = float(c.value)
    tail = float(c.value - Fraction(head))
    exact = Fraction(head) + Fraction(tail) == c.value
    err = 0.0 if exact else abs(head) * 2.0**-105
    return Precise(Pair(body.constant(kind, head), body.constant(kind, tail)), body.constant(kind, err), None)


def _select(condition: Condition, a: Precise, b: Precise) -> Precise:
    mask = condition.mask
    guards = [condition.guard, a.guard and a.guard & mask, b.guard and b.guard & ~mask]
    return Precise(a.pair.where(mask, b.pair), mask.body.chosen(mask, a.err, b.err), either(*guards))


def _compared(op: str, a: Precise, b: Precise) -> Condition:
    difference = _add(a, _negative(b))
    d = difference.pair.head  # its sign is that of the sum; 0 only if that is
    how = {"less": "olt", "less_equal": "ole", "equal": "oeq"}[op]
    near = d.magnitude().compared("ule", difference.err) & difference.err.compared("une", 0.0)
    return Condition(d.compared(how, 0.0), either(difference.guard, near))


def _negative(a: Precise) -> Precise:
    return Precise(-a.pair, a.err, a.guard)


def _absolute(a: Precise) -> Precise:
    return Precise(a.pair.magnitude(), a.err, a.guard)


def _add(a: Precise, b: Precise) -> Precise:
    head, tail = two_sum(a.pair.head, b.pair.head)
    tails, lost = two_sum(a.pair.tail, b.pair.tail)
    low, lost_too = two_sum(tail, tails)
    err = (a.err + b.err + (lost.magnitude() + lost_too.magnitude())) * SLACK
    return Precise(_normal(head, low), err, either(a.guard, b.guard))


def _normal(head: Value, tail: Value) -> Pair:
    """head + tail, where either may be the larger after cancellation."""
    return Pair(*two_sum(head, tail))


def _subtract(a: Precise, b: Precise) -> Precise:
    return _add(a, _negative(b))


def _multiply(a: Precise, b: Precise) -> Precise:
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


def _divide(a: Precise, b: Precise) -> Precise:
    made = a.pair / b.pair
    size, under = made.head.magnitude(), b.pair.head.magnitude()
    err = size * REL + (a.err + size * b.err) / (under - b.err * 2.0) * SLACK
    return Precise(made, err, either(a.guard, b.guard, (b.err * 4.0).compared("uge", under)))


def _root(a: Precise) -> Precise:
    made = a.pair.root()
    err = made.head * REL + a.err / made.head
    return Precise(made, err, either(a.guard, (a.err * 4.0).compared("ugt", a.pair.head)))


def _extreme(a: Precise, b: Precise, *, larger: bool) -> Precise:
    which = _compared("less", b, a) if larger else _compared("less", a, b)
    return _select(which, a, b)


def _function(op: str, args: list[Precise]) -> Precise:
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
            # ties are common in squares alone; other exact powers stay open
            made = made._replace(guard=either(far, x.head.compared("olt", 0.0)))
            two = args[1].pair.head.compared("oeq", 2.0)
            made = _select(Condition(two, None), _multiply(a, a), made)
        return made._replace(guard=either(made.guard, *(arg.guard for arg in args)))
    err = size * (found.rel * SLACK)
    exact = a.err.compared("oeq", 0.0)
    if kind.slope is None:
        return Precise(Pair(found.head, found.tail), err, either(a.guard, far, ~exact))
    slope = kind.slope(x.head, found.head)
    steep = a.err.compared("uge", STEEP) | a.err.compared("uge", x.head.magnitude() * STEEP)
    err = err + a.err * slope * 2.0
    return Precise(Pair(found.head, found.tail), err, either(a.guard, far, steep & ~exact))


_ARITHMETIC: Mapping[str, Callable[..., Precise]] = {
    "add": _add,
    "sub": _subtract,
    "mul": _multiply,
    "div": _divide,
    "neg": _negative,
    "absolute": _absolute,
    "sqrt": _root,
    "max": lambda a, b: _extreme(a, b, larger=True),
    "min": lambda a, b: _extreme(a, b, larger=False),
}
