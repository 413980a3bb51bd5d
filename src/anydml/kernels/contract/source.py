"""Where B comes from, and how its panels are packed: a source of columns."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from typing import TYPE_CHECKING, Protocol

from anydml.kernels.call.steps import At, Repeat, Step
from anydml.kernels.code import engine
from anydml.kernels.contract import packing
from anydml.kernels.contract.geometry import Batch, Matrix, Scratch
from anydml.kernels.contract.repeats import along

if TYPE_CHECKING:
    from anydml.kernels.contract.layout import Layout


class Source(Protocol):
    """A matrix {k, n} for every batch, which is packed in panels.

    matrix: where it lies, or what it is made from; outer and inner are 0 where a batch has the same as the one before. owned:
    it is packed before, once. lies: whether `matrix` has its rows and columns.
    """

    @property
    def matrix(self) -> Matrix: ...

    @property
    def owned(self) -> bool: ...

    @property
    def lies(self) -> bool: ...

    def begin(self, at: Layout, batch: Batch, scratch: Scratch) -> Generator[Step | Repeat, None, At]:
        """The steps that come before a batch's first panels; what they leave, for `pack`."""
        ...

    def pack(
        self, at: Layout, batch: Batch, begun: At, panels: range, packed: At, sums: At, scratch: Scratch
    ) -> Iterator[Step | Repeat]:
        """The steps that pack panels, and sum their columns in every block of K."""
        ...


class Lying:
    """A strided matrix, packed from where it lies."""

    lies = True

    def __init__(self, matrix: Matrix, owned: bool) -> None:
        self.matrix, self.owned = matrix, owned

    def begin(self, at: Layout, batch: Batch, scratch: Scratch) -> Generator[Step | Repeat, None, At]:
        """Nothing comes before."""
        yield from ()
        return self.matrix.of(batch)

    def pack(
        self, at: Layout, batch: Batch, begun: At, panels: range, packed: At, sums: At, scratch: Scratch
    ) -> Iterator[Step | Repeat]:
        """Rows in which columns do not follow one another, or are fewer than a panel's, are copied before."""
        p, count = at.problem, len(panels)
        start = at.start(panels.start)
        columns = at.end(panels.stop - 1) - start
        b, row = self.matrix.of(batch, 0, start), self.matrix.row
        if (self.matrix.column != 1 and columns > 1) or columns < at.width:
            row = max(columns, at.width)
            rows = scratch.take(p.k * row)
            yield at.copied((p.k, columns), (self.matrix.row, self.matrix.column), (row, 1), 1, b, rows)
            b = rows
        code = engine.compiled(packing.pack, at.target, p.a_signed, p.b_signed)
        last = at.start(panels.stop - 1) - start

        def block(k: range) -> Iterator[Step]:
            into, totals = packed + at.depth(k.start), sums + k.start // at.block * count * at.width * 4
            yield Step(code, (b + k.start * row, row, len(k), count, into, at.panel_bytes, totals, last, at.pad, 0, 0))

        yield from along(at.target, range(p.k), at.block, block)
