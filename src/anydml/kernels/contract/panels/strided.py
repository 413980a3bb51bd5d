"""Panels of a strided matrix, packed from its own layout, or multiplied there."""

from __future__ import annotations

from collections.abc import Generator, Iterator

from anydml.kernels.call.signature import Arguments
from anydml.kernels.call.steps import At, Repeat, Step
from anydml.kernels.code import engine
from anydml.kernels.contract.geometry import Batch, Matrix, Scratch
from anydml.kernels.contract.layout import IntegerLayout
from anydml.kernels.contract.panels import packing, thin
from anydml.kernels.contract.panels.source import PanelProducts, Ready
from anydml.kernels.contract.repeats import along


class StridedPanels:
    """Panels of a strided matrix."""

    def __init__(self, at: IntegerLayout, matrix: Matrix) -> None:
        self.at, self.matrix = at, matrix

    @property
    def is_thin(self) -> bool:
        """Whether rows are contiguous."""
        return self.at.problem.n >= self.at.width and self.matrix.column == 1 and thin.serves(self.at.target)

    def ready(self, panels: range, scratch: Scratch) -> Generator[Step | Repeat, None, Ready]:
        """No steps: B needs no tables."""
        yield from ()
        return Ready(At("constants"), At("constants"), panels.start)

    def begin(self, batch: Batch, scratch: Scratch) -> Generator[Step | Repeat, None, At]:
        """No steps: the address of the batch."""
        yield from ()
        return self.matrix.of(batch)

    def pack(self, ready: Ready, begun: At, panels: range, packed: At, sums: At, scratch: Scratch) -> Iterator[Step | Repeat]:
        """If columns are not contiguous, or fewer than a panel's, rows are copied first."""
        at, p, count = self.at, self.at.problem, len(panels)
        start = at.start(panels.start)
        columns = at.end(panels.stop - 1) - start
        b, row = begun + start * self.matrix.column, self.matrix.row
        if (self.matrix.column != 1 and columns > 1) or columns < at.width:
            row = max(columns, at.width)
            rows = scratch.take(p.k * row)
            yield at.copied((p.k, columns), (self.matrix.row, self.matrix.column), (row, 1), 1, b, rows)
            b = rows
        code = engine.compiled(packing.pack, at.target, p.a_signed, p.b_signed)
        last = at.start(panels.stop - 1) - start

        def block(k: range) -> Iterator[Step]:
            into, totals = packed + at.depth(k.start), sums + k.start // at.block * count * at.width * 4
            rows = Arguments(b=b + k.start * row, b_row=row, k=len(k), panels=count)
            to = Arguments(packed=into, panel=at.panel_bytes, sums=totals, last=last, pad=at.pad)
            yield packing.PACK.step(code, **rows, **to, offsets=0, places=0)

        yield from along(at.target, range(p.k), at.block, block)

    def multiply(self, ready: Ready, begun: At, panels: range, by: PanelProducts) -> Iterator[Step]:
        """One pass over B in its own layout."""
        at, p, start = self.at, self.at.problem, self.at.start(panels.start)
        rows = thin.rows_at_once(self.matrix.row)
        code = engine.compiled(thin.thin, at.target, p.a_signed, p.b_signed, by.rows, rows)
        b, last = begun + start, at.start(panels.stop - 1) - start
        factors = Arguments(a=by.a, a_row=by.a_row, b=b, b_row=self.matrix.row, k=p.k, panels=len(panels))
        to = Arguments(products=by.products, products_row=by.products_row, sums=by.sums)
        yield thin.THIN.step(code, **factors, **to, last=last, pad=at.pad)
