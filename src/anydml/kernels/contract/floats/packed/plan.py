"""The steps of contractions with packed rows and columns, in order.

Rows are packed as float64, and columns as float32, a chunk at a time. Each block of rows and panels is summed and stored, and
its listed elements are decided, before the next block begins.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from math import prod

import numpy as np

from anydml.kernels.call.signature import Arguments
from anydml.kernels.call.steps import Repeat, Step
from anydml.kernels.code import engine
from anydml.kernels.contract.floats.epilogue import MAGNITUDES, PAIRS, with_streams
from anydml.kernels.contract.floats.layout import StreamPlace
from anydml.kernels.contract.floats.packed import at_once, doubled, in_place, magnitudes, panels, tile
from anydml.kernels.contract.floats.packed.columns import MASKS, Columns
from anydml.kernels.contract.floats.packed.factors import SLACK, FactorPacking, PackedFactor, memory_for
from anydml.kernels.contract.floats.plan import FloatMemory, FloatPlan, FloatProblem, bound_factor
from anydml.kernels.contract.floats.second import zeros
from anydml.kernels.contract.floats.shares import ThreadShare, pieces
from anydml.kernels.contract.geometry import Scratch


class PackedPlan(FloatPlan):
    """The steps of packed rows and columns. packed, packed_columns: memory for rows and columns that are packed once."""

    rows: PackedFactor
    columns: PackedFactor
    floats = True  # columns are floats, and can be read in place

    def __init__(self, p: FloatProblem, memory: FloatMemory, once: tuple[bool, bool]) -> None:
        super().__init__(p, memory)
        self.packed, self.packed_columns = (memory.packed if own else None for own in once)
        self.shared: dict[tuple[str, range], PackedFactor] = {}
        self.pack = FactorPacking(p, self.table)
        self.magnitudes_key, self.pairs_key = (self.key._replace(again=again) for again in (MAGNITUDES, PAIRS))
        self.widened = p.tuning.column_bytes == 8
        self.columns_at_once, self.unit = p.tuning.group, self.width  # of a block, at most, in multiples of the unit
        self.at_once = not p.target.later and at_once.serves(p.target, p.layout, self.key, p.tuning.at_once_terms)
        found, size = p.layout, p.factors[1].dtype.itemsize
        self.step = None  # between columns that are read in place
        self.alternate = False  # whether every second element of an output's line is written
        if self.floats and self.packed_columns is None and not p.target.later:
            step = in_place.step(p.target, found, size)
            if step and not self.at_once:
                self.alternate = in_place.alternates(p.target, found, self.key, self.places[:-1], p.tuning.at_once_terms)
            if self.at_once or self.alternate:
                self.step = step
        if self.step is not None:
            channels = found.b_term * np.arange(found.channels)[:, None]
            self.offsets = self.constants.add((channels + found.table[:, 0]).reshape(-1))

    def _shares(self, count: int) -> list[ThreadShare]:
        once = self.packed is not None, self.packed_columns is not None
        return pieces(self.layout, tile.height(self.target), self.width, count, once)

    # --- one thread ---

    def _piece(self, piece: ThreadShare) -> list[Step | Repeat]:
        found, scratch, tuning = self.layout, self.scratch, self.tuning
        height = min(tile.height(self.target), len(piece.rows))
        row_bytes = found.terms * 8
        # of all terms if K is not blocked, or if there are so few columns that the rows' panels of all terms stay in the cache
        few = len(piece.columns) <= self.width * tuning.few_panels and len(piece.columns) * found.terms * 4 <= tuning.block
        depth = found.terms if self.at_once or self.step is not None or few else min(found.terms, tuning.depth)
        self.block = self._tiles_at_once(height, depth)
        if self.step is not None:
            self.block = max(1, tuning.block // max(row_bytes * height, 1))
        whole = len(piece.rows) <= self.block * height or self.packed is not None
        most = len(piece.rows) if whole else self.block * height
        # fewer columns at once if sums are long
        of_panels = min(self.columns_at_once, tuning.most_columns // max(found.terms * 4, 1))
        self.group = max(self.unit, of_panels // self.unit * self.unit)
        if self.step is not None:  # panels are not packed unless sums are not decided at once
            some = min(len(piece.rows), self.block * height)
            self.group = max(self.width, tuning.listed_in_place // some // self.width * self.width)
            self.wide = scratch.take(row_bytes * self.width + found.terms * MASKS)
        wanted = (tuning.chunk if whole else tuning.far_columns) // max(found.terms * 4, 1)
        self.chunk = max(1, wanted // self.group) * self.group
        if self.step is not None:
            self.chunk = self.group
        if self.packed_columns is not None:
            self.chunk = -(-len(piece.columns) // self.width) * self.width
        columns = min(self.chunk, -(-len(piece.columns) // self.width) * self.width)
        group = min(self.group, columns)
        self.rows = self._packed("rows", piece, self.packed, most)
        self.columns = self._packed("columns", piece, self.packed_columns, columns)
        self.a_low, self.b_low = scratch.take(most * 8), scratch.take(columns * 8 + SLACK)
        self.sums, self.rests = (scratch.take(min(most, self.block * height) * group * 8) for _ in range(2))
        self.entries = scratch.take((min(most, self.block * height) * group + 64) * 8)
        self.counter, self.whole = scratch.take(64), whole
        if self.step is None:
            deepest = found.terms if self.at_once else min(found.terms, tuning.depth)
            self.wide = scratch.take(deepest * self.width * 8 if self.widened else 0)
        if self.step is not None:
            self.pack.done = self.counter + at_once.DONE
        self.of_piece = self.of_blocks(sums=self.sums, rests=self.rests, a_low=self.a_low, b_low=self.b_low, wide=self.wide)
        self.of_piece.update(begun=self.a_low, twice=self.rests, few=tuning.at_once_listed, depth=tuning.depth)
        return self._batches(piece)

    def _tiles_at_once(self, height: int, depth: int) -> int:
        """The most tiles of a block. depth: terms of which rows stay in the cache."""
        tuning = self.tuning
        of_cache = tuning.block // max(depth * 8 * height, 1)
        of_list = tuning.listed // (tuning.group * height)
        return max(1, min(of_cache, of_list, tuning.far_columns // max(self.layout.terms * 8 * height, 1)))

    def _packed(self, name: str, piece: ThreadShare, once: Scratch | None, count: int) -> PackedFactor:
        """The packed rows or columns of a piece; pieces share those that are packed once."""
        size, place = (8, self.layout.a) if name == "rows" else (4, self.layout.b)
        some: range = getattr(piece, name)
        found = self.shared.get((name, some))
        if found is None:
            found = self._memory(name, count, size * self.layout.terms, place, once)
            if once is not None:
                self.shared[name, some] = found
                steps = partial(self.pack.rows if name == "rows" else self.pack.columns, found)
                own = piece._replace(batches=range(prod(found.sizes)))
                self.packing += self._batches(own, lambda batch: steps(batch, some), sizes=found.sizes)
        return found

    def _memory(self, name: str, count: int, size: int, place: StreamPlace, once: Scratch | None) -> PackedFactor:
        """Memory for packed rows or columns."""
        return memory_for(self.layout.batches, count, size, place, self.scratch, once)

    def _batch(self, batch: tuple[int, ...], piece: ThreadShare) -> Iterator[Step | Repeat]:
        if self.whole and self.packed is None:
            yield from self.pack.rows(self.rows, batch, piece.rows)
        yield from self.along(piece.columns, self.chunk, lambda c: self._chunk(batch, piece.rows, c))

    def _chunk(self, batch: tuple[int, ...], rows_: range, columns: range) -> Iterator[Step | Repeat]:
        """The steps that pack a chunk of columns, and compute it with all rows."""
        if self.packed_columns is None and self.step is None:
            yield from self.pack.columns(self.columns, batch, columns)
        for group, height in tile.heights(self.target, rows_):
            tiles = range(len(group) // height)

            def block(
                t: range, group: range = group, height: int = height, last: bool = len(tiles) <= self.block
            ) -> Iterator[Step | Repeat]:
                some = range(group.start + t.start * height, group.start + t.stop * height)
                at = some.start - rows_.start if self.whole else 0
                if not self.whole:
                    yield from self.pack.tiles(self.rows, batch, some, height, 0)
                for part, across in self._parts(columns):
                    # the next rows, if any, are prefetched with the last columns if these are few
                    near = part.stop < columns.stop or len(part) > self.group or last
                    first = columns.start if self.step is None else part.start
                    steps = partial(self._block, batch, some, height, at, first, across, 1 if near else len(t))
                    yield from self.along(part, self.group, steps)

            yield from self.along(tiles, self.block, block)

    def _parts(self, columns: range) -> list[tuple[range, int]]:
        """As `FactorPacking.parts`; a partial panel that is read in place is a part."""
        parts = self.pack.parts(columns)
        if self.step is None:
            return parts
        made = []
        for part, across in parts:
            cut = part.stop - len(part) % (across * self.lanes)
            made += [(some, across) for some in (range(part.start, cut), range(cut, part.stop)) if some]
        return made

    def _block(
        self, batch: tuple[int, ...], some: range, height: int, at: int, first: int, across: int, next_: int, columns: range
    ) -> Iterator[Step]:
        """The steps that compute and store a block of rows and columns.

        next_: the distance, in tiles, to the tile that is prefetched with the last panel.
        """
        found, target, tuning = self.layout, self.target, self.tuning
        width = across * self.lanes
        panels_, tiles = -(-len(columns) // width), len(some) // height
        a_tile, b_panel = found.terms * height * 8, found.terms * width * 4
        a, a_norms = self.rows.of(batch, at * found.terms * 8, at)
        done = columns.start - first
        b, b_norms = self.columns.of(batch, done * found.terms * 4, done)
        sums_row = panels_ * width * 8
        elements = len(some) * len(columns)
        many, longest = elements // tuning.many, bound_factor(min(found.terms, tuning.depth) + -(-found.terms // tuning.depth))
        values = self.with_block(self.of_piece, batch, some, columns)  # the arguments of all kernels
        values.update(a=a, a_tile=a_tile, tiles=tiles, b=b, b_panel=b_panel, panels=panels_, sums_row=sums_row)
        values.update(rows_at=a, tile=a_tile, height=height, panels_at=b, panel=b_panel, width=width)
        values.update(a_norms=a_norms, b_norms=b_norms, ahead=next_ * a_tile, most=many, elements=elements, factor=longest)
        yield from self._at_first(batch, some, height, (at, done), across, columns, values)
        yield tile.ARGUMENTS.step_from(engine.compiled(tile.sums, target, height, across, self.widened), values)
        yield self.stored(self.key, values)
        if target.later:
            yield self.refine(batch, some, columns, self.key, values)
            return
        if self.key.padded:
            yield self.refine(batch, some, columns, self.key, {**values, "sums": a_norms, "sums_row": 8}, zeros.decided)
        yield magnitudes.ARGUMENTS.step_from(engine.compiled(magnitudes.sums, target, height, across), values)
        yield self.stored(self.magnitudes_key, values)
        pairs: Arguments = {**values, "most": elements // tuning.very_many, "factor": bound_factor(found.terms)}
        yield doubled.ARGUMENTS.step_from(engine.compiled(doubled.sums, target, height, across), pairs)
        yield self.stored(self.pairs_key, pairs)
        yield self.refine(batch, some, columns, self.key, values)

    def _at_first(
        self, batch: tuple[int, ...], some: range, height: int, at: tuple[int, int], across: int, columns: range,
        values: Arguments,
    ) -> Iterator[Step]:  # fmt: skip
        """The steps, if any, that store a block faster, after which the others do nothing unless too much is undecided.

        at: the numbers of the block's first row and column among those that are packed.
        """
        width, found, target = across * self.lanes, self.layout, self.target
        if self.step is not None:
            yield from self._in_place(batch, some, height, across, columns, values)
        elif self.at_once:
            values["done"] = self.counter + at_once.DONE
            cut = len(columns) % width > 0
            code = engine.compiled(at_once.stored, target, height, across, cut, self.key, self.widened)
            own: Arguments = {**values, "columns": len(columns), "factor": bound_factor(found.terms + 4)}
            yield with_streams(at_once.ARGUMENTS, len(self.places)).step_from(code, own)

    def _in_place(
        self, batch: tuple[int, ...], some: range, height: int, across: int, columns: range, values: Arguments
    ) -> Iterator[Step]:
        """The steps that compute a block whose columns are read in place, and pack them if that did not decide enough."""
        found, key = self.layout, self.key
        values["done"] = self.pack.done
        assert self.step is not None
        cut = len(columns) % (across * self.lanes) > 0
        kind = Columns(self.factors[1], self.step, self.alternate, len(some) > height, cut)
        code = engine.compiled(in_place.stored, self.target, height, across, key, kind)
        factor, (_, b1, b2) = bound_factor(found.terms + 4), found.b.columns
        own: Arguments = {
            **values, "b": found.b.of(batch), "columns": len(columns), "n2": found.sizes[2], "b1": b1, "b2": b2,
            "channels": found.channels, "positions": len(found.table), "table": self.table, "offsets": self.offsets,
            "factor": factor, "norm": in_place.norm(factor, found.terms), "wide": self.wide,
        }  # fmt: skip
        own.update(zip(panels.INSIDE, found.inside, strict=True))
        yield with_streams(in_place.ARGUMENTS, len(self.places)).step_from(code, own)
        none = self.unpacked(self.counter, 0, self.counter)
        yield self.refine(batch, some, columns, key, {**values, **none}, in_place.decided)
        yield from self.pack.columns(self.columns, batch, columns)
