"""From a checked matmul to steps of machine code: what is packed where, in which pieces, under which addresses."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from anydml.kernels.cpu import copies, matmul_pack, matmul_records, matmul_wide
from anydml.kernels.cpu.jit import compile as jit
from anydml.kernels.cpu.jit.steps import At, Repeat, Step, repeat
from anydml.kernels.cpu.jit.targets import Target
from anydml.kernels.cpu.matmul_dot import dot_of, shift_of
from anydml.kernels.cpu.matmul_geometry import Matrix, Part, Scratch, cut, matrix
from anydml.kernels.cpu.matmul_rule import ROW
from anydml.kernels.cpu.matmul_tile import Kind, column_bytes, multiply, panel_columns
from anydml.operators.quantized_linear_matrix_multiply import QuantizedLinearMatrixMultiply
from anydml.schema.check import Checked
from anydml.tensor import DataType, TensorFlags

ALONE = 4 << 20  # products below which a second thread costs more than it brings
WRAPS = 33_025  # elements of K up to which a sum of full-range products fits int32
BLOCK_OF_K = 1 << 15
LONG = 1 << 32  # products, of 16 bits in vectors of 128, that take about a tenth of a second
MOST_ROWS = 1 << 16  # of A that have records at once: each takes as much memory as a row of 64 elements
# bytes of A that a core keeps at hand while the panels of B pass by; benchmarks.tiles block: 4096 cubed 0.945 of the limit,
# 0.93 with 800 KB, 0.91 with 400; without blocks 0.96 while no other core wants the last cache, else 0.86; others equal
BLOCK = 1000 << 10
# bytes of B that are packed before they are multiplied, and are at hand then; benchmarks.tiles chunk: nothing between 16 KB
# and 768 KB is better by more than the noise, for any M
CHUNK = 256 << 10
CONSTANTS = np.array([0] * 64 + [0x80] * 64, np.uint8)  # a zero point that is not there; rows of B beyond the last


class Plan:
    """The steps of one matmul. `phases` computes; `packing` packs an owned B, once, into the memory "packed"."""

    def __init__(self, c: Checked[Any], target: Target, threads: int) -> None:
        d = c.desc
        self.target, self.dot = target, dot_of(target)
        self.quantized = isinstance(d, QuantizedLinearMatrixMultiply)
        lead: tuple[int, ...] = d.a_tensor.sizes[:-2]
        self.m, self.k, self.n = int(d.a_tensor.sizes[-2]), int(d.a_tensor.sizes[-1]), int(d.b_tensor.sizes[-1])
        self.batches = int(np.prod(lead, dtype=np.int64))
        names = [f.name for f in (*d.spec.inputs, *d.spec.outputs)]
        of = {name: matrix(name, getattr(d, name), lead) for name in names}
        self.a, self.b, self.c = of["a_tensor"], of["b_tensor"], of["output_tensor"]
        self.a_zero_point, self.b_zero_point = of["a_zero_point_tensor"], of["b_zero_point_tensor"]
        if self.quantized:
            self.a_scale, self.b_scale, self.y_scale = (of[f"{x}_scale_tensor"] for x in ("a", "b", "output"))
            self.y_zero_point = of["output_zero_point_tensor"]
        # what the records of rows, and the modes, are made from
        self.by_row = [self.a_zero_point]
        if self.quantized:
            self.by_row += [self.a_scale, self.b_scale, self.y_scale, self.y_zero_point]
        self.by_batch = any(t.varies() for t in self.by_row)
        self.a_signed, self.b_signed = (t.data_type is DataType.INT8 for t in (d.a_tensor, d.b_tensor))
        output = {DataType.INT8: "i8", DataType.UINT8: "u8", DataType.INT32: "i32"}[d.output_tensor.data_type]
        self.size = 4 if output == "i32" else 1
        packed_signed = self.dot.b_signed(self.a_signed, self.b_signed)
        self.kind = Kind(self.a_signed, packed_signed, output, bool(self.a_zero_point.row or self.b_zero_point.column))
        self.groups = -(-self.k // self.dot.group)
        self.width = panel_columns(target)
        self.panels = -(-self.n // self.width)
        self.panel_bytes = self.groups * self.width * self.dot.depth
        # what int32 cannot hold is summed in blocks of K that it can
        step = BLOCK_OF_K if self.quantized and self.k > WRAPS else self.k
        self.blocks = [(k, min(step, self.k - k)) for k in range(0, self.k, step)]
        self.sum_kind = self.kind._replace(output="i32") if len(self.blocks) > 1 else self.kind
        self.owned = bool(d.b_tensor.flags & TensorFlags.OWNED_BY_DML)
        self.scratch, self.packed, self.spare = (Scratch(base) for base in ("scratch", "packed", "spare"))
        self.packing: list[Step | Repeat] = []
        self.threads = threads if self.m * self.k * self.n * self.batches >= ALONE else 1
        self._share()
        self.phases = self._phases()

    def _share(self) -> None:
        """Pack every B once where it is owned or serves several batches."""
        _, first, which = np.unique(self.b.batches, return_index=True, return_inverse=True)
        self.shared: tuple[At, At, NDArray[np.intp]] | None = None
        if not self.owned and len(first) == self.batches:
            return
        where = self.packed if self.owned else self.scratch
        packed = where.take(len(first) * self.panels * self.panel_bytes)
        sums = where.take(len(first) * self._sums_bytes())
        self.shared = packed, sums, which.reshape(-1)
        scratch = self.spare if self.owned else self.scratch

        def pack(i: int) -> Iterator[Step]:
            scratch.size = mark
            return self._pack(int(first[i]), 0, self.panels, *self._shared(int(first[i])), scratch)

        mark = scratch.size
        self.packing = self._repeated(range(len(first)), [self.b.batches[first]], pack)

    def _sums_bytes(self) -> int:
        return len(self.blocks) * self.panels * self.width * 4

    def _shared(self, batch: int) -> tuple[At, At]:
        assert self.shared is not None
        packed, sums, which = self.shared
        return packed + which[batch] * self.panels * self.panel_bytes, sums + which[batch] * self._sums_bytes()

    def _repeated(
        self, items: range, offsets: list[NDArray[np.int64]], steps: Callable[[int], Iterator[Step]]
    ) -> list[Step | Repeat]:
        """`steps` of each item; where the offsets of several move evenly, of the first two, to be repeated."""
        moves = np.stack([np.diff(x[items.start : items.stop]) for x in offsets])
        bends = np.flatnonzero((moves[:, 1:] != moves[:, :-1]).any(axis=0))
        found: list[Step | Repeat] = []
        first = 0
        while first < len(items):
            bend = int(np.searchsorted(bends, first))
            end = int(bends[bend]) + 2 if bend < len(bends) else len(items)
            if end - first < 3:
                found += [step for i in items[first:end] for step in steps(i)]
            else:
                code = jit.compiled(repeat, self.target)
                found.append(Repeat(code, end - first, list(steps(items[first])), list(steps(items[first + 1]))))
            first = end
        return found

    def _start(self, panel: int) -> int:
        """The column at which a panel begins: the last one is moved back rather than cut, where there is room."""
        return max(0, min(panel * self.width, self.n - self.width))

    def _pack(self, batch: int, first: int, end: int, packed: At, sums: At, scratch: Scratch) -> Iterator[Step]:
        start = self._start(first)
        columns = min(self._start(end - 1) + self.width, self.n) - start
        b, row = self.b.of(batch, 0, start), self.b.row
        if (self.b.column != 1 and columns > 1) or columns < self.width:
            row = max(columns, self.width)
            rows = scratch.take(self.k * row)
            yield self._copy((self.k, columns), (self.b.row, self.b.column), (row, 1), 1, b, rows)
            b = rows
        shift = shift_of(self.target, self.a_signed, self.b_signed)
        code = jit.compiled(matmul_pack.pack, self.target, self.a_signed, self.b_signed)
        pad = At("constants", 64 if shift else 0)
        last = self._start(end - 1) - start
        for i, (k, length) in enumerate(self.blocks):
            into, totals = packed + self._along(k), sums + i * (end - first) * self.width * 4
            yield Step(code, (b + k * row, row, length, end - first, into, self.panel_bytes, totals, last, pad))

    def _along(self, k: int) -> int:
        """Bytes from the start of a panel to its k-th step, a multiple of a group."""
        return k // self.dot.group * self.width * self.dot.depth

    def _copy(self, sizes: tuple[int, ...], source: tuple[int, ...], into: tuple[int, ...], size: int, a: At, b: At) -> Step:
        made = copies.copy(self.target, sizes, source, into, size)
        (block,) = made.blocks.tolist()
        return Step(made.code, (a + block[0], b + block[1], *block[2:]))

    def _phases(self) -> list[list[list[Step | Repeat]]]:
        rounds = [self._pieces(part) for part in self._rounds()]
        self.long = len(rounds) > 1
        phases: list[list[list[Step | Repeat]]] = []
        if self.packing and not self.owned:
            phases.append([self.packing])
        # nothing may be written before every scale has been looked at
        if self.quantized and (self.by_batch or len(rounds) > 1):
            records = self.scratch.take(min(self.m, MOST_ROWS) * ROW)
            modes = self.scratch.take(8)

            def look(batch: int) -> Iterator[Step]:
                for row in range(0, self.m, MOST_ROWS):
                    yield self._parameters(batch, row, min(self.m - row, MOST_ROWS), 0, self.n, records, modes)

            looked_at = range(self.batches if self.by_batch else 1)
            phases.append([self._repeated(looked_at, [t.batches for t in self.by_row], look)])
        padded = self._padded(rounds)
        mark, top = self.scratch.size, 0
        for pieces in rounds:
            self.scratch.size = mark  # rounds work in the same memory
            steps = [self._piece(piece, into) for piece, into in zip(pieces, padded, strict=False)]
            if not self.by_batch:
                phases.append([first for first, _ in steps if first])
            phases.append([rest for _, rest in steps])
            top = max(top, self.scratch.size)
        phases = [phase for phase in phases if phase]
        self.scratch.size = top
        if self.threads == 1 and len(rounds) == 1:  # one thread needs no phases
            phases = [[[step for phase in phases for piece in phase for step in piece]]]
        return phases

    def _rounds(self) -> list[Part]:
        """The work in parts, between which a caller can be interrupted."""
        whole = Part(range(self.batches), range(self.m), range(self.panels))
        long = LONG * self.target.vector_bytes // 16 * self.dot.group // 2
        parts = cut(whole, -(-self.m * self.k * self.n * self.batches // long))
        return [x for part in parts for x in cut(part, -(-len(part.rows) // MOST_ROWS), "rows")]

    def _pieces(self, part: Part) -> list[Part]:
        """A part of the work for each thread: rows where B is packed already, so that each sums its own."""
        enough = len(part.rows) >= 2 * self.threads * self.dot.rows and self.batches < self.threads
        return cut(part, self.threads, "rows" if self.shared and enough else "")

    def _parameters(self, batch: int, row: int, rows: int, column: int, columns: int, records: At, modes: At) -> Step:
        code = jit.compiled(matmul_records.parameters, self.target, self.a_signed, self.kind.output)
        zero = (self.a_zero_point.of(batch, row), self.a_zero_point.row)
        if not self.quantized:
            none = At("constants")
            return Step(code, (rows, *zero, records, 0, none, 0, none, 0, none, 0, none, 0, none, 0))
        bound = int(np.nextafter(np.float32(65025 * self.k), np.float32(np.inf)).view(np.uint32))
        scales = (self.a_scale.of(batch, row), self.a_scale.row, self.y_scale.of(batch, row), self.y_scale.row)
        b_scale = (self.b_scale.of(batch, 0, column), self.b_scale.column)
        output = (self.y_zero_point.of(batch, row), self.y_zero_point.row)
        return Step(code, (rows, *zero, records, columns, modes, bound, *scales, *b_scale, *output))

    def _piece(self, part: Part, padded: At) -> tuple[list[Step | Repeat], list[Step | Repeat]]:
        """The steps that make the records of rows, where all batches have the same, and those that compute."""
        m = len(part.rows)
        first, end = part.panels.start, part.panels.stop
        start = self._start(first)
        n = min(self._start(end - 1) + self.width, self.n) - start
        scratch = self.scratch
        records, modes = scratch.take(m * ROW), scratch.take(8)
        chunk = end - first if self.shared else max(2, CHUNK // self.panel_bytes)
        columns = scratch.take(min(chunk, end - first) * column_bytes(self.target))
        mark = top = scratch.size  # what a batch takes from here on, the next one takes again

        def parameters(batch: int) -> Iterator[Step]:
            if self.quantized or self.kind.full:
                yield self._parameters(batch, part.rows.start, m, start, n, records, modes)

        def product(batch: int) -> Iterator[Step]:
            nonlocal top
            scratch.size = mark
            if self.by_batch:
                yield from parameters(batch)
            a = yield from self._left(batch, part.rows, padded)
            if len(self.blocks) == 1:
                yield self._row_sums(batch, *a, self.dot.depth * self.groups, m, records)
            again = scratch.size
            for panel in range(first, end, chunk):
                scratch.size = again
                panels = range(panel, min(panel + chunk, end))
                yield from self._chunk(batch, part.rows, panels, a, records, columns, modes)
                top = max(top, scratch.size)

        once: list[Step | Repeat] = [] if self.by_batch else list(parameters(part.batches.start))
        tensors = [self.a, self.b, self.c, self.b_zero_point, *self.by_row]
        steps = self._repeated(part.batches, [t.batches for t in tensors], product)
        scratch.size = top
        return once, steps

    def _padded(self, rounds: list[list[Part]]) -> list[At]:
        """For each thread, memory for rows of A that are copied: nothing else is written there, so what pads them stays 0."""
        moved = self.dot.group == 2 or self._apart() or self.dot.depth * self.groups != self.k
        most = max(len(part.rows) for pieces in rounds for part in pieces) if moved else 0
        count = max(map(len, rounds))
        return [self.scratch.take(most * self.dot.depth * self.groups) for _ in range(count)]

    def _apart(self) -> bool:
        return self.a.column != 1 and self.k > 1

    def _left(self, batch: int, rows: range, padded: At) -> Generator[Step, None, tuple[At, int]]:
        """Rows of A as the tile reads them, and the bytes from one to the next: where they lie, if they lie so."""
        a, a_row, m = self.a.of(batch, rows.start), self.a.row, len(rows)
        row_bytes = self.dot.depth * self.groups
        if self.dot.group == 2:
            if self._apart():
                lines = self.scratch.take(m * self.k)
                yield self._copy((m, self.k), (a_row, self.a.column), (self.k, 1), 1, a, lines)
                a, a_row = lines, self.k
            widen = jit.compiled(matmul_pack.widen, self.target, self.a_signed)
            yield Step(widen, (a, a_row, self.k, m, padded, row_bytes))
            a, a_row = padded, row_bytes
        elif self._apart() or row_bytes != self.k:
            yield self._copy((m, self.k), (a_row, self.a.column), (row_bytes, 1), 1, a, padded)
            a, a_row = padded, row_bytes
        return a, a_row

    def _chunk(
        self, batch: int, rows: range, panels: range, a: tuple[At, int], records: At, columns: At, modes: At
    ) -> Iterator[Step]:
        first_row, m, first, end = rows.start, len(rows), panels.start, panels.stop
        start, scratch = self._start(first), self.scratch
        last = self._start(end - 1) - start
        n = min(last + self.width, self.n - start)
        if self.shared:
            packed, sums = self._shared(batch)
            packed, sums = packed + first * self.panel_bytes, sums + 4 * first * self.width
            sums_block = 4 * self.panels * self.width
        else:
            packed = scratch.take((end - first) * self.panel_bytes)
            sums_block = 4 * (end - first) * self.width
            sums = scratch.take(len(self.blocks) * sums_block)
            yield from self._pack(batch, first, end, packed, sums, scratch)
        across = self._across(self.b_zero_point, batch, start, n, 1)
        scale = self._across(self.b_scale, batch, start, n, 4) if self.quantized else (At("constants"), None)
        yield from (step for _, step in (across, scale) if step is not None)
        code = jit.compiled(
            matmul_records.columns,
            self.target,
            self.a_signed,
            self.b_signed,
            self.kind.full,
            None if not self.quantized else 4 if self.b_scale.column else 0,
            1 if self.b_zero_point.column else 0,
        )

        def records_of_columns(sums: At, k: int) -> Step:
            values = (sums, columns, k, self.a_zero_point.of(batch), across[0], scale[0])
            return Step(code, (end - first, last, *values))

        c, c_row = self.c.of(batch, first_row, start), self.c.row
        direct = (self.c.column == self.size or n == 1) and n >= self.width
        if not direct:
            c_row = max(n, self.width) * self.size
            c = scratch.take(m * c_row)
        if len(self.blocks) == 1:
            yield records_of_columns(sums, self.k)
            yield from self._tiles(
                a, m, self.groups, (packed, end - first), (c, c_row, last * self.size), records, columns, modes
            )
        else:
            count = (end - first) * self.width
            partial, totals = scratch.take(4 * m * count), scratch.take(8 * m * count)
            into = partial, 4 * count, 4 * (count - self.width)
            for i, (k, length) in enumerate(self.blocks):
                groups = -(-length // self.dot.group)
                there = a[0] + k * self.dot.depth // self.dot.group
                yield self._row_sums(batch, there, a[1], self.dot.depth * groups, m, records)
                yield records_of_columns(sums + i * sums_block, length)
                along = packed + self._along(k), end - first
                yield from self._tiles((there, a[1]), m, groups, along, into, records, columns, modes)
                yield Step(jit.compiled(matmul_wide.carry, self.target), (partial, totals, m * count, int(i == 0)))
            code = jit.compiled(matmul_wide.round_totals, self.target, self.kind.output == "i8")
            yield Step(code, (totals, 8 * count, m, end - first, records, columns, c, c_row, last))
        if not direct:
            to = self.c.of(batch, first_row, start)
            yield self._copy((m, n), (c_row, self.size), (self.c.row, self.c.column), self.size, c, to)

    def _row_sums(self, batch: int, a: At, a_row: int, row_bytes: int, m: int, records: At) -> Step:
        code = jit.compiled(matmul_records.row_sums, self.target, self.a_signed, self.b_signed, self.kind.full)
        return Step(code, (a, a_row, row_bytes, m, records, self.b_zero_point.of(batch)))

    def _tiles(
        self,
        a: tuple[At, int],
        m: int,
        groups: int,
        packed: tuple[At, int],
        c: tuple[At, int, int],
        records: At,
        columns: At,
        modes: At,
    ) -> Iterator[Step]:
        """The products of m rows with so many panels: tiles of two heights that differ by one, so that none is cut."""
        (at, a_row), (b, panels), (into, c_row, last), record = a, packed, c, records
        tiles = -(-m // self.dot.rows)
        height, taller = divmod(m, tiles)
        for count, h in ((taller, height + 1), (tiles - taller, height)):
            if count:
                block = max(1, BLOCK // (h * self.dot.depth * groups))
                code = jit.compiled(multiply, self.target, self.sum_kind, h)
                arguments = (at, a_row, b, self.panel_bytes, into, c_row, groups, count, block, panels)
                yield Step(code, (*arguments, record, columns, modes, last))
                done = count * h
                at, into, record = at + done * a_row, into + done * c_row, record + done * ROW

    def _across(self, t: Matrix, batch: int, start: int, n: int, size: int) -> tuple[At, Step | None]:
        """Values of columns as the kernel reads them: one, or one after the other for a whole panel at least."""
        at = t.of(batch, 0, start)
        if t.column == 0 or (t.column == size and n >= self.width):
            return at, None
        values = self.scratch.take(max(n, self.width) * size)
        return values, self._copy((n,), (t.column,), (size,), size, at, values)
