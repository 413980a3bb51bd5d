"""Reads of the elements of a line for a strip: for each column of the filter, a vector in two halves.

If lines are narrow, there is only one half.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from anydml.kernels.code.emit import shuffle
from anydml.kernels.code.targets import Target
from anydml.kernels.code.values import Body, Kind, Value
from anydml.kernels.contract.floats.formula import Stored
from anydml.kernels.contract.floats.largest import below
from anydml.kernels.contract.floats.reads import Reader, single
from anydml.tensor import DataType

NARROW = 4  # least float64 lanes for strips of a single half


class FilterKey(NamedTuple):
    """The factors' types; high, wide: the filter's lines and columns; down, across: the strides of the window.

    beside: whether the filter's columns read contiguous elements. narrow: whether lines have no more columns than a
    vector has float64. single: whether all elements that are read of a line fit into one vector. flat: empty, or, if planes are
    computed as single lines, whether each column of the filter has outputs that it does not count for.
    """

    a: DataType
    b: DataType
    high: int
    wide: int
    down: int
    across: int
    beside: bool
    narrow: bool
    single: bool
    flat: tuple[bool, ...]
    stored: Stored

    def reach(self, half: int) -> int:
        """The number of vectors of `half` elements that a strip reads in a line."""
        return 1 if self.single else 2 - self.narrow + -(-(self.wide - 1) // half)

    @property
    def error(self) -> float:
        """The bound of a sum's error over the sum of its terms' magnitudes: all additions, and the roundings of the test."""
        return (self.high * self.wide + 8) * 2.0**-53


class FilterReads:
    """The reads of elements. order: the places of the elements when every second one of two vectors is taken."""

    ways: Sequence[tuple[str, str, str]]

    def __init__(self, target: Target, kinds: FilterKey) -> None:
        self.body = Body(target)
        self.half = target.vector_bytes // 8
        self.take(kinds)

    def take(self, kinds: FilterKey) -> None:
        """Emit reads of vectors of these kinds from now on."""
        self.kinds = kinds
        self.parts = range(1 if kinds.narrow else 2)
        self.lanes = self.half * len(self.parts)
        self.reader = Reader(self.body, kinds.b, 1, self.half)
        self.whole = Reader(self.body, kinds.b, 1, self.lanes)
        # every second element of two vectors: one instruction interleaves each 16 bytes of both in this order
        of_one = self.lanes // 2
        self.order = [o for n in range(0, of_one, 2) for o in (n, n + 1, n + of_one, n + of_one + 1)]
        # if columns are contiguous, two columns of the filter share a vector, one the even and one the odd elements
        pair = 2 if kinds.beside else 1
        self.groups = [range(max(v - pair, 0), v) for v in range(kinds.wide, 0, -pair)][::-1]

    def _masks(self, x: str) -> list[Value]:
        """The masks of the elements that exist, for each vector that `_elements` reads."""
        body, half = self.body, self.half
        if self.kinds.across == 2:
            return self._masks_of_seconds(x)
        if not self.kinds.beside:
            ends = [[body.op(f"sub i64 {end}, {x}") for end in way[1:]] for way in self.ways for _ in self.parts]
            first = [h * half for _ in self.ways for h in self.parts]
        else:
            offsets = [body.op(f"sub i64 {end}, {self.ways[0][0]}") for end in ("%from", "%until")]
            elements = [body.op(f"sdiv i64 {offset}, {self.kinds.b.dtype.itemsize}") for offset in offsets]
            first = [k * half for k in range(self.kinds.reach(half))]
            ends = [[body.op(f"sub i64 {end}, {x}") for end in elements]] * len(first)
        return [below(body, b, half, at) & ~below(body, a, half, at) for (a, b), at in zip(ends, first, strict=True)]

    def _masks_of_seconds(self, x: str) -> list[Value]:
        """The masks of vectors of which every second element belongs to a column."""
        body, lanes, of_one = self.body, self.lanes, self.lanes // 2
        found = []
        for group in self.groups:
            counts = [[body.op(f"sub i64 {end}, {x}") for end in self.ways[v][1:]] for v in group]
            for first in (0, of_one):
                mask = body.constant(Kind("i1", lanes), False)
                for parity, (low, high) in enumerate(counts):
                    some = below(body, high, of_one, first) & ~below(body, low, of_one, first)
                    none = body.constant(some.kind, False)
                    order = [n // 2 if n % 2 == parity else of_one for n in range(lanes)]
                    mask = mask | Value(body, shuffle(body, some.name, none.name, some.kind.text, order), mask.kind)
                found.append(mask)
        return found

    def _elements(self, at: list[str], masks: list[Value] | None) -> list[list[Value]]:
        """The halves of each filter column's elements in a line."""
        body, kinds, half = self.body, self.kinds, self.half
        if kinds.across == 2:
            return self._seconds(at, masks)

        def read(place: str, first: int, k: int) -> Value:
            x = single(self.reader.read(place, str(first), None if masks is None else masks[k]), kinds.b)
            return x.converted("fpext", x.kind.of("double"))

        if not kinds.beside:
            return [[read(place, h * half, len(self.parts) * v + h) for h in self.parts] for v, place in enumerate(at)]
        vectors = [read(at[0], k * half, k) for k in range(kinds.reach(half))]

        def moved(first: int) -> Value:
            k, by = divmod(first, half)
            if not by:
                return vectors[k]
            x, y = vectors[k], vectors[-1 if kinds.single else k + 1]  # of a single vector, the last lanes are outside of lines
            return Value(body, shuffle(body, x.name, y.name, x.kind.text, range(by, by + half)), x.kind)

        return [[moved(v + h * half) for h in self.parts] for v in range(kinds.wide)]

    def _seconds(self, at: list[str], masks: list[Value] | None) -> list[list[Value]]:
        """Halves of every second element, in the order of `order`."""
        body, kinds, lanes, half = self.body, self.kinds, self.lanes, self.half
        found = []
        for k, group in enumerate(self.groups):
            low, high = (
                single(self.whole.read(at[group[0]], str(n * lanes), None if masks is None else masks[2 * k + n]), kinds.b)
                for n in (0, 1)
            )
            for parity, _ in enumerate(group):
                every = shuffle(body, low.name, high.name, low.kind.text, [2 * n + parity for n in self.order])
                parts = [range(h * half, (h + 1) * half) for h in self.parts]
                ends = (shuffle(body, every, "poison", low.kind.text, part) for part in parts)
                singles = [Value(body, end, Kind("float", half)) for end in ends]
                found.append([x.converted("fpext", x.kind.of("double")) for x in singles])
        return found
