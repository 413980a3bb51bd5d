"""Windows that are reduced down their columns first, then along the line, where the order of the reduction does not matter.

Columns of the input are read without a copy, and their results are stored in a line with padding on both sides. If the windows'
stride along the line is 2, results of even and of odd columns are stored apart, so that all loads are contiguous.
"""

from __future__ import annotations

from collections.abc import Callable

from anydml.kernels.code.emit import when
from anydml.kernels.code.values import Body, Kind, Value
from anydml.kernels.windows.finish import Finish, Met
from anydml.kernels.windows.key import WindowsKey
from anydml.kernels.windows.kinds import Reduction, Total
from anydml.kernels.windows.lines import Lines
from anydml.tensor import DataType

WORD = Kind("i64")


class ColumnLines:
    """Lines of reduced columns, one for each line of the output in a band.

    at: the line of the output, counted from the first of the band. apart: the bytes from one line of columns to the next. taps:
    for each element of a window along the line, the offset of its columns.
    """

    def __init__(self, body: Body, key: WindowsKey, kind: Reduction, lines: Lines, finish: Finish) -> None:
        self.body, self.key, self.kind, self.lines, self.finish = body, key, kind, lines, finish
        self.element = kind.raw[0].element
        self.size = kind.raw[0].bits // 8
        self.at = body.constant(WORD, 0)
        self.apart = body.constant(WORD, 0)
        self.taps: list[Value] = []

    def _argument(self, name: str) -> Value:
        return Value(self.body, f"%{name}", WORD)

    def begin(self) -> None:
        """Fill the padding with the neutral element."""
        body, step = self.body, self.key.step
        neutral = body.constant(Kind(self.element), self.kind.neutral[0])
        self.lines.fill("%columns", (self._argument("across") * self._argument("band") * step).name, neutral)
        read = {DataType.FLOAT32: "float", DataType.FLOAT16: "half"}.get(self.key.types[0], f"i{8 * self.lines.itemsize}")
        self.lines.fill("%nothing", "%n", self.kind.nothing(Kind(read)))
        self.apart = self._argument("across") * (step * self.size)
        self.taps = [self._place(body.constant(WORD, k) - self._argument("start")) for k in range(self.key.width)]

    def _place(self, column: Value) -> Value:
        """The offset in bytes of a reduced column; the columns at multiples of the stride after it are contiguous."""
        step = self.key.step
        place = column.shifted_right(step.bit_length() - 1, signed=True) + self._argument("column")
        if step > 1:
            place = place + (column & (step - 1)) * self._argument("across")
        return place * self.size

    def _line(self, at: Value) -> str:
        """The address of the reduced columns of a line of the output."""
        return self.body.at("%columns", (at * self.apart).name)

    def down(self, x: str, start: Value, end: Value, values: list[Value]) -> list[Value]:
        """Reduce the columns for the lines start .. end - 1 of the output, and store the results.

        Elements that several windows share are read once: they are carried from line to line. x: the image's address. values:
        the facts about all elements so far, see `Reduction.noted`.
        """
        body, lanes = self.body, self.key.lanes_in
        first = start * self._argument("ts0") - self._argument("tp0")
        self._list(x, first, (end - 1 - start) * self._argument("ts0") + self._argument("extent"))
        kept = self.key.lines - self.key.down

        def strip(i: Value, values: list[Value]) -> list[Value]:
            places = [self._place(i + k).name for k in range(self.key.step)]

            def read(y: Value, values: list[Value]) -> tuple[Value, list[Value]]:
                bits = self.lines.bits(body.load("ptr", body.at("%rows_at", (y * 8).name)), i, lanes)
                found = self.kind.read(bits)
                return found[0], self.kind.noted(bits, found, values)

            def line(o: str, carried: list[Value]) -> list[Value]:
                at = Value(body, o, WORD)
                rows, values = carried[:kept], carried[kept:]
                for t in range(self.key.down):
                    x, values = read(at * self._argument("ts0") + kept + t, values)
                    rows.append(x)
                made = rows[:1]
                for x in rows[1:]:
                    made = self.kind.across(made, [x])
                self._keep(made[0], self._line(at), places)
                return rows[self.key.down :] + values

            rows = []
            for t in range(kept):
                x, values = read(body.constant(WORD, t), values)
                rows.append(x)
            return body.loop("0", (end - start).name, 1, rows + values, line)[1][kept:]

        return self.lines.groups("%n", lanes, values, strip)

    def _list(self, x: str, first: Value, count: Value) -> None:
        """Store the addresses of `count` lines of the input from `first` on; a line outside of the image becomes a neutral
        line."""
        body = self.body

        def one(y: str, _: list[Value]) -> list[Value]:
            at = first + Value(body, y, WORD)
            there = body.at(x, (at * self._argument("tx0")).name)
            inside = at.compared("ult", self._argument("tn0")).name
            row = body.op(f"select i1 {inside}, ptr {there}, ptr %nothing")
            body.store("ptr", row, body.at("%rows_at", body.op(f"mul i64 {y}, 8")))
            return []

        body.loop("0", count.name, 1, [], one)

    def _keep(self, made: Value, line: str, places: list[str]) -> None:
        body, step = self.body, self.key.step
        few = Kind(self.element, made.kind.lanes // step)
        for k, place in enumerate(places):
            part = made
            if step > 1:
                mask = ", ".join(f"i32 {k + step * lane}" for lane in range(few.lanes))
                part = body.value(f"shufflevector {made!r}, {made.kind.text} poison, <{few.lanes} x i32> <{mask}>", few)
            body.stored(part, body.at(line, place))

    def along(self, o: Value, met: Callable[[], Met], out: list[str]) -> None:
        """Reduce the columns of a line of the output along the line, and store the results. met: its windows' input lines."""
        body, key, kind = self.body, self.key, self.kind
        if not key.divides:
            self._along(met, out, close=False)
            return
        # most lines have all windows inside, like the line before: then the inverses are there already
        first = o * self._argument("ts0") - self._argument("tp0")
        inside = (first + self._argument("extent")).compared("ule", self._argument("tn0")) & first.compared("sge", 0)
        known = inside & self.finish.inverted_for(key.lines)
        when(body, (~known).name, lambda: self.finish.invert(met()))
        if key.types[1] == DataType.FLOAT32 and not key.halves:
            assert isinstance(kind, Total)
            when(body, kind.close.name, lambda: self._along(met, out, close=True))
            when(body, (~kind.close).name, lambda: self._along(met, out, close=False))
        else:
            self._along(met, out, close=False)

    def _along(self, met: Callable[[], Met], out: list[str], *, close: bool) -> None:
        body, kind = self.body, self.kind.raw[0]
        line, lines = self._line(self.at), met()
        taps = [body.at(line, tap.name) for tap in self.taps]

        def group(i: Value, _: list[Value]) -> list[Value]:
            first, *others = (body.loaded(kind, body.at(tap, (i * self.size).name)) for tap in taps)
            made = [first]
            for x in others:
                made = self.kind.along(made, [x], None, None)
            self.finish.finished(lines, made, i, out, close=close)
            return []

        self.lines.groups("%m", self.key.lanes, [], group)
