"""From a product to steps of machine code: what is packed where, in which pieces, under which addresses."""

from __future__ import annotations

import math
from collections.abc import Callable, Generator, Iterable, Iterator
from itertools import product

import numpy as np

from anydml.kernels.call.steps import At, Repeat, Rounds, Step, repeat
from anydml.kernels.code import engine, processor
from anydml.kernels.code.targets import Target
from anydml.kernels.contract import packing, thin, wide
from anydml.kernels.contract.dot import dot_of, shift_of
from anydml.kernels.contract.epilogue import records as epilogue
from anydml.kernels.contract.epilogue.rule import ROW
from anydml.kernels.contract.geometry import Batch, Matrix, Part, Scratch, cut, matrices
from anydml.kernels.contract.tile import Kind, column_bytes, multiply, panel_columns
from anydml.kernels.copy import copies
from anydml.kernels.match.product import Product
from anydml.tensor import DataType, TensorFlags

ALONE = 4 << 20  # products below which a second thread costs more than it brings
WRAPS = 33_025  # elements of K up to which a sum of full-range products fits int32
BLOCK_OF_K = 1 << 15
LONG = 1 << 32  # products, of 16 bits in vectors of 128, that take about a tenth of a second
MOST_ROWS = 1 << 16  # of A that have records at once: each takes as much memory as a row of 64 elements
# bytes of A that a core keeps at hand while the panels of B pass by: nearly all of its second cache. benchmarks.tiles block,
# of 1 MB: 4096 cubed 0.945 of the limit with 1000 KB, 0.93 with 800, 0.91 with 400; without blocks 0.96 while no other core
# wants the last cache, else 0.86; others equal
BLOCK = processor.caches().second // 1024 * 1000
# bytes of B that are packed before they are multiplied, and are at hand then; benchmarks.tiles chunk: nothing between 16 KB
# and 768 KB is better by more than the noise, for any M
CHUNK = 256 << 10
CONSTANTS = np.array([0] * 64 + [0x80] * 64, np.uint8)  # a zero point that is not there; rows of B beyond the last


Phases = list[list[list[Step | Repeat]]]


