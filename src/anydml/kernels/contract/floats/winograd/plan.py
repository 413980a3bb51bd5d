"""The steps of a convolution by Winograd's algorithm.

Filters are packed, at `initialize` if they are owned. The inputs of rows of tiles are transformed. Then, for one group of
filters after the other, blocks of channels are transformed and multiplied with all tiles, and the products are transformed to
sums. Undecided elements are summed directly; if there are many, all of their block is. The second stage decides the rest.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from itertools import pairwise
from math import prod

import numpy as np

from anydml.kernels.call.signature import Arguments
from anydml.kernels.call.steps import At, Repeat, Step
from anydml.kernels.code import engine
from anydml.kernels.contract.floats import epilogue
from anydml.kernels.contract.floats.packed import tile
from anydml.kernels.contract.floats.plan import FloatMemory, FloatPlan, FloatProblem
from anydml.kernels.contract.floats.shares import ThreadShare
from anydml.kernels.contract.floats.winograd import again, filters, inputs, kernels, redo, transform
from anydml.kernels.contract.floats.winograd.inputs import CHANNELS
from anydml.kernels.contract.floats.winograd.transform import BLOCK, SLACK, TILE, TRANSFORMS
from anydml.kernels.contract.floats.winograd.windows import WinogradWindows
from anydml.kernels.contract.repeats import repeated


class WinogradPlan(FloatPlan):
    """The steps of a convolution, for each thread. The columns of a piece are rows of tiles, image after image."""

    def __init__(self, p: FloatProblem, memory: FloatMemory, once: bool, windows: WinogradWindows) -> None:
        super().__init__(p, memory)
        found, lanes, self.packed = p.layout, self.lanes, memory.packed if once else None
        self.windows, self.transform = windows, TRANSFORMS[windows.taps]
        self.roundings = transform.roundings(found.channels)
        # bytes of a vector of packed filters; then of all filters of a batch, and of their norms
        self.of_filters = found.channels * self.transform.elements * lanes * 4
        self.packed_batch = -(-found.rows // lanes) * self.of_filters, -(-found.rows // lanes) * lanes * 8
        # the numbers of batches with filters of their own, 1 in dimensions that share filters
        self.batches = tuple(n if once and step else 1 for n, step in zip(found.batches, found.a.batches, strict=True))
        self.tile_rows, self.tiles = (-(-n // TILE) for n in found.sizes[1:])
        # what most steps have in common
        self.plain_key = self.key._replace(padded=False)
        self.mixed_key, self.errors_key = self.plain_key._replace(mixed=True), self.plain_key._replace(again=epilogue.ERRORS)
        factors = self.roundings * SLACK * 2.0**-53, redo.factor(found.channels, windows.taps), again.factor(found.terms)
        self.sums_factor, self.redo_factor, self.again_factor = map(_bits, factors)
        self.inside = Arguments(zip(("low1", "low2", "high1", "high2"), (*windows.low, *windows.high), strict=True))
        image, line, place = found.b.columns
        self.of_windows = self.inside | Arguments(a_line=windows.line, a_place=windows.place)
        self.of_windows |= Arguments(b_image=image, b_line=line, b_place=place)

    def _shares(self, count: int) -> list[ThreadShare]:
        found = self.layout
        units = {
            "batches": (prod(found.batches), 1),
            "columns": (found.sizes[0] * self.tile_rows, 1),
            "rows": (-(-found.rows // self.lanes), self.lanes),
        }
        # each thread transforms its tiles and its filters; a tile costs about twice as much as a filter
        if found.rows > 2 * found.sizes[0] * self.tile_rows * self.tiles:
            units = {name: units[name] for name in ("batches", "rows", "columns")}
        name = next((x for x, (n, _) in units.items() if n >= 2 * count), max(units, key=lambda x: units[x][0]))
        (number, unit), whole = units[name], ThreadShare(*map(range, (units["batches"][0], found.rows, units["columns"][0])))
        count = min(count, number)
        ends = [number * k // count * unit for k in range(count)] + [len(getattr(whole, name))]
        return [whole._replace(**{name: range(a, b)}) for a, b in pairwise(ends)]

    def _turns(self, piece: ThreadShare, count: int) -> list[ThreadShare]:
        """A piece in at most `count` turns, between which a call can be interrupted."""
        name = "batches" if len(piece.batches) >= count else "columns"
        items: range = getattr(piece, name)
        most = -(-len(items) // count)
        return [piece._replace(**{name: items[i : i + most]}) for i in range(0, len(items), most)]

    # --- one thread ---

    def _piece(self, piece: ThreadShare) -> list[Step | Repeat]:
        found, scratch, lanes, across, tuning = self.layout, self.scratch, self.lanes, tile.vectors(self.target), self.tuning
        positions, taps = self.transform.positions, self.windows.taps
        of_row = positions * found.channels * 8 * self.tiles
        # where channels are few, products take more memory than tiles
        of_products = positions * self.tiles * min(across, -(-len(piece.rows) // lanes)) * lanes * 8
        most = min(tuning.tiles // of_row, tuning.fewest_products // of_products)
        most = max(most, -(-tuning.fewest_tiles // self.tiles))
        self.chunk = -(-self.tile_rows // -(-self.tile_rows // most))
        vectors, tiles = self._vectors(self.chunk), self.chunk * self.tiles
        outputs = self.chunk * TILE * found.sizes[2]
        of_vector = positions * tiles * lanes * 8
        self.group = min(max(tuning.products // of_vector // across, 1) * across, -(-len(piece.rows) // lanes)) * lanes
        self.some = min(max(1, min(tuning.sums // (outputs * 8), tuning.listed // outputs) // lanes) * lanes, self.group)
        behind = 8 * TILE * lanes
        self._place_filters(piece)
        self.line = scratch.take(kernels.line_bytes(self.target, taps))
        self.b = scratch.take(positions * _apart(found.channels * vectors * lanes * 8))
        self.b_norms = scratch.take(outputs * 8 + behind)
        up = -(-self.tiles // lanes) * lanes
        self.pitch = -(-TILE * (up + 1) * 4 // self.target.vector_bytes) * self.target.vector_bytes
        self.lines = scratch.take(CHANNELS * (self.chunk * TILE + self.transform.read - TILE) * self.pitch)
        self.apart = scratch.take(CHANNELS * positions * (vectors + 1) * lanes * 4 + behind)
        self.squares = scratch.take((1 + positions) * vectors * lanes * 8 + behind)
        self.inner = scratch.take(CHANNELS * positions * lanes * 8)
        # room for whole groups of tiles, which the kernel of sums reads
        self.products = scratch.take(positions * _apart(tiles * self.group * 8) + lanes // TILE * self.group * 8)
        self.sums, self.errors = (scratch.take(self.some * (outputs * 8 + behind)) for _ in range(2))
        self.packed_rows = scratch.take(again.packed_bytes(self.target, found.channels, taps))
        self.entries = scratch.take((self.some * outputs + 64) * 8)
        self.counter = scratch.take(64)
        self.of_piece = self.of_blocks(rests=self.errors, errors=self.errors, tiles=self.b_norms, packed=self.packed_rows)
        self.of_piece |= self.unpacked(self.sums, 0, self.b_norms) | Arguments(factor=self.sums_factor)
        return self._batches(piece)

    def _vectors(self, tile_rows: int) -> int:
        return -(-tile_rows * self.tiles // self.lanes)

    @property
    def _contiguous(self) -> bool:
        """Whether the lines that windows read have no gaps."""
        return self.layout.b.columns[2] == self.factors[1].dtype.itemsize

    # --- filters ---

    def _place_filters(self, piece: ThreadShare) -> None:
        """Allocate memory for packed filters: of all batches if they are packed at `initialize`, else of one batch."""
        count = prod(self.batches)
        if self.packed is None or not self.packing:
            memory, (of_filters, of_norms) = self.packed or self.scratch, self.packed_batch
            self.a, self.a_norms, self.plain_norms = (memory.take(count * n) for n in (of_filters, of_norms, of_norms))
            self.of_positions = memory.take(self.transform.positions * self.lanes * 8)
        if self.packed is not None and not self.packing:
            whole = ThreadShare(range(count), range(self.layout.rows), piece.columns)
            self.packing += self._batches(whole, lambda batch: [self._pack(batch, whole.rows)], self.batches)

    def _filters(self, batch: tuple[int, ...], row: int) -> tuple[At, At, At]:
        """The addresses, from a row on, of packed filters, of the norms for their bounds, and of their plain norms."""
        number = 0
        for i, n in zip(batch, self.batches, strict=True):
            number = number * n + min(i, n - 1)
        of_filters, of_norms = self.packed_batch
        norms = number * of_norms + row * 8
        filters = self.a + (number * of_filters + row // self.lanes * self.of_filters)
        return filters, self.a_norms + norms, self.plain_norms + norms

    def _pack(self, batch: tuple[int, ...], rows: range) -> Step:
        found = self.layout
        from_ = Arguments(a=found.a.of(batch, rows.start) + self.windows.a, row=found.a.row, rows=len(rows))
        strides = Arguments(channels=found.channels, term=found.a_term, line=self.windows.line, place=self.windows.place)
        packed, norms, plain = self._filters(batch, 0)
        part = _bits(self.transform.of_filters / self.roundings)
        into = Arguments(into=packed, norms=norms, plain=plain, part=part, squares=self.of_positions)
        code = engine.compiled(filters.packed, self.target, self.factors[0], self.windows.taps)
        return filters.PACK.step(code, **from_, **strides, **into)

    # --- tiles ---

    def _batch(self, batch: tuple[int, ...], piece: ThreadShare) -> Iterator[Step | Repeat]:
        """The steps of a batch: all tiles of a piece, with some filters."""
        if self.packed is None:
            yield self._pack(batch, piece.rows)
        count, columns = self.tile_rows, piece.columns
        image = partial(self._image, batch, piece.rows)
        first, last = (columns.start // count, columns.start % count), ((columns.stop - 1) // count, (columns.stop - 1) % count)
        if first[0] == last[0]:
            yield from image(first[0], range(first[1], last[1] + 1))
            return
        if first[1]:
            yield from image(first[0], range(first[1], count))
        whole = range(first[0] + bool(first[1]), last[0] + (last[1] == count - 1))
        yield from repeated(self.target, whole, lambda n: image(n, range(count)))
        if last[1] < count - 1:
            yield from image(last[0], range(last[1] + 1))

    def _image(self, batch: tuple[int, ...], rows: range, image: int, tile_rows: range) -> Iterator[Step | Repeat]:
        # the last row of tiles may have fewer lines
        cut = tile_rows.stop == self.tile_rows and self.layout.sizes[1] % TILE != 0
        even = range(tile_rows.start, tile_rows.start + (len(tile_rows) - cut) // self.chunk * self.chunk)
        yield from self.along(even, self.chunk, lambda some: self._chunk_of(batch, rows, image, some))
        if rest := range(even.stop, tile_rows.stop):
            yield from self._chunk_of(batch, rows, image, rest)

    def _chunk_of(self, batch: tuple[int, ...], rows: range, image: int, tile_rows: range) -> Iterator[Step | Repeat]:
        """The steps that transform some rows of tiles, and compute them with all filters."""
        yield self._transform_inputs(batch, image, tile_rows)
        yield from self.along(rows, self.group, lambda group: self._group(batch, rows, group, image, tile_rows))

    def _group(
        self, batch: tuple[int, ...], rows: range, group: range, image: int, tile_rows: range
    ) -> Iterator[Step | Repeat]:
        """The steps that compute the outputs of some filters and rows of tiles."""
        found, lanes = self.layout, self.lanes
        first = group.start - (0 if self.packed is not None else rows.start)
        yield from self.along(
            range(found.channels), BLOCK, lambda terms: self._products(batch, first, len(group), terms, tile_rows)
        )
        width = found.sizes[2]
        start = image * found.sizes[1] * width
        columns = range(start + tile_rows.start * TILE * width, start + min(tile_rows.stop * TILE, found.sizes[1]) * width)
        sums_row = (len(tile_rows) * TILE * width + TILE * lanes) * 8
        tiles = len(tile_rows) * self.tiles
        row = -(-len(group) // lanes) * lanes * 8
        code = engine.compiled(kernels.sums, self.target, self.windows.taps)

        def some_of(some: range) -> Iterator[Step]:
            first_of = self.products + (some.start - group.start) * 8
            from_ = Arguments(position=_apart(tiles * row), row=row, **{"from": first_of})
            where = Arguments(vectors=-(-len(some) // lanes), tile_rows=len(tile_rows), tiles=self.tiles, width=width)
            yield kernels.SUMS.step(code, **from_, **where, sums=self.sums, sums_row=sums_row)
            yield from self._stored(batch, some, some.start - group.start + first, columns, sums_row)

        yield from self.along(group, self.some, some_of)

    def _transform_inputs(self, batch: tuple[int, ...], image: int, tile_rows: range) -> Step:
        found, windows, lanes = self.layout, self.windows, self.lanes
        across, vectors = tile.height(self.target) // lanes, self._vectors(len(tile_rows))
        code = engine.compiled(inputs.transformed, self.target, self.factors[1], across, self._contiguous, windows.taps)
        b = found.b.of(batch) + (windows.b + image * found.b.columns[0])
        _, line, place = found.b.columns
        where = Arguments(b=b, term=found.b_term, line=line, place=place, channels=found.channels, first=tile_rows.start * TILE)
        tiles = Arguments(tile_rows=len(tile_rows), tiles=self.tiles, width=found.sizes[2])
        scratch = Arguments(lines=self.lines, pitch=self.pitch, apart=self.apart, squares=self.squares, columns=self.inner)
        position = _apart(found.channels * vectors * lanes * 8)
        panel = found.channels * across * lanes * 8
        part = _bits(self.transform.of_inputs / self.roundings)
        into = Arguments(into=self.b, position=position, panel=panel, norms=self.b_norms, part=part)
        whole = Arguments(vectors=vectors, full=vectors // across * across)
        return inputs.ARGUMENTS.step(code, **where, **tiles, **self.inside, **scratch, **whole, **into)

    def _products(self, batch: tuple[int, ...], first: int, filters: int, terms: range, tile_rows: range) -> Iterator[Step]:
        """The steps that transform some terms of some filters, from a packed one on, and multiply them with all tiles."""
        found, target, lanes = self.layout, self.target, self.lanes
        height, tiles, vectors = tile.height(target), len(tile_rows) * self.tiles, self._vectors(len(tile_rows))
        number = -(-filters // lanes)
        panels, rest = divmod(tiles, height)
        panel, rest_term = height * 8, min((vectors * lanes - panels * height) * 8, height * 8)
        row = number * lanes * 8
        start, apart = (
            self.b + (n * found.channels * panel + terms.start * each) for n, each in ((0, panel), (panels, rest_term))
        )
        values = Arguments(a=start, a_position=_apart(found.channels * vectors * lanes * 8), panel=found.channels * panel)
        values.update(panels=panels, rest=apart, rest_term=rest_term, vector=self.of_filters, line=self.line)
        values.update(terms=len(terms), done=terms.start, position=_apart(tiles * row), row=row)
        packed, into = self._filters(batch, first)[0] + terms.start * self.transform.elements * lanes * 4, self.products
        for groups, across in _evenly(number, tile.vectors(target)):
            values.update(filters=packed, groups=groups, into=into)
            code = engine.compiled(kernels.products, target, height, rest, across, self.windows.taps)
            yield kernels.PRODUCTS.step_from(code, values)
            packed, into = packed + groups * across * self.of_filters, into + groups * across * lanes * 8

    def _stored(self, batch: tuple[int, ...], some: range, at: int, columns: range, sums_row: int) -> Iterator[Step]:
        found, target, windows = self.layout, self.target, self.windows
        _, norms, plain = self._filters(batch, at)
        values = self.with_block(self.of_piece, batch, some, columns)  # the arguments of all kernels
        values.update(a_norms=norms, sums_row=sums_row)
        yield self.stored(self.mixed_key, values)
        if not target.later:
            most, a, b = len(some) * len(columns) // self.tuning.many_listed, found.a.of(batch, some.start), found.b.of(batch)
            again_ = {**values, **self.of_tensors, **self.of_windows, "a": a + windows.a, "b": b + windows.b, "norms": plain}
            again_.update(most=most, first=columns.start, factor=self.redo_factor)
            code = engine.compiled(redo.summed, target, self.plain_key, self.factors, self._contiguous, windows.taps)
            yield epilogue.with_streams(redo.ARGUMENTS, len(self.places)).step_from(code, again_)
            again_.update(lines=len(columns) // found.sizes[2], factor=self.again_factor)
            code = engine.compiled(again.summed, target, self.factors, self._contiguous, windows.taps)
            yield again.ARGUMENTS.step_from(code, again_)
            yield self.stored(self.errors_key, values)
        yield self.refine(batch, some, columns, self.key, values)


def _evenly(count: int, most: int) -> list[tuple[int, int]]:
    """Vectors in panels of at most `most`, in two widths that differ by one: the number of panels of each width."""
    panels = -(-count // most)
    width, wider = divmod(count, panels)
    return [(n, w) for n, w in ((wider, width + 1), (panels - wider, width)) if n]


def _apart(size: int) -> int:
    """A size rounded up to an odd number of cache lines, so that rows at this distance are in different sets of a cache."""
    lines = -(-size // 64)
    return 64 * (lines + 1 - lines % 2)


def _bits(x: float) -> int:
    return int(np.float64(x).view(np.int64))
