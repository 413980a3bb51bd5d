"""Where B comes from, and how its panels are packed: a source of columns."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from typing import TYPE_CHECKING, NamedTuple, Protocol

from anydml.kernels.call.steps import At, Repeat, Step
from anydml.kernels.code import engine
from anydml.kernels.contract.geometry import Batch, Matrix, Scratch
from anydml.kernels.contract.panels import packing, thin
from anydml.kernels.contract.repeats import along

if TYPE_CHECKING:
    from anydml.kernels.contract.layout import IntegerLayout


class Ready(NamedTuple):
    """Memory with what serves every batch. first: the panel that it begins with."""

    offsets: At
    places: At
    first: int


class PanelProducts(NamedTuple):
    """Rows of A, bytes apart, and where their products with panels go, int32, and the sums of these panels' columns."""

    a: At
    a_row: int
    rows: int
    products: At
    products_row: int
    sums: At


class MatrixSource(Protocol):
    """A matrix {k, n} for every batch, which is packed in panels.

    matrix: where it lies, or what it is made from; outer and inner are 0 where a batch has the same as the one before. owned:
    it is packed before, once.
    """

    @property
    def matrix(self) -> Matrix: ...

    @property
    def owned(self) -> bool: ...

    def is_thin(self, at: IntegerLayout) -> bool:
        """Whether `multiply` serves for a few rows of A."""
        ...

    def ready(self, at: IntegerLayout, panels: range, scratch: Scratch) -> Generator[Step | Repeat, None, Ready]:
        """The steps that come before the first batch, for these panels; what they leave."""
        ...

    def begin(self, at: IntegerLayout, batch: Batch, scratch: Scratch) -> Generator[Step | Repeat, None, At]:
        """The steps that come before a batch's first panels; where it begins."""
        ...

    def pack(
        self, at: IntegerLayout, ready: Ready, begun: At, panels: range, packed: At, sums: At, scratch: Scratch
    ) -> Iterator[Step | Repeat]:
        """The steps that pack panels, and sum their columns in every block of K."""
        ...

    def multiply(self, at: IntegerLayout, ready: Ready, begun: At, panels: range, by: PanelProducts) -> Iterator[Step]:
        """The step that multiplies panels without packing them."""
        ...


class Lying:
    """A strided matrix, packed from where it lies."""

    def __init__(self, matrix: Matrix, owned: bool) -> None:
        self.matrix, self.owned = matrix, owned

    def is_thin(self, at: IntegerLayout) -> bool:
        """Whether rows are read as they lie."""
        return at.problem.n >= at.width and self.matrix.column == 1 and thin.serves(at.target)

    def ready(self, at: IntegerLayout, panels: range, scratch: Scratch) -> Generator[Step | Repeat, None, Ready]:
        """Nothing comes before."""
        yield from ()
        return Ready(At("constants"), At("constants"), panels.start)

    def begin(self, at: IntegerLayout, batch: Batch, scratch: Scratch) -> Generator[Step | Repeat, None, At]:
        """Nothing comes before."""
        yield from ()
        return self.matrix.of(batch)

    def pack(
        self, at: IntegerLayout, ready: Ready, begun: At, panels: range, packed: At, sums: At, scratch: Scratch
    ) -> Iterator[Step | Repeat]:
        """Rows in which columns do not follow one another, or are fewer than a panel's, are copied before."""
        p, count = at.problem, len(panels)
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
            yield Step(code, (b + k.start * row, row, len(k), count, into, at.panel_bytes, totals, last, at.pad, 0, 0))

        yield from along(at.target, range(p.k), at.block, block)

    def multiply(self, at: IntegerLayout, ready: Ready, begun: At, panels: range, by: PanelProducts) -> Iterator[Step]:
        """One pass over B as it lies."""
        p, start = at.problem, at.start(panels.start)
        rows = thin.rows_at_once(self.matrix.row)
        code = engine.compiled(thin.thin, at.target, p.a_signed, p.b_signed, by.rows, rows)
        b, last = begun + start, at.start(panels.stop - 1) - start
        where = by.products, by.products_row, by.sums, last, at.pad
        yield Step(code, (by.a, by.a_row, b, self.matrix.row, p.k, len(panels), *where))
