"""Accumulators of the largest or smallest element, and of the position of the first one."""

from __future__ import annotations

import math
from dataclasses import replace

from anydml.kernels.code.engine import Uncompilable
from anydml.kernels.code.values import Body, Kind, Value, part
from anydml.kernels.elementwise.items import Item
from anydml.kernels.numbers.floats import numbers
from anydml.kernels.numbers.floats.numbers import Number
from anydml.kernels.numbers.known import known_integer
from anydml.kernels.numbers.wholes import WholeNumber
from anydml.kernels.reduce.accumulator import Accumulator, masked

INFINITE = 0x7F80_0000  # the bits of float32's infinity; `_ordered` makes those of -infinity the complement of this


class RowExtreme(Accumulator):
    """The largest or smallest of numbers that are exact in float32 or float64, or of integers.

    keyed: float32 numbers are compared as integers of the same order, with -0 below +0 and NaN on the side that wins: this
    takes one instruction, where x86 takes six for floats.
    """

    def __init__(self, body: Body, lanes: int, term: Item, which: str) -> None:
        super().__init__(body, lanes)
        self.term, self.which, self.keyed, self.plain = term, which, False, False
        if isinstance(term, WholeNumber):
            kind = term.exactly().value.kind
            end = term.low if which == "max" else term.high
            self.starts = [body.constant(kind, end - (1 << kind.bits) if term.low >= 0 and end >> (kind.bits - 1) else end)]
            return
        assert isinstance(term, Number)
        if not term.exact or term.guard is not None:
            raise Uncompilable("the extreme of numbers that are rounded inside")
        kind = Kind("float" if term.single is not None else "double", lanes)
        self.floating = body.constant(kind, -math.inf if which == "max" else math.inf)
        self.keyed = term.single is not None and body.target.architecture == "x86"
        self.starts = [
            body.constant(kind.integer, -INFINITE - 1 if which == "max" else INFINITE) if self.keyed else self.floating
        ]

    def be_plain(self) -> None:
        """NaN need not be found, and zeros need not be told apart."""
        self.keyed, self.plain, self.starts = False, True, [self.floating]

    def step(self, values: list[Value], term: Item, active: Value | None, at: Value) -> list[Value]:
        assert isinstance(term, (WholeNumber, Number))
        x = term.value if isinstance(term, WholeNumber) else term.single if term.single is not None else term.wide()
        if self.keyed:
            x = self.body.chosen(x.compared("ord", x), _ordered(x.bits()), (1 << 31) - 1 if self.which == "max" else -(1 << 31))
        return self.merged(values, [masked(active, x, part(self.starts[0], 0, 1, self.lanes) if active is not None else x)])

    def merged(self, a: list[Value], b: list[Value]) -> list[Value]:
        x, y = a[0], b[0]
        if isinstance(self.term, WholeNumber) or self.keyed:
            signed = self.keyed or (isinstance(self.term, WholeNumber) and self.term.low < 0)
            how = ("s" if signed else "u") + ("gt" if self.which == "max" else "lt")
            return [self.body.chosen(x.compared(how, y), x, y)]
        if self.plain:
            return [self.body.chosen(y.compared("ogt" if self.which == "max" else "olt", x), y, x)]
        return [self.body.intrinsic("maximum" if self.which == "max" else "minimum", x, y)]

    def result(self, values: list[Value]) -> Item:
        x, term = values[0], self.term
        if isinstance(term, WholeNumber):
            return WholeNumber(x, term.known)
        assert isinstance(term, Number)
        if term.single is not None:
            single = _ordered(x).cast(x.kind.of("float")) if self.keyed else x
            return numbers.of_single(single, term.known)
        return replace(term, wide=lambda: x, odd=None, native=None)


def _ordered(bits: Value) -> Value:
    """The bits of float32 numbers as integers in the same order; the function is its own inverse."""
    return bits ^ (bits.shifted_right(31, signed=True) & ((1 << 31) - 1))


class First(Accumulator):
    """The position of the first (or last) NaN, else of the largest or smallest element; -1 before any."""

    def __init__(self, body: Body, lanes: int, term: Item, which: str, *, last: bool) -> None:
        super().__init__(body, lanes)
        self.which, self.last, self.term = which, last, term
        if isinstance(term, Number) and (not term.exact or term.guard is not None):
            raise Uncompilable("the place of an extreme of numbers that are rounded inside")
        self.starts = [body.constant(self._key(term).kind, 0), body.constant(Kind("i64", lanes), -1)]

    @staticmethod
    def _key(term: Item) -> Value:
        if isinstance(term, WholeNumber):
            return term.exactly().value
        assert isinstance(term, Number)
        return term.single if term.single is not None else term.wide()

    def step(self, values: list[Value], term: Item, active: Value | None, at: Value) -> list[Value]:
        x = self._key(term)
        better = self._beats(x, values[0], equal=self.last) | values[1].compared("slt", 0)
        if active is not None:
            better = better & active
        return [self.body.chosen(better, x, values[0]), self.body.chosen(better, at, values[1])]

    def _beats(self, x: Value, y: Value, *, equal: bool) -> Value:
        if isinstance(self.term, WholeNumber):
            sign = "s" if self.term.low < 0 else "u"
            return x.compared(sign + ("g" if self.which == "largest" else "l") + ("e" if equal else "t"), y)
        better = x.compared(("og" if self.which == "largest" else "ol") + ("e" if equal else "t"), y)
        none = x.compared("uno", x)
        return better | (none if equal else none & y.compared("ord", y))

    def merged(self, a: list[Value], b: list[Value]) -> list[Value]:
        x, y = a[0], b[0]
        equal = ~self._beats(x, y, equal=False) & ~self._beats(y, x, equal=False)
        earlier = b[1].compared("sgt" if self.last else "slt", a[1])
        better = (self._beats(y, x, equal=False) | (equal & earlier)) & b[1].compared("sge", 0)
        better = better | a[1].compared("slt", 0)
        return [self.body.chosen(better, y, x), self.body.chosen(better, b[1], a[1])]

    def result(self, values: list[Value]) -> Item:
        return WholeNumber(values[1], known_integer(0, (1 << 62) - 1))
