"""The kernel of windows: for each line of the output, the lines of the input that its windows meet, reduced along the
window's width, then across lines, and what is made of that.

A line that is reduced along the width is kept as long as windows of the next lines may meet it. Its text depends on types, on
the kind, and on how lines lie; sizes, strides and paddings are arguments.
"""

from __future__ import annotations

from collections.abc import Callable

from anydml.kernels.code.emit import arguments, kernel, when
from anydml.kernels.code.targets import Target
from anydml.kernels.code.values import Body, Kind, Value
from anydml.kernels.match.windows import MAX
from anydml.kernels.windows.counts import Range, ranged
from anydml.kernels.windows.finish import Finish
from anydml.kernels.windows.kinds import reduction
from anydml.kernels.windows.lines import Lines
from anydml.kernels.windows.shape import Shape, names, pointers, present

WORD = Kind("i64")


def emitted(target: Target, shape: Shape) -> str:
    """The kernel; arguments: `names`. It returns 1 where it stopped, or has something on its list."""
    return _Kernel(target, shape).text()


class _Kernel:
    def __init__(self, target: Target, shape: Shape) -> None:
        self.body, self.shape = Body(target), shape
        self.kind = reduction(self.body, shape)
        self.lines = Lines(self.body, shape, self.kind)
        self.finish = Finish(self.body, shape, self.kind, self.lines)

    def _argument(self, name: str) -> Value:
        return Value(self.body, f"%{name}", WORD)

    def text(self) -> str:
        body, shape, arg = self.body, self.shape, self._argument
        arguments(body, names(shape), pointers(shape))
        self.lines.begin()
        self.finish.begin()
        first = arg("first")
        start = Value(body, body.load("i64", "%state"), WORD) if shape.listed else body.constant(WORD, 0)
        begin, end, per = first + start, first + arg("rows"), arg(f"to{shape.taps - 1}")
        runs = self._over(end + per - 1, per)

        def run(q: str, _: list[Value]) -> list[Value]:
            self._run(Value(body, q, WORD), begin, end)
            return []

        body.loop(self._over(begin, per).name, runs.name, 1, [], run)
        if not shape.listed:
            body.do("ret i64 0")
            return kernel(body, list(body.declared))
        pending = body.op(f"icmp ne i64 {body.load('i64', '%state', 16)}, 0")
        # a call that began behind the end has nothing left to do, and stays there
        over = body.op(f"icmp uge i64 {start.name}, %rows")
        after = body.op(f"select i1 {body.op(f'or i1 {pending}, {over}')}, i64 %rows, i64 0")
        body.store("i64", after, "%state")
        body.do(f"ret i64 {body.op(f'zext i1 {pending} to i64')}")
        return kernel(body, list(body.declared))

    def _over(self, a: Value, b: Value) -> Value:
        return self.body.value(f"udiv i64 {a.name}, {b.name}", WORD)

    def _rest(self, a: Value, b: Value) -> Value:
        return self.body.value(f"urem i64 {a.name}, {b.name}", WORD)

    def _run(self, q: Value, begin: Value, end: Value) -> None:
        """The lines of the output that differ along the last dimension with a window alone."""
        body, shape, arg = self.body, self.shape, self._argument
        last = shape.taps - 1
        per = arg(f"to{last}")
        done = q * per
        low = body.chosen(begin.compared("ugt", done), begin - done, 0)
        high = end - done
        high = body.chosen(high.compared("ult", per), high, per)
        left = q
        places: dict[str, Value] = {}
        dims = [*(f"pn{j}" for j in range(shape.plain)), *(f"to{d}" for d in range(last))]
        for name in reversed(dims):
            places[name] = self._rest(left, arg(name))
            left = self._over(left, arg(name))
        base = body.constant(WORD, 0)
        offsets = dict.fromkeys("xyzw", base)
        for j in range(shape.plain):
            for s in offsets:
                offsets[s] = offsets[s] + places[f"pn{j}"] * arg(f"p{s}{j}")
        ranges = []
        for d in range(last):
            o = places[f"to{d}"]
            for s in "yz":
                offsets[s] = offsets[s] + o * arg(f"t{s}{d}")
            ranges.append(ranged(body, d, o, padded=shape.padded))
        x, y, z = (body.at(f"%{s}", offsets[s].name) for s in "xyz")
        parameters = {}
        for p in present(shape):
            offset = base
            for j in range(shape.plain):
                offset = offset + places[f"pn{j}"] * arg(f"gp{p}_{j}")
            parameters[p] = body.at(f"%g{p}", offset.name)
        self.finish.parameters = parameters

        def forget(s: str, _: list[Value]) -> list[Value]:
            body.store("i64", "-1", body.at("%tags", body.op(f"mul i64 {s}, 8")))
            return []

        body.loop("0", "%slots", 1, [], forget)

        def one(o: str, _: list[Value]) -> list[Value]:
            at = Value(body, o, WORD)
            self.finish.row = done + at
            if shape.listed:
                self._stop_if_full()
            here = [*ranges, ranged(body, last, at, padded=shape.padded)]
            out = [body.at(p, (at * arg(f"t{s}{last}")).name) for s, p in (("y", y), ("z", z))]
            self._line(here, x, offsets["w"], out)
            return []

        body.loop(low.name, high.name, 1, [], one)

    def _stop_if_full(self) -> None:
        body = self.body

        def stop() -> None:
            body.store("i64", (self.finish.row - self._argument("first")).name, "%state")
            body.do("ret i64 1")
            body.label(body.name("never"))

        half = body.op("lshr i64 %room, 1")
        when(body, body.op(f"icmp ugt i64 {body.load('i64', '%state', 16)}, {half}"), stop)

    def _line(self, ranges: list[Range], x: str, weight: Value, out: list[str]) -> None:
        """A line of the output."""
        body = self.body
        count, highest, lowest = self._met(ranges, x, weight)
        terms = ranges[0].count
        divisor = ranges[0].counted
        for r in ranges[1:]:
            terms, divisor = terms * r.count, divisor * r.counted
        self.finish.terms, self.finish.divisor = terms, divisor

        def nothing() -> None:
            # the line that stands for none is behind the others
            none = body.op("mul i64 %slots, %pitch")
            body.store("i64", none, "%offsets")
            body.store("i64", "0", "%positions")

        when(body, count.compared("eq", 0).name, nothing)
        count = body.chosen(count.compared("eq", 0), 1, count)
        if not self.shape.ranged:
            self.finish.line(count, out)
            return
        certain = self._certain(highest, lowest, terms)
        when(body, certain.name, lambda: self.finish.line(count, out))
        when(body, (~certain).name, lambda: self.finish.careful(count, terms, out))

    def _certain(self, highest: Value, lowest: Value, terms: Value) -> Value:
        """Whether sums in float64 are exact: n numbers below 2^(e + 1) that are multiples of 2^(l - 23) need no more than
        53 bits where n 2^(e + 1) <= 2^(l + 30).

        highest: the bits of the largest magnitude; lowest: those of the least that is not 0, less 1.
        """
        body = self.body
        most = terms * self._argument("window")
        zeros = body.call("llvm.ctlz.i64", WORD, most, "i1 false")
        bits = (64 - zeros).converted("trunc", Kind("i32"))  # n < 2^bits
        high, low = (v.shifted_right(23, signed=False) for v in (highest, lowest))
        close = (high + bits).compared("ule", low + 29)
        return close & high.compared("ult", 255)

    def _met(self, ranges: list[Range], x: str, weight: Value) -> tuple[Value, Value, Value]:
        """Put the lines that the windows meet, reduced along the width, on the list `offsets`: their number, and the highest
        and lowest of their elements."""
        body, arg, shape = self.body, self._argument, self.shape
        word = Kind("i32")
        last = shape.taps - 1

        def descend(d: int, slot: Value, at: Value, place: Value, values: list[Value]) -> list[Value]:
            r = ranges[d]

            def one(k: str, values: list[Value]) -> list[Value]:
                tap = Value(body, k, WORD)
                y = r.first + tap * arg(f"td{d}")
                here, where = at + y * arg(f"tx{d}"), place + y * arg(f"tw{d}")
                if d < last:
                    return descend(d + 1, slot * arg(f"tk{d}") + tap, here, where, values)
                narrow = [v.converted("trunc", word) for v in (y, arg("ring"))]
                turn = body.value(f"urem i32 {narrow[0].name}, {narrow[1].name}", word).converted("zext", WORD)
                return self._meet(slot * arg("ring") + turn, y, body.at(x, here.name), where, values)

            return body.loop(r.low.name, r.high.name, 1, values, one)[1]

        zero = body.constant(WORD, 0)
        start = [zero, body.constant(word, 0), body.constant(word, -1)]
        count, highest, lowest = descend(0, zero, zero, weight, start)
        return count, highest, lowest

    def _meet(self, slot: Value, tag: Value, row: str, place: Value, values: list[Value]) -> list[Value]:
        body = self.body
        count, highest, lowest = values
        eight = slot * 8
        there = body.at("%tags", eight.name)
        known = body.op(f"icmp eq i64 {body.load('i64', there)}, {tag.name}")
        offset = slot * self._argument("pitch")

        def fill() -> None:
            body.store("i64", tag.name, there)
            self.lines.reduced(row, offset, slot)

        when(body, body.op(f"xor i1 {known}, true"), fill)
        where = (count * 8).name
        body.store("i64", offset.name, body.at("%offsets", where))
        if self.shape.indices is not None:
            body.store("i64", place.name, body.at("%positions", where))
        if self.shape.ranged:
            body.store("ptr", row, body.at("%rows_at", where))
            high, low = (body.loaded(Kind("i32"), body.at(f"%{name}", eight.name)) for name in ("highest", "lowest"))
            highest = body.chosen(high.compared("ugt", highest), high, highest)
            lowest = body.chosen(low.compared("ult", lowest), low, lowest)
        return [count + 1, highest, lowest]


__all__ = ["MAX", "Callable", "emitted"]
