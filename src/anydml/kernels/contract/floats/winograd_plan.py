"""A convolution by Winograd's algorithm as steps.

Filters are transformed, as many as are kept at once; then rows of tiles of outputs, as many as the second cache holds, are
transformed, multiplied with some filters after the other, and made sums; what their bounds leave open is summed as it is
written, and what that leaves open goes the way of all contractions.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from math import prod

import numpy as np

from anydml.kernels.call.steps import At, Repeat, Step
from anydml.kernels.code import engine, processor
from anydml.kernels.code.targets import Target
from anydml.kernels.contract.floats import (
    epilogue,
    tile,
    winograd,
    winograd_inputs,
    winograd_kernels,
    winograd_redo,
)
from anydml.kernels.contract.floats.formula import Stored
from anydml.kernels.contract.floats.layout import Layout
from anydml.kernels.contract.floats.plan import LISTED, Constants, Piece, Plan
from anydml.kernels.contract.floats.winograd import POSITIONS, READ, TILE
from anydml.kernels.contract.floats.winograd_inputs import CHANNELS
from anydml.kernels.contract.floats.winograd_windows import Windows
from anydml.kernels.contract.geometry import Scratch
from anydml.tensor import DataType

FILTERS = 32 << 20  # bytes of transformed filters that are kept at once
TILES = processor.caches().second * 5 // 16  # bytes of transformed tiles that are kept at once
# where filters come from memory each time that tiles are multiplied with them: more tiles, and bytes of filters that are many
MANY_TILES, MANY_FILTERS = processor.caches().second * 9 // 8, processor.caches().last // 4
SUMS = processor.caches().second // 4  # bytes of products


class WinogradPlan(Plan):
    """The steps of a convolution, for each thread. The columns of a piece are rows of tiles, of one image after the other."""

    def __init__(
        self,
        target: Target,
        found: Layout,
        formula: Stored,
        factors: tuple[DataType, DataType],
        threads: int,
        scratch: Scratch,
        constants: Constants,
        windows: Windows,
    ) -> None:
        self.windows = windows
        self.tile_rows, self.tiles = (-(-n // TILE) for n in found.sizes[1:])
        super().__init__(target, found, formula, factors, threads, scratch, constants)

    def _shares(self, count: int) -> list[Piece]:
        found = self.layout
        height = tile.height(self.target)
        units = {
            "batches": (prod(found.batches), 1),
            "columns": (found.sizes[0] * self.tile_rows, 1),
            "rows": (-(-found.rows // height), height),
        }
        # each thread transforms what it has of both; a tile costs about twice as much as a filter
        if found.rows > 2 * found.sizes[0] * self.tile_rows * self.tiles:
            units = {name: units[name] for name in ("batches", "rows", "columns")}
        name = next((x for x, (n, _) in units.items() if n >= 2 * count), max(units, key=lambda x: units[x][0]))
        (number, unit), whole = units[name], Piece(*map(range, (units["batches"][0], found.rows, units["columns"][0])))
        count = min(count, number)
        ends = [number * k // count * unit for k in range(count)] + [len(getattr(whole, name))]
        return [whole._replace(**{name: range(a, b)}) for a, b in pairwise(ends)]

    def _turns(self, piece: Piece, count: int) -> list[Piece]:
        """A piece in so many, between which a caller can be interrupted."""
        name = "batches" if len(piece.batches) >= count else "columns"
        items: range = getattr(piece, name)
        most = -(-len(items) // count)
        return [piece._replace(**{name: items[i : i + most]}) for i in range(0, len(items), most)]

    # --- one thread ---

    def _piece(self, piece: Piece, open_: At) -> list[Step | Repeat]:
        found, scratch, lanes = self.layout, self.scratch, self.lanes
        height = min(tile.height(self.target), len(piece.rows))
        self.kept = max(FILTERS // (POSITIONS * found.channels * 8 * height), 1) * height
        of_tile = POSITIONS * found.channels * 8 * self.tiles
        many = POSITIONS * found.channels * 8 * min(len(piece.rows), self.kept) > MANY_FILTERS
        most = max((MANY_TILES if many else TILES) // of_tile, -(-lanes // self.tiles))
        self.chunk = -(-self.tile_rows // -(-self.tile_rows // most))
        vectors = self._vectors(self.chunk)
        outputs = self.chunk * TILE * found.sizes[2]
        self.some = max(1, min(SUMS // (POSITIONS * 8 * lanes * vectors), LISTED // outputs) // height) * height
        kept, some = min(self.kept, len(piece.rows)), min(self.some, len(piece.rows))
        behind = 8 * TILE * lanes
        self.a, self.a_norms = scratch.take(POSITIONS * _apart(kept * found.channels * 8)), scratch.take(kept * 8)
        self.b = scratch.take(POSITIONS * _apart(found.channels * vectors * lanes * 8))
        self.b_norms = scratch.take(outputs * 8 + behind)
        up = -(-self.tiles // lanes) * lanes
        self.pitch = -(-TILE * (up + 1) * 4 // self.target.vector_bytes) * self.target.vector_bytes
        self.lines = scratch.take(CHANNELS * (self.chunk * TILE + READ - TILE) * self.pitch)
        self.apart = scratch.take(CHANNELS * POSITIONS * (vectors + 1) * lanes * 4 + behind)
        self.squares = scratch.take((1 + POSITIONS) * vectors * lanes * 8 + behind)
        self.plain_norms = scratch.take(kept * 8)
        self.roundings = winograd.roundings(found.channels)
        self.products = scratch.take(POSITIONS * _apart(some * vectors * lanes * 8) + behind)
        self.sums = scratch.take(some * outputs * 8 + behind)
        self.list = scratch.take((some * outputs + 64) * 8)
        self.counter, self.open_ = scratch.take(64), open_
        return self._batches(piece)

    def _vectors(self, tile_rows: int) -> int:
        return -(-tile_rows * self.tiles // self.lanes)

    def _one(self, batch: tuple[int, ...], piece: Piece) -> Iterator[Step | Repeat]:
        yield from self.along(piece.rows, self.kept, lambda kept: self._kept(batch, kept, piece.columns))

    def _kept(self, batch: tuple[int, ...], kept: range, columns: range) -> Iterator[Step | Repeat]:
        """Filters that are transformed, and all tiles with them."""
        for group, height in self._heights(kept):
            yield self._transform_filters(batch, group, height, kept)
        count = self.tile_rows
        first, last = (columns.start // count, columns.start % count), ((columns.stop - 1) // count, (columns.stop - 1) % count)
        if first[0] == last[0]:
            yield from self._image(batch, kept, first[0], range(first[1], last[1] + 1))
            return
        if first[1]:
            yield from self._image(batch, kept, first[0], range(first[1], count))
        whole = range(first[0] + bool(first[1]), last[0] + (last[1] == count - 1))
        yield from self._repeated(whole, lambda n: self._image(batch, kept, n, range(count)))
        if last[1] < count - 1:
            yield from self._image(batch, kept, last[0], range(last[1] + 1))

    def _image(self, batch: tuple[int, ...], kept: range, image: int, tile_rows: range) -> Iterator[Step | Repeat]:
        # the last row of tiles may have fewer lines
        cut = tile_rows.stop == self.tile_rows and self.layout.sizes[1] % TILE != 0
        even = range(tile_rows.start, tile_rows.start + (len(tile_rows) - cut) // self.chunk * self.chunk)
        yield from self.along(even, self.chunk, lambda some: self._chunk_of(batch, kept, image, some))
        if rest := range(even.stop, tile_rows.stop):
            yield from self._chunk_of(batch, kept, image, rest)

    def _chunk_of(self, batch: tuple[int, ...], kept: range, image: int, tile_rows: range) -> Iterator[Step | Repeat]:
        """Rows of tiles that are transformed, and all filters that are kept with them."""
        yield self._transform_inputs(batch, image, tile_rows)
        for group, height in self._heights(kept):
            yield from self.along(
                range(len(group) // height),
                max(1, self.some // height),
                lambda t, group=group, height=height: self._products(  # type: ignore[misc]  # of a lambda with defaults
                    batch, kept, range(group.start + t.start * height, group.start + t.stop * height), height, image, tile_rows
                ),
            )

    def _transform_filters(self, batch: tuple[int, ...], group: range, height: int, kept: range) -> Step:
        found, at = self.layout, group.start - kept.start
        code = engine.compiled(winograd_kernels.transformed, self.target, self.factors[0], height)
        a = found.a.of(batch, group.start) + self.windows.a
        from_ = (a, found.a.row, len(group) // height, found.channels, found.a_term)
        position = _apart(len(kept) * found.channels * 8)
        into = (self.a + at * found.channels * 8, position, self.a_norms + at * 8, self.plain_norms + at * 8)
        return Step(code, (*from_, self.windows.line, *into, _bits(winograd.OF_FILTERS / self.roundings)))

    def _transform_inputs(self, batch: tuple[int, ...], image: int, tile_rows: range) -> Step:
        found, windows, lanes = self.layout, self.windows, self.lanes
        across, vectors = tile.vectors(self.target), self._vectors(len(tile_rows))
        code = engine.compiled(winograd_inputs.transformed, self.target, self.factors[1], across)
        b = found.b.of(batch) + (windows.b + image * found.b.columns[0])
        where = (b, found.b_term, found.b.columns[1], found.channels, tile_rows.start * TILE, len(tile_rows), self.tiles)
        inside = (found.sizes[2], windows.low[0], windows.high[0], windows.low[1], windows.high[1])
        position = _apart(found.channels * vectors * lanes * 8)
        panel = found.channels * across * lanes * 8
        into = (self.b, position, panel, self.b_norms, _bits(winograd.OF_INPUTS / self.roundings))
        return Step(
            code,
            (*where, *inside, self.lines, self.pitch, self.apart, self.squares, vectors, vectors // across * across, *into),
        )

    def _products(
        self, batch: tuple[int, ...], kept: range, some: range, height: int, image: int, tile_rows: range
    ) -> Iterator[Step]:
        """The outputs of some filters and rows of tiles."""
        found, target, lanes = self.layout, self.target, self.lanes
        across, vectors = tile.vectors(target), self._vectors(len(tile_rows))
        row = vectors * lanes * 8
        of_term = found.channels * 8
        at = some.start - kept.start
        panels, left = divmod(vectors, across)
        position = _apart(len(some) * row)
        a = (self.a + at * of_term, _apart(len(kept) * of_term), height * of_term, len(some) // height)
        for first, number, each in ((0, panels, across), (panels * across, 1, left)):
            if not number * each:
                continue
            b = (self.b + first * lanes * of_term, _apart(vectors * lanes * of_term), each * lanes * of_term, number)
            into = (self.products + first * lanes * 8, position, row)
            code = engine.compiled(winograd_kernels.products, target, height, each)
            yield Step(code, (*a, *b, found.channels, *into))
        width = found.sizes[2]
        sums_row = len(tile_rows) * TILE * width * 8
        code = engine.compiled(winograd_kernels.sums, target)
        where = (self.products, position, row, len(some), len(tile_rows), self.tiles, width)
        yield Step(code, (*where, self.sums, sums_row))
        start = image * found.sizes[1] * width
        columns = range(start + tile_rows.start * TILE * width, start + min(tile_rows.stop * TILE, found.sizes[1]) * width)
        yield from self._stored(batch, some, at, columns, sums_row)

    def _stored(self, batch: tuple[int, ...], some: range, at: int, columns: range, sums_row: int) -> Iterator[Step]:
        found, target, windows = self.layout, self.target, self.windows
        streams = [x for p in self.places for x in (p.of(batch, some.start), p.row, *p.columns)]
        where = (len(some), columns.start, len(columns), *found.flat[1:], self.sums, sums_row)
        norms = self.a_norms + at * 8
        shape = self.shape._replace(padded=False, mixed=True)
        factor = _bits(self.roundings * winograd.SLACK * 2.0**-53)
        yield Step(
            engine.compiled(epilogue.block, target, shape),
            (*where, factor, norms, self.b_norms, self.list, self.counter, 0, 0, 0, 0, *streams),
        )
        code = engine.compiled(winograd_redo.summed, target, self.shape._replace(padded=False), self.factors)
        factor = _bits(winograd_redo.factor(found.channels))
        a = (found.a.of(batch, some.start) + windows.a, found.a.row, found.a_term, windows.line)
        b = (found.b.of(batch) + windows.b, found.b.columns[0], found.b_term, found.b.columns[1], *found.sizes[1:])
        inside = (windows.low[0], windows.high[0], windows.low[1], windows.high[1])
        listed = (self.list, self.counter, columns.start, *found.flat[1:], factor, self.plain_norms + at * 8)
        yield Step(code, (*a, *b, found.channels, *inside, *listed, *streams))
        known = (self.sums, sums_row, self.b_norms, norms, 0, 0, norms, 0, 0)
        yield self.refine(batch, some, columns, self.shape, known, streams)


def _apart(size: int) -> int:
    """So many bytes, and some more: what lies so far apart is in different sets of a cache."""
    lines = -(-size // 64)
    return 64 * (lines + 1 - lines % 2)


def _bits(x: float) -> int:
    return int(np.float64(x).view(np.int64))
