"""The steps that make the records of rows and of columns."""

from __future__ import annotations

from collections.abc import Generator

import numpy as np

from anydml.kernels.call.signature import Arguments, stepped
from anydml.kernels.call.steps import At, Step
from anydml.kernels.code import engine
from anydml.kernels.contract.epilogue import records
from anydml.kernels.contract.geometry import Batch, Matrix, Scratch
from anydml.kernels.contract.layout import IntegerLayout
from anydml.kernels.contract.problem import NOTHING, WRAPS

LARGEST = 2**31 - 1
MODES = 16  # bytes


def by_row(at: IntegerLayout) -> list[Matrix]:
    """The tensors that the records of rows and the modes are made from."""
    p = at.problem
    return [p.a_zero_point, *(p.scales or ()), *((p.y_zero_point,) if p.scales else ()), *((p.bias,) if p.bias else ())]


def parameters(at: IntegerLayout, batch: Batch, rows: range, first: int, count: int, into: At, modes: At) -> Step:
    """The records of rows without their terms, and the modes, for `count` columns from `first` on."""
    p, row, none = at.problem, rows.start, At("constants")
    by_column = p.column_biased or (p.bias is not None and bool(p.bias.column))
    output = "i32" if p.scales is None else p.output
    code = engine.compiled(records.parameters, at.target, p.a_signed, output, p.bias is not None, by_column)
    found = Arguments(m=len(rows), rows=into, **stepped("a_zero_point", p.a_zero_point.of(batch, row), p.a_zero_point.row))
    if p.scales is None:
        absent = records.PARAMETERS.names
        return records.PARAMETERS.step(code, **{x: none if x in records.PARAMETERS.pointers else 0 for x in absent} | found)
    bound = int(np.nextafter(np.float32(65025 * p.k), np.float32(np.inf)).view(np.uint32))
    a_scale, b_scale, y_scale = p.scales
    bias = p.bias or NOTHING
    return records.PARAMETERS.step(
        code,
        n=count,
        modes=modes,
        bound=bound,
        room=LARGEST - 65025 * p.k if p.k <= WRAPS else -1,
        **found,
        **stepped("a_scale", a_scale.of(batch, row), a_scale.row),
        **stepped("y_scale", y_scale.of(batch, row), y_scale.row),
        **stepped("b_scale", b_scale.of(batch, 0, first), b_scale.column),
        **stepped("y_zero_point", p.y_zero_point.of(batch, row), p.y_zero_point.row),
        **stepped("bias", bias.of(batch, row, first if by_column else 0), bias.column if by_column else bias.row),
    )


def row_sums(at: IntegerLayout, batch: Batch, rows: range, a: At, a_row: int, row_bytes: int, into: At, modes: At) -> Step:
    """The step that computes the terms of the records of rows."""
    p, none = at.problem, At("constants")
    biased = at.kind.biased and at.blocks == 1
    code = engine.compiled(records.row_sums, at.target, p.a_signed, p.b_signed, at.kind.full, biased)
    bias, step = (p.bias.of(batch, rows.start), p.bias.row) if biased and p.bias is not None else (none, 0)
    sizes, zero_point = Arguments(a_row=a_row, k=row_bytes, m=len(rows)), p.b_zero_point.of(batch)
    return records.ROW_SUMS.step(code, a=a, **sizes, rows=into, b_zero_point=zero_point, bias=bias, bias_step=step, modes=modes)


class ColumnRecords:
    """The records of the columns of some panels: `ready` makes their parameters contiguous, `step` computes the records from
    sums."""

    def __init__(self, at: IntegerLayout, batch: Batch, panels: range, into: At) -> None:
        self.at, self.batch, self.panels, self.into = at, batch, panels, into

    def ready(self, scratch: Scratch) -> Generator[Step, None, tuple[At, At, At]]:
        """The zero points, scales and biases as the kernel reads them: one for all columns, or contiguous, for at least a whole
        panel."""
        scales = self.at.problem.scales
        zero_point = yield from self._across(self.at.problem.b_zero_point, 1, scratch)
        scale = At("constants") if scales is None else (yield from self._across(scales[1], 4, scratch))
        bias = self.at.problem.bias
        added = (
            At("constants") if not self.at.kind.column_biased or bias is None else (yield from self._across(bias, 4, scratch))
        )
        return zero_point, scale, added

    def _across(self, t: Matrix, size: int, scratch: Scratch) -> Generator[Step, None, At]:
        at = self.at
        start = at.start(self.panels.start)
        n = at.end(self.panels.stop - 1) - start
        here = t.of(self.batch, 0, start)
        if t.column == 0 or (t.column == size and n >= at.width):
            return here
        values = scratch.take(max(n, at.width) * size)
        yield at.copied((n,), (t.column,), (size,), size, here, values)
        return values

    def step(self, sums: At, k: int, values: tuple[At, At, At], modes: At) -> Step:
        """The step that computes the records. modes: those of the rows' parameters."""
        at, p = self.at, self.at.problem
        code = engine.compiled(
            records.columns,
            at.target,
            p.a_signed,
            p.b_signed,
            at.kind.full,
            None if p.scales is None else 4 if p.scales[1].column else 0,
            1 if p.b_zero_point.column else 0,
            None if not at.kind.column_biased or p.bias is None else 4 if p.bias.column else 0,
        )
        last = at.start(self.panels.stop - 1) - at.start(self.panels.start)
        b_zero_point, b_scale, bias = values
        beside = Arguments(a_zero_point=p.a_zero_point.of(self.batch), b_zero_point=b_zero_point, b_scale=b_scale)
        beside |= Arguments(bias=bias, modes=modes)
        return records.COLUMNS.step(code, panels=len(self.panels), last=last, sums=sums, columns=self.into, k=k, **beside)