class Plan:
    """The steps of one matmul. `rounds` compute; `packing` packs an owned B, once, into the memory "packed".

    There are no more steps for many batches, rows, columns and products than for some: what is repeated is planned once.
    """

    def __init__(self, p: Product, target: Target, threads: int) -> None:
        self.target, self.dot = target, dot_of(target)
        self.quantized = p.scales is not None
        a, b, output_type = p.a.desc, p.b.desc, p.output.desc.data_type
        lead = a.sizes[:-2]
        self.m, self.k, self.n = int(a.sizes[-2]), int(a.sizes[-1]), int(b.sizes[-1])
        operands = (p.a, p.b, p.output, p.a_zero_point, p.b_zero_point, p.output_zero_point, *(p.scales or ()))
        found, self.lead = matrices(operands, lead)
        self.a, self.b, self.c, self.a_zero_point, self.b_zero_point, self.y_zero_point, *scales = found
        self.batches = math.prod(lead)
        if self.quantized:
            self.a_scale, self.b_scale, self.y_scale = scales
        # what the records of rows, and the modes, are made from
        self.by_row = [self.a_zero_point]
        if self.quantized:
            self.by_row += [self.a_scale, self.b_scale, self.y_scale, self.y_zero_point]
        self.by_batch = any(t.varies() for t in self.by_row)
        self.a_signed, self.b_signed = (t.data_type is DataType.INT8 for t in (a, b))
        output = {DataType.INT8: "i8", DataType.UINT8: "u8", DataType.INT32: "i32"}[output_type]
        self.size = 4 if output == "i32" else 1
        packed_signed = self.dot.b_signed(self.a_signed, self.b_signed)
        self.kind = Kind(self.a_signed, packed_signed, output, bool(self.a_zero_point.row or self.b_zero_point.column))
        self.groups = -(-self.k // self.dot.group)
        self.width = panel_columns(target)
        self.panels = -(-self.n // self.width)
        self.panel_bytes = self.groups * self.width * self.dot.depth
        # what int32 cannot hold is summed in blocks of K that it can
        self.block = BLOCK_OF_K if self.quantized and self.k > WRAPS else self.k
        self.blocks = -(-self.k // self.block)
        self.sum_kind = self.kind._replace(output="i32") if self.blocks > 1 else self.kind
        self.owned = bool(b.flags & TensorFlags.OWNED_BY_DML)
        self.scratch, self.packed, self.spare = (Scratch(base) for base in ("scratch", "packed", "spare"))
        self.packing: list[Step | Repeat] = []
        self.threads = threads if self.m * self.k * self.n * self.batches >= ALONE else 1
        self.whole = Part(range(self.lead[0]), range(self.lead[1]), range(self.m), range(self.panels))
        self._share()
        # B that is neither packed before nor shared, as it lies
        few = self.m <= thin.MOST_ROWS and self.blocks == 1 and self.n >= self.width
        self.thin = few and not self.shared and self.b.column == 1 and thin.serves(target)
        self.rounds = self._rounds()

    def _share(self) -> None:
        """Pack every B once where it is owned or serves several batches."""
        outer, inner = self.lead[0] if self.b.outer else 1, self.lead[1] if self.b.inner else 1
        self.shared: tuple[Matrix, Matrix] | None = None
        if not self.owned and outer * inner == self.batches:
            return

        def one_each(nbytes: int) -> Matrix:
            at = (self.packed if self.owned else self.scratch).take(outer * inner * nbytes)
            return Matrix(at, inner * nbytes if self.b.outer else 0, nbytes if self.b.inner else 0, 0, 0)

        self.shared = one_each(self.panels * self.panel_bytes), one_each(self._sums_bytes())
        scratch = self.spare if self.owned else self.scratch

        def pack(batch: Batch) -> Iterator[Step | Repeat]:
            scratch.size = mark
            return self._pack(batch, 0, self.panels, *self._shared(batch), scratch)

        mark = scratch.size
        self.packing = self._each(range(outer), range(inner), pack)

    def _sums_bytes(self) -> int:
        return self.blocks * self.panels * self.width * 4

    def _shared(self, batch: Batch) -> tuple[At, At]:
        assert self.shared is not None
        packed, sums = self.shared
        return packed.of(batch), sums.of(batch)

    def _repeated(self, items: range, steps: Callable[[int], Iterable[Step | Repeat]]) -> list[Step | Repeat]:
        """`steps` of each item, whose arguments move evenly from item to item: of the first two, to be repeated."""
        if len(items) < 3:
            return [step for i in items for step in steps(i)]
        code = engine.compiled(repeat, self.target)
        return [Repeat(code, len(items), list(steps(items[0])), list(steps(items[1])))]

    def _each(self, outer: range, inner: range, steps: Callable[[Batch], Iterable[Step | Repeat]]) -> list[Step | Repeat]:
        """`steps` of each batch."""
        return self._repeated(outer, lambda i: self._repeated(inner, lambda j: steps((i, j))))

    def _along(self, items: range, most: int, steps: Callable[[range], Iterable[Step | Repeat]]) -> list[Step | Repeat]:
        """`steps` of at most so many items at a time, where those of the last items may be others."""
        firsts = range(items.start, items.stop, most)
        before = self._repeated(firsts[:-1], lambda first: steps(range(first, first + most)))
        return [*before, *steps(range(firsts[-1], items.stop))]

    def _start(self, panel: int) -> int:
        """The column at which a panel begins: the last one is moved back rather than cut, where there is room."""
        return max(0, min(panel * self.width, self.n - self.width))

    def _pack(self, batch: Batch, first: int, end: int, packed: At, sums: At, scratch: Scratch) -> Iterator[Step | Repeat]:
        start = self._start(first)
        columns = min(self._start(end - 1) + self.width, self.n) - start
        b, row = self.b.of(batch, 0, start), self.b.row
        if (self.b.column != 1 and columns > 1) or columns < self.width:
            row = max(columns, self.width)
            rows = scratch.take(self.k * row)
            yield self._copy((self.k, columns), (self.b.row, self.b.column), (row, 1), 1, b, rows)
            b = rows
        shift = shift_of(self.target, self.a_signed, self.b_signed)
        code = engine.compiled(packing.pack, self.target, self.a_signed, self.b_signed)
        pad = At("constants", 64 if shift else 0)
        last = self._start(end - 1) - start

        def block(k: range) -> Iterator[Step]:
            into, totals = packed + self._depth(k.start), sums + k.start // self.block * (end - first) * self.width * 4
            yield Step(code, (b + k.start * row, row, len(k), end - first, into, self.panel_bytes, totals, last, pad))

        yield from self._along(range(self.k), self.block, block)

    def _depth(self, k: int) -> int:
        """Bytes from the start of a panel to its k-th step, a multiple of a group."""
        return k // self.dot.group * self.width * self.dot.depth

    def _copy(self, sizes: tuple[int, ...], source: tuple[int, ...], into: tuple[int, ...], size: int, a: At, b: At) -> Step:
        (step,) = copies.copy(self.target, sizes, source, into, size).steps(a, b, At("constants"))
        return step

    def _rounds(self) -> list[Rounds]:
        grid = list(self._grid())
        once = grid[0][0] == self.whole
        before: Phases = []
        if self.packing and not self.owned:
            before.append([self.packing])
        # nothing may be written before every scale has been looked at
        if self.quantized and (self.by_batch or not once):
            records = self.scratch.take(min(self.m, MOST_ROWS) * ROW)
            modes = self.scratch.take(8)

            def look(batch: Batch) -> Iterable[Step | Repeat]:
                return self._along(
                    self.whole.rows,
                    MOST_ROWS,
                    lambda rows: [self._parameters(batch, rows.start, len(rows), 0, self.n, records, modes)],
                )

            outer, inner = (x if self.by_batch else range(1) for x in (self.whole.outer, self.whole.inner))
            before.append([self._each(outer, inner, look)])
        padded = self._padded([self._pieces(part) for part, _ in grid])
        mark, top = self.scratch.size, 0

        def phases(part: Part) -> Phases:
            nonlocal top
            self.scratch.size = mark  # rounds work in the same memory
            steps = [self._piece(piece, into) for piece, into in zip(self._pieces(part), padded, strict=False)]
            top = max(top, self.scratch.size)
            found = [[rest for _, rest in steps]]
            return found if self.by_batch or not steps[0][0] else [[first for first, _ in steps], *found]

        if once:
            found = [Rounds([*before, *phases(self.whole)], (), ())]
            if self.threads == 1:  # one thread needs no phases
                found = [Rounds([[[step for phase in found[0].phases for piece in phase for step in piece]]], (), ())]
        else:
            found = [Rounds(before, (), ())] if before else []
            for part, moves in grid:
                times = tuple(times for times, _ in moves)
                found.append(Rounds(phases(part), times, tuple(phases(moved) for _, moved in moves)))
        self.scratch.size = top
        return found

    def _grid(self) -> Iterator[tuple[Part, list[tuple[int, Part]]]]:
        """Parts of the work, between which a caller can be interrupted: with how many times they are moved in each direction,
        and where they are then. The last part in a direction is one of its own."""
        ways = []
        for items, most in zip(self.whole, self._lengths(), strict=True):
            times = (len(items) - 1) // most
            last = range(times * most, len(items))
            ways.append([(times, range(most)), (1, last)] if times else [(1, last)])
        for way in product(*ways):
            part = Part(*(items for _, items in way))
            named = zip(Part._fields, way, strict=True)
            yield part, [(n, part._replace(**{x: range(r.stop, r.stop + len(r))})) for x, (n, r) in named if n > 1]

    def _lengths(self) -> tuple[int, int, int, int]:
        """Batches, rows and panels of a part that takes about a tenth of a second."""
        long = LONG * self.target.vector_bytes // 16 * self.dot.group // 2
        outer, inner, rows, panels = (len(x) for x in self.whole)
        rows = min(rows, MOST_ROWS)
        # even the smallest product takes as long as some thousands of large ones' products of elements
        while outer * inner * max(rows * (columns := panels * self.width) * self.k, long >> 20) > long:
            if outer > 1:
                outer = -(-outer // 2)
            elif inner > 1:
                inner = -(-inner // 2)
            elif panels > 1 and (columns >= rows or rows == 1):
                panels = -(-panels // 2)
            elif rows > 1:
                rows = -(-rows // 2)
            else:
                break
        even = (-(-len(x) // -(-len(x) // most)) for x, most in zip(self.whole, (outer, inner, rows, panels), strict=True))
        return tuple(even)  # type: ignore[return-value]  # of four

    def _pieces(self, part: Part) -> list[Part]:
        """A part of the work for each thread: rows where B is packed already, so that each sums its own."""
        enough = len(part.rows) >= 2 * self.threads * self.dot.rows and self.batches < self.threads
        return cut(part, self.threads, "rows" if self.shared and enough else "")

    def _parameters(self, batch: Batch, row: int, rows: int, column: int, columns: int, records: At, modes: At) -> Step:
        code = engine.compiled(epilogue.parameters, self.target, self.a_signed, self.kind.output)
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
        if self.thin:
            chunk = thin.COLUMNS // self.width
        columns = scratch.take(min(chunk, end - first) * column_bytes(self.target))
        mark = top = scratch.size  # what a batch takes from here on, the next one takes again

        def parameters(batch: Batch) -> Iterator[Step]:
            if self.quantized or self.kind.full:
                yield self._parameters(batch, part.rows.start, m, start, n, records, modes)

        def product(batch: Batch) -> Iterator[Step | Repeat]:
            scratch.size = mark
            if self.by_batch:
                yield from parameters(batch)
            a = yield from self._left(batch, part.rows, padded)
            if self.blocks == 1:
                yield self._row_sums(batch, *a, self.dot.depth * self.groups, m, records)
            again = scratch.size

            def columns_of(panels: range) -> Iterator[Step | Repeat]:
                nonlocal top
                scratch.size = again
                yield from self._chunk(batch, part.rows, panels, a, records, columns, modes)
                top = max(top, scratch.size)

            yield from self._along(part.panels, chunk, columns_of)

        once: list[Step | Repeat] = [] if self.by_batch else list(parameters(part.first))
        steps = self._each(part.outer, part.inner, product)
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

    def _left(self, batch: Batch, rows: range, padded: At) -> Generator[Step, None, tuple[At, int]]:
        """Rows of A as the tile reads them, and the bytes from one to the next: where they lie, if they lie so."""
        a, a_row, m = self.a.of(batch, rows.start), self.a.row, len(rows)
        row_bytes = self.dot.depth * self.groups
        if self.dot.group == 2:
            if self._apart():
                lines = self.scratch.take(m * self.k)
                yield self._copy((m, self.k), (a_row, self.a.column), (self.k, 1), 1, a, lines)
                a, a_row = lines, self.k
            widen = engine.compiled(packing.widen, self.target, self.a_signed)
            yield Step(widen, (a, a_row, self.k, m, padded, row_bytes))
            a, a_row = padded, row_bytes
        elif self._apart() or row_bytes != self.k:
            yield self._copy((m, self.k), (a_row, self.a.column), (row_bytes, 1), 1, a, padded)
            a, a_row = padded, row_bytes
        return a, a_row

    def _chunk(
        self, batch: Batch, rows: range, panels: range, a: tuple[At, int], records: At, columns: At, modes: At
    ) -> Iterator[Step | Repeat]:
        first_row, m, first, end = rows.start, len(rows), panels.start, panels.stop
        start, scratch = self._start(first), self.scratch
        last = self._start(end - 1) - start
        n = min(last + self.width, self.n - start)
        if self.shared:
            packed, sums = self._shared(batch)
            packed, sums = packed + first * self.panel_bytes, sums + 4 * first * self.width
            sums_block = 4 * self.panels * self.width
        elif self.thin:
            sums, packed, sums_block = *(yield from self._products(batch, m, start, last, end - first, a)), 0
        else:
            packed = scratch.take((end - first) * self.panel_bytes)
            sums_block = 4 * (end - first) * self.width
            sums = scratch.take(self.blocks * sums_block)
            yield from self._pack(batch, first, end, packed, sums, scratch)
        across = self._across(self.b_zero_point, batch, start, n, 1)
        scale = self._across(self.b_scale, batch, start, n, 4) if self.quantized else (At("constants"), None)
        yield from (step for _, step in (across, scale) if step is not None)
        code = engine.compiled(
            epilogue.columns,
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
        if self.blocks == 1:
            yield records_of_columns(sums, self.k)
            into = c, c_row, last * self.size
            if self.thin:  # what is left is to add the terms, and to round
                row, code = 4 * (end - first) * self.width, engine.compiled(multiply, self.target, self.kind, m, True)
                where = (packed, row, packed, 4 * self.width, *into[:2])
                yield Step(code, (*where, 0, 1, 1, end - first, records, columns, modes, into[2]))
            else:
                yield from self._tiles(a, m, self.groups, (packed, end - first), into, records, columns, modes)
        else:
            count = (end - first) * self.width
            partial, totals = scratch.take(4 * m * count), scratch.take(8 * m * count)
            into = partial, 4 * count, 4 * (count - self.width)

            def block(k: range) -> Iterator[Step]:
                groups = -(-len(k) // self.dot.group)
                there = a[0] + k.start * self.dot.depth // self.dot.group
                yield self._row_sums(batch, there, a[1], self.dot.depth * groups, m, records)
                yield records_of_columns(sums + k.start // self.block * sums_block, len(k))
                along = packed + self._depth(k.start), end - first
                yield from self._tiles((there, a[1]), m, groups, along, into, records, columns, modes)
                carry = engine.compiled(wide.carry, self.target)
                yield Step(carry, (partial, totals, m * count, int(k.start == 0)))

            yield from block(range(self.block))
            yield from self._along(range(self.block, self.k), self.block, block)
            code = engine.compiled(wide.round_totals, self.target, self.kind.output == "i8")
            yield Step(code, (totals, 8 * count, m, end - first, records, columns, c, c_row, last))
        if not direct:
            to = self.c.of(batch, first_row, start)
            yield self._copy((m, n), (c_row, self.size), (self.c.row, self.c.column), self.size, c, to)

    def _products(
        self, batch: Batch, m: int, start: int, last: int, panels: int, a: tuple[At, int]
    ) -> Generator[Step, None, tuple[At, At]]:
        """The sums of B's columns and of its products with m rows of A, panel by panel."""
        row = 4 * panels * self.width
        sums, products = self.scratch.take(row), self.scratch.take(m * row)
        pad = At("constants", 64 if shift_of(self.target, self.a_signed, self.b_signed) else 0)
        rows = thin.rows_at_once(self.b.row)
        code = engine.compiled(thin.thin, self.target, self.a_signed, self.b_signed, m, rows)
        b = self.b.of(batch, 0, start)
        yield Step(code, (*a, b, self.b.row, self.k, panels, products, row, sums, last, pad))
        return sums, products

    def _row_sums(self, batch: Batch, a: At, a_row: int, row_bytes: int, m: int, records: At) -> Step:
        code = engine.compiled(epilogue.row_sums, self.target, self.a_signed, self.b_signed, self.kind.full)
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
                code = engine.compiled(multiply, self.target, self.sum_kind, h)
                arguments = (at, a_row, b, self.panel_bytes, into, c_row, groups, count, block, panels)
                yield Step(code, (*arguments, record, columns, modes, last))
                done = count * h
                at, into, record = at + done * a_row, into + done * c_row, record + done * ROW

    def _across(self, t: Matrix, batch: Batch, start: int, n: int, size: int) -> tuple[At, Step | None]:
        """Values of columns as the kernel reads them: one, or one after the other for a whole panel at least."""
        at = t.of(batch, 0, start)
        if t.column == 0 or (t.column == size and n >= self.width):
            return at, None
        values = self.scratch.take(max(n, self.width) * size)
        return values, self._copy((n,), (t.column,), (size,), size, at, values)
