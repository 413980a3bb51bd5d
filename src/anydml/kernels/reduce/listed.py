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


class List:
    """The kernel's list of undecided elements. noted: the number of elements on it when the row began."""

    def __init__(self, body: Body, row: Row) -> None:
        self.body, self.row, self.key = body, row, row.key
        self.noted = "0"

    def stop_if_full(self, r: str, before: Callable[[], None] | None = None) -> None:
        """Return from the kernel if the list is half full; the next call continues at row r. before: is emitted first."""
        body = self.body

        def stop() -> None:
            if before is not None:
                before()
            body.store("i64", r, "%state")
            body.do("ret i64 1")
            body.label(body.name("never"))

        half = body.op("lshr i64 %room, 1")
        self.noted = body.load("i64", "%state", 16)
        when(body, body.op(f"icmp ugt i64 {self.noted}, {half}"), stop)

    def until(self, start: str) -> str:
        """The row at which a call stops that began at `start`: after `between` rows, or at the end."""
        body = self.body
        behind = body.op(f"add i64 {start}, %between")
        return body.call("llvm.umin.i64", Kind("i64"), f"i64 {behind}", "i64 %rows").name

    def pause(self, until: str, before: Callable[[], None] | None = None) -> None:
        """Return from the kernel at row `until` if there is such a row; the next call continues there. before: is emitted
        first."""
        body = self.body

        def stop() -> None:
            if before is not None:
                before()
            body.store("i64", until, "%state")
            body.do("ret i64 1")
            body.label(body.name("never"))

        when(body, body.op(f"icmp ult i64 {until}, %rows"), stop)

    def end(self, start: str) -> None:
        """Return from the kernel; the result says whether it has listed elements. start: the row where the call began."""
        body = self.body
        pending = body.op(f"icmp ne i64 {body.load('i64', '%state', 16)}, 0")
        # a call that begins at the end has nothing to do, and the state stays at the end
        over = body.op(f"icmp uge i64 {start}, %rows")
        after = body.op(f"select i1 {body.op(f'or i1 {pending}, {over}')}, i64 %rows, i64 0")
        body.store("i64", after, "%state")
        body.do(f"ret i64 {body.op(f'zext i1 {pending} to i64')}")

    def append(self, place: str) -> None:
        """List a position of the row; if the list is full, list the whole row instead of all its positions."""
        body = self.body
        count = body.load("i64", "%state", 16)
        full = body.op(f"icmp uge i64 {count}, %room")
        count = body.op(f"select i1 {full}, i64 {self.noted}, i64 {count}")
        place = body.op(f"select i1 {full}, i64 {ALL}, i64 {place}")
        slot = body.at("%list", body.op(f"mul i64 {count}, 16"))
        body.store("i64", self.row.number, slot)
        body.store("i64", place, slot, 8)
        body.store("i64", body.op(f"add i64 {count}, 1"), "%state", 16)

    def note(self, i: str, take: str | None, bits: str) -> None:
        """List the undecided lanes of a group."""
        body, lanes = self.body, self.key.lanes
        if take is not None:
            beyond = body.op(f"shl i64 -1, {take}")
            bits = body.op(f"and i64 {bits}, {body.op(f'xor i64 {beyond}, -1')}")

        def note() -> None:
            def one(lane: str, _: list[Value]) -> list[Value]:
                undecided = body.op(f"and i64 {body.op(f'lshr i64 {bits}, {lane}')}, 1")
                at = self.row.in_row(body.op(f"add i64 {i}, {lane}"))
                when(body, body.op(f"icmp ne i64 {undecided}, 0"), lambda: self.append(at))
                return []

            body.loop("0", str(lanes), 1, [], one)

        when(body, body.op(f"icmp ne i64 {bits}, 0"), note)

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

        def entry(e: str, kept: list[Value]) -> list[Value]:
            slot = body.at("%list", body.op(f"mul i64 {e}, 16"))
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
            stays = body.op(f"or i1 {all_}, {undecided.lane(0).name}")

            def store() -> None:
                target = self.row.streams.place(self.row.streams.last, at)
                body.stored(made.lane(0), target)

            when(body, body.op(f"xor i1 {stays}, true"), store)
            to = body.at("%list", body.op(f"mul i64 {kept[0].name}, 16"))
            body.store("i64", self.row.number, to)
            body.store("i64", place, to, 8)
            return [kept[0] + Value(body, body.op(f"zext i1 {stays} to i64"), Kind("i64"))]

        _, (left,) = body.loop(self.noted, count, 1, [Value(body, self.noted, Kind("i64"))], entry)
        self.row.streams.bases = row
        body.store("i64", left.name, "%state", 16)
