"""The memory of packed factors, and the steps that pack them: rows as float64, columns as float32, owned ones once."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import prod
from typing import NamedTuple

import numpy as np

from anydml.kernels.call.signature import Arguments
from anydml.kernels.call.steps import At, Step
from anydml.kernels.code import engine
from anydml.kernels.contract.floats.layout import ENTRY, StreamPlace
from anydml.kernels.contract.floats.packed import flat_panels, panels, rows, tile
from anydml.kernels.contract.floats.plan import FloatProblem
from anydml.kernels.contract.geometry import ConstantTables, Scratch

SLACK = 128  # bytes that the last vector of a panel may write beyond its end


class PackedFactor(NamedTuple):
    """A packed factor, and its norms. step, norm_step: bytes from one batch to the next.

    sizes: the numbers of batches, 1 in dimensions that share the factor; all 1 if each batch overwrites the one before.
    """

    at: At
    norms: At
    step: int
    norm_step: int
    sizes: tuple[int, ...]

    def number(self, batch: Sequence[int]) -> int:
        """The number of a batch's factor."""
        number = 0
        for i, n in zip(batch, self.sizes, strict=True):
            number = number * n + min(i, n - 1)
        return number

    def of(self, batch: Sequence[int], offset: int, first: int) -> tuple[At, At]:
        """The address of a batch's factor, plus an offset in bytes, and that of its norms from the `first` on."""
        number = self.number(batch)
        return self.at + number * self.step + offset, self.norms + number * self.norm_step + first * 8


def memory_for(
    batches: tuple[int, ...], count: int, size: int, place: StreamPlace, scratch: Scratch, once: Scratch | None
) -> PackedFactor:
    """Memory for `count` rows or columns of `size` bytes; once: the memory for all batches, if they are packed once."""
    whole, norms = (-(-(count * bytes_ + SLACK) // 64) * 64 for bytes_ in (size, 8))
    if once is None:
        return PackedFactor(scratch.take(whole), scratch.take(norms), 0, 0, (1,) * len(batches))
    sizes = tuple(n if step else 1 for n, step in zip(batches, place.batches, strict=True))
    return PackedFactor(once.take(prod(sizes) * whole), once.take(prod(sizes) * norms), whole, norms, sizes)


class FactorPacking:
    """The steps that pack a contraction's factors. table: the table of terms.

    done: columns are not packed if this is not 0, as in `tile`.
    """

    done: At = ConstantTables.none

    def __init__(self, p: FloatProblem, table: At) -> None:
        self.target, self.layout, self.factors, self.table = p.target, p.layout, p.factors, table
        self.lanes, self.width = p.target.vector_bytes // 8, tile.width(p.target)

    def rows(self, into: PackedFactor, batch: tuple[int, ...], some: range) -> Iterator[Step]:
        """Steps that pack some rows of a batch."""
        for group, height in tile.heights(self.target, some):
            yield from self.tiles(into, batch, group, height, group.start - some.start)

    def tiles(self, into: PackedFactor, batch: tuple[int, ...], some: range, height: int, at: int) -> Iterator[Step]:
        """Steps that pack rows in tiles, beginning at the packed factor's row `at`."""
        found, size = self.layout, self.factors[0].dtype.itemsize
        positions, table, channels, term = len(found.table), self.table + 8, found.channels, found.a_term
        if found.table.shape[0] and term == size * positions and (found.table[:, 1] == size * np.arange(positions)).all():
            channels, positions, term = channels * positions, 1, size  # they are contiguous
        side = rows.CHANNELS if positions == 1 and term == size else rows.ROWS if found.a.row == size else rows.APART
        code = engine.compiled(rows.packed, self.target, self.factors[0], height, side)
        a, to = found.a.of(batch, some.start), into.of(batch, at * found.terms * 8, at)
        from_ = Arguments(a=a, row=found.a.row, rows=len(some), channels=channels, term=term)
        yield rows.ARGUMENTS.step(code, **from_, positions=positions, table=table, step=8 * ENTRY, into=to[0], norms=to[1])

    def parts(self, columns: range) -> list[tuple[range, int]]:
        """Columns in full panels, and the rest in narrower ones; each part with its vectors in a panel's row.

        Only a single panel may have one vector: two panels of two vectors are faster than one of three and one of one.
        """
        most, count = tile.vectors(self.target), -(-len(columns) // self.lanes)
        wide, rest = divmod(count, most)
        if most == 3 and rest == 1 and wide:
            wide, rest = wide - 1, 2
        middle = min(columns.start + wide * self.width, columns.stop)
        made = [(range(columns.start, middle), most), (range(middle, columns.stop), rest or most)]
        return [(part, across) for part, across in made if part]

    def columns(self, into: PackedFactor, batch: tuple[int, ...], columns: range) -> Iterator[Step]:
        """Steps that pack some columns of a batch, beginning with the first column of a panel."""
        found = self.layout
        step, rest = divmod(found.b.columns[2], self.factors[1].dtype.itemsize)
        step = 0 if rest or step not in panels.STEPS else step
        flat = flat_panels.serves(found, self.factors[1].dtype.itemsize)
        for part, across in self.parts(columns):
            if flat:
                code = engine.compiled(flat_panels.packed, self.target, self.factors[1], across)
            else:
                code = engine.compiled(panels.packed, self.target, self.factors[1], across, step, found.padded)
            done = part.start - columns.start
            to, norms = into.of(batch, done * found.terms * 4, done)
            (_, n1, n2), (s0, s1, s2) = found.sizes, found.b.columns
            where = Arguments(b=found.b.of(batch), first=part.start, count=len(part), n1=n1, n2=n2, s0=s0, s1=s1, s2=s2)
            terms = Arguments(channels=found.channels, term=found.b_term, positions=len(found.table), table=self.table)
            packed = Arguments(into=to, panel=found.terms * across * self.lanes * 4, norms=norms, done=self.done)
            inside = Arguments(zip(panels.INSIDE, found.inside, strict=True))
            yield panels.ARGUMENTS.step(code, **where, **terms, **packed, **inside)
