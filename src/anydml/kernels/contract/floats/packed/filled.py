"""The packing of a panel's elements: run by run, position by position, for all channels."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from anydml.kernels.code.emit import when
from anydml.kernels.code.targets import Target
from anydml.kernels.code.values import Body, Kind, Value
from anydml.kernels.contract.floats.layout import ENTRY
from anydml.kernels.contract.floats.packed.tile import LINE
from anydml.kernels.copy.text import prefetch
from anydml.kernels.numbers import singles
from anydml.tensor import DataType

RUN = 40  # bytes of a run's record: its start in the panel, its length, and the index of its first column


class Filled:
    """The part of the kernel that packs a panel's elements.

    runs: the records of the panel's runs, of RUN bytes; channel: bytes of a channel's terms in a panel; one: whether there is a
    single run, as wide as the panel.
    """

    runs: str
    channel: str
    one: str

    def __init__(self, target: Target, data_type: DataType, across: int, step: int, padded: bool) -> None:
        self.body, self.target = Body(target), target
        self.data_type, self.step, self.padded = data_type, step, padded
        self.wide = target.vector_bytes // 8  # float64 of a vector
        self.width, self.across = across * self.wide, across
        # stored at once: half a vector if every second element is read, and so on; no more than a row has
        self.lanes = min(target.vector_bytes // 4 // max(step, 1), self.width)
        self.places = [n // max(step, 1) for n in range(self.lanes * max(step, 1))]

    def _straight(self, from_: str, to: str) -> list[Value]:
        """Copy the elements of a panel's row, which are contiguous, or every second or fourth one."""
        body, size = self.body, self.data_type.dtype.itemsize
        kind = Kind(f"i{8 * size}", self.wide)

        def read(n: int) -> Value:
            place = size * self.wide * n * self.step
            if self.step == 1:
                return body.loaded(kind, from_, place)
            active = body.constants(
                "i1", [k % self.step == 0 for k in range(self.step * self.wide)]
            )  # the last may be outside of the tensor
            return self._apart(body.masked(Kind(kind.element, self.step * self.wide), body.at(from_, place), active))

        singles = [self._single(read(n)) for n in range(self.across)]
        for n, single in enumerate(singles):
            body.stored(single, to, 4 * self.wide * n)
        return singles

    def _ahead(self, from_: str) -> None:
        """Prefetch the elements at the same place of the next line."""
        next_ = self.body.at(from_, "%s1")
        for place in range(0, self.width * self.step * self.data_type.dtype.itemsize, LINE):
            prefetch(self.body, 2, next_, place)

    def _apart(self, bits: Value) -> Value:
        """The elements that are `step` apart."""
        order, lanes = ", ".join(f"i32 {n}" for n in range(0, bits.kind.lanes, self.step)), bits.kind.lanes // self.step
        text = f"shufflevector {bits!r}, {bits!r}, <{lanes} x i32> <{order}>"
        return self.body.value(text, Kind(bits.kind.element, lanes))

    def _single(self, bits: Value) -> Value:
        return singles.widened(bits, self.data_type)

    def _offset(self, z: str, y: str, x: str) -> str:
        body = self.body
        offset = body.op(f"add i64 {body.op(f'mul i64 {z}, %s0')}, {body.op(f'mul i64 {y}, %s1')}")
        return body.op(f"add i64 {offset}, {body.op(f'mul i64 {x}, %s2')}")

    def _fill(self, into: str, runs: str) -> None:
        """Pack all terms of a panel, position by position: the ranges of a position are the same for all channels."""
        body = self.body

        def position(p: str, _: list[Value]) -> list[Value]:
            entry = body.at("%table", body.op(f"mul i64 {p}, {8 * ENTRY}"))
            from_, to = body.at("%b", body.load("i64", entry)), body.at(into, body.op(f"mul i64 {p}, {4 * self.width}"))

            def run(n: str, _: list[Value]) -> list[Value]:
                self._run(body.at(self.runs, body.op(f"mul i64 {n}, {RUN}")), entry, from_, to)
                return []

            body.loop("0", runs, 1, [], run)
            return []

        body.loop("0", "%positions", 1, [], position)

    def _channels(self, from_: str, to: str, copy: Callable[[str, str], object]) -> None:
        """Call `copy` with the source and the destination of each channel."""
        body = self.body

        def channel(c: str, _: list[Value]) -> list[Value]:
            copy(body.at(from_, body.op(f"mul i64 {c}, %term")), body.at(to, body.op(f"mul i64 {c}, {self.channel}")))
            return []

        body.loop("0", "%channels", 1, [], channel)

    def _run(self, record: str, entry: str, from_: str, to: str) -> None:
        """Pack the elements of a run for a position, in vectors: the last one may write zeros that the next run overwrites."""
        body = self.body
        done, length, z, y, x = (body.load("i64", record, 8 * k) for k in range(5))
        start, end = "0", length
        if self.padded:
            start, end = self._inside(entry, length, z, y, x)
        from_, to = body.at(from_, self._offset(z, y, x)), body.at(to, body.op(f"mul i64 {done}, 4"))
        # rounded up: the last group may be partial
        up = body.op(f"and i64 {body.op(f'add i64 {length}, {self.lanes - 1}')}, {-self.lanes}")
        if self.step and (self.padded or self.step > 1):  # a whole panel whose columns all count is copied unmasked
            all_ = body.op(f"and i1 {self.one}, {body.op(f'icmp eq i64 {start}, 0')}")
            all_ = body.op(f"and i1 {all_}, {body.op(f'icmp eq i64 {end}, {self.width}')}")

            def straight(at: str, place: str) -> None:
                self._ahead(at)
                self._straight(at, place)

            when(body, all_, lambda: self._channels(from_, to, straight))
            up = body.op(f"select i1 {all_}, i64 0, i64 {up}")
        room = body.op(f"sub i64 {self.width - self.lanes}, {done}")

        def group(i: str, _: list[Value]) -> list[Value]:
            self._group(from_, to, i, room, start, end)
            return []

        body.loop("0", up, self.lanes, [], group)

    def _inside(self, entry: str, length: str, z: str, y: str, x: str) -> tuple[str, str]:
        """The half-open range of a run's elements that count for a position."""
        body, i64 = self.body, Kind("i64")
        inside = []
        for k, value in ((0, z), (1, y)):
            low, high = body.load("i64", entry, 16 + 16 * k), body.load("i64", entry, 24 + 16 * k)
            inside.append(body.op(f"icmp sge i64 {value}, {low}"))
            inside.append(body.op(f"icmp slt i64 {value}, {high}"))
        all_ = inside[0]
        for condition in inside[1:]:
            all_ = body.op(f"and i1 {all_}, {condition}")
        bounds = (body.op(f"sub i64 {body.load('i64', entry, at)}, {x}") for at in (48, 56))
        bounds = (body.call("llvm.smax.i64", i64, f"i64 {bound}", "i64 0").name for bound in bounds)
        start, end = (body.call("llvm.smin.i64", i64, f"i64 {bound}", f"i64 {length}").name for bound in bounds)
        return start, body.op(f"select i1 {all_}, i64 {end}, i64 0")

    def _group(self, from_: str, to: str, i: str, room: str, start: str, end: str) -> None:
        """Pack a vector of a run's elements, from the i-th on, for all channels; room: the last start that fits in the row.

        A vector that would start later is moved back, and keeps the elements before the i-th.
        """
        body, lanes, size = self.body, self.lanes, self.data_type.dtype.itemsize
        kind, many = Kind(f"i{8 * size}", lanes), len(self.places)
        tight = body.op(f"icmp sgt i64 {i}, {room}")
        first = body.op(f"select i1 {tight}, i64 {room}, i64 {i}")
        low = body.call("llvm.smax.i64", Kind("i64"), f"i64 {start}", f"i64 {i}").name

        def before(places: Sequence[int], bound: str) -> Value:
            short = body.op(f"trunc i64 {body.op(f'sub i64 {bound}, {first}')} to i32")
            return body.constants("i32", places).compared("slt", body.splat(Value(body, short, Kind("i32")), len(places)))

        active = before(self.places, end) & ~before(self.places, low)
        if self.step > 1:
            active = active & body.constants("i1", [n % self.step == 0 for n in range(many)])
        kept = before(range(lanes), i)
        offset = body.op(f"mul i64 {first}, {'%s2' if not self.step else size * self.step}")

        def read(at: str) -> Value:
            if not self.step:
                return self._single(self._gathered(kind, at, active))
            bits = body.masked(Kind(kind.element, many), at, active)
            return self._single(self._apart(bits) if self.step > 1 else bits)

        def write(at: str, place: str) -> None:
            body.stored(read(at), place)

        def write_back(at: str, place: str) -> None:
            made = read(at)
            body.stored(body.chosen(kept, body.loaded(made.kind, place), made), place)

        at, place = body.at(from_, offset), body.at(to, body.op(f"mul i64 {first}, 4"))
        when(body, tight, lambda: self._channels(at, place, write_back))
        when(body, body.op(f"xor i1 {tight}, true"), lambda: self._channels(at, place, write))

    def _gathered(self, kind: Kind, from_: str, active: Value) -> Value:
        body = self.body
        offsets = body.constants("i64", self.places) * body.splat(Value(body, "%s2", Kind("i64")), kind.lanes)
        return body.masked(kind, from_, active, offsets)
