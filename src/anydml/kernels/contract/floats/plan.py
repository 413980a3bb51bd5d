"""A contraction as steps: what is packed when, which block of sums follows which, and where each thread works.

Rows are packed as float64, and columns as float32, a chunk at a time; each block of rows and panels is summed, stored, and its
listed elements are decided, before the next one begins.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from itertools import pairwise, zip_longest
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
from anydml.kernels.contract.floats.planes_plan import Planes
from anydml.kernels.contract.geometry import Scratch
from anydml.kernels.elementwise.streams import CONSTANT, CONTIGUOUS, STRIDED
from anydml.tensor import DataType

ALONE = 1 << 18  # products below which a second thread costs more than it brings
LONG = 1 << 32  # products that take about a tenth of a second
GROUP = 192  # columns whose sums are there at once
LISTED = 1 << 14  # elements of a block at most
BLOCK = processor.caches().second // 4  # bytes of rows that are summed with one panel after the other
CHUNK = processor.caches().second // 2  # bytes of columns that are packed at once, where the rows are all packed
MOST = 32 << 20  # bytes of columns whose sums are there at once, where they are as many as one panel has
WHOLE = 8 << 20  # bytes of rows that are packed at once; more are packed again for every chunk, which is as large then
MANY = 16  # elements that are listed are summed all together if they are more than this part of a block
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
    """The part of one thread: some of the batches, rows and columns."""

    batches: range
    rows: range
    columns: range


class Plan:
    """The steps of a contraction, phase by phase, for each thread. open: where each counts what it leaves open.

    packed: where rows are packed once, by the steps `packing`, if they are.
    """

    def __init__(
        self,
        target: Target,
        found: Layout,
        formula: Stored,
        factors: tuple[DataType, DataType],
        threads: int,
        scratch: Scratch,
        constants: Constants,
        packed: Scratch | None = None,
    ) -> None:
        self.target, self.layout, self.factors, self.scratch, self.packed = target, found, factors, scratch, packed
        self.packing: list[Step | Repeat] = []
        self.shared: dict[range, tuple[At, At]] = {}
        streams = [found.streams[k] for k in formula.others]
        self.places = [*streams, found.output]
        types = [formula.types[k] for k in (*formula.others, -1)]
        lies = tuple(
            _lies(p, t, found, last=k == len(streams)) for k, (p, t) in enumerate(zip(self.places, types, strict=True))
        )
        self.block_row, self.sizes, self.values = 0, At("scratch"), At("scratch")
        self.shape = Shape(formula, lies, 0, 0, found.padded)
        self.lanes = target.vector_bytes // 8
        self.width = tile.width(target)
        self.constants = constants
        self.table = constants.add(found.table)
        self.planes = Planes.of(self)
        self.direct = direct_plan.serves(found, factors[1].dtype.itemsize)
        self.bits = scratch.take(-(-prod(found.batches) * found.rows * found.columns // 8))
        work = prod(found.batches) * found.rows * found.columns * found.terms
        shares = self._shares(threads if work >= ALONE else 1)
        self.open = [scratch.take(64) for _ in shares]
        mark = top = scratch.size
        self.phases: list[list[list[Step | Repeat]]] = []
        for turn in zip_longest(*(self._turns(piece, max(1, -(-work // (LONG * len(shares))))) for piece in shares)):
            scratch.size = mark  # one after another, they work in the same memory
            pieces = zip(turn, self.open, strict=True)
            self.phases.append([self._piece(piece, open_) for piece, open_ in pieces if piece is not None])
            top = max(top, scratch.size)
        scratch.size = top

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

    def _turns(self, piece: Piece, count: int) -> list[Piece]:
        """A piece in so many, between which a caller can be interrupted."""
        name, unit = ("batches", 1) if len(piece.batches) >= count else ("columns", self.width)
        items: range = getattr(piece, name)
        most = -(-len(items) // (count * unit)) * unit
        return [piece._replace(**{name: items[i : i + most]}) for i in range(0, len(items), most)]

    # --- one thread ---

    def _piece(self, piece: Piece, open_: At) -> list[Step | Repeat]:
        found, scratch = self.layout, self.scratch
        self.open_ = open_
        if self.planes is not None:
            return self.planes.steps(piece)
        if self.direct:
            direct_plan.take(self, piece)
            return self._batches(piece)
        height = min(tile.height(self.target), len(piece.rows))
        row_bytes = found.terms * 8
        whole = len(piece.rows) * row_bytes <= WHOLE or self.packed is not None
        self.block = max(1, min(BLOCK // max(row_bytes * height, 1), LISTED // (GROUP * height)))
        most = len(piece.rows) if whole else self.block * height
        # of long sums, fewer columns at once
        self.group = max(self.width, min(GROUP, MOST // max(found.terms * 4, 1)) // self.width * self.width)
        wanted = (CHUNK if len(piece.rows) * row_bytes <= WHOLE else WHOLE) // max(found.terms * 4, 1)
        self.chunk = max(1, wanted // self.group) * self.group
        columns = min(self.chunk, -(-len(piece.columns) // self.width) * self.width)
        group = min(self.group, columns)
        self.a_low = scratch.take(most * 8)
        if self.packed is None:
            self.a, self.a_norms = scratch.take(most * row_bytes), scratch.take(most * 8)
            self.packed_batch = 0, 0
        else:
            self.packed_batch = most * row_bytes, -(-most * 8 // 64) * 64
            self._pack_once(piece)
        self.b = scratch.take(columns * found.terms * 4 + SLACK)
        self.b_norms, self.b_low = scratch.take(columns * 8 + SLACK), scratch.take(columns * 8 + SLACK)
        self.sums, self.rests = (scratch.take(min(most, self.block * height) * group * 8) for _ in range(2))
        self.list = scratch.take((min(most, self.block * height) * group + 64) * 8)
        self.counter, self.whole = scratch.take(64), whole
        return self._batches(piece)

    def _batches(
        self,
        piece: Piece,
        steps: Callable[[tuple[int, ...]], Steps] | None = None,
        ranges: Callable[[tuple[int, ...], range], Steps] | None = None,
    ) -> list[Step | Repeat]:
        """The steps of a piece's batches, those of all kinds if none are given. ranges: of some that follow one another."""
        sizes = self.layout.batches

        def along(before: tuple[int, ...], first: int, end: int) -> list[Step | Repeat]:
            """The batches of such first indices, from one number of them on to before another."""
            if len(before) == len(sizes):
                if ranges is not None:  # of none
                    return list(ranges(before, range(1)))
                return list(self._one(before, piece) if steps is None else steps(before))
            if ranges is not None and len(before) == len(sizes) - 1:
                return list(ranges(before, range(first, end)))
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
        return (direct_plan.batch_steps if self.direct else Plan._batch)(self, batch, piece)

    def _batch(self, batch: tuple[int, ...], piece: Piece) -> Iterator[Step | Repeat]:
        if self.whole and self.packed is None:
            yield from self._pack_all(batch, piece.rows)
        yield from self.along(piece.columns, self.chunk, lambda c: self._chunk(batch, piece.rows, c))

    def _pack_all(self, batch: tuple[int, ...], some: range) -> Iterator[Step]:
        for group, height in self._heights(some):
            yield self._pack_rows(batch, group, height, group.start - some.start)

    def _pack_once(self, piece: Piece) -> None:
        """Take memory for the rows of all batches, which pieces share, and let them be packed into it, once."""
        assert self.packed is not None
        of_rows, of_norms = self.packed_batch
        count = prod(self.layout.batches)
        if piece.rows in self.shared:
            self.a, self.a_norms = self.shared[piece.rows]
            return
        self.a, self.a_norms = self.packed.take(count * of_rows), self.packed.take(count * of_norms)
        self.shared[piece.rows] = self.a, self.a_norms
        self.packing += self._batches(piece._replace(batches=range(count)), lambda batch: self._pack_all(batch, piece.rows))

    def _heights(self, items: range) -> Iterator[tuple[range, int]]:
        """Rows in tiles of two heights that differ by one, so that none is cut."""
        tiles = -(-len(items) // tile.height(self.target))
        height, taller = divmod(len(items), tiles)
        middle = items.start + taller * (height + 1)
        for group, h in ((range(items.start, middle), height + 1), (range(middle, items.stop), height)):
            if group:
                yield group, h

    def _chunk(self, batch: tuple[int, ...], rows_: range, columns: range) -> Iterator[Step | Repeat]:
        """A chunk of columns that is packed, and all rows with it."""
        full = range(columns.start, columns.start + len(columns) // self.width * self.width)
        rest = range(full.stop, columns.stop)
        parts = [(full, tile.vectors(self.target)), (rest, -(-len(rest) // self.lanes))]
        for part, across in parts:
            if part:
                yield self._pack_columns(batch, part, columns.start, across)
        for group, height in self._heights(rows_):
            tiles = range(len(group) // height)

            def block(t: range, group: range = group, height: int = height) -> Iterator[Step | Repeat]:
                some = range(group.start + t.start * height, group.start + t.stop * height)
                at = some.start - rows_.start if self.whole else 0
                if not self.whole:
                    yield self._pack_rows(batch, some, height, 0)
                for part, across in parts:
                    steps = partial(self._block, batch, some, height, at, columns.start, across)
                    yield from self.along(part, self.group, steps)

            yield from self.along(tiles, self.block, block)

    def _pack_rows(self, batch: tuple[int, ...], some: range, height: int, at: int) -> Step:
        found = self.layout
        positions, table, channels, term = len(found.table), self.table + 8, found.channels, found.a_term
        size = self.factors[0].dtype.itemsize
        if found.table.shape[0] and term == size * positions and (found.table[:, 1] == size * np.arange(positions)).all():
            channels, positions, term = channels * positions, 1, size  # they lie side by side
        code = engine.compiled(rows.packed, self.target, self.factors[0], height, positions == 1 and term == size)
        into, norms = self._rows_at(batch, at)
        a = found.a.of(batch, some.start)
        return Step(code, (a, found.a.row, len(some), channels, term, positions, table, 8 * ENTRY, into, norms))

    def _number(self, batch: tuple[int, ...]) -> int:
        """A batch's place among all of them."""
        number = 0
        for i, n in zip(batch, self.layout.batches, strict=True):
            number = number * n + i
        return number

    def _rows_at(self, batch: tuple[int, ...], at: int) -> tuple[At, At]:
        """Where packed rows of a batch are, from the at-th one on, and their norms."""
        number = self._number(batch) if self.packed is not None else 0
        of_rows, of_norms = self.packed_batch
        return self.a + number * of_rows + at * self.layout.terms * 8, self.a_norms + number * of_norms + at * 8

    def _pack_columns(self, batch: tuple[int, ...], columns: range, first: int, across: int) -> Step:
        found = self.layout
        contiguous = found.b.columns[2] == self.factors[1].dtype.itemsize
        code = engine.compiled(panels.packed, self.target, self.factors[1], across, contiguous, found.padded)
        panel = found.terms * across * self.lanes * 4
        where = (found.b.of(batch), columns.start, len(columns), *found.sizes[1:], *found.b.columns)
        terms = (found.channels, found.b_term, len(found.table), self.table)
        done = columns.start - first
        into, norms = self.b + done * found.terms * 4, self.b_norms + done * 8
        return Step(code, (*where, *terms, into, panel, norms, *found.inside))

    def _block(
        self, batch: tuple[int, ...], some: range, height: int, at: int, first: int, across: int, columns: range
    ) -> Iterator[Step]:
        """The sums of some rows and columns, and the elements that are stored for them."""
        found, target = self.layout, self.target
        width = across * self.lanes
        panels_, tiles = -(-len(columns) // width), len(some) // height
        a_tile, b_panel = found.terms * height * 8, found.terms * width * 4
        a, a_norms = self._rows_at(batch, at)
        b = self.b + (columns.start - first) * found.terms * 4
        sums_row = panels_ * width * 8
        code = engine.compiled(tile.sums, target, height, across, False)
        yield Step(code, (a, a_tile, tiles, b, b_panel, panels_, found.terms, self.sums, sums_row))
        shape = self.shape._replace(height=height, across=across)
        factor = int(np.float64((found.terms + 8) * 2.0**-53).view(np.int64))
        streams = [x for p in self.places for x in (p.of(batch, some.start), p.row, *p.columns)]
        offset = (columns.start - first) * 8
        norms = (a_norms, self.b_norms + offset, self.a_low, self.b_low)
        where = (len(some), columns.start, len(columns), *found.flat[1:], self.sums, sums_row, factor)
        packed = (a, a_tile, tiles, b, b_panel, panels_, found.terms)
        yield Step(engine.compiled(epilogue.block, target, shape), (*where, *norms, self.list, self.counter, *packed, *streams))
        code = engine.compiled(tile.doubled, target, height, across)
        most_listed = len(some) * len(columns) // MANY
        yield Step(code, (*packed, self.sums, sums_row, self.rests, self.counter, most_listed))
        known = (self.sums, self.rests, sums_row, factor, *norms, a, a_tile, height, b, b_panel, width)
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
        bit = (self._number(batch) * found.rows + some.start) * found.columns
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
