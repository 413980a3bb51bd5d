"""From a checked matmul to steps of machine code: what is packed where, in which pieces, under which addresses."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from anydml.checked import Checked
from anydml.kernels.cpu import copies, matmul_parts
from anydml.kernels.cpu.jit import compile as jit
from anydml.kernels.cpu.jit.steps import At, Step
from anydml.kernels.cpu.jit.targets import X86, Target
from anydml.kernels.cpu.matmul_dot import dot_of
from anydml.kernels.cpu.matmul_round import ROW
from anydml.kernels.cpu.matmul_tile import Kind, column_bytes, multiply, panel_columns
from anydml.operators.quantized_linear_matrix_multiply import QuantizedLinearMatrixMultiply
from anydml.tensor import DataType, TensorDesc, TensorFlags

_T2 = X86[1]
ALONE = 4 << 20  # products below which a second thread costs more than it brings
# bytes of A that a core keeps at hand while the panels of B pass by; benchmarks.tiles block: 4096 cubed 0.945 of the limit,
# 0.93 with 800 KB, 0.91 with 400; without blocks 0.96 while no other core wants the last cache, else 0.86; others equal
BLOCK = 1000 << 10
# bytes of B that are packed before they are multiplied, and are at hand then; benchmarks.tiles chunk: nothing between 16 KB
# and 768 KB is better by more than the noise, for any M
CHUNK = 256 << 10
CONSTANTS = np.array([0] * 64 + [0x80] * 64, np.uint8)  # a zero point that is not there; rows of B beyond the last


class Matrix(NamedTuple):
    """How a tensor lies against {batch, rows, columns}: offsets of the batches and strides, in bytes; 0 where it repeats."""

    at: At
    batches: tuple[int, ...]
    row: int
    column: int

    def of(self, batch: int, row: int = 0, column: int = 0) -> At:
        return self.at + (self.batches[batch] + row * self.row + column * self.column)


def matrix(name: str, t: TensorDesc | None, lead: tuple[int, ...]) -> Matrix:
    """The tensor of a name, or the zero that stands for one that is left out."""
    if t is None:
        return Matrix(At("constants"), (0,) * int(np.prod(lead, dtype=np.int64)), 0, 0)
    size = t.data_type.dtype.itemsize
    along = list(zip(t.sizes, t.explicit_strides, strict=True))
    along = [(1, 0)] * (len(lead) + 2 - len(along)) + along[max(0, len(along) - len(lead) - 2) :]
    *outer, row, column = [stride * size if n > 1 else 0 for n, stride in along]
    offsets = np.zeros((), np.int64)
    for n, stride in zip(lead, outer, strict=True):
        offsets = offsets[..., None] + stride * np.arange(n)
    return Matrix(At(name), tuple(offsets.ravel().tolist()), row, column)


class Scratch:
    """Memory that a call works in, handed out in cache lines."""

    def __init__(self, base: str) -> None:
        self.base, self.size = base, 0

    def take(self, nbytes: int) -> At:
        at = At(self.base, self.size)
        self.size += -(-nbytes // 64) * 64
        return at


class Plan:
    """The steps of one matmul. `phases` computes; `packing` packs an owned B, once, into the memory "packed"."""

    def __init__(self, c: Checked[Any], target: Target, threads: int) -> None:
        d = c.desc
        self.target, self.dot = target, dot_of(target)
        self.quantized = isinstance(d, QuantizedLinearMatrixMultiply)
        *lead, self.m, self.k = d.a_tensor.sizes
        self.n = d.b_tensor.sizes[-1]
        lead = tuple(lead)
        self.batches = int(np.prod(lead, dtype=np.int64))
        names = [f.name for f in (*d.spec.inputs, *d.spec.outputs)]
        of = {name: matrix(name, getattr(d, name), lead) for name in names}
        self.a, self.b, self.c = of["a_tensor"], of["b_tensor"], of["output_tensor"]
        self.a_zero_point, self.b_zero_point = of["a_zero_point_tensor"], of["b_zero_point_tensor"]
        if self.quantized:
            self.a_scale, self.b_scale, self.y_scale = (of[f"{x}_scale_tensor"] for x in ("a", "b", "output"))
            self.y_zero_point = of["output_zero_point_tensor"]
        self.a_signed, self.b_signed = (t.data_type is DataType.INT8 for t in (d.a_tensor, d.b_tensor))
        output = {DataType.INT8: "i8", DataType.UINT8: "u8", DataType.INT32: "i32"}[d.output_tensor.data_type]
        self.size = 4 if output == "i32" else 1
        self.kind = Kind(self.a_signed, output, bool(self.a_zero_point.row or self.b_zero_point.column))
        self.groups = -(-self.k // self.dot.group)
        self.width = panel_columns(target)
        self.panels = -(-self.n // self.width)
        self.panel_bytes = self.groups * self.dot.vectors * target.vector_bytes
        self.owned = bool(d.b_tensor.flags & TensorFlags.OWNED_BY_DML)
        self.scratch, self.packed, self.spare = (Scratch(base) for base in ("scratch", "packed", "spare"))
        self.packing: list[Step] = []
        self.threads = threads if self.m * self.k * self.n * self.batches >= ALONE else 1
        self._share()
        self.phases = self._phases()

    def _share(self) -> None:
        """Pack every B once where it is owned or serves several batches."""
        self.shared: dict[int, tuple[At, At]] = {}
        unique = dict.fromkeys(self.b.batches)
        if not self.owned and len(unique) == self.batches:
            return
        where = self.packed if self.owned else self.scratch
        for batch, offset in enumerate(self.b.batches):
            if offset not in self.shared:
                to = where.take(self.panels * self.panel_bytes), where.take(self.panels * self.width * 4)
                self.shared[offset] = to
                self.packing += self._pack(batch, 0, self.panels, *to, self.spare if self.owned else self.scratch)

    def _start(self, panel: int) -> int:
        """The column at which a panel begins: the last one is moved back rather than cut, where there is room."""
        return max(0, min(panel * self.width, int(self.n) - self.width))

    def _pack(self, batch: int, first: int, end: int, packed: At, sums: At, scratch: Scratch) -> Iterator[Step]:
        start = self._start(first)
        columns = min(self._start(end - 1) + self.width, self.n) - start
        b, row = self.b.of(batch, 0, start), self.b.row
        if (self.b.column != 1 and columns > 1) or columns < self.width:
            row = max(columns, self.width)
            rows = scratch.take(self.k * row)
            yield self._copy((self.k, columns), (self.b.row, self.b.column), (row, 1), 1, b, rows)
            b = rows
        shift = matmul_parts.shift_of(self.target, self.a_signed, self.b_signed)
        code = jit.compiled(matmul_parts.pack, self.target, self.a_signed, self.b_signed)
        pad = At("constants", 64 if shift else 0)
        last = self._start(end - 1) - start
        yield Step(code, (b, row, self.k, end - first, packed, self.panel_bytes, sums, last, pad))

    def _copy(self, sizes: tuple[int, ...], source: tuple[int, ...], into: tuple[int, ...], size: int, a: At, b: At) -> Step:
        made = copies.copy(_T2, sizes, source, into, size)
        (block,) = made.blocks.tolist()
        return Step(made.code, (a + block[0], b + block[1], *block[2:]))

    def _phases(self) -> list[list[list[Step]]]:
        pieces = list(self._pieces())
        phases: list[list[list[Step]]] = []
        if self.packing and not self.owned:
            phases.append([self.packing])
        # nothing may be written before every scale has been looked at
        by_batch = self._by_batch()
        if self.quantized and (len(pieces) > 1 or by_batch):
            records = self.scratch.take(self.m * ROW)
            modes = self.scratch.take(8)
            looked_at = range(self.batches) if by_batch else range(1)
            phases.append([[self._parameters(b, 0, self.m, 0, self.n, records, modes) for b in looked_at]])
        phases.append([list(self._piece(*piece, by_batch)) for piece in pieces])
        if self.threads == 1 and len(phases) > 1:  # one thread needs no phases
            phases = [[[step for phase in phases for piece in phase for step in piece]]]
        return phases

    def _by_batch(self) -> bool:
        if not self.quantized:
            return len(set(self.a_zero_point.batches)) > 1
        tensors = self.a_scale, self.b_scale, self.y_scale, self.y_zero_point, self.a_zero_point
        return any(len(set(t.batches)) > 1 for t in tensors)

    def _pieces(self) -> Iterator[tuple[range, tuple[int, int], tuple[int, int]]]:
        """Batches, rows and panels for each thread."""
        threads = self.threads
        everything = range(self.batches), (0, self.m), (0, self.panels)
        if self.batches >= threads > 1:
            for i in range(threads):
                yield range(self.batches * i // threads, self.batches * (i + 1) // threads), *everything[1:]
        elif self.panels >= 2 * threads > 2:
            for i in range(threads):
                yield everything[0], everything[1], (self.panels * i // threads, self.panels * (i + 1) // threads)
        elif self.m >= 2 * threads > 2:
            for i in range(threads):
                yield everything[0], (self.m * i // threads, self.m * (i + 1) // threads), everything[2]
        else:
            yield everything

    def _parameters(self, batch: int, row: int, rows: int, column: int, columns: int, records: At, modes: At) -> Step:
        code = jit.compiled(matmul_parts.parameters, self.target, self.a_signed, self.kind.output)
        zero = (self.a_zero_point.of(batch, row), self.a_zero_point.row)
        if not self.quantized:
            none = At("constants")
            return Step(code, (rows, *zero, records, 0, none, 0, none, 0, none, 0, none, 0, none, 0))
        bound = int(np.nextafter(np.float32(65025 * self.k), np.float32(np.inf)).view(np.uint32))
        scales = (self.a_scale.of(batch, row), self.a_scale.row, self.y_scale.of(batch, row), self.y_scale.row)
        b_scale = (self.b_scale.of(batch, 0, column), self.b_scale.column)
        output = (self.y_zero_point.of(batch, row), self.y_zero_point.row)
        return Step(code, (rows, *zero, records, columns, modes, bound, *scales, *b_scale, *output))

    def _piece(self, batches: range, rows: tuple[int, int], panels: tuple[int, int], by_batch: bool) -> Iterator[Step]:
        (first_row, end_row), (first, end) = rows, panels
        m = end_row - first_row
        start = self._start(first)
        n = min(self._start(end - 1) + self.width, self.n) - start
        scratch = self.scratch
        records, modes = scratch.take(m * ROW), scratch.take(8)
        chunk = end - first if self.shared else max(2, CHUNK // self.panel_bytes)
        columns = scratch.take(min(chunk, end - first) * column_bytes(self.target))
        mark = scratch.size  # what a batch takes from here on, the next one takes again
        top = mark
        for at, batch in enumerate(batches):
            scratch.size = mark
            if (at == 0 or by_batch) and (self.quantized or self.kind.full):
                yield self._parameters(batch, first_row, m, start, n, records, modes)
            a, a_row = self.a.of(batch, first_row), self.a.row
            row_bytes = 4 * self.groups
            apart = self.a.column != 1 and self.k > 1
            if apart or (self.dot.group == 4 and row_bytes != self.k):
                lines = scratch.take(m * row_bytes)
                yield self._copy((m, self.k), (a_row, self.a.column), (row_bytes, 1), 1, a, lines)
                a, a_row = lines, row_bytes
            if self.dot.group == 2:
                wide = scratch.take(m * row_bytes)
                yield Step(jit.compiled(matmul_parts.widen, self.target, self.a_signed), (a, a_row, self.k, m, wide, row_bytes))
                a, a_row = wide, row_bytes
            code = jit.compiled(matmul_parts.row_sums, self.target, self.a_signed, self.b_signed, self.kind.full)
            yield Step(code, (a, a_row, row_bytes, m, records, self.b_zero_point.of(batch)))
            again = scratch.size
            for panel in range(first, end, chunk):
                scratch.size = again
                yield from self._chunk(
                    batch, (first_row, m), (panel, min(panel + chunk, end)), (a, a_row), records, columns, modes
                )
                top = max(top, scratch.size)
        scratch.size = max(top, scratch.size)

    def _chunk(
        self, batch: int, rows: tuple[int, int], panels: tuple[int, int], a: tuple[At, int], records: At, columns: At, modes: At
    ) -> Iterator[Step]:
        (first_row, m), (first, end) = rows, panels
        start, scratch = self._start(first), self.scratch
        last = self._start(end - 1) - start
        n = min(last + self.width, self.n - start)
        if self.shared:
            packed, sums = self.shared[self.b.batches[batch]]
            packed, sums = packed + first * self.panel_bytes, sums + 4 * first * self.width
        else:
            packed = scratch.take((end - first) * self.panel_bytes)
            sums = scratch.take((end - first) * self.width * 4)
            yield from self._pack(batch, first, end, packed, sums, scratch)
        zero_point, point_step = self._across(self.b_zero_point, batch, start, n, 1)
        if isinstance(point_step, Step):
            yield point_step
        scale, scale_step = (At("constants"), None) if not self.quantized else self._across(self.b_scale, batch, start, n, 4)
        if isinstance(scale_step, Step):
            yield scale_step
        code = jit.compiled(
            matmul_parts.columns,
            self.target,
            self.a_signed,
            self.b_signed,
            self.kind.full,
            None if not self.quantized else 4 if self.b_scale.column else 0,
            1 if self.b_zero_point.column else 0,
        )
        yield Step(code, (end - first, last, sums, columns, self.k, self.a_zero_point.of(batch), zero_point, scale))
        c, c_row = self.c.of(batch, first_row, start), self.c.row
        direct = (self.c.column == self.size or n == 1) and n >= self.width
        if not direct:
            c_row = max(n, self.width) * self.size
            c = scratch.take(m * c_row)
        tiles = -(-m // self.dot.rows)
        height, taller = divmod(m, tiles)
        (at, a_row), into, record = a, c, records
        for count, h in ((taller, height + 1), (tiles - taller, height)):
            if count:
                block = max(1, BLOCK // (h * 4 * self.groups))
                code = jit.compiled(multiply, self.target, self.kind, h)
                arguments = (at, a_row, packed, self.panel_bytes, into, c_row, self.groups, count, block, end - first)
                yield Step(code, (*arguments, record, columns, modes, last * self.size))
                rows_done = count * h
                at, into, record = at + rows_done * a_row, into + rows_done * c_row, record + rows_done * ROW
        if not direct:
            to = self.c.of(batch, first_row, start)
            yield self._copy((m, n), (c_row, self.size), (self.c.row, self.c.column), self.size, c, to)

    def _across(self, t: Matrix, batch: int, start: int, n: int, size: int) -> tuple[At, Step | None]:
        """Values of columns as the kernel reads them: one, or one after the other for a whole panel at least."""
        at = t.of(batch, 0, start)
        if t.column == 0 or (t.column == size and n >= self.width):
            return at, None
        values = self.scratch.take(max(n, self.width) * size)
        return values, self._copy((n,), (t.column,), (size,), size, at, values)


def addresses(bases: list[str], arrays: dict[str, NDArray[Any]]) -> list[int]:
    """The addresses of arrays by name."""
    return [arrays[base].__array_interface__["data"][0] for base in bases]
