"""Lines of the input: read, copied, and reduced along the width of the windows that slide over them."""

from __future__ import annotations

from collections.abc import Callable

from anydml.kernels.code.values import Body, Kind, Value
from anydml.kernels.windows.key import WindowsKey
from anydml.kernels.windows.kinds import Reduction

WORD = Kind("i64")


class Lines:
    """Copies of input lines with padding on both sides, so that all windows along a line are computed in the same way."""

    def __init__(self, body: Body, key: WindowsKey, kind: Reduction) -> None:
        self.body, self.key, self.kind = body, key, kind
        self.itemsize = key.types[0].dtype.itemsize
        self.first = body.constant(WORD, 0)

    def begin(self) -> None:
        """Fill the padding and the blank line with the neutral element."""
        body, kind = self.body, self.kind
        for j, neutral in enumerate(kind.neutral):
            element = Kind(kind.raw[j].element)
            value = body.constant(element, neutral)
            if self.key.slides:
                self.fill(f"%line{j}", body.op("mul i64 %length, %slots"), value)
            self.fill(f"%blank{j}", "%m", value)
        for j in range(len(kind.neutral), len(kind.parts)):
            self.fill(f"%blank{j}", "%m", body.constant(Kind(kind.parts[j].element), 0))

    def fill(self, at: str, count: str, value: Value) -> None:
        """Store a value in `count` elements."""

        def one(i: str, _: list[Value]) -> list[Value]:
            self.body.stored(value, self.body.at(at, self.body.op(f"mul i64 {i}, {value.kind.bits // 8}")))
            return []

        self.body.loop("0", count, 1, [], one)

    def groups(
        self, size: str, lanes: int, carried: list[Value], each: Callable[[Value, list[Value]], list[Value]]
    ) -> list[Value]:
        """Loop over groups of lanes; there must be at least one whole group. The last group begins earlier if they don't end
        evenly."""
        body = self.body
        count = body.op(f"udiv i64 {body.op(f'add i64 {size}, {lanes - 1}')}, {lanes}")
        end = body.op(f"sub i64 {size}, {lanes}")

        def one(g: str, values: list[Value]) -> list[Value]:
            i = body.op(f"mul i64 {g}, {lanes}")
            i = body.op(f"select i1 {body.op(f'icmp ult i64 {i}, {end}')}, i64 {i}, i64 {end}")
            return each(Value(body, i, WORD), values)

        return body.loop("0", count, 1, carried, one)[1]

    def bits(self, row: str, i: Value, lanes: int) -> Value:
        """The bits of `lanes` elements of an input line."""
        body = self.body
        kind = Kind(f"i{8 * self.itemsize}", lanes)
        if self.key.contiguous[0]:
            return body.loaded(kind, body.at(row, (i * self.itemsize).name))
        vector = body.undefined(kind)
        at = body.at(row, (i * Value(body, "%xs", WORD)).name)
        for lane in range(lanes):
            vector = vector.replaced(lane, body.loaded(Kind(kind.element), at))
            at = body.at(at, "%xs")
        return vector

    def copied(self, row: str, slot: Value, values: list[Value]) -> list[Value]:
        """Copy an input line between its padding; without padding if windows do not slide along the line.

        slot: the number of its place among the kept lines. values: the facts about all elements so far, see `noted`.
        """
        key = self.key
        lanes = key.lanes_in if key.slides else key.lanes
        start = slot * self._argument("length") + self._argument("start") if key.slides else slot * self._argument("pitch")

        def one(i: Value, values: list[Value]) -> list[Value]:
            bits = self.bits(row, i, lanes)
            read = self.kind.read(bits)
            if key.slides:
                for j, value in enumerate(read):
                    self._put(f"%line{j}", start + i, value)
            else:
                at = None if key.indices is None else self._places(i) * self._index("weight")
                for j, value in enumerate(self.kind.begun(read, at, None)):
                    self._put(f"%slot{j}", start + i, value)
            return self.kind.noted(bits, read, values)

        return self.groups("%n", lanes, values, one)

    def _argument(self, name: str) -> Value:
        return Value(self.body, f"%{name}", WORD)

    def _put(self, base: str, at: Value, value: Value) -> None:
        self.body.stored(value, self.body.at(base, (at * (value.kind.bits // 8)).name))

    def unknown(self) -> list[Value]:
        """The facts that `noted` begins with."""
        return self.kind.unknown(self.key.lanes_in if self.key.slides else self.key.lanes)

    def noted(self, values: list[Value]) -> Value | None:
        """Whether the facts about the elements allow the usual reduction; None if it needs none."""
        return self.kind.usual(values)

    # --- along the width ---

    def _index(self, name: str) -> Value:
        """An argument in the type of positions, in all lanes."""
        kind = self.kind.parts[-1]
        value = Value(self.body, f"%{name}", WORD).converted("trunc", Kind(kind.element))
        return self.body.splat(value, kind.lanes)

    def _places(self, i: Value) -> Value:
        """The lanes' positions in the line, in the type of positions."""
        body, kind = self.body, self.kind.parts[-1]
        first = body.splat(i.converted("trunc", Kind(kind.element)), kind.lanes)
        return first + body.constants(kind.element, range(kind.lanes))

    def along(self, slot: Value) -> None:
        """Reduce a line along the width of the windows, and store the results."""
        length, pitch = slot * self._argument("length"), slot * self._argument("pitch")
        self.groups("%m", self.key.lanes, [], lambda i, _: self._along(i, length, pitch + i))

    def _along(self, i: Value, line: Value, to: Value) -> list[Value]:
        body, key = self.body, self.key
        window = Value(body, "%window", WORD)
        dilation = Value(body, "%dilation", WORD)
        indexed = key.indices is not None
        starts = self._places(i) * self._index("stride") - self._index("start") if indexed else None

        def element(k: Value) -> tuple[list[Value], Value | None, Value | None]:
            x = self.windowed(line, i, k)
            if starts is None:
                return x, None, None
            far = (k * dilation).converted("trunc", Kind(starts.kind.element))
            at = starts + body.splat(far, starts.kind.lanes)
            there = at.compared("ult", self._index("n"))
            return x, at * self._index("weight"), there

        made = self.kind.begun(*element(body.constant(WORD, 0)))
        if key.width:
            for k in range(1, key.width):
                made = self.kind.along(made, *element(body.constant(WORD, k)))
        else:

            def one(k: str, values: list[Value]) -> list[Value]:
                return self.kind.along(values, *element(Value(body, k, WORD)))

            made = body.loop("1", window.name, 1, made, one)[1]
        for j, value in enumerate(made[: len(self.kind.parts)]):
            self._put(f"%slot{j}", to, value)
        return []

    def windowed(self, line: Value, i: Value, k: Value) -> list[Value]:
        """The k-th elements of a group of windows. line: the start of the padded line."""
        stride = self.key.step or Value(self.body, "%stride", WORD)
        return self._strided(line + i * stride + k * Value(self.body, "%dilation", WORD))

    def _strided(self, first: Value) -> list[Value]:
        """Elements of the padded line at the windows' stride."""
        body, key = self.body, self.key
        found = []
        for j, kind in enumerate(self.kind.raw):
            size = kind.bits // 8
            at = body.at(f"%line{j}", (first * size).name)
            if key.step == 1:
                found.append(body.loaded(kind, at))
                continue
            if key.step == 2:
                double = Kind(kind.element, 2 * kind.lanes)
                both = body.loaded(double, at)
                mask = ", ".join(f"i32 {2 * lane}" for lane in range(kind.lanes))
                found.append(body.value(f"shufflevector {both!r}, {double.text} poison, <{kind.lanes} x i32> <{mask}>", kind))
                continue
            vector, step = body.undefined(kind), body.op(f"mul i64 %stride, {size}")
            for lane in range(kind.lanes):
                vector = vector.replaced(lane, body.loaded(Kind(kind.element), at))
                at = body.at(at, step)
            found.append(vector)
        return found

    # --- reduced lines ---

    def load(self, at: Value) -> list[Value]:
        """The parts of a group of a reduced line."""
        body = self.body
        return [body.loaded(kind, body.at(f"%slot{j}", (at * (kind.bits // 8)).name)) for j, kind in enumerate(self.kind.parts)]
