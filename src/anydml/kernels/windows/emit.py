"""The kernel of windows: for each line of the output, its input lines are reduced along the windows' width, then across lines.

A line reduced along the width is kept while windows of later lines need it. The kernel's text depends on data types, on the
kind, and on which lines are contiguous; sizes, strides and paddings are arguments.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from anydml.kernels.code.emit import kernel, when
from anydml.kernels.code.targets import Target
from anydml.kernels.code.values import Body, Kind, Value
from anydml.kernels.match.windows import LENGTH
from anydml.kernels.windows.columns import ColumnLines
from anydml.kernels.windows.counts import Range, ranged
from anydml.kernels.windows.finish import Finish, Met
from anydml.kernels.windows.finish_bytes import FinishBytes
from anydml.kernels.windows.key import WindowsKey, present, signature
from anydml.kernels.windows.kinds import reduction
from anydml.kernels.windows.lines import Lines

WORD = Kind("i64")
T = TypeVar("T")


def emitted(target: Target, key: WindowsKey) -> str:
    """The kernel; arguments: `signature`. It returns 1 where it stopped, or has something on its list."""
    return _WindowsKernel(target, key).text()


class _WindowsKernel:
    def __init__(self, target: Target, key: WindowsKey) -> None:
        self.body, self.key = Body(target), key
        self.kind = reduction(self.body, key)
        self.lines = Lines(self.body, key, self.kind)
        self.finish = (FinishBytes if key.between else Finish)(self.body, key, self.kind, self.lines)
        self.columns = ColumnLines(self.body, key, self.kind, self.lines, self.finish)
        self.until = self.body.constant(WORD, 0)  # the line at which this call ends, so that signals are handled

    def _argument(self, name: str) -> Value:
        return Value(self.body, f"%{name}", WORD)

    def text(self) -> str:
        body, key, arg = self.body, self.key, self._argument
        signature(key).load(body)
        self.finish.begin()
        if key.down:
            self.columns.begin()
        else:
            self.lines.begin()
        first = arg("first")
        start = Value(body, self.finish.list.begun(), WORD) if key.listed else body.constant(WORD, 0)
        begin, end, per = first + start, first + arg("rows"), arg(f"to{key.taps - 1}")
        self.until = begin + arg("budget")
        runs = self._over(end + per - 1, per)

        def run(q: str, _: list[Value]) -> list[Value]:
            self._run(Value(body, q, WORD), begin, end)
            return []

        body.loop(self._over(begin, per).name, runs.name, 1, [], run)
        if not key.listed:
            body.do("ret i64 0")
            return kernel(body, list(body.declared))
        self.finish.list.end(start.name)
        return kernel(body, list(body.declared))

    def _over(self, a: Value, b: Value) -> Value:
        return self.body.value(f"udiv i64 {a.name}, {b.name}", WORD)

    def _rest(self, a: Value, b: Value) -> Value:
        return self.body.value(f"urem i64 {a.name}, {b.name}", WORD)

    def _run(self, q: Value, begin: Value, end: Value) -> None:
        """Compute the q-th run: lines of the output that differ only along the last windowed dimension."""
        body, key, arg = self.body, self.key, self._argument
        last = key.taps - 1
        per = arg(f"to{last}")
        done = q * per
        low = body.chosen(begin.compared("ugt", done), begin - done, 0)
        high = end - done
        high = body.chosen(high.compared("ult", per), high, per)
        left = q
        places: dict[str, Value] = {}
        dims = [*(f"pn{j}" for j in range(key.plain)), *(f"to{d}" for d in range(last))]
        for name in reversed(dims):
            places[name] = self._rest(left, arg(name))
            left = self._over(left, arg(name))
        base = body.constant(WORD, 0)
        offsets = dict.fromkeys("xyzw", base)
        for j in range(key.plain):
            for s in offsets:
                offsets[s] = offsets[s] + places[f"pn{j}"] * arg(f"p{s}{j}")
        ranges = []
        for d in range(last):
            o = places[f"to{d}"]
            for s in "yz":
                offsets[s] = offsets[s] + o * arg(f"t{s}{d}")
            ranges.append(ranged(body, d, o, padded=key.padded, dense=key.dense))
        x, y, z = (body.at(f"%{s}", offsets[s].name) for s in "xyz")
        parameters = {}
        for p in present(key):
            offset = base
            for j in range(key.plain):
                offset = offset + places[f"pn{j}"] * arg(f"gp{p}_{j}")
            parameters[p] = body.at(f"%g{p}", offset.name)
        self.finish.parameters = parameters

        self._bands(low, high, done, x, offsets["w"], [y, z], ranges)

    def _bands(self, low: Value, high: Value, done: Value, x: str, weight: Value, out: list[str], ranges: list[Range]) -> None:
        """Compute lines low .. high - 1 of a run in bands. done: the number of output lines before the run."""
        body, key, arg = self.body, self.key, self._argument
        last = key.taps - 1
        stride, size = arg(f"ts{last}"), arg(f"tn{last}")
        count = self._over(high - low + arg("band") - 1, arg("band"))

        def band(b: str, _: list[Value]) -> list[Value]:
            start = low + Value(body, b, WORD) * arg("band")
            end = start + arg("band")
            end = body.chosen(end.compared("ult", high), end, high)
            first = start * stride - arg(f"tp{last}")
            until = (end - 1) * stride - arg(f"tp{last}") + arg("extent")
            first = body.chosen(first.compared("slt", 0), 0, first)
            until = body.chosen(until.compared("sgt", size), size, until)
            until = body.chosen(until.compared("sgt", first), until, first)
            self.lines.first = first

            def copied() -> list[Value]:
                def read(slot: Value, at: Value, values: list[Value]) -> list[Value]:
                    def one(y: str, values: list[Value]) -> list[Value]:
                        line = Value(body, y, WORD)
                        row = body.at(x, (at + line * arg(f"tx{last}")).name)
                        return self.lines.copied(row, slot + line - first, values)

                    return body.loop(first.name, until.name, 1, values, one)[1]

                return self._each(ranges, read, self.lines.unknown())

            def reduced() -> None:
                if key.slides:

                    def along(slot: Value, at: Value, values: list[Value]) -> list[Value]:
                        def one(j: str, values: list[Value]) -> list[Value]:
                            self.lines.along(slot + Value(body, j, WORD))
                            return values

                        return body.loop("0", (until - first).name, 1, values, one)[1]

                    self._each(ranges, along, [])
                each(lambda _, met, to: self.finish.line(met(), to))

            def each(finish: Callable[[Value, Callable[[], Met], list[str]], None]) -> None:
                def one(o: str, _: list[Value]) -> list[Value]:
                    at = Value(body, o, WORD)
                    self.finish.row = done + at
                    self.columns.at = at - start
                    if key.listed:
                        self._stop_if_due()
                    to = [body.at(p, (at * arg(f"t{s}{last}")).name) for s, p in zip("yz", out, strict=True)]

                    def met() -> Met:
                        return self._met(
                            [*ranges, ranged(body, last, at, padded=key.padded, dense=key.dense)], x, weight, first
                        )

                    finish(at, met, to)
                    return []

                body.loop(start.name, end.name, 1, [], one)

            def anew() -> None:
                self.lines.begin()
                copied()
                reduced()

            def usual() -> None:
                each(self.columns.along) if key.down else reduced()

            values = self._plainly(lambda: self.columns.down(x, start, end, self.lines.unknown())) if key.down else copied()
            noted = self.lines.noted(values)
            if noted is None:
                usual()
            elif key.ranged:
                when(body, noted.name, usual)
                when(body, (~noted).name, lambda: each(lambda _, met, to: self.finish.careful(met(), to)))
            else:
                when(body, noted.name, lambda: self._plainly(usual))
                when(body, (~noted).name, anew if key.down else reduced)
            return []

        body.loop("0", count.name, 1, [], band)

    def _plainly(self, do: Callable[[], T]) -> T:
        """The code that `do` emits, under the assumption that no element is NaN (nor -0, if columns are reduced first)."""
        self.kind.plain = True
        made = do()
        self.kind.plain = False
        return made

    def _each(
        self, ranges: list[Range], do: Callable[[Value, Value, list[Value]], list[Value]], values: list[Value]
    ) -> list[Value]:
        """Loop over the windows' elements along all dimensions but the last one, and call `do` with the first slot of the lines
        there, and their offset in the input."""
        body, arg = self.body, self._argument

        def descend(d: int, slot: Value, at: Value, values: list[Value]) -> list[Value]:
            if d == len(ranges):
                return do(slot * arg("ring"), at, values)

            def one(k: str, values: list[Value]) -> list[Value]:
                tap = Value(body, k, WORD)
                y = ranges[d].first + tap * arg(f"td{d}")
                return descend(d + 1, slot * arg(f"tk{d}") + tap, at + y * arg(f"tx{d}"), values)

            return body.loop(ranges[d].low.name, ranges[d].high.name, 1, values, one)[1]

        zero = body.constant(WORD, 0)
        return descend(0, zero, zero, values)

    def _stop_if_due(self) -> None:
        """Return from the kernel if the list is nearly full, or signals are due."""
        body = self.body
        full, late = self.finish.list.is_half_full(), self.finish.row.compared("uge", self.until).name
        row = self.finish.row - self._argument("first")
        when(body, body.op(f"or i1 {full}, {late}"), lambda: self.finish.list.stop(row.name))

    def _met(self, ranges: list[Range], x: str, weight: Value, first: Value) -> Met:
        """The input lines of the windows of one output line."""
        body, arg, key = self.body, self._argument, self.key
        terms, counted = ranges[0].terms, ranges[0].counted
        for r in ranges[1:]:
            terms, counted = terms * r.terms, counted * r.counted
        none = terms.compared("eq", 0)
        # the slot behind all others holds the neutral line
        blank = arg("slots") * arg("pitch")
        if key.taps == 1:
            (r,) = ranges
            y = r.first + r.low * arg("td0")
            offset = body.chosen(none, blank, (y - first) * arg("pitch"))
            place, row = weight + y * arg("tw0"), body.at(x, (y * arg("tx0")).name)
            further, on, down = arg("td0") * arg("pitch"), arg("td0") * arg("tw0"), arg("td0") * arg("tx0")
            return Met(
                terms,
                counted,
                lambda t: offset + t * further,
                lambda t: place + t * on,
                lambda t: body.at(row, (t * down).name),
            )
        self._listed(ranges, x, weight, first)
        when(body, none.name, lambda: body.store("i64", blank.name, "%offsets"))

        def word(name: str, t: Value) -> Value:
            return body.loaded(WORD, body.at(f"%{name}", (t * 8).name))

        return Met(
            terms,
            counted,
            lambda t: word("offsets", t),
            lambda t: word("positions", t),
            lambda t: body.load("ptr", body.at("%rows_at", (t * 8).name)),
        )

    def _listed(self, ranges: list[Range], x: str, weight: Value, first: Value) -> None:
        """List the windows' input lines, for windows over several dimensions: these lines have no constant distance."""
        body, arg, key = self.body, self._argument, self.key
        last = key.taps - 1

        def descend(d: int, slot: Value, at: Value, place: Value, values: list[Value]) -> list[Value]:
            r = ranges[d]

            def one(k: str, values: list[Value]) -> list[Value]:
                tap = Value(body, k, WORD)
                y = r.first + tap * arg(f"td{d}")
                here, where = at + y * arg(f"tx{d}"), place + y * arg(f"tw{d}")
                if d < last:
                    return descend(d + 1, slot * arg(f"tk{d}") + tap, here, where, values)
                to = (values[0] * 8).name
                offset = (slot * arg("ring") + y - first) * arg("pitch")
                body.store("i64", offset.name, body.at("%offsets", to))
                if key.indices is not None:
                    body.store("i64", where.name, body.at("%positions", to))
                if key.ranged or key.between or key.kind == LENGTH:
                    body.store("ptr", body.at(x, here.name), body.at("%rows_at", to))
                return [values[0] + 1]

            return body.loop(r.low.name, r.high.name, 1, values, one)[1]

        zero = body.constant(WORD, 0)
        descend(0, zero, zero, weight, [zero])
