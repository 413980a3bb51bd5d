"""The steps of one piece of the work: rows of A with panels of B, a chunk of panels at a time, and the output of their sums."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from typing import NamedTuple

from anydml.kernels.call.signature import Arguments
from anydml.kernels.call.steps import At, Repeat, Step
from anydml.kernels.code import engine
from anydml.kernels.contract import amx
from anydml.kernels.contract.epilogue.estimates import estimating
from anydml.kernels.contract.epilogue.plan import MODES, ColumnRecords, by_row, parameters, row_sums
from anydml.kernels.contract.epilogue.rule import ROW
from anydml.kernels.contract.geometry import Batch, Matrix, OutputPart, Scratch
from anydml.kernels.contract.layout import IntegerLayout
from anydml.kernels.contract.panels import packing, wide
from anydml.kernels.contract.panels.source import PanelProducts, PanelSource, Ready
from anydml.kernels.contract.repeats import along, each
from anydml.kernels.contract.tile import MULTIPLY, multiply

NOTHING_READY = Ready(At("constants"), At("constants"), 0)


class PackedMatrix(NamedTuple):
    """Every B in panels, and the sums of its columns."""

    panels: Matrix
    sums: Matrix


class FixedRows(NamedTuple):
    """Rows of A as tiles read them, with their distance in bytes, and their records and modes: made once."""

    a: At
    a_row: int
    records: At
    modes: At


class Work:
    """The steps of pieces. source: B's panels; shared: every B, if it is packed beforehand; scratch: memory for the rest.
    fixed: all rows, if they are made once.
    """

    fixed: FixedRows | None = None

    def __init__(self, at: IntegerLayout, source: PanelSource, shared: PackedMatrix | None, scratch: Scratch) -> None:
        self.at, self.source, self.shared, self.scratch = at, source, shared, scratch
        p = at.problem
        # B is multiplied in its own layout, if it is neither packed before nor shared
        self.thin = p.m <= at.tuning.thin_rows and at.blocks == 1 and not shared and source.is_thin
        self.by_batch = any(t.varies() for t in by_row(at))
        self.apart = p.k > 1 and not (len(p.terms) == 1 and p.terms[0][1] == 1)
        self.moved = at.dot.group == 2 or self.apart or at.row_bytes != p.k

    def fix(self, packed: Scratch, spare: Scratch) -> Iterator[Step]:
        """The steps that make all rows once, in the memory `packed`."""
        at, rows = self.at, range(self.at.problem.m)
        records, modes = packed.take(len(rows) * ROW), packed.take(MODES)
        if at.quantized or at.kind.full:
            yield parameters(at, (0, 0), rows, 0, at.problem.n, records, modes)
        padded = packed.take(len(rows) * at.row_bytes if self.moved else 0)
        filled = at.problem.k * at.dot.depth // at.dot.group
        if self.moved and (behind := at.row_bytes - filled):  # unlike scratch, this memory may have any content
            sizes = len(rows), behind
            yield at.copied(sizes, (0, 1), (at.row_bytes, 1), 1, At("constants"), padded + filled)
        a, a_row = yield from self._left((0, 0), rows, padded, spare)
        yield row_sums(at, (0, 0), rows, a, a_row, at.row_bytes, records, modes)
        self.fixed = FixedRows(a, a_row, records, modes)

    def padded(self, rounds: list[list[OutputPart]]) -> list[At]:
        """For each thread, memory for copied rows of A: nothing else writes there, so that the padding stays 0."""
        at = self.at
        moved = self.moved and self.fixed is None
        most = max(len(part.rows) for pieces in rounds for part in pieces) if moved else 0
        count = max(map(len, rounds))
        return [self.scratch.take(most * at.row_bytes) for _ in range(count)]

    def piece(self, part: OutputPart, padded: At) -> tuple[list[Step | Repeat], list[Step | Repeat]]:
        """The steps that make the records of rows if all batches share them, and the steps that compute."""
        at, scratch = self.at, self.scratch
        first, end, first_row = part.panels.start, part.panels.stop, part.rows.start
        start = at.start(first)
        n = at.end(end - 1) - start
        fixed = self.fixed
        if fixed is not None:
            records, modes = fixed.records + first_row * ROW, fixed.modes
        else:
            records, modes = scratch.take(len(part.rows) * ROW), scratch.take(MODES)
        chunk = end - first if self.shared else max(2, at.tuning.chunk // at.panel_bytes)
        if self.thin:
            chunk = at.tuning.thin_columns // at.width
        columns = scratch.take(min(chunk, end - first) * at.record_bytes)
        ready = NOTHING_READY
        before: list[Step | Repeat] = []
        if not self.shared:
            ready = _left_by(self.source.ready(part.panels, scratch), before)
        mark = top = scratch.size  # the scratch behind this mark is reused by every batch

        def made(batch: Batch) -> Iterator[Step]:
            if fixed is None and (at.quantized or at.kind.full):
                yield parameters(at, batch, part.rows, start, n, records, modes)

        def product(batch: Batch) -> Iterator[Step | Repeat]:
            nonlocal top
            scratch.size = mark
            if self.by_batch:
                yield from made(batch)
            if fixed is not None:
                a = fixed.a + first_row * fixed.a_row, fixed.a_row
            else:
                a = yield from self._left(batch, part.rows, padded, scratch)
            if fixed is None and at.blocks == 1:
                yield row_sums(at, batch, part.rows, *a, at.row_bytes, records, modes)
            begun = ready.places if self.shared else (yield from self.source.begin(batch, scratch))
            again = scratch.size
            top = max(top, again)
            beside = records, columns, modes

            def columns_of(panels: range) -> Iterator[Step | Repeat]:
                nonlocal top
                scratch.size = again
                yield from _Chunk(self, batch, part.rows, panels, a, (ready, begun), beside).steps()
                top = max(top, scratch.size)

            yield from along(at.target, part.panels, chunk, columns_of)

        once: list[Step | Repeat] = [] if self.by_batch else list(made(part.first))
        steps = [*before, *each(at.target, part.outer, part.inner, product)]
        scratch.size = top
        return once, steps

    def _left(self, batch: Batch, rows: range, padded: At, scratch: Scratch) -> Generator[Step, None, tuple[At, int]]:
        """The address of rows of A as the tile reads them, and their distance in bytes; rows are copied if their layout
        differs."""
        at, p = self.at, self.at.problem
        a, a_row, m = p.a.of(batch, rows.start), p.a.row, len(rows)
        sizes, strides = zip(*p.terms, strict=True)
        dense = [1]
        for size in sizes[:0:-1]:
            dense.insert(0, dense[0] * size)
        if at.dot.group == 2:
            if self.apart:
                lines = scratch.take(m * p.k)
                yield at.copied((m, *sizes), (a_row, *strides), (p.k, *dense), 1, a, lines)
                a, a_row = lines, p.k
            widen = engine.compiled(packing.widen, at.target, p.a_signed)
            yield packing.WIDEN.step(widen, a=a, a_row=a_row, k=p.k, m=m, wide=padded, wide_row=at.row_bytes)
            a, a_row = padded, at.row_bytes
        elif self.apart or at.row_bytes != p.k:
            yield at.copied((m, *sizes), (a_row, *strides), (at.row_bytes, *dense), 1, a, padded)
            a, a_row = padded, at.row_bytes
        return a, a_row


def _left_by(steps: Generator[Step | Repeat, None, Ready], into: list[Step | Repeat]) -> Ready:
    """Append steps to a list, and return their result."""

    def through() -> Generator[Step | Repeat, None, None]:
        found.append((yield from steps))

    found: list[Ready] = []
    into += through()
    return found[0]


class _Chunk:
    """The products of some rows with some panels.

    of: what B's source has left. beside: memory for the records of rows and of columns, and the modes.
    """

    def __init__(
        self,
        work: Work,
        batch: Batch,
        rows: range,
        panels: range,
        a: tuple[At, int],
        of: tuple[Ready, At],
        beside: tuple[At, At, At],
    ) -> None:
        self.work, self.at, self.scratch = work, work.at, work.scratch
        self.batch, self.rows, self.panels, self.a, self.of = batch, rows, panels, a, of
        self.records, self.columns, self.modes = beside
        self.m, self.count = len(rows), len(panels)
        self.start = self.at.start(panels.start)
        self.last = self.at.start(panels.stop - 1) - self.start
        self.n = self.at.end(panels.stop - 1) - self.start

    def steps(self) -> Iterator[Step | Repeat]:
        at, c, m, n = self.at, self.at.problem.c, self.m, self.n
        packed, sums, sums_block = yield from self._packed()
        columns = ColumnRecords(at, self.batch, self.panels, self.columns)
        values = yield from columns.ready(self.scratch)
        to = c.of(self.batch, self.rows.start, self.start)
        into, c_row = to, c.row
        direct = (c.column == at.size or n == 1) and n >= at.width
        if not direct:
            c_row = max(n, at.width) * at.size
            into = self.scratch.take(m * c_row)
        if at.blocks > 1:
            yield from self._wide(packed, sums, sums_block, columns, values, (into, c_row))
        else:
            yield columns.step(sums, at.problem.k, values, self.modes)
            where = into, c_row, self.last * at.size
            if self.work.thin:  # only the terms are left to add, and the rounding
                row, code = 4 * self.count * at.width, engine.compiled(multiply, at.target, at.kind, m, True)
                yield self._multiplied(
                    code, (packed, row), (packed, 4 * at.width), where, (0, 1, 1), self.records, self.rows.start
                )
            else:
                yield from self._tiles(self.a, at.groups, packed, where)
        if not direct:
            yield at.copied((m, n), (c_row, at.size), (c.row, c.column), at.size, into, to)

    def _packed(self) -> Generator[Step | Repeat, None, tuple[At, At, int]]:
        """The address of the panels, or of their products if rows are few; of the sums of their columns; and the bytes of these
        sums for each block of K."""
        at, first = self.at, self.panels.start
        if self.work.shared is not None:
            panels, sums = (x.of(self.batch) for x in self.work.shared)
            return panels + first * at.panel_bytes, sums + 4 * first * at.width, 4 * at.panels * at.width
        row = 4 * self.count * at.width
        if self.work.thin:
            sums, products = self.scratch.take(row), self.scratch.take(self.m * row)
            by = PanelProducts(*self.a, self.m, products, row, sums)
            yield from self.work.source.multiply(*self.of, self.panels, by)
            return products, sums, 0
        packed = self.scratch.take(self.count * at.panel_bytes)
        sums = self.scratch.take(at.blocks * row)
        yield from self.work.source.pack(*self.of, self.panels, packed, sums, self.scratch)
        return packed, sums, row

    def _wide(
        self, packed: At, sums: At, sums_block: int, columns: ColumnRecords, values: tuple[At, At, At], c: tuple[At, int]
    ) -> Iterator[Step | Repeat]:
        """The steps for blocks of K, whose sums are added in int64 and rounded at the end."""
        at, m, (a, a_row), k = self.at, self.m, self.a, self.at.problem.k
        count = self.count * at.width
        partial, totals = self.scratch.take(4 * m * count), self.scratch.take(8 * m * count)
        into = partial, 4 * count, 4 * (count - at.width)

        def block(part: range) -> Iterator[Step]:
            groups = -(-len(part) // at.dot.group)
            there = a + part.start * at.dot.depth // at.dot.group
            yield row_sums(at, self.batch, self.rows, there, a_row, at.dot.depth * groups, self.records, self.modes)
            yield columns.step(sums + part.start // at.block * sums_block, len(part), values, self.modes)
            yield from self._tiles((there, a_row), groups, packed + at.depth(part.start), into)
            carry = engine.compiled(wide.carry, at.target)
            yield wide.CARRY.step(carry, sums=partial, totals=totals, count=m * count, first=int(part.start == 0))

        yield from block(range(at.block))
        yield from along(at.target, range(at.block, k), at.block, block)
        code = engine.compiled(wide.round_totals, at.target, at.kind.output == "i8", at.kind.biased)
        beside = Arguments(panels=self.count, rows=self.records, columns=self.columns, last=self.last)
        yield wide.ROUND.step(code, totals=totals, totals_row=8 * count, m=m, **beside, c=c[0], c_row=c[1])

    def _tiles(self, a: tuple[At, int], groups: int, packed: At, c: tuple[At, int, int]) -> Iterator[Step]:
        """The products of all rows with all panels: tiles of two heights that differ by one, so that no tile is partial."""
        at, (here, a_row), (into, c_row, last), record, row = self.at, a, c, self.records, self.rows.start
        tiles = -(-self.m // at.dot.rows)
        height, taller = divmod(self.m, tiles)
        for count, h in ((taller, height + 1), (tiles - taller, height)):
            if count:
                block = max(1, at.tuning.block // (h * at.dot.depth * groups))
                block -= block % amx.MOST if block > amx.MOST else 0
                code = engine.compiled(multiply, at.target, at.sum_kind, h)
                b, to = (packed, at.panel_bytes), (into, c_row, last)
                yield self._multiplied(code, (here, a_row), b, to, (groups, count, block), record, row)
                done = count * h
                row += done
                here, into, record = here + done * a_row, into + done * c_row, record + done * ROW

    def _multiplied(
        self,
        code: engine.Code,
        a: tuple[At, int],
        b: tuple[At, int],
        c: tuple[At, int, int],
        counts: tuple[int, int, int],
        record: At,
        row: int,
    ) -> Step:
        """A step of tiles. counts: groups of K, tiles, and tiles of a block. record, row: of the first row of A."""
        at, (groups, tiles, block) = self.at, counts
        factors = Arguments(
            a=a[0], a_row=a[1], b=b[0], b_panel=b[1], groups=groups, tiles=tiles, block=block, panels=self.count
        )
        to = Arguments(c=c[0], c_row=c[1], last=c[2], rows=record, columns=self.columns, modes=self.modes)
        estimated = at.estimates(self.batch, row, self.start)
        return estimating(MULTIPLY, at.kind.estimated).step(code, **factors, **to, **estimated)
