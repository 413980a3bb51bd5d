"""A contraction as steps: what is packed when, which block of sums follows which, and where each thread works.

Rows are packed as float64, and columns as float32, a chunk at a time; each block of rows and panels is summed, stored, and its
listed elements are decided, before the next one begins.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import pairwise
from math import prod
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from anydml.kernels.call.steps import At, Repeat, Step, repeat
from anydml.kernels.code import engine, processor
from anydml.kernels.code.targets import Target
from anydml.kernels.contract.floats import direct_plan, epilogue, panels, refine, rows, tile
from anydml.kernels.contract.floats.epilogue import Shape
from anydml.kernels.contract.floats.formula import Stored
from anydml.kernels.contract.floats.layout import ENTRY, Layout, Place
from anydml.kernels.contract.geometry import Scratch
from anydml.kernels.elementwise.streams import CONSTANT, CONTIGUOUS, STRIDED
from anydml.tensor import DataType

ALONE = 1 << 18  # products below which a second thread costs more than it brings
GROUP = 192  # columns whose sums are there at once
LISTED = 1 << 14  # elements of a block at most
BLOCK = processor.caches().second // 4  # bytes of rows that are summed with one panel after the other
CHUNK = processor.caches().second // 2  # bytes of columns that are packed at once, where the rows are all packed
WHOLE = 8 << 20  # bytes of rows that are packed at once; more are packed again for every chunk, which is as large then
DENSE = 16  # elements that are listed are summed all together if they are more than this part of a block
SLACK = 64  # bytes that the last vector of a panel may write behind it

Steps = Iterable[Step | Repeat]


class Constants:
    """Tables that steps read, in one array."""

    def __init__(self) -> None:
        self.parts: list[bytes] = [bytes(64)]
        self.size = 64

    def add(self, table: NDArray[np.int64]) -> At:
        raw = table.tobytes()
        at = At("constants", self.size)
        self.parts.append(raw + bytes(-len(raw) % 64))
        self.size += len(self.parts[-1])
        return at

    def array(self) -> NDArray[np.uint8]:
        return np.frombuffer(bytearray().join(self.parts), np.uint8)


class Piece(NamedTuple):
    """What one thread does: some of the batches, rows and columns."""

    batches: range
    rows: range
    columns: range


class Plan:
    """The steps of a contraction, for each thread. open: where each counts what it leaves open."""

    def __init__(
        self,
        target: Target,
        found: Layout,
        formula: Stored,
        factors: tuple[DataType, DataType],
        threads: int,
        scratch: Scratch,
        constants: Constants,
    ) -> None:
        self.target, self.layout, self.factors, self.scratch = target, found, factors, scratch
        streams = [found.streams[k] for k in formula.others]
        self.places = [*streams, found.output]
        types = [formula.types[k] for k in (*formula.others, -1)]
        lies = tuple(
            _lies(p, t, found, last=k == len(streams)) for k, (p, t) in enumerate(zip(self.places, types, strict=True))
        )
        self.block_row, self.sizes = 0, At("scratch")
        self.shape = Shape(formula, lies, 0, 0, found.padded)
        self.lanes = target.vector_bytes // 8
        self.width = tile.width(target)
        self.table = constants.add(found.table)
        self.bits = scratch.take(-(-prod(found.batches) * found.rows * found.columns // 8))
        work = prod(found.batches) * found.rows * found.columns * found.terms
        self.pieces: list[list[Step | Repeat]] = []
        self.open: list[At] = []
        for piece in self._shares(threads if work >= ALONE else 1):
            self.open.append(scratch.take(64))
            self.pieces.append(self._piece(piece, self.open[-1]))

    def _shares(self, count: int) -> list[Piece]:
        found = self.layout
        batches, height = prod(found.batches), tile.height(self.target)
        units = {"batches": batches, "columns": -(-found.columns // self.width), "rows": -(-found.rows // height)}
        name = next((x for x, n in units.items() if n >= 2 * count), max(units, key=lambda x: units[x]))
        count = min(count, units[name])
        size, unit = {"batches": (batches, 1), "columns": (found.columns, self.width), "rows": (found.rows, height)}[name]
        ends = [min(units[name] * k // count * unit, size) for k in range(count)] + [size]
        whole = Piece(range(batches), range(found.rows), range(found.columns))
        return [whole._replace(**{name: range(a, b)}) for a, b in pairwise(ends)]

    # --- one thread ---

    def _piece(self, piece: Piece, open_: At) -> list[Step | Repeat]:
        found, scratch = self.layout, self.scratch
        self.open_ = open_
        if direct_plan.serves(found):
            direct_plan.take(self, piece)
            return self._batches(piece)
        height = min(tile.height(self.target), len(piece.rows))
        whole = len(piece.rows) * found.terms * 8 <= WHOLE
        row_bytes = found.terms * 8
        self.block = max(1, min(BLOCK // max(row_bytes * height, 1), LISTED // (GROUP * height)))
        most = len(piece.rows) if whole else self.block * height
        self.chunk = max(GROUP, (CHUNK if whole else WHOLE) // max(found.terms * 4, 1) // GROUP * GROUP)
        columns = min(self.chunk, -(-len(piece.columns) // self.width) * self.width)
        group = min(GROUP, columns)
        self.a = scratch.take(most * row_bytes)
        self.a_norms, self.a_low = scratch.take(most * 8), scratch.take(most * 8)
        self.b = scratch.take(columns * found.terms * 4 + SLACK)
        self.b_norms, self.b_low = scratch.take(columns * 8 + SLACK), scratch.take(columns * 8 + SLACK)
        self.sums, self.rests = (scratch.take(min(most, self.block * height) * group * 8) for _ in range(2))
        self.list = scratch.take((min(most, self.block * height) * group + 64) * 8)
        self.counter, self.whole = scratch.take(64), whole
        return self._batches(piece)

    def _batches(self, piece: Piece) -> list[Step | Repeat]:
        sizes = self.layout.batches

        def along(before: tuple[int, ...], first: int, end: int) -> list[Step | Repeat]:
            """The batches of such first indices, from one number of them on to before another."""
            if len(before) == len(sizes):
                return list(self._one(before, piece))
            below = prod(sizes[len(before) + 1 :])
            whole = range(-(-first // below), end // below)
            found: list[Step | Repeat] = []
            if first % below:  # the last ones of one
                i = first // below
                found += along((*before, i), first % below, min(end - i * below, below))
            found += self._repeated(whole, lambda i: along((*before, i), 0, below))
            if end % below and end // below * below >= first:
                found += along((*before, end // below), 0, end % below)
            return found

        return along((), piece.batches.start, piece.batches.stop)

    def _repeated(self, items: range, steps: Callable[[int], Steps]) -> list[Step | Repeat]:
        """`steps` of each item, whose arguments move evenly from item to item: of the first two, to be repeated."""
        if len(items) < 3:
            return [step for i in items for step in steps(i)]
        code = engine.compiled(repeat, self.target)
        return [Repeat(code, len(items), list(steps(items[0])), list(steps(items[1])))]

    def along(self, items: range, most: int, steps: Callable[[range], Steps]) -> list[Step | Repeat]:
        """`steps` of at most so many items at a time."""
        firsts = range(items.start, items.start + len(items) // most * most, most)
        found = self._repeated(firsts, lambda first: steps(range(first, first + most)))
        rest = range(items.start + len(firsts) * most, items.stop)
        return [*found, *steps(rest)] if rest else found

    def _one(self, batch: tuple[int, ...], piece: Piece) -> Iterator[Step | Repeat]:
        """The steps of one batch."""
        return (direct_plan.batch_steps if direct_plan.serves(self.layout) else Plan._batch)(self, batch, piece)

    def _batch(self, batch: tuple[int, ...], piece: Piece) -> Iterator[Step | Repeat]:
        if self.whole:
            for group, height in self._heights(piece.rows):
                yield self._pack_rows(batch, group, height, (group.start - piece.rows.start))
        full = range(piece.columns.start, piece.columns.start + len(piece.columns) // self.width * self.width)
        rest = range(full.stop, piece.columns.stop)
        across = tile.vectors(self.target)
        yield from self.along(full, self.chunk, lambda c: self._chunk(batch, piece.rows, c, across))
        if rest:
            yield from self._chunk(batch, piece.rows, rest, -(-len(rest) // self.lanes))

    def _heights(self, items: range) -> Iterator[tuple[range, int]]:
        """Rows in tiles of two heights that differ by one, so that none is cut."""
        tiles = -(-len(items) // tile.height(self.target))
        height, taller = divmod(len(items), tiles)
        middle = items.start + taller * (height + 1)
        for group, h in ((range(items.start, middle), height + 1), (range(middle, items.stop), height)):
            if group:
                yield group, h

    def _chunk(self, batch: tuple[int, ...], rows_: range, columns: range, across: int) -> Iterator[Step | Repeat]:
        """A chunk of columns that is packed, and all rows with it."""
        width = across * self.lanes
        yield self._pack_columns(batch, columns, across)
        for group, height in self._heights(rows_):
            tiles = range(len(group) // height)

            def block(t: range, group: range = group, height: int = height) -> Iterator[Step | Repeat]:
                some = range(group.start + t.start * height, group.start + t.stop * height)
                at = some.start - rows_.start if self.whole else 0
                if not self.whole:
                    yield self._pack_rows(batch, some, height, 0)
                yield from self.along(
                    range(columns.start, columns.stop),
                    GROUP // width * width,
                    lambda c: self._block(batch, some, height, at, c, columns.start, across),
                )

            yield from self.along(tiles, self.block, block)

    def _pack_rows(self, batch: tuple[int, ...], some: range, height: int, at: int) -> Step:
        found = self.layout
        positions, table, channels, term = len(found.table), self.table + 8, found.channels, found.a_term
        size = self.factors[0].dtype.itemsize
        if found.table.shape[0] and term == size * positions and (found.table[:, 1] == size * np.arange(positions)).all():
            channels, positions, term = channels * positions, 1, size  # they lie side by side
        code = engine.compiled(rows.packed, self.target, self.factors[0], height, positions == 1 and term == size)
        into, norms = self.a + at * found.terms * 8, self.a_norms + at * 8
        a = found.a.of(batch, some.start)
        return Step(code, (a, found.a.row, len(some), channels, term, positions, table, 8 * ENTRY, into, norms))

    def _pack_columns(self, batch: tuple[int, ...], columns: range, across: int) -> Step:
        found = self.layout
        contiguous = found.b.columns[2] == self.factors[1].dtype.itemsize
        code = engine.compiled(panels.packed, self.target, self.factors[1], across, contiguous, found.padded)
        panel = found.terms * across * self.lanes * 4
        where = (found.b.of(batch), columns.start, len(columns), *found.sizes[1:], *found.b.columns)
        terms = (found.channels, found.b_term, len(found.table), self.table)
        return Step(code, (*where, *terms, self.b, panel, self.b_norms, *found.inside))

    def _block(
        self, batch: tuple[int, ...], some: range, height: int, at: int, columns: range, first: int, across: int
    ) -> Iterator[Step]:
        """The sums of some rows and columns, and the elements that are stored for them."""
        found, target = self.layout, self.target
        width = across * self.lanes
        panels_, tiles = -(-len(columns) // width), len(some) // height
        a_tile, b_panel = found.terms * height * 8, found.terms * width * 4
        a = self.a + at * found.terms * 8
        b = self.b + (columns.start - first) // width * b_panel
        sums_row = panels_ * width * 8
        code = engine.compiled(tile.sums, target, height, across, False)
        yield Step(code, (a, a_tile, tiles, b, b_panel, panels_, found.terms, self.sums, sums_row))
        shape = self.shape._replace(height=height, across=across)
        factor = int(np.float64((found.terms + 8) * 2.0**-53).view(np.int64))
        streams = [x for p in self.places for x in (p.of(batch, some.start), p.row, *p.columns)]
        offset = (columns.start - first) * 8
        norms = (self.a_norms + at * 8, self.b_norms + offset, self.a_low, self.b_low)
        where = (len(some), columns.start, len(columns), *found.flat[1:], self.sums, sums_row, factor)
        packed = (a, a_tile, tiles, b, b_panel, panels_, found.terms)
        yield Step(engine.compiled(epilogue.block, target, shape), (*where, *norms, self.list, self.counter, *packed, *streams))
        code = engine.compiled(tile.doubled, target, height, across)
        most_listed = len(some) * len(columns) // DENSE
        yield Step(code, (*packed, self.sums, sums_row, self.rests, self.counter, most_listed))
        known = (self.sums, self.rests, sums_row, factor, *norms)
        yield self.refine(batch, some, columns, shape._replace(height=0, across=0), known, streams)

    def refine(
        self,
        batch: tuple[int, ...],
        some: range,
        columns: range,
        shape: Shape,
        known: Sequence[At | int],
        streams: Sequence[At | int],
    ) -> Step:
        found = self.layout
        code = engine.compiled(refine.refined, self.target, shape, self.factors)
        number = 0
        for i, n in zip(batch, found.batches, strict=True):
            number = number * n + i
        bit = (number * found.rows + some.start) * found.columns
        left = (found.a.of(batch, some.start), found.a.row, found.a_term)
        right = (found.b.of(batch), *found.sizes[1:], *found.b.columns, found.b_term)
        terms = (found.channels, len(found.table), self.table)
        listed = (self.list, self.counter, columns.start, *found.flat[1:])
        return Step(code, (*left, *right, *terms, *listed, self.bits, bit, found.columns, self.open_, *known, *streams))


def _lies(p: Place, data_type: DataType, found: Layout, *, last: bool) -> str:
    stride = p.columns[2]
    if stride == data_type.dtype.itemsize or (found.flat[2] == 1 and last):
        return CONTIGUOUS
    return CONSTANT if not stride and not last else STRIDED
