"""Lines of the input, read and reduced along the width of the window that slides over them."""

from __future__ import annotations

from collections.abc import Callable

from anydml.kernels.code.values import Body, Kind, Value
from anydml.kernels.windows.kinds import Reduction, Total
from anydml.kernels.windows.shape import Shape

WORD = Kind("i64")


class Lines:
    """A line of the input is copied with padding on both sides, so that all windows along it are alike."""

    def __init__(self, body: Body, shape: Shape, kind: Reduction) -> None:
        self.body, self.shape, self.kind = body, shape, kind
        self.itemsize = shape.types[0].dtype.itemsize

    def begin(self) -> None:
        """Put what stands for no element in the padding, and in a line that stands for none."""
        body, kind = self.body, self.kind
        for j, neutral in enumerate(kind.neutral):
            element = Kind(kind.raw[j].element)
            value = body.constant(element, neutral)
            if self.shape.slides:
                self._fill(f"%line{j}", "%length", value)
            self._fill(f"%blank{j}", "%m", value)
        for j in range(len(kind.neutral), len(kind.parts)):
            self._fill(f"%blank{j}", "%m", body.constant(Kind(kind.parts[j].element), 0))

    def _fill(self, at: str, count: str, value: Value) -> None:
        def one(i: str, _: list[Value]) -> list[Value]:
            self.body.stored(value, self.body.at(at, self.body.op(f"mul i64 {i}, {value.kind.bits // 8}")))
            return []

        self.body.loop("0", count, 1, [], one)

    def groups(
        self, size: str, lanes: int, carried: list[Value], each: Callable[[Value, list[Value]], list[Value]]
    ) -> list[Value]:
        """Groups of lanes of so many elements, at least as many; the last one begins earlier if they don't end evenly."""
        body = self.body
        count = body.op(f"udiv i64 {body.op(f'add i64 {size}, {lanes - 1}')}, {lanes}")
        end = body.op(f"sub i64 {size}, {lanes}")

        def one(g: str, values: list[Value]) -> list[Value]:
            i = body.op(f"mul i64 {g}, {lanes}")
            i = body.op(f"select i1 {body.op(f'icmp ult i64 {i}, {end}')}, i64 {i}, i64 {end}")
            return each(Value(body, i, WORD), values)

        return body.loop("0", count, 1, carried, one)[1]

    def bits(self, row: str, i: Value, lanes: int) -> Value:
        """The bits of elements of a line of the input."""
        body = self.body
        kind = Kind(f"i{8 * self.itemsize}", lanes)
        if self.shape.contiguous[0]:
            return body.loaded(kind, body.at(row, (i * self.itemsize).name))
        vector = body.undefined(kind)
        at = body.at(row, (i * Value(body, "%xs", WORD)).name)
        for lane in range(lanes):
            vector = vector.replaced(lane, body.loaded(Kind(kind.element), at))
            at = body.at(at, "%xs")
        return vector

    def reduced(self, row: str, offset: Value, slot: Value) -> None:
        """Reduce a line of the input along the width, and keep it; slot: among the lines that are kept."""
        if not self.shape.slides:
            self._kept(row, offset, slot)
            return
        self._copied(row, slot)
        self.groups("%m", self.shape.lanes, [], lambda i, _: self._along(i, offset))

    def _kept(self, row: str, offset: Value, slot: Value) -> None:
        """Keep a line that no window slides along."""

        def one(i: Value, values: list[Value]) -> list[Value]:
            bits = self.bits(row, i, self.shape.lanes)
            at = None if self.shape.indices is None else self._places(i) * self._index("weight")
            self.store(self.kind.begun(self.kind.read(bits), at, None), offset + i)
            return self._noted(bits, values)

        self._note(self.groups("%m", self.shape.lanes, self._unknown(self.shape.lanes), one), slot)

    def _copied(self, row: str, slot: Value) -> None:
        """Copy a line of the input between its padding."""
        lanes = self.shape.lanes_in

        def one(i: Value, values: list[Value]) -> list[Value]:
            bits = self.bits(row, i, lanes)
            place = i + Value(self.body, "%start", WORD)
            for j, value in enumerate(self.kind.read(bits)):
                self.body.stored(value, self.body.at(f"%line{j}", (place * (value.kind.bits // 8)).name))
            return self._noted(bits, values)

        self._note(self.groups("%n", lanes, self._unknown(lanes), one), slot)

    # --- the range of a line's elements ---

    def _unknown(self, lanes: int) -> list[Value]:
        if not self.shape.ranged:
            return []
        return [self.body.constant(Kind("i32", lanes), 0), self.body.constant(Kind("i32", lanes), -1)]

    def _noted(self, bits: Value, values: list[Value]) -> list[Value]:
        if not values:
            return []
        assert isinstance(self.kind, Total)
        size = self.kind.single(bits).bits() & 0x7FFFFFFF
        less = size - 1  # that of 0 is beyond all others
        high, low = values
        body = self.body
        return [body.chosen(size.compared("ugt", high), size, high), body.chosen(less.compared("ult", low), less, low)]

    def _note(self, values: list[Value], slot: Value) -> None:
        body = self.body
        for name, how, value in zip(("highest", "lowest"), ("umax", "umin"), values, strict=False):
            found = body.call(f"llvm.vector.reduce.{how}.v{value.kind.lanes}i32", Kind("i32"), value)
            body.stored(found, body.at(f"%{name}", (slot * 8).name))

    # --- along the width ---

    def _index(self, name: str) -> Value:
        """An argument in the type of positions, in every lane."""
        kind = self.kind.parts[-1]
        value = Value(self.body, f"%{name}", WORD).converted("trunc", Kind(kind.element))
        return self.body.splat(value, kind.lanes)

    def _places(self, i: Value) -> Value:
        """The lanes' places in the line, in the type of positions."""
        body, kind = self.body, self.kind.parts[-1]
        first = body.splat(i.converted("trunc", Kind(kind.element)), kind.lanes)
        return first + body.constants(kind.element, range(kind.lanes))

    def _along(self, i: Value, offset: Value) -> list[Value]:
        """Reduce a group of windows along the width, and keep it."""
        body, shape = self.body, self.shape
        window = Value(body, "%window", WORD)
        first = i * (shape.step or Value(body, "%stride", WORD))
        dilation = Value(body, "%dilation", WORD)
        indexed = shape.indices is not None
        starts = self._places(i) * self._index("stride") - self._index("start") if indexed else None

        def element(k: Value) -> tuple[list[Value], Value | None, Value | None]:
            x = self._strided(first + k * dilation)
            if starts is None:
                return x, None, None
            far = (k * dilation).converted("trunc", Kind(starts.kind.element))
            at = starts + body.splat(far, starts.kind.lanes)
            there = at.compared("ult", self._index("n"))
            return x, at * self._index("weight"), there

        made = self.kind.begun(*element(body.constant(WORD, 0)))
        if shape.width:
            for k in range(1, shape.width):
                made = self.kind.along(made, *element(body.constant(WORD, k)))
        else:

            def one(k: str, values: list[Value]) -> list[Value]:
                return self.kind.along(values, *element(Value(body, k, WORD)))

            made = body.loop("1", window.name, 1, made, one)[1]
        self.store(made[: len(self.kind.parts)], offset + i)
        return []

    def _strided(self, first: Value) -> list[Value]:
        """Elements of the padded line, a stride apart."""
        body, shape = self.body, self.shape
        found = []
        for j, kind in enumerate(self.kind.raw):
            size = kind.bits // 8
            at = body.at(f"%line{j}", (first * size).name)
            if shape.step == 1:
                found.append(body.loaded(kind, at))
                continue
            if shape.step == 2:
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

    # --- what is kept ---

    def store(self, values: list[Value], at: Value) -> None:
        for j, value in enumerate(values):
            self.body.stored(value, self.body.at(f"%slot{j}", (at * (value.kind.bits // 8)).name))

    def load(self, at: Value) -> list[Value]:
        """The parts of a group of a line that is kept."""
        body = self.body
        return [body.loaded(kind, body.at(f"%slot{j}", (at * (kind.bits // 8)).name)) for j, kind in enumerate(self.kind.parts)]
