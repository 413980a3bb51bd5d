"""The steps of contractions with few rows: sums without packing, a strip of columns at a time."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from anydml.kernels.call.steps import At, Repeat, Step
from anydml.kernels.code import engine
from anydml.kernels.contract.floats import epilogue
from anydml.kernels.contract.floats.few import matrix as few
from anydml.kernels.contract.floats.few import sums as direct
from anydml.kernels.contract.floats.few import terms
from anydml.kernels.contract.floats.layout import FloatLayout

if TYPE_CHECKING:
    from anydml.kernels.contract.floats.plan import FloatPlan
    from anydml.kernels.contract.floats.shares import ThreadShare

MOST_ROWS = 4
MOST_ROWS_ALONG = 16  # of a matrix whose rows or columns lie side by side
AT_ONCE = 8  # of these rows
FEW_TERMS = 48
STRIP = 4096  # columns: their sums stay near while the terms pass by


def serves(found: FloatLayout, size: int, once: bool) -> bool:
    """Whether there are so few rows that packing columns costs more than it brings.

    size: bytes of the columns' elements; once: whether these could be packed once.
    """
    along = _read_along(found, size)
    if found.rows > AT_ONCE and along is False and found.terms <= FEW_TERMS and found.columns >= STRIP:
        return False  # such rows would pass twice over columns, whose tiles are stored from registers where they are packed
    return found.rows <= (MOST_ROWS if once or along is None else MOST_ROWS_ALONG)


def take(plan: FloatPlan, piece: ThreadShare) -> None:
    """Take the memory that a piece works in."""
    scratch, rows = plan.scratch, min(len(piece.rows), AT_ONCE)
    columns = min(STRIP, len(piece.columns))
    plan.block_row = columns * 8 + direct.slack(plan.target)
    plan.sums, plan.sizes = (scratch.take(rows * plan.block_row) for _ in range(2))
    plan.list = scratch.take((rows * columns + 64) * 8)
    plan.counter = scratch.take(64)
    plan.values = scratch.take(max(few.BLOCK, 16 * rows) * 8 + rows * plan.target.vector_bytes * 2)


def batch_steps(plan: FloatPlan, batch: tuple[int, ...], piece: ThreadShare) -> Iterator[Step | Repeat]:
    """The steps of one batch."""
    for first in range(piece.rows.start, piece.rows.stop, AT_ONCE):
        rows = range(first, min(first + AT_ONCE, piece.rows.stop))
        yield from plan.along(piece.columns, STRIP, partial(_strip, plan, batch, rows))


def _read_along(found: FloatLayout, size: int) -> bool | None:
    """Whether a matrix lies side by side along its terms; None if it does neither way, or if some terms do not count."""
    if found.padded or len(found.table) != 1 or found.sizes[:2] != (1, 1):
        return None
    column = found.b.columns[2]
    if found.b_term == size and (column != size or found.columns == 1):
        return True
    return False if column == size or found.columns == 1 else None


def _strip(plan: FloatPlan, batch: tuple[int, ...], rows: range, columns: range) -> Iterator[Step]:
    found, target = plan.layout, plan.target
    along = _read_along(found, plan.factors[1].dtype.itemsize)
    if along is None:
        yield _any(plan, batch, rows, columns)
        additions = found.terms
    else:
        kinds = few.FewKey(*plan.factors, len(rows), along, few.BLOCK)
        yield _matrix(plan, kinds, batch, rows, columns)
        additions = kinds.additions(found.terms, target)
    factor = int(np.float64((additions + 8) * 2.0**-53).view(np.int64))
    shape = plan.shape._replace(measured=True)
    streams = [x for p in plan.places for x in (p.of(batch, rows.start), p.row, *p.columns)]
    none = plan.counter  # of what the epilogue of other sums reads
    where = (len(rows), columns.start, len(columns), *found.flat[1:], plan.sums, plan.block_row, factor)
    code = engine.compiled(epilogue.block, target, shape)
    yield Step(
        code, (*where, none, plan.sizes, plan.list, plan.counter, found.terms, none, none, none, plan.constants.none, *streams)
    )
    known = (plan.sums, plan.block_row, none, none, 0, 0, none, 0, 0)
    yield plan.refine(batch, rows, columns, plan.shape, known, streams)


def _matrix(plan: FloatPlan, kinds: few.FewKey, batch: tuple[int, ...], rows: range, columns: range) -> Step:
    """The sums of some columns of a matrix that lies side by side."""
    found = plan.layout
    at_b, at_a = (int(x) for x in found.table[0, :2])
    a, b = found.a.of(batch, rows.start) + at_a, found.b.of(batch) + at_b
    left, right = (a, found.a.row, found.a_term), (b + columns.start * found.b.columns[2], found.b_term, found.b.columns[2])
    blocks = (found.terms, len(columns), plan.sums, plan.sizes, plan.block_row, plan.values, plan.counter)
    return Step(engine.compiled(few.summed, plan.target, kinds), (*left, *right, *blocks))


def _any(plan: FloatPlan, batch: tuple[int, ...], rows: range, columns: range) -> Step:
    """The sums of some columns of any kind."""
    found = plan.layout
    size = plan.factors[1].dtype.itemsize
    at_once = max(1, min(found.terms, 16 if len(found.table) > 1 else 8))  # of a matrix, rows that are far apart
    step = {size: 1, 2 * size: 2}.get(found.b.columns[2], 0)
    kinds = terms.TermsKey(*plan.factors, len(rows), 1 if found.sizes[2] == 1 else step, found.padded, at_once)
    a, b = (found.a.of(batch, rows.start), found.a.row, found.a_term), found.b.of(batch)
    right = (b, *found.sizes[1:], *found.b.columns, found.b_term)
    counted = (found.channels, len(found.table), plan.table)
    blocks: tuple[At | int, ...] = (plan.sums, plan.sizes, plan.block_row, *found.inside[:4], plan.counter)
    code = engine.compiled(direct.sums, plan.target, kinds)
    return Step(code, (*a, *right, *counted, columns.start, len(columns), *blocks))
