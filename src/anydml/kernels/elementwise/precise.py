"""Formulas in twice float64's precision: what float64's bounds leave open, ties and zeros among it.

A value is a pair and an absolute bound, which is 0 in the lanes where nothing was rounded; so a tie is known as one. Zeros,
infinities, NaN and what lies far out stay open.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from typing import cast

from anydml.kernels.code.engine import Uncompilable
from anydml.kernels.code.values import Body, Kind, Value
from anydml.kernels.elementwise import halves
from anydml.kernels.elementwise.functions.pairs import Pair, quick_sum, two_sum
from anydml.kernels.elementwise.numbers import either, odd_of
from anydml.kernels.elementwise.precise_arithmetic import (
    FAR,
    Condition,
    Precise,
    absolute,
    add,
    compared,
    divide,
    ends_of,
    extreme,
    multiply,
    negative,
    root,
    select,
    subtract,
    to_whole,
    whole_of,
)
from anydml.kernels.elementwise.precise_functions import function
from anydml.kernels.elementwise.rounding import rounded_to_whole, saturated
from anydml.kernels.match.maps import Formula
from anydml.schema.node import Constant
from anydml.tensor import DataType, limits


def stored(
    body: Body,
    formula: Formula,
    streams: Sequence[Value],
    data_type: DataType,
    lanes: int,
    *,
    integral: bool,
    known: Mapping[int, Precise] | None = None,
) -> tuple[Value, Value | None]:
    """The bits of what a formula gives, and the lanes that stay open; Uncompilable where it has other operations.

    known: nodes by their places, which are not computed.
    """
    return finished(computed(body, formula, streams, lanes, known or {}), data_type, integral=integral)


def computed(body: Body, formula: Formula, streams: Sequence[Value], lanes: int, known: Mapping[int, Precise]) -> Precise:
    """The result of a formula; known: nodes by their places, which are not computed."""
    items: list[Precise | Condition] = []
    for place, (op, args, data) in enumerate(formula):
        if place in known:
            items.append(known[place])
        else:
            items.append(item(body, op, [items[a] for a in args], data, streams, lanes))
    x = items[-1]
    assert isinstance(x, Precise)
    return x


def finished(x: Precise | Condition, data_type: DataType, *, integral: bool) -> tuple[Value, Value | None]:
    """The bits of a number in the type that stores it, and the lanes that stay open."""
    if data_type == DataType.FLOAT64:
        raise Uncompilable(f"{data_type} is not stored in twice float64's precision")
    assert isinstance(x, Precise)
    return _rounded(x, data_type) if data_type.dtype.kind == "f" else _cut(x, data_type, integral)


def _cut(x: Precise, data_type: DataType, integral: bool) -> tuple[Value, Value | None]:
    """The bits of a number that is cut to an integer, and the lanes that stay open: of an integral one, where it wraps."""
    low, high = (int(end) for end in limits(data_type))
    if data_type.element_bits == 64:
        if integral:
            raise Uncompilable("an integer of 64 bits that may wrap is made of real numbers")
        wholes = [whole_of("truncate", *two_sum(x.pair.head, x.pair.tail + err)) for err in ends_of(x)]
        below, above = (_long(whole, low < 0) for whole in wholes)
        return above, either(below.compared("ne", above), x.guard, x.pair.head.compared("uno", x.err))
    whole = to_whole("truncate", x)
    ends = [whole.pair.head + err for err in ends_of(whole)]
    bits = [saturated(end, data_type.element_bits, low, high) for end in ends]
    guard = either(bits[0].compared("ne", bits[1]), whole.guard)
    if integral:
        guard = either(guard, ends[0].compared("ult", float(low)), ends[1].compared("ugt", float(high)))
    return bits[1], guard


def _long(whole: Pair, signed: bool) -> Value:
    """An integer as one of 64 bits, saturated; anything for NaN."""
    body, head, tail = whole.head.body, whole.head, whole.tail
    low, high = (-(2.0**63), 2.0**63) if signed else (0.0, 2.0**64)
    above = head.compared("ogt", high) | (head.compared("oeq", high) & tail.compared("oge", 0.0))
    inside = head.compared("ogt", low) | (head.compared("oeq", low) & tail.compared("oge", 0.0))
    inside = inside & ~above
    head, tail = (body.chosen(inside, part, 0.0) for part in (head, tail))
    word = head.kind.integer
    upper = rounded_to_whole("floor", head * 2.0**-32)
    lower = head - upper * 2.0**32
    found = (upper.converted("fptosi", word) << 32) + lower.converted("fptosi", word) + tail.converted("fptosi", word)
    least, most = (-(1 << 63), (1 << 63) - 1) if signed else (0, -1)
    return body.chosen(inside, found, body.chosen(above, body.constant(word, most), least))


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


def item(
    body: Body, op: str, args: list[Precise | Condition], data: object, streams: Sequence[Value], lanes: int
) -> Precise | Condition:
    """The result of an operation."""
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
        return select(condition, one, two)
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
        return compared(op, *numbers)
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
    if op in ("floor", "ceil", "truncate", "half_to_even", "half_away"):
        return to_whole(op, numbers[0])
    if op == "power" and isinstance(data, int) and data >= 1:
        made = numbers[0]
        for _ in range(data - 1):
            made = multiply(made, numbers[0])
        return made
    return function(op, numbers)


def _read(bits: Value, data_type: DataType) -> Precise:
    kind = bits.kind
    if data_type in (DataType.FLOAT32, DataType.FLOAT16):
        single = bits.cast(kind.of("float")) if data_type == DataType.FLOAT32 else halves.widened(bits)
        head = single.converted("fpext", kind.of("double"))
    elif data_type.element_bits <= 32 and data_type.dtype.kind in "iu":
        signed = data_type.dtype.kind == "i"
        wide = bits.converted("sext" if signed else "zext", kind.of("i64"))
        head = wide.converted("sitofp", kind.of("double"))
    elif data_type.element_bits == 64 and data_type.dtype.kind in "iu":
        high = bits.shifted_right(32, signed=data_type.dtype.kind == "i").converted("sitofp", kind.of("double"))
        low = (bits & 0xFFFFFFFF).converted("sitofp", kind.of("double"))
        pair = Pair(*two_sum(high * 2.0**32, low))
        return Precise(pair, low.lift(0.0), None)
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


_ARITHMETIC: Mapping[str, Callable[..., Precise]] = {
    "add": add,
    "sub": subtract,
    "mul": multiply,
    "div": divide,
    "neg": negative,
    "absolute": absolute,
    "sqrt": root,
    "max": lambda a, b: extreme(a, b, larger=True),
    "min": lambda a, b: extreme(a, b, larger=False),
}
