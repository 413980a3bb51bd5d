"""The list of a row's undecided elements, and the decision of softmax elements in pairs of float64 values."""

from __future__ import annotations

from collections.abc import Callable

from anydml.kernels.code.emit import when
from anydml.kernels.code.values import Body, Kind, Value
from anydml.kernels.numbers.floats.rounding import stored
from anydml.kernels.reduce import doubled
from anydml.kernels.reduce.key import ALL
from anydml.kernels.reduce.lines import Row
from anydml.kernels.reduce.walk import RowWalk
from anydml.kernels.undecided.lists import UndecidedList, each_bit


class RowList(UndecidedList):
    """The list of a kernel of rows, by row and by place in it. noted: how many elements were on it when the row began."""

    def __init__(self, body: Body, row: Row) -> None:
        super().__init__(body)
        self.row, self.key = row, row.key
        self.noted = "0"

    def stop_if_full(self, r: str, before: Callable[[], None] = lambda: None) -> None:
        """Stop before a row where the list is half full. before: what is done first."""
        self.noted = self.count()
        self._stop_if(self.is_half_full(self.noted), r, before)

    def _stop_if(self, condition: str, r: str, before: Callable[[], None]) -> None:
        def stop() -> None:
            before()
            self.stop(r)

        when(self.body, condition, stop)

    def until(self, start: str) -> str:
        """The row at which a call stops that began at `start`: after `between` rows, or at the end."""
        body = self.body
        behind = body.op(f"add i64 {start}, %between")
        return body.call("llvm.umin.i64", Kind("i64"), f"i64 {behind}", "i64 %rows").name

    def pause(self, until: str, before: Callable[[], None] = lambda: None) -> None:
        """Stop before a row, from which the next call goes on, if there is such a row. before: what is done first."""
        self._stop_if(self.body.op(f"icmp ult i64 {until}, %rows"), until, before)

    def put(self, place: str) -> None:
        """Put a place of the row on the list; where the list is full, the whole row instead of all its places."""
        body, count = self.body, self.count()
        full = body.op(f"icmp uge i64 {count}, %room")
        count = body.op(f"select i1 {full}, i64 {self.noted}, i64 {count}")
        self.append(self.row.number, body.op(f"select i1 {full}, i64 {ALL}, i64 {place}"), count=count)

    def note(self, i: str, take: str | None, bits: str) -> None:
        """Put the undecided lanes of a group on the list."""
        body = self.body
        if take is not None:
            beyond = body.op(f"shl i64 -1, {take}")
            bits = body.op(f"and i64 {bits}, {body.op(f'xor i64 {beyond}, -1')}")
        each_bit(body, bits, lambda lane: self.put(self.row.in_row(body.op(f"add i64 {i}, {lane}"))))

    def decide(self, walk: RowWalk, count: str) -> None:
        """Decide the elements of this row that are on the list, in pairs of float64 values; elements that stay undecided are
        kept."""
        body, lanes = self.body, self.key.lanes
        zero = body.constant(Kind("double", lanes), 0.0)

        def line(values: list[Value]) -> list[Value]:
            def group(i: str, values: list[Value]) -> list[Value]:
                self.row.put(walk, i, self.row.streams.whole(i))
                return list(doubled.added((values[0], values[1]), walk.doubled()))

            i, values = body.loop("0", "%n", lanes, values, group)
            left = body.op(f"sub i64 %n, {i}")

            def one(j: str, values: list[Value]) -> list[Value]:
                at = body.op(f"add i64 {i}, {j}")
                self.row.put(walk, at, self.row.streams.alone(at))
                first = self.row.streams.iota.compared("eq", 0)
                more = tuple(body.chosen(first, x, 0.0) for x in walk.doubled())
                return list(doubled.added((values[0], values[1]), (more[0], more[1])))

            return body.loop("0", left, 1, values, one)[1]

        high, low = self.row.lines([zero, zero], line)
        total = high.lane(0), low.lane(0)
        for lane in range(1, lanes):
            total = doubled.added(total, (high.lane(lane), low.lane(lane)))
        totals = body.splat(total[0], lanes), body.splat(total[1], lanes)
        row = self.row.streams.bases

        def stays(slot: str) -> str:
            place = body.load("i64", slot, 8)
            all_ = body.op(f"icmp eq i64 {place}, {ALL}")
            at = body.op(f"select i1 {all_}, i64 0, i64 {place}")
            if self.key.inner:
                self.row.streams.bases = self.row.line_starts(row, body.op(f"udiv i64 {at}, %n"))
                at = body.op(f"urem i64 {at}, %n")
            self.row.put(walk, at, self.row.streams.alone(at))
            number = doubled.share(walk.doubled(), totals, self.key.all_additions)
            made, undecided = stored(number, self.key.types[-1], integral=self.key.integral)
            assert undecided is not None
            stay = body.op(f"or i1 {all_}, {undecided.lane(0).name}")
            target = self.row.streams.place(self.row.streams.last, at)
            when(body, body.op(f"xor i1 {stay}, true"), lambda: body.stored(made.lane(0), target))
            return body.op(f"zext i1 {stay} to i64")

        self.counted(self.sift(self.noted, count, stays))
        self.row.streams.bases = row
