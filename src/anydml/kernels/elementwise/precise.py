"""Formulas in twice float64's precision, for elements that float64's bounds leave undecided, among them ties and zeros.

A value is a pair with an absolute bound, which is 0 in the lanes where nothing was rounded. So ties are certain, and so are
zeros whose sign is known. Very large and very small numbers, infinities and NaN stay undecided, unless `extremes` is set.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from typing import cast

from anydml.kernels.code.engine import Uncompilable
from anydml.kernels.code.values import Body, Kind, Value
from anydml.kernels.elementwise.precise_patterns import between, is_softsign, weighted
from anydml.kernels.match.normal_form import NormalForm
from anydml.kernels.match.scopes import FormWalk, Scopes
from anydml.kernels.numbers import singles
from anydml.kernels.numbers.doubled.arithmetic import (
    FAR,
    NEAR,
    Precise,
    absolute,
    add,
    all_signed,
    compared,
    divide,
    ends_of,
    extreme,
    finite,
    is_zero,
    multiply,
    negative,
    root,
    select,
    subtract,
    to_whole,
    whole_of,
)
from anydml.kernels.numbers.doubled.functions import function
from anydml.kernels.numbers.doubled.levels import softsign
from anydml.kernels.numbers.floats import recorded
from anydml.kernels.numbers.floats.numbers import odd_of
from anydml.kernels.numbers.floats.rounding import rounded_to_whole, saturated
from anydml.kernels.numbers.functions.pairs import Pair, quick_sum, two_sum
from anydml.kernels.numbers.known import whole_power
from anydml.kernels.numbers.lanes import Truth, either
from anydml.schema.node import Constant
from anydml.tensor import DataType, limits


def stored(
    body: Body,
    formula: NormalForm,
    streams: Sequence[Value],
    data_type: DataType,
    lanes: int,
    *,
    integral: bool,
    known: Mapping[int, Precise] | None = None,
    extremes: bool = False,
) -> tuple[Value, Value | None]:
    """The bits of a formula's results, and the lanes that stay undecided; Uncompilable where it has other operations.

    known: results by the nodes' places, which are not computed. extremes: zeros, infinities and NaN are decided, too.
    """
    found = PreciseWalk(body, formula, streams, lanes, known, extremes=extremes).run()
    return finished(found, data_type, integral=integral, extremes=extremes)


class PreciseWalk(FormWalk[Precise | Truth]):
    """The emission of a formula in twice float64's precision; known: results by the nodes' places, which are not computed."""

    def __init__(
        self,
        body: Body,
        nodes: NormalForm,
        streams: Sequence[Value],
        lanes: int,
        known: Mapping[int, Precise] | None = None,
        *,
        extremes: bool = False,
    ) -> None:
        self.body, self.nodes, self.streams, self.lanes = body, nodes, streams, lanes
        self.known, self.extremes = known or {}, extremes
        self.items = Scopes()

    def _item(self, place: int, op: str, args: tuple[int, ...], data: object) -> Precise | Truth:
        if place in self.known:
            return self.known[place]
        operands = [self.item(a) for a in args]
        if op == "div" and is_softsign(self.nodes, place):
            x = operands[0]
            assert isinstance(x, Precise)
            return softsign(x)
        made = item(self.body, op, operands, data, self.streams, self.lanes, extremes=self.extremes)
        if op == "add" and (parts := weighted(self.nodes, place)) is not None:
            return between(made, *map(self.item, parts))
        return made


def finished(x: Precise | Truth, data_type: DataType, *, integral: bool, extremes: bool = False) -> tuple[Value, Value | None]:
    """The bits of a number in the type that stores it, and the lanes that stay undecided."""
    if data_type == DataType.FLOAT64:
        raise Uncompilable(f"{data_type} is not stored in twice float64's precision")
    assert isinstance(x, Precise)
    return _rounded(x, data_type, extremes) if data_type.is_float else _cut(x, data_type, integral)


def _cut(x: Precise, data_type: DataType, integral: bool) -> tuple[Value, Value | None]:
    """The bits of a number truncated to an integer, and the lanes that stay undecided, such as integral ones that wrap."""
    low, high = (int(end) for end in limits(data_type))
    if data_type.element_bits == 64:
        if integral:
            raise Uncompilable("an integer of 64 bits that may wrap is made of real numbers")
        wholes = [whole_of("truncate", *two_sum(x.pair.head, x.pair.tail + err)) for err in ends_of(x)]
        below, above = (_long(whole, low < 0) for whole in wholes)
        return above, either(below.compared("ne", above), x.guard, x.pair.head.compared("uno", x.err), ~finite(x.pair.head))
    whole = to_whole("truncate", x)
    ends = [whole.pair.head + err for err in ends_of(whole)]
    bits = [saturated(end, data_type.element_bits, low, high) for end in ends]
    guard = either(bits[0].compared("ne", bits[1]), whole.guard, ~finite(x.pair.head))
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


def _rounded(x: Precise, data_type: DataType, extremes: bool) -> tuple[Value, Value | None]:
    """The bits of a number in a float type, and the lanes that stay undecided."""
    head, tail = x.pair.head, x.pair.tail
    body, size = head.body, head.magnitude()

    def narrowed(end: Value) -> Value:
        return singles.narrowed(end, data_type)

    inside = size.compared("ogt", 1 / FAR) & size.compared("olt", FAR)
    if body.target.probe is not None:
        return recorded.claimed(head, tail, x.err, either(x.guard, ~inside), data_type.element_bits)
    ends = []
    for err in (-x.err, x.err):
        end = quick_sum(head, tail + err * (1 + 2.0**-50))
        ends.append(odd_of(end.head, end.tail))
    low, high = map(narrowed, ends)
    bounded = x.err.compared("ole", size * 2.0**-20)
    undecided = ~(inside & bounded) | low.compared("ne", high)
    itself = None if x.signed is None else x.signed & is_zero(x)
    near = None
    if extremes:
        # A number so near to a boundary counts as being on it. A pair that is on no boundary is further away: by more than a
        # place of its head, or by its tail.
        whole = tail.compared("oeq", 0.0) | tail.magnitude().compared("ogt", size * 2.0**-900)
        near = inside & whole & x.err.compared("ole", size * NEAR) & size.compared("ogt", 2.0**-160)
        # a number far below the type's least one is stored as 0 with its sign
        smaller = size.compared("olt", 2.0**-200) & (x.err * 2.0).compared("olt", size)
        itself = either(~finite(head), itself, smaller)
    if (known := either(near, itself)) is not None:
        assert itself is not None
        shown = body.chosen(head.compared("uno", head), math.nan, body.chosen(itself, head, odd_of(head, tail)))
        high = body.chosen(known, narrowed(shown), high)
        undecided = undecided & ~known
    return high, either(undecided, x.guard)


def item(
    body: Body,
    op: str,
    args: list[Precise | Truth],
    data: object,
    streams: Sequence[Value],
    lanes: int,
    *,
    extremes: bool = False,
) -> Precise | Truth:
    """The result of an operation."""
    kind = Kind("double", lanes)
    if op == "stream":
        stream, data_type = cast("tuple[int, DataType]", data)
        return _read(streams[stream], data_type, extremes)
    if op == "constant":
        assert isinstance(data, Constant)
        return _constant(body, kind, data, extremes)
    if op == "same":
        return args[0]
    truths, numbers = [a for a in args if isinstance(a, Truth)], [a for a in args if isinstance(a, Precise)]
    if op == "select":
        return select(truths[0], *numbers)
    if op in ("both", "either"):
        return truths[0].joined(op, truths[1])
    if op == "not":
        return ~truths[0]
    if op in ("less", "less_equal", "equal"):
        return compared(op, *numbers)
    if op == "is_nan":
        return Truth(numbers[0].pair.head.compared("uno", 0.0), numbers[0].guard)
    if op in _ARITHMETIC:
        return _ARITHMETIC[op](*numbers)
    if op == "round" and data in singles.SINGLES:
        bits, undecided = _rounded(numbers[0], cast("DataType", data), extremes)
        read = _read(bits, cast("DataType", data), extremes)
        return read._replace(guard=either(read.guard, undecided))
    if op == "limits":
        return _limits(numbers[0], numbers[1], cast("tuple[tuple[str, str], ...]", data)) if extremes else numbers[1]
    if op in ("floor", "ceil", "truncate", "half_to_even", "half_away"):
        whole = to_whole(op, numbers[0])
        # the sign of a 0 is not known
        zero = whole.pair.head.compared("oeq", 0.0)
        return whole._replace(guard=either(whole.guard, zero)) if extremes else whole
    if op == "power" and isinstance(data, int):
        return whole_power(numbers[0], data, multiply)
    return function(op, numbers)


def _limits(x: Precise, made: Precise, values: tuple[tuple[str, str], ...]) -> Precise:
    for name, text in values:
        value = float(text)
        special = not math.isfinite(value) or value == 0
        constant = Constant(value if special else Fraction(value), False)
        limit = _constant(x.err.body, x.err.kind, constant, extremes=True)
        at = x.pair.head.compared("oeq", math.inf if name == "high" else -math.inf)
        made = select(Truth(at, x.guard), limit, made)
    return made


def _read(bits: Value, data_type: DataType, extremes: bool) -> Precise:
    kind = bits.kind
    if data_type in singles.SINGLES:
        single = singles.widened(bits, data_type)
        head = single.converted("fpext", kind.of("double"))
    elif data_type.element_bits <= 32 and data_type.is_integer:
        signed = data_type.dtype.kind == "i"
        wide = bits.converted("sext" if signed else "zext", kind.of("i64"))
        head = wide.converted("sitofp", kind.of("double"))
    elif data_type.element_bits == 64 and data_type.is_integer:
        high = bits.shifted_right(32, signed=data_type.dtype.kind == "i").converted("sitofp", kind.of("double"))
        low = (bits & 0xFFFFFFFF).converted("sitofp", kind.of("double"))
        pair = Pair(*two_sum(high * 2.0**32, low))
        return Precise(pair, low.lift(0.0), None, all_signed(low))
    else:
        raise Uncompilable(f"{data_type} is not read in twice float64's precision")
    zero = head.lift(0.0)
    return Precise(Pair(head, zero), zero, None if extremes else ~finite(head), all_signed(head))


def _constant(body: Body, kind: Kind, c: Constant, extremes: bool) -> Precise:
    if not isinstance(c.value, Fraction):
        if not extremes:
            raise Uncompilable("a constant that is no number")
        zero = body.constant(kind, 0.0)
        return Precise(Pair(body.constant(kind, float(c.value)), zero), zero, None, all_signed(zero))
    head = float(c.value)
    tail = float(c.value - Fraction(head))
    exact = Fraction(head) + Fraction(tail) == c.value
    err = 0.0 if exact else abs(head) * 2.0**-105
    pair = Pair(body.constant(kind, head), body.constant(kind, tail))
    return Precise(pair, body.constant(kind, err), None, all_signed(pair.head))


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
