"""The steps of rows times weights: few rows are summed along the terms; more rows meet panels of dequantised weights."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from typing import NamedTuple

import numpy as np

from anydml.kernels.call.steps import At, Repeat, Step
from anydml.kernels.code import engine
from anydml.kernels.contract.floats import epilogue
from anydml.kernels.contract.floats.packed import tile
from anydml.kernels.contract.floats.packed.factors import FactorPacking, PackedFactor
from anydml.kernels.contract.floats.packed.plan import PackedPlan
from anydml.kernels.contract.floats.plan import FloatMemory, FloatPlan, FloatProblem, bound_factor
from anydml.kernels.contract.floats.shares import ThreadShare
from anydml.kernels.contract.weights import integers, panels, refine, rows
from anydml.kernels.contract.weights.packing import GROUP, ROWS, PackedWeights

# arrays that the kernel brings
WORDS, SCALES, ZEROS, NORMS, FACTORS = "(words)", "(scales)", "(zeros)", "(norms)", "(factors)"
FEW_ROWS = 2 * rows.MOST_ROWS
ROWS_OF_INTEGERS = 4  # at most; more rows are faster together, as float64


class WeightsArguments(NamedTuple):
    """The arguments of kernels that read packed weights."""

    weights: PackedWeights

    def of(self, group: int) -> list[At | int]:
        """The addresses of a group's words, scales and zeros, and the bytes of each group."""
        w = self.weights
        sizes = (w.group_bytes, w.key.group * w.blocks * 4, w.key.group * w.blocks)
        found: list[At | int] = []
        for name, size in zip((WORDS, SCALES, ZEROS), sizes, strict=True):
            found += [At(name, group * size), size]
        return found

    @property
    def counts(self) -> list[int]:
        """units, blocks and block_units."""
        w = self.weights
        return [w.units, w.blocks, max(1, w.units // w.blocks)]


class FewRowsOfWeights(FloatPlan):
    """The steps of few rows."""

    rows_at_once = rows.MOST_ROWS

    def __init__(self, p: FloatProblem, memory: FloatMemory, weights: PackedWeights) -> None:
        super().__init__(p, memory)
        self.weights = weights
        self.arguments = WeightsArguments(weights)
        self.pack = FactorPacking(p, self.table)

    def _piece(self, piece: ThreadShare) -> list[Step | Repeat]:
        found, scratch = self.layout, self.scratch
        columns = self._whole(min(self.tuning.strip, len(piece.columns)))
        self.sums_row = columns * 8 + 2 * self.target.vector_bytes
        count, ones = len(piece.rows), (1,) * len(found.batches)
        self.rows = PackedFactor(scratch.take(count * found.terms * 8 + 128), scratch.take(count * 8 + 128), 0, 0, ones)
        self.sums = scratch.take(rows.MOST_ROWS * self.sums_row)
        self.entries = scratch.take((rows.MOST_ROWS * columns + 64) * 8)
        self.counter = scratch.take(64)
        return self._batches(piece)

    def _batch(self, batch: tuple[int, ...], piece: ThreadShare) -> Iterator[Step | Repeat]:
        yield from self._packed(batch, piece)
        for first in range(piece.columns.start, piece.columns.stop, self.tuning.strip):
            columns = range(first, min(first + self.tuning.strip, piece.columns.stop))
            for m in range(piece.rows.start, piece.rows.stop, self.rows_at_once):
                some = range(m, min(m + self.rows_at_once, piece.rows.stop))
                yield from self._strip(batch, some, m - piece.rows.start, columns)

    def _packed(self, batch: tuple[int, ...], piece: ThreadShare) -> Iterator[Step]:
        yield self.pack.tiles(self.rows, batch, piece.rows, 1, 0)

    def _strip(self, batch: tuple[int, ...], some: range, at: int, columns: range) -> Iterator[Step]:
        found, target, weights = self.layout, self.target, self.weights
        row = found.terms * 8
        left = self.rows.at + at * row
        factor, norms = yield from self._sums(at, len(some), columns)
        streams = [x for p in self.places for x in (p.of(batch, some.start), p.row, *p.columns)]
        none = self.counter  # for arguments that only the epilogues of other sums read
        where = (len(some), columns.start, len(columns), *found.flat[1:], self.sums, self.sums_row)
        of_columns = At(NORMS, 8 * columns.start)
        listed = (self.entries, self.counter, found.terms, none, none, none, self.constants.none)
        code = engine.compiled(epilogue.block, target, self.key)
        yield Step(code, (*where, factor, norms, of_columns, *listed, *streams))
        code = engine.compiled(refine.refined, target, self.key, weights.key)
        bit = (self._number(batch) * found.rows + some.start) * found.columns
        places = (self.entries, self.counter, columns.start, *found.flat[1:], self.bits, bit, found.columns, self.undecided)
        additions = refine.plain_additions(found.terms, target)
        plain = bound_factor(additions), self.rows.norms + at * 8, of_columns
        yield Step(code, (left, row, *self.arguments.of(0), *self.arguments.counts, *places, *plain, *streams))

    def _whole(self, columns: int) -> int:
        """The columns of whole groups."""
        group = self.weights.key.group
        return -(-columns // group) * group

    def _sums(self, at: int, count: int, columns: range) -> Generator[Step, None, tuple[int, At]]:
        """The step that sums rows from `at` on; the factor of their bounds, and where their norms are."""
        group = self.weights.key.group
        row, groups = self.layout.terms * 8, self._whole(len(columns)) // group
        code = engine.compiled(rows.summed, self.target, self.weights.key, count)
        where = (self.rows.at + at * row, row, *self.arguments.of(columns.start // group), groups, *self.arguments.counts)
        yield Step(code, (*where, self.sums, self.sums_row, self.counter))
        return bound_factor(rows.additions(self.layout.terms, count, self.target)), self.rows.norms + at * 8


class RowsOfIntegers(FewRowsOfWeights):
    """The steps of few rows whose sums are integers' (`integers`), one row after the other."""

    rows_at_once = 1

    def _piece(self, piece: ThreadShare) -> list[Step | Repeat]:
        units, count = self.weights.units, len(piece.rows)
        chunks = units // self.weights.span
        self.digits = [self.scratch.take(units * integers.DIGIT_BYTES) for _ in range(count)]
        self.numbers = [self.scratch.take(chunks * integers.NUMBERS) for _ in range(count)]
        self.facts = [self.scratch.take(integers.FACTS) for _ in range(count)]
        return super()._piece(piece)

    def _packed(self, batch: tuple[int, ...], piece: ThreadShare) -> Iterator[Step]:
        yield from super()._packed(batch, piece)
        code = engine.compiled(integers.digits, self.target, self.weights.span)
        for m, where in enumerate(zip(self.digits, self.numbers, self.facts, strict=True)):
            shares = (_bits(x) for x in (self.weights.of_errors, self.weights.of_scales))
            yield Step(code, (self.rows.at + m * self.layout.terms * 8, self.weights.units, *where, *shares))

    def _sums(self, at: int, count: int, columns: range) -> Generator[Step, None, tuple[int, At]]:
        weights, facts = self.weights, self.facts[at]
        group, chunks = weights.key.group, weights.units // weights.span
        first, groups = columns.start // group, self._whole(len(columns)) // group
        packed = At(WORDS, first * weights.group_bytes), At(FACTORS, first * chunks * integers.FACTOR_BYTES)
        code = engine.compiled(integers.summed, self.target, weights.span, weights.of_errors > 0)
        yield Step(code, (self.digits[at], self.numbers[at], facts, *packed, groups, chunks, self.sums, self.counter))
        return _bits(1.0), facts


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
            groups, count = -(-len(part) // GROUP), -(-len(part) // width)
            where = (*self.arguments.of(part.start // GROUP), groups, *self.arguments.counts)
            yield Step(code, (*where, to, found.terms * width * 4, count, norms, At(NORMS, 8 * part.start)))


def _bits(x: float) -> int:
    return int(np.float64(x).view(np.int64))


def plan_of(p: FloatProblem, memory: FloatMemory, weights: PackedWeights) -> FloatPlan:
    """The plan for a number of rows."""
    if weights.span:
        return RowsOfIntegers(p, memory, weights)
    return (FewRowsOfWeights if p.layout.rows <= FEW_ROWS else ManyRowsOfWeights)(p, memory, weights)


def serves(p: FloatProblem) -> bool:
    """Whether panels and pieces consist of whole groups of columns."""
    return tile.width(p.target) % (GROUP if p.target.vector_bytes < ROWS * 8 else ROWS) == 0
