"""Vectors of a plane that are summed again, with bounds of their own: sums of the terms' magnitudes.

These decide zeros, and elements that are small compared to others of the band. The kernel also tests whether an addition has
rounded; this decides ties of exact sums, as in windows where most elements equal a limit. What stays undecided is listed.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from anydml.kernels.code.values import Body, Kind, Value
from anydml.kernels.contract.floats.formula import bounded, stored
from anydml.kernels.contract.floats.largest import below
from anydml.kernels.contract.floats.reads import Reader, single

if TYPE_CHECKING:
    from anydml.kernels.contract.floats.planes.seen import FilterKey
    from anydml.kernels.contract.floats.planes.strips import Filter

WIDE = Kind("double")


class Careful:
    """Sums of a plane, a vector at a time. ways: for each column of the filter, as in `kernel`; a, b: the addresses of the
    plane's factors, and of its line 0."""

    def __init__(
        self, body: Body, kinds: FilterKey, ways: Sequence[tuple[str, str, str]], filter_: Filter, lanes: int, a: str, b: str
    ) -> None:
        self.body, self.kinds, self.ways, self.filter, self.lanes, self.a, self.b = body, kinds, ways, filter_, lanes, a, b
        self.reader = Reader(body, kinds.b, kinds.across, lanes)

    def vector(self, y: str, x: str) -> tuple[Value, Value]:
        """The elements of a vector that begins at line y, column x, and the undecided lanes."""
        body, kinds, lanes = self.body, self.kinds, self.lanes
        wide = Kind("double", lanes)
        start = body.splat(self.filter.start, lanes)
        offset = body.op(f"mul i64 {x}, {kinds.across * kinds.b.dtype.itemsize}")
        ways = [(body.at(body.at(self.b, offset), way), _lanes_of(body, low, high, x, lanes)) for way, low, high in self.ways]

        def line(u: str, carried: list[Value]) -> list[Value]:
            q, there = self._line(y, u)
            total, size, lost = carried
            for v, (from_, counts) in enumerate(ways):
                f = body.splat(single(self._factor(u, v), kinds.a).converted("fpext", WIDE), lanes)
                active = counts & there
                at = body.at(from_, body.op(f"mul i64 {q}, %b_line"))
                x_ = single(self.reader.read(at, "0", self.reader.to_read(active)), kinds.b).converted("fpext", wide)
                term = f * x_  # exact
                sum_ = total + term
                # The sum minus the operand of larger magnitude is exact (Fast2Sum). So the sum is exact if and only if each
                # difference equals the other operand.
                left = ((sum_ - total).bits() ^ term.bits()) | ((sum_ - term).bits() ^ total.bits())
                lost = body.chosen(active, lost | left, lost)
                total = body.chosen(active, sum_, total)
                size = body.chosen(active, body.fused(f.magnitude(), x_.magnitude(), size), size)
            return [total, size, lost]

        begun = [start, start.magnitude(), body.constant(wide.of("i64"), 0)]
        total, size, lost = body.loop("0", str(kinds.high), 1, begun, line)[1]
        lost = lost & ((1 << 63) - 1)  # zeros of both signs count as equal
        guard = total.bits().compared("eq", -(1 << 63))  # a sum without terms is +0
        number = bounded(total, body.chosen(lost.compared("eq", 0), 0.0, size * kinds.error), guard)
        added = kinds.stored.added() is not None
        made, undecided = stored(body, kinds.stored, self.filter.streams, number, lanes, added=added)
        assert undecided is not None
        return made, undecided

    def zeros(self, y: str, x: str) -> tuple[Value, Value]:
        """The elements of a vector whose windows have only zeros, and the lanes where this is so.

        The filter is finite. Such a sum is -0 if it has terms and all are -0, else +0; the added term is added exactly.
        """
        body, kinds, lanes = self.body, self.kinds, self.lanes
        kind = Kind(f"i{kinds.b.element_bits}", lanes)
        offset = body.op(f"mul i64 {x}, {kinds.across * kinds.b.dtype.itemsize}")
        ways = [(body.at(body.at(self.b, offset), way), _lanes_of(body, low, high, x, lanes)) for way, low, high in self.ways]

        def line(u: str, carried: list[Value]) -> list[Value]:
            q, there = self._line(y, u)
            seen, negative, some = carried
            for v, (from_, counts) in enumerate(ways):
                factor = self._factor(u, v).compared("slt", 0).converted("sext", Kind(kind.element))
                active = counts & there
                at = body.at(from_, body.op(f"mul i64 {q}, %b_line"))
                read = self.reader.read(at, "0", self.reader.to_read(active))
                seen, some = seen | read, some | active
                negative = body.chosen(active, negative & (read ^ body.splat(factor, lanes)), negative)
            return [seen, negative, some]

        begun = [body.constant(kind, 0), body.constant(kind, -1), body.constant(kind.of("i1"), False)]
        seen, negative, some = body.loop("0", str(kinds.high), 1, begun, line)[1]
        wide = Kind("double", lanes)
        total = body.chosen(negative.compared("slt", 0) & some, body.constant(wide, -0.0), 0.0)
        number = bounded(body.splat(self.filter.start, lanes) + total, body.constant(wide, 0.0), None)
        added = kinds.stored.added() is not None
        made, undecided = stored(body, kinds.stored, self.filter.streams, number, lanes, added=added)
        zero = (seen & ((1 << (kind.bits - 1)) - 1)).compared("eq", 0)
        return made, zero if undecided is None else zero & ~undecided

    def _line(self, y: str, u: str) -> tuple[str, Value]:
        """The input line for line u of the filter, and whether it exists, in all lanes."""
        body = self.body
        q = body.op(f"add i64 {body.op(f'mul i64 {y}, {self.kinds.down}')}, {u}")
        there = body.op(f"and i1 {body.op(f'icmp sge i64 {q}, %low')}, {body.op(f'icmp slt i64 {q}, %high')}")
        return q, body.splat(Value(body, there, Kind("i1")), self.lanes)

    def _factor(self, u: str, v: int) -> Value:
        """The bits of an element of the filter."""
        body = self.body
        number = body.op(f"add i64 {body.op(f'mul i64 {u}, {self.kinds.wide}')}, {v}")
        offset = body.load("i64", "%taps", body.op(f"mul i64 {number}, 8"))
        return body.loaded(Kind(f"i{self.kinds.a.element_bits}"), body.at(self.a, offset))


def _lanes_of(body: Body, low: str, high: str, x: str, lanes: int) -> Value:
    """The lanes of a vector for the columns low .. high - 1; x: the first lane's column."""
    start, stop = (body.op(f"sub i64 {end}, {x}") for end in (low, high))
    return below(body, stop, lanes) & ~below(body, start, lanes)
