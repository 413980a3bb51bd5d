"""The steps of contractions with few rows: sums without packing, a strip of columns at a time."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np

from anydml.kernels.call.steps import At, Repeat, Step
from anydml.kernels.code import engine
from anydml.kernels.contract.floats import direct, epilogue
from anydml.kernels.contract.floats.layout import Layout

if TYPE_CHECKING:
    from anydml.kernels.contract.floats.plan import Plan
    from anydml.kernels.contract.floats.shares import Piece

MOST_ROWS = 4
STRIP = 4096  # columns: their sums stay near while the terms pass by


def serves(found: Layout) -> bool:
    """Whether there are so few rows that packing columns costs more than it brings."""
    return found.rows <= MOST_ROWS


def take(plan: Plan, piece: Piece) -> None:
    """Take the memory that a piece works in."""
    scratch, rows = plan.scratch, len(piece.rows)
    columns = min(STRIP, len(piece.columns))
    plan.block_row = columns * 8 + direct.slack(plan.target)
    plan.sums, plan.sizes = (scratch.take(rows * plan.block_row) for _ in range(2))
    plan.list = scratch.take((rows * columns + 64) * 8)
    plan.counter = scratch.take(64)


def batch_steps(plan: Plan, batch: tuple[int, ...], piece: Piece) -> Iterator[Step | Repeat]:
    """The steps of one batch."""
    yield from plan.along(piece.columns, STRIP, lambda columns: _strip(plan, batch, piece.rows, columns))


def _strip(plan: Plan, batch: tuple[int, ...], rows: range, columns: range) -> Iterator[Step]:
    found, target = plan.layout, plan.target
    size = plan.factors[1].dtype.itemsize
    at_once = max(1, min(found.terms, 16 if len(found.table) > 1 else 8))  # of a matrix, rows that are far apart
    step = {size: 1, 2 * size: 2}.get(found.b.columns[2], 0)
    kinds = direct.Kinds(*plan.factors, len(rows), 1 if found.sizes[2] == 1 else step, found.padded, at_once)
    a, b = (found.a.of(batch, rows.start), found.a.row, found.a_term), found.b.of(batch)
    right = (b, *found.sizes[1:], *found.b.columns, found.b_term)
    terms = (found.channels, len(found.table), plan.table)
    blocks: tuple[At | int, ...] = (plan.sums, plan.sizes, plan.block_row, *found.inside[:4])
    yield Step(engine.compiled(direct.sums, target, kinds), (*a, *right, *terms, columns.start, len(columns), *blocks))
    shape = plan.shape._replace(measured=True)
    factor = int(np.float64((found.terms + 8) * 2.0**-53).view(np.int64))
    streams = [x for p in plan.places for x in (p.of(batch, rows.start), p.row, *p.columns)]
    none = plan.counter  # of what the epilogue of other sums reads
    where = (len(rows), columns.start, len(columns), *found.flat[1:], plan.sums, plan.block_row, factor)
    code = engine.compiled(epilogue.block, target, shape)
    yield Step(code, (*where, none, plan.sizes, plan.list, plan.counter, found.terms, none, none, none, *streams))
    known = (plan.sums, plan.block_row, none, none, 0, 0, none, 0, 0)
    yield plan.refine(batch, rows, columns, plan.shape, known, streams)
