"""A contraction as steps: what is packed when, which block of sums follows which, and where each thread works.

Rows are packed as float64, and columns as float32, a chunk at a time; each block of rows and panels is summed, stored, and its
listed elements are decided, before the next one begins.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from itertools import zip_longest
from math import prod

import numpy as np
from numpy.typing import NDArray

from anydml.kernels.call.steps import At, Repeat, Step, repeat
from anydml.kernels.code import engine, processor
from anydml.kernels.code.targets import Target
from anydml.kernels.contract.floats import epilogue
from anydml.kernels.contract.floats.epilogue import MAGNITUDES, PAIRS, EpilogueKey
from anydml.kernels.contract.floats.few import plan as direct_plan
from anydml.kernels.contract.floats.formula import Stored
from anydml.kernels.contract.floats.layout import FloatLayout, StreamPlace
from anydml.kernels.contract.floats.packed import at_once, doubled, magnitudes, tile
from anydml.kernels.contract.floats.packed import factors as packed
from anydml.kernels.contract.floats.packed.factors import SLACK, PackedFactor
from anydml.kernels.contract.floats.planes.plan import Planes
from anydml.kernels.contract.floats.second import refine, zeros
from anydml.kernels.contract.floats.shares import ThreadShare, pieces, turns
from anydml.kernels.contract.geometry import Scratch
from anydml.kernels.elementwise.streams import CONSTANT, CONTIGUOUS, STRIDED
from anydml.tensor import DataType

ALONE = 1 << 18  # products below which a second thread costs more than it brings
LONG = 1 << 32  # products that take about a tenth of a second
GROUP = 192  # columns whose sums are there at once
LISTED = 1 << 14  # elements of a block at most
BLOCK = processor.caches().second // 4  # bytes of rows that are summed with one panel after the other
CHUNK = processor.caches().second // 2  # bytes of columns that are packed at once, where the rows are all packed
FEW_PANELS = 4  # of columns that come in between
DEPTH = 128  # terms of a sum that are added up before they are added to others
MOST = 32 << 20  # bytes of columns whose sums are there at once, where they are as many as one panel has
FAR = 8 << 20  # the same where rows are packed again for every chunk, block by block; and bytes of these rows
MANY = 32  # magnitudes are summed where more than this part of a block is listed, which costs about as much,
VERY_MANY = 12  # and pairs where it is more than this part

Steps = Iterable[Step | Repeat]


class FloatTables:
    """Tables that steps read, in one array. none: where it begins, with zeros."""

    none = At("constants")

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


class FloatPlan:
    """The steps of a contraction, phase by phase, for each thread. open: where each counts what it leaves open.

    kept: where they and the bits of elements are, zeros unless something is open; scratch: what nothing is left in.
    packed, packed_columns: where rows, and columns, are packed once, by the steps `packing`, if they are.
    """

    rows: PackedFactor
    columns: PackedFactor

    def __init__(
        self,
        target: Target,
        found: FloatLayout,
        formula: Stored,
        factors: tuple[DataType, DataType],
        threads: int,
        kept: Scratch,
        scratch: Scratch,
        constants: FloatTables,
        packed: Scratch | None = None,
        packed_columns: Scratch | None = None,
    ) -> None:
        self.target, self.layout, self.factors, self.scratch = target, found, factors, scratch
        self.packed, self.packed_columns = packed, packed_columns
        self.packing: list[Step | Repeat] = []
        self.shared: dict[tuple[str, range], PackedFactor] = {}
        streams = [found.streams[k] for k in formula.others]
        self.places = [*streams, found.output]
        types = [formula.types[k] for k in (*formula.others, -1)]
        lies = tuple(
            _lies(p, t, found, last=k == len(streams)) for k, (p, t) in enumerate(zip(self.places, types, strict=True))
        )
        self.block_row, self.sizes, self.values = 0, At("scratch"), At("scratch")
        self.shape = EpilogueKey(formula, lies, found.padded)
        self.at_once = not target.later and at_once.serves(target, found, self.shape)
        self.lanes = target.vector_bytes // 8
        self.width = tile.width(target)
        self.constants = constants
        self.table = constants.add(found.table)
        self.planes = None if target.later else Planes.of(self)  # whose stages are one kernel
        self.direct = direct_plan.serves(found, factors[1].dtype.itemsize, packed_columns is not None)
        self.bits = kept.take(-(-prod(found.batches) * found.rows * found.columns // 8))
        work = prod(found.batches) * found.rows * found.columns * found.terms
        shares = self._shares(threads if work >= ALONE else 1)
        self.open = [kept.take(64) for _ in shares]
        mark = top = scratch.size
        self.phases: list[list[list[Step | Repeat]]] = []
        for turn in zip_longest(*(self._turns(piece, max(1, -(-work // (LONG * len(shares))))) for piece in shares)):
            scratch.size = mark  # one after another, they work in the same memory
            own = zip(turn, self.open, strict=True)
            self.phases.append([self._piece(piece, open_) for piece, open_ in own if piece is not None])
            top = max(top, scratch.size)
        scratch.size = top

    def _shares(self, count: int) -> list[ThreadShare]:
        done = self.packed is not None, self.packed_columns is not None
        return pieces(self.layout, tile.height(self.target), self.width, count, done)

    def _turns(self, piece: ThreadShare, count: int) -> list[ThreadShare]:
        return turns(piece, self.width, count)

    # --- one thread ---

    def _piece(self, piece: ThreadShare, open_: At) -> list[Step | Repeat]:
        found, scratch = self.layout, self.scratch
        self.open_ = open_
        if self.planes is not None:
            return self.planes.steps(piece)
        if self.direct:
            direct_plan.take(self, piece)
            return self._batches(piece)
        height = min(tile.height(self.target), len(piece.rows))
        row_bytes = found.terms * 8
        # with all terms where a tile meets them all, or where so few columns come in between that all of these stay near, too
        few = len(piece.columns) <= self.width * FEW_PANELS and len(piece.columns) * found.terms * 4 <= BLOCK
        depth = found.terms if self.at_once or few else min(found.terms, DEPTH)
        self.block = max(
            1, min(BLOCK // max(depth * 8 * height, 1), LISTED // (GROUP * height), FAR // max(row_bytes * height, 1))
        )
        whole = len(piece.rows) <= self.block * height or self.packed is not None
        most = len(piece.rows) if whole else self.block * height
        # of long sums, fewer columns at once
        self.group = max(self.width, min(GROUP, MOST // max(found.terms * 4, 1)) // self.width * self.width)
        wanted = (CHUNK if whole else FAR) // max(found.terms * 4, 1)
        self.chunk = max(1, wanted // self.group) * self.group
        if self.packed_columns is not None:
            self.chunk = -(-len(piece.columns) // self.width) * self.width
        columns = min(self.chunk, -(-len(piece.columns) // self.width) * self.width)
        group = min(self.group, columns)
        self.rows = self._packed("rows", piece, self.packed, most)
        self.columns = self._packed("columns", piece, self.packed_columns, columns)
        self.a_low, self.b_low = scratch.take(most * 8), scratch.take(columns * 8 + SLACK)
        self.sums, self.rests = (scratch.take(min(most, self.block * height) * group * 8) for _ in range(2))
        self.list = scratch.take((min(most, self.block * height) * group + 64) * 8)
        self.counter, self.whole = scratch.take(64), whole
        return self._batches(piece)

    def _packed(self, name: str, piece: ThreadShare, once: Scratch | None, count: int) -> PackedFactor:
        """Where a piece's rows or columns are packed; pieces share what is packed once."""
        size, place = (8, self.layout.a) if name == "rows" else (4, self.layout.b)
        some: range = getattr(piece, name)
        found = self.shared.get((name, some))
        if found is None:
            found = packed.take(self, count, size * self.layout.terms, place, once)
            if once is not None:
                self.shared[name, some] = found
                setattr(self, name, found)
                steps = packed.rows_packed if name == "rows" else packed.columns_packed
                own = piece._replace(batches=range(prod(found.sizes)))
                self.packing += self._batches(own, lambda batch: steps(self, batch, some), sizes=found.sizes)
        return found

    def _batches(
        self,
        piece: ThreadShare,
        steps: Callable[[tuple[int, ...]], Steps] | None = None,
        sizes: tuple[int, ...] | None = None,
        ranges: Callable[[tuple[int, ...], range], Steps] | None = None,
    ) -> list[Step | Repeat]:
        """The steps of a piece's batches, those of all kinds if none are given.

        sizes: the numbers of batches; ranges: the steps of some that follow one another.
        """
        sizes = self.layout.batches if sizes is None else sizes

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

    def _one(self, batch: tuple[int, ...], piece: ThreadShare) -> Iterator[Step | Repeat]:
        """The steps of one batch."""
        return (direct_plan.batch_steps if self.direct else FloatPlan._batch)(self, batch, piece)

    def _batch(self, batch: tuple[int, ...], piece: ThreadShare) -> Iterator[Step | Repeat]:
        if self.whole and self.packed is None:
            yield from packed.rows_packed(self, batch, piece.rows)
        yield from self.along(piece.columns, self.chunk, lambda c: self._chunk(batch, piece.rows, c))

    def _chunk(self, batch: tuple[int, ...], rows_: range, columns: range) -> Iterator[Step | Repeat]:
        """A chunk of columns that is packed, and all rows with it."""
        if self.packed_columns is None:
            yield from packed.columns_packed(self, batch, columns)
        for group, height in tile.heights(self.target, rows_):
            tiles = range(len(group) // height)

            def block(
                t: range, group: range = group, height: int = height, last: bool = len(tiles) <= self.block
            ) -> Iterator[Step | Repeat]:
                some = range(group.start + t.start * height, group.start + t.stop * height)
                at = some.start - rows_.start if self.whole else 0
                if not self.whole:
                    yield packed.tiles_packed(self, batch, some, height, 0)
                for part, across in packed.parts(self, columns):
                    # the next rows, if there are, are fetched while the last columns, if they are few, meet these
                    near = part.stop < columns.stop or len(part) > self.group or last
                    steps = partial(self._block, batch, some, height, at, columns.start, across, 1 if near else len(t))
                    yield from self.along(part, self.group, steps)

            yield from self.along(tiles, self.block, block)

    def _number(self, batch: tuple[int, ...]) -> int:
        """A batch's place among all of them."""
        number = 0
        for i, n in zip(batch, self.layout.batches, strict=True):
            number = number * n + i
        return number

    def _block(
        self, batch: tuple[int, ...], some: range, height: int, at: int, first: int, across: int, next_: int, columns: range
    ) -> Iterator[Step]:
        """The sums of some rows and columns, and the elements that are stored for them.

        next_: how many tiles further on those lie that are fetched with the last panel.
        """
        found, target = self.layout, self.target
        width = across * self.lanes
        panels_, tiles = -(-len(columns) // width), len(some) // height
        a_tile, b_panel = found.terms * height * 8, found.terms * width * 4
        a, a_norms = self.rows.of(batch, at * found.terms * 8, at)
        done = columns.start - first
        b, b_norms = self.columns.of(batch, done * found.terms * 4, done)
        sums_row = panels_ * width * 8
        elements = len(some) * len(columns)
        packed = (a, a_tile, tiles, b, b_panel, panels_, found.terms, self.sums, sums_row, self.counter)
        streams = [x for p in self.places for x in (p.of(batch, some.start), p.row, *p.columns)]
        norms, stored = (a_norms, b_norms), self.constants.none
        additions = min(found.terms, DEPTH) + -(-found.terms // DEPTH)
        longest = _factor(additions)
        if self.at_once:
            stored = self.counter + at_once.DONE
            code = engine.compiled(at_once.stored, target, height, across, len(columns) % width > 0, self.shape)
            blocks = (a, a_tile, tiles, b, b_panel, panels_, found.terms, len(columns), columns.start, next_ * a_tile)
            room = (self.list, elements // MANY, at_once.FEW, self.counter, self.a_low, self.rests, self.sums, sums_row)
            yield Step(code, (*blocks, _factor(found.terms + 4), *norms, *room, *streams))
        yield Step(engine.compiled(tile.sums, target, height, across), (*packed, DEPTH, next_ * a_tile, stored))
        where = (len(some), columns.start, len(columns), *found.flat[1:], self.sums, sums_row)
        rest = (*norms, self.list, self.counter, found.terms, self.rests, self.a_low, self.b_low, stored, *streams)
        yield Step(engine.compiled(epilogue.block, target, self.shape), (*where, longest, *rest))
        lie = (a, a_tile, height, b, b_panel, width)
        known = (self.sums, sums_row, norms[1], *lie)
        if target.later:
            yield self.refine(batch, some, columns, self.shape, known, streams)
            return
        if self.shape.padded:
            yield self.refine(batch, some, columns, self.shape, (norms[0], 8, norms[1], *lie), streams, zeros.decided)
        code = engine.compiled(magnitudes.sums, target, height, across)
        yield Step(code, (*packed, self.rests, elements // MANY, elements, longest))
        code = engine.compiled(epilogue.block, target, self.shape._replace(again=MAGNITUDES))
        yield Step(code, (*where, longest, *rest))
        code = engine.compiled(doubled.sums, target, height, across)
        yield Step(code, (*packed, self.rests, elements // VERY_MANY, *norms, self.a_low, self.b_low))
        code = engine.compiled(epilogue.block, target, self.shape._replace(again=PAIRS))
        yield Step(code, (*where, _factor(found.terms), *rest))
        yield self.refine(batch, some, columns, self.shape, known, streams)

    def refine(
        self,
        batch: tuple[int, ...],
        some: range,
        columns: range,
        shape: EpilogueKey,
        known: Sequence[At | int],
        streams: Sequence[At | int],
        kernel: Callable[[Target, EpilogueKey, tuple[DataType, DataType]], str] = refine.refined,
    ) -> Step:
        """A step that decides listed elements, or some of them."""
        found = self.layout
        code = engine.compiled(kernel, self.target, shape, self.factors)
        bit = (self._number(batch) * found.rows + some.start) * found.columns
        left = (found.a.of(batch, some.start), found.a.row, found.a_term)
        right = (found.b.of(batch), *found.sizes[1:], *found.b.columns, found.b_term)
        terms = (found.channels, len(found.table), self.table)
        listed = (self.list, self.counter, columns.start, *found.flat[1:])
        return Step(code, (*left, *right, *terms, *listed, self.bits, bit, found.columns, self.open_, *known, *streams))


def _factor(additions: int) -> int:
    """The bits of a sum's bound for so many additions, one after another, but for the norms."""
    return int(np.float64((additions + 8) * 2.0**-53).view(np.int64))


def _lies(p: StreamPlace, data_type: DataType, found: FloatLayout, *, last: bool) -> str:
    stride = p.columns[2]
    if stride == data_type.dtype.itemsize or (found.flat[2] == 1 and last):
        return CONTIGUOUS
    return CONSTANT if not stride and not last else STRIDED
