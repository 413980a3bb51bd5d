"""The steps of contractions with few rows: sums without packing, a strip of columns at a time."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from anydml.kernels.call.signature import Arguments
from anydml.kernels.call.steps import Repeat, Step
from anydml.kernels.code import engine
from anydml.kernels.contract.floats.few import matrix, sums, terms
from anydml.kernels.contract.floats.layout import FloatLayout
from anydml.kernels.contract.floats.plan import FloatPlan, bound_factor
from anydml.kernels.contract.floats.shares import ThreadShare
from anydml.kernels.contract.floats.tuning import FloatTuning


def serves(found: FloatLayout, size: int, once: bool, tuning: FloatTuning) -> bool:
    """Whether there are so few rows that packing columns does not pay.

    size: bytes of an element of the columns' factor; once: whether this could be packed once.
    """
    along = _read_along(found, size)
    # of more rows than are computed at once, the columns would be read twice; packed, they make tiles stored from registers
    most = tuning.at_once_terms if found.rows > tuning.rows_at_once else tuning.few_terms
    many = found.rows > tuning.rows_at_once or (found.rows == tuning.rows_at_once and found.columns >= tuning.strip)
    if along is False and many and found.terms <= most:
        return False
    return found.rows <= (tuning.rows if once or along is None else tuning.rows_of_matrix)


class FewRowsPlan(FloatPlan):
    """The steps of few rows."""

    def _piece(self, piece: ThreadShare) -> list[Step | Repeat]:
        scratch, rows = self.scratch, min(len(piece.rows), self.tuning.rows_at_once)
        columns = min(self.tuning.strip, len(piece.columns))
        self.block_row = columns * 8 + sums.slack(self.target)
        self.sums, self.sizes = (scratch.take(rows * self.block_row) for _ in range(2))
        self.entries = scratch.take((rows * columns + 64) * 8)
        self.counter = scratch.take(64)
        self.values = scratch.take(max(self.tuning.row_block, 16 * rows) * 8 + rows * self.target.vector_bytes * 2)
        self.of_piece = self.of_blocks() | self.unpacked(self.sums, self.block_row, self.sizes)
        self.measured_key = self.key._replace(measured=True)
        return self._batches(piece)

    def _batch(self, batch: tuple[int, ...], piece: ThreadShare) -> Iterator[Step | Repeat]:
        at_once = self.tuning.rows_at_once
        for first in range(piece.rows.start, piece.rows.stop, at_once):
            rows = range(first, min(first + at_once, piece.rows.stop))
            yield from self.along(piece.columns, self.tuning.strip, partial(self._strip, batch, rows))

    def _strip(self, batch: tuple[int, ...], rows: range, columns: range) -> Iterator[Step]:
        found, target = self.layout, self.target
        along = _read_along(found, self.factors[1].dtype.itemsize)
        if along is None:
            yield self._any(batch, rows, columns)
            additions = found.terms
        else:
            kinds = matrix.FewKey(*self.factors, len(rows), along, self.tuning.row_block)
            yield self._matrix(kinds, batch, rows, columns)
            additions = kinds.additions(found.terms, target)
        values = self.with_block(self.of_piece, batch, rows, columns)
        values["factor"] = bound_factor(additions)
        yield self.stored(self.measured_key, values)
        yield self.refine(batch, rows, columns, self.key, values)

    def _matrix(self, kinds: matrix.FewKey, batch: tuple[int, ...], rows: range, columns: range) -> Step:
        """The sums of some columns of a contiguous matrix."""
        found = self.layout
        at_b, at_a = (int(x) for x in found.table[0, :2])
        a, b = found.a.of(batch, rows.start) + at_a, found.b.of(batch) + at_b
        column = found.b.columns[2]
        values = Arguments(a=a, a_row=found.a.row, a_term=found.a_term)
        values.update(b=b + columns.start * column, b_term=found.b_term, b_column=column)
        values.update(sums=self.sums, sizes=self.sizes, block_row=self.block_row, counter=self.counter)
        values.update(terms=found.terms, columns=len(columns), values=self.values)
        return matrix.ARGUMENTS.step_from(engine.compiled(matrix.summed, self.target, kinds), values)

    def _any(self, batch: tuple[int, ...], rows: range, columns: range) -> Step:
        """The sums of some columns with any layout."""
        found = self.layout
        size = self.factors[1].dtype.itemsize
        at_once = max(1, min(found.terms, 16 if len(found.table) > 1 else 8))  # fewer of a matrix, whose rows are far apart
        step = {size: 1, 2 * size: 2}.get(found.b.columns[2], 0)
        kinds = terms.TermsKey(*self.factors, len(rows), 1 if found.sizes[2] == 1 else step, found.padded, at_once)
        (_, n1, n2), (s0, s1, s2) = found.sizes, found.b.columns
        left = Arguments(a=found.a.of(batch, rows.start), a_row=found.a.row, a_term=found.a_term)
        right = Arguments(b=found.b.of(batch), n1=n1, n2=n2, s0=s0, s1=s1, s2=s2, b_term=found.b_term)
        counted = Arguments(channels=found.channels, positions=len(found.table), table=self.table)
        counted |= zip(("from0", "end0", "from1", "end1"), found.inside, strict=False)
        block = Arguments(sums=self.sums, sizes=self.sizes, block_row=self.block_row, counter=self.counter)
        code = engine.compiled(sums.sums, self.target, kinds)
        return sums.ARGUMENTS.step(code, **left, **right, **counted, first=columns.start, count=len(columns), **block)


def _read_along(found: FloatLayout, size: int) -> bool | None:
    """Whether a matrix is contiguous along terms, or else along columns; None if neither, or if some terms do not count."""
    if found.padded or len(found.table) != 1 or found.sizes[:2] != (1, 1):
        return None
    column = found.b.columns[2]
    if found.b_term == size and (column != size or found.columns == 1):
        return True
    return False if column == size or found.columns == 1 else None
