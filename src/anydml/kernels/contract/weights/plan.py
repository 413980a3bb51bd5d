"""The steps of rows times weights: few rows are summed along the terms; more rows meet panels of dequantised weights."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from anydml.kernels.call.signature import Arguments
from anydml.kernels.call.steps import At, Repeat, Step
from anydml.kernels.code import engine
from anydml.kernels.contract.floats.epilogue import with_streams
from anydml.kernels.contract.floats.packed import tile
from anydml.kernels.contract.floats.packed.factors import FactorPacking, PackedFactor
from anydml.kernels.contract.floats.packed.plan import PackedPlan
from anydml.kernels.contract.floats.plan import FloatMemory, FloatPlan, FloatProblem, bound_factor
from anydml.kernels.contract.floats.shares import ThreadShare
from anydml.kernels.contract.weights import panels, refine, rows
from anydml.kernels.contract.weights.packing import GROUP, PackedWeights

WORDS, SCALES, ZEROS, NORMS = "(words)", "(scales)", "(zeros)", "(norms)"  # arrays that the kernel brings
FEW_ROWS = 2 * rows.MOST_ROWS


class WeightsArguments(NamedTuple):
    """The arguments of kernels that read packed weights."""

    weights: PackedWeights

    def of(self, group: int) -> Arguments:
        """The addresses of a group's words, scales and zeros, the bytes of each group, and their numbers."""
        w = self.weights
        words, scales, zeros = w.group_bytes, GROUP * w.blocks * 4, GROUP * w.blocks
        places = Arguments(words=At(WORDS, group * words), scales=At(SCALES, group * scales), zeros=At(ZEROS, group * zeros))
        sizes = Arguments(group_words=words, group_scales=scales, group_zeros=zeros)
        return places | sizes | Arguments(units=w.units, blocks=w.blocks, block_units=max(1, w.units // w.blocks))


class FewRowsOfWeights(FloatPlan):
    """The steps of few rows."""

    def __init__(self, p: FloatProblem, memory: FloatMemory, weights: PackedWeights) -> None:
        super().__init__(p, memory)
        self.weights = weights
        self.arguments = WeightsArguments(weights)
        self.pack = FactorPacking(p, self.table)

    def _piece(self, piece: ThreadShare) -> list[Step | Repeat]:
        found, scratch = self.layout, self.scratch
        columns = -(-min(self.tuning.strip, len(piece.columns)) // GROUP) * GROUP
        self.sums_row = columns * 8 + 2 * self.target.vector_bytes
        count, ones = len(piece.rows), (1,) * len(found.batches)
        self.rows = PackedFactor(scratch.take(count * found.terms * 8 + 128), scratch.take(count * 8 + 128), 0, 0, ones)
        self.sums = scratch.take(rows.MOST_ROWS * self.sums_row)
        self.entries = scratch.take((rows.MOST_ROWS * columns + 64) * 8)
        self.counter = scratch.take(64)
        return self._batches(piece)

    def _batch(self, batch: tuple[int, ...], piece: ThreadShare) -> Iterator[Step | Repeat]:
        yield self.pack.tiles(self.rows, batch, piece.rows, 1, 0)
        for first in range(piece.columns.start, piece.columns.stop, self.tuning.strip):
            columns = range(first, min(first + self.tuning.strip, piece.columns.stop))
            for m in range(piece.rows.start, piece.rows.stop, rows.MOST_ROWS):
                some = range(m, min(m + rows.MOST_ROWS, piece.rows.stop))
                yield from self._strip(batch, some, m - piece.rows.start, columns)

    def _strip(self, batch: tuple[int, ...], some: range, at: int, columns: range) -> Iterator[Step]:
        found, target, weights = self.layout, self.target, self.weights
        row = found.terms * 8
        left, norms = self.rows.at + at * row, self.rows.norms + at * 8
        packed = self.arguments.of(columns.start // GROUP)
        code = engine.compiled(rows.summed, target, weights.key, len(some))
        of_rows = Arguments(a=left, a_row=row)
        summed = Arguments(sums=self.sums, sums_row=self.sums_row)
        groups = -(-len(columns) // GROUP)
        yield rows.ARGUMENTS.step(code, **of_rows, **packed, groups=groups, **summed, counter=self.counter)
        streams = self.streams_of(batch, some.start)
        factor = bound_factor(rows.additions(found.terms, len(some), target))
        bounds = Arguments(factor=factor, a_norms=norms, b_norms=At(NORMS, 8 * columns.start))
        yield self.stored(self.key, some, columns, streams, **summed, **bounds)
        code = engine.compiled(refine.refined, target, self.key, weights.key)
        bit = (self._number(batch) * found.rows + some.start) * found.columns
        listed = Arguments(list=self.entries, counter=self.counter, first=columns.start, f1=found.flat[1], f2=found.flat[2])
        marked = Arguments(bits=self.bits, bit=bit, columns=found.columns, open=self.undecided)
        arguments = with_streams(refine.ARGUMENTS, len(self.places))
        yield arguments.step(code, **of_rows, **self.arguments.of(0), **listed, **marked, **streams)


class ManyRowsOfWeights(PackedPlan):
    """The steps of many rows, for which panels of weights are dequantised, a chunk at a time."""

    def __init__(self, p: FloatProblem, memory: FloatMemory, weights: PackedWeights) -> None:
        super().__init__(p, memory, (False, False))
        self.pack = _WeightPacking(p, self.table, weights)


class _WeightPacking(FactorPacking):
    """The steps that pack rows, and that dequantise panels of weights."""

    def __init__(self, p: FloatProblem, table: At, weights: PackedWeights) -> None:
        super().__init__(p, table)
        self.weights, self.arguments = weights, WeightsArguments(weights)

    def parts(self, columns: range) -> list[tuple[range, int]]:
        """As in the base, but panels consist of whole groups."""
        return [(part, -(-across * self.lanes // GROUP) * GROUP // self.lanes) for part, across in super().parts(columns)]

    def columns(self, into: PackedFactor, batch: tuple[int, ...], columns: range) -> Iterator[Step]:
        found = self.layout
        for part, across in self.parts(columns):
            width, done = across * self.lanes, part.start - columns.start
            to, norms = into.of(batch, done * found.terms * 4, done)
            code = engine.compiled(panels.packed, self.target, self.weights.key, across)
            groups = Arguments(groups=-(-len(part) // GROUP), **self.arguments.of(part.start // GROUP))
            made = Arguments(into=to, panel=found.terms * width * 4, panels=-(-len(part) // width), norms=norms)
            yield panels.ARGUMENTS.step(code, **groups, **made, **{"from": At(NORMS, 8 * part.start)})


def plan_of(p: FloatProblem, memory: FloatMemory, weights: PackedWeights) -> FloatPlan:
    """The plan for a number of rows."""
    return (FewRowsOfWeights if p.layout.rows <= FEW_ROWS else ManyRowsOfWeights)(p, memory, weights)


def serves(p: FloatProblem) -> bool:
    """Whether panels and pieces consist of whole groups of columns."""
    return tile.width(p.target) % GROUP == 0
