"""Where factors are packed, and the steps that do it: rows as float64, columns as float32; those that are owned, once."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import prod
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from anydml.kernels.call.steps import At, Step
from anydml.kernels.code import engine
from anydml.kernels.contract.floats.layout import ENTRY, StreamPlace
from anydml.kernels.contract.floats.packed import flat_panels, panels, rows, tile
from anydml.kernels.contract.geometry import Scratch

if TYPE_CHECKING:
    from anydml.kernels.contract.floats.plan import FloatPlan

SLACK = 128  # bytes that the last vector of a panel may write behind it


class PackedFactor(NamedTuple):
    """A factor that is packed, and its norms. step, norm_step: bytes from one batch's to the next one's.

    sizes: the numbers of batches, 1 where they have the same; all are 1 where each batch's takes the place of another's.
    """

    at: At
    norms: At
    step: int
    norm_step: int
    sizes: tuple[int, ...]

    def of(self, batch: Sequence[int], offset: int, first: int) -> tuple[At, At]:
        """Where a batch's is, so many bytes from its start, and its norms from one of them on."""
        number = 0
        for i, n in zip(batch, self.sizes, strict=True):
            number = number * n + min(i, n - 1)
        return self.at + number * self.step + offset, self.norms + number * self.norm_step + first * 8


def take(plan: FloatPlan, count: int, size: int, place: StreamPlace, once: Scratch | None) -> PackedFactor:
    """Memory for so many rows, or columns, of so many bytes; once: where those of all batches are kept, if they are."""
    batches = plan.layout.batches
    whole, norms = (-(-(count * bytes_ + SLACK) // 64) * 64 for bytes_ in (size, 8))
    if once is None:
        return PackedFactor(plan.scratch.take(whole), plan.scratch.take(norms), 0, 0, (1,) * len(batches))
    sizes = tuple(n if step else 1 for n, step in zip(batches, place.batches, strict=True))
    return PackedFactor(once.take(prod(sizes) * whole), once.take(prod(sizes) * norms), whole, norms, sizes)


def rows_packed(plan: FloatPlan, batch: tuple[int, ...], some: range) -> Iterator[Step]:
    """Steps that pack some rows of a batch."""
    for group, height in tile.heights(plan.target, some):
        yield tiles_packed(plan, batch, group, height, group.start - some.start)


def tiles_packed(plan: FloatPlan, batch: tuple[int, ...], some: range, height: int, at: int) -> Step:
    """A step that packs tiles of rows, as the at-th and further ones."""
    found, size = plan.layout, plan.factors[0].dtype.itemsize
    positions, table, channels, term = len(found.table), plan.table + 8, found.channels, found.a_term
    if found.table.shape[0] and term == size * positions and (found.table[:, 1] == size * np.arange(positions)).all():
        channels, positions, term = channels * positions, 1, size  # they lie side by side
    side = rows.CHANNELS if positions == 1 and term == size else rows.ROWS if found.a.row == size else rows.APART
    code = engine.compiled(rows.packed, plan.target, plan.factors[0], height, side)
    a, into = found.a.of(batch, some.start), plan.rows.of(batch, at * found.terms * 8, at)
    return Step(code, (a, found.a.row, len(some), channels, term, positions, table, 8 * ENTRY, *into))


def parts(plan: FloatPlan, columns: range) -> list[tuple[range, int]]:
    """Columns in whole panels, and the rest in narrower ones: with the vectors that a row of the panel has.

    No panel but the first has one vector alone: two of two are summed as fast as one of three, and one of one is not.
    """
    most, count = tile.vectors(plan.target), -(-len(columns) // plan.lanes)
    wide, rest = divmod(count, most)
    if most == 3 and rest == 1 and wide:
        wide, rest = wide - 1, 2
    middle = min(columns.start + wide * plan.width, columns.stop)
    made = [(range(columns.start, middle), most), (range(middle, columns.stop), rest or most)]
    return [(part, across) for part, across in made if part]


def columns_packed(plan: FloatPlan, batch: tuple[int, ...], columns: range) -> Iterator[Step]:
    """Steps that pack some columns of a batch, from a panel's first one on."""
    found = plan.layout
    step, rest = divmod(found.b.columns[2], plan.factors[1].dtype.itemsize)
    step = 0 if rest or step not in (1, 2) else step
    flat = flat_panels.serves(found, plan.factors[1].dtype.itemsize)
    for part, across in parts(plan, columns):
        if flat:
            code = engine.compiled(flat_panels.packed, plan.target, plan.factors[1], across)
        else:
            code = engine.compiled(panels.packed, plan.target, plan.factors[1], across, step, found.padded)
        where = (found.b.of(batch), part.start, len(part), *found.sizes[1:], *found.b.columns)
        terms = (found.channels, found.b_term, len(found.table), plan.table)
        done = part.start - columns.start
        into, norms = plan.columns.of(batch, done * found.terms * 4, done)
        yield Step(code, (*where, *terms, into, found.terms * across * plan.lanes * 4, norms, *found.inside))
