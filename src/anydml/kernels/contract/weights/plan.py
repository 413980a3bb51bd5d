"""The steps of rows times weights: few rows are summed along the terms; more rows meet panels of dequantised weights."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from typing import NamedTuple

import numpy as np

from anydml.kernels.call.signature import Arguments
from anydml.kernels.call.steps import At, Repeat, Step
from anydml.kernels.code import engine
from anydml.kernels.contract.floats.epilogue import with_streams
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

    def of(self, group: int) -> Arguments:
        """The addresses of a group's words, scales and zeros, the bytes of each group, and their numbers."""
        w = self.weights
        words, scales, zeros = w.group_bytes, w.key.group * w.blocks * 4, w.key.group * w.blocks
        places = Arguments(words=At(WORDS, group * words), scales=At(SCALES, group * scales), zeros=At(ZEROS, group * zeros))
        sizes = Arguments(group_words=words, group_scales=scales, group_zeros=zeros)
        return places | sizes | Arguments(units=w.units, blocks=w.blocks, block_units=max(1, w.units // w.blocks))


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
        yield from self.pack.tiles(self.rows, batch, piece.rows, 1, 0)

    def _whole(self, columns: int) -> int:
        """The columns of whole groups."""
        group = self.weights.key.group
        return -(-columns // group) * group

    def _sums(self, at: int, count: int, columns: range) -> Generator[Step, None, Arguments]:
        """The step that sums rows from `at` on; the factor of their bounds, and where their norms are."""
        terms, group = self.layout.terms, self.weights.key.group
        code = engine.compiled(rows.summed, self.target, self.weights.key, count)
        packed = self.arguments.of(columns.start // group)
        groups = self._whole(len(columns)) // group
        summed = Arguments(sums=self.sums, sums_row=self.sums_row, counter=self.counter)
        yield rows.ARGUMENTS.step(code, a=self.rows.at + at * terms * 8, a_row=terms * 8, **packed, groups=groups, **summed)
        return Arguments(factor=bound_factor(rows.additions(terms, count, self.target)), a_norms=self.rows.norms + at * 8)

    def _strip(self, batch: tuple[int, ...], some: range, at: int, columns: range) -> Iterator[Step]:
        found, target, weights = self.layout, self.target, self.weights
        row = found.terms * 8
        of_rows = Arguments(a=self.rows.at + at * row, a_row=row)
        of_columns = Arguments(b_norms=At(NORMS, 8 * columns.start))
        bounds = yield from self._sums(at, len(some), columns)
        streams = self.streams_of(batch, some.start)
        summed = Arguments(sums=self.sums, sums_row=self.sums_row)
        block = self.of_blocks(**summed, **bounds, **of_columns)
        yield self.stored(self.key, self.with_block(block, batch, some, columns))
        code = engine.compiled(refine.refined, target, self.key, weights.key)
        bit = (self._number(batch) * found.rows + some.start) * found.columns
        listed = Arguments(list=self.entries, counter=self.counter, first=columns.start, f1=found.flat[1], f2=found.flat[2])
        marked = Arguments(bits=self.bits, bit=bit, columns=found.columns, open=self.undecided)
        plain = Arguments(factor=bound_factor(refine.plain_additions(found.terms, target)), a_norms=self.rows.norms + at * 8)
        arguments = with_streams(refine.ARGUMENTS, len(self.places))
        yield arguments.step(code, **of_rows, **self.arguments.of(0), **listed, **marked, **plain, **of_columns, **streams)


class RowsOfIntegers(FewRowsOfWeights):
    """The steps of few rows whose sums are integers' (`integers`), one row after the other."""

    rows_at_once = 1

    def _piece(self, piece: ThreadShare) -> list[Step | Repeat]:
        units, count = self.weights.units, len(piece.rows)
        chunks = units // self.weights.span
        self.digits = [
            Arguments(
                digits=self.scratch.take(units * integers.DIGIT_BYTES),
                numbers=self.scratch.take(chunks * integers.NUMBERS),
                facts=self.scratch.take(integers.FACTS),
            )
            for _ in range(count)
        ]
        return super()._piece(piece)

    def _packed(self, batch: tuple[int, ...], piece: ThreadShare) -> Iterator[Step]:
        yield from super()._packed(batch, piece)
        weights = self.weights
        code = engine.compiled(integers.digits, self.target, weights.span, weights.general)
        shares = Arguments(errors=_bits(weights.of_errors), scales=_bits(weights.of_scales))
        for m, where in enumerate(self.digits):
            row = self.rows.at + m * self.layout.terms * 8
            yield integers.DIGIT_ARGUMENTS.step(code, row=row, units=weights.units, **where, **shares)

    def _sums(self, at: int, count: int, columns: range) -> Generator[Step, None, Arguments]:
        weights = self.weights
        group, chunks = weights.key.group, weights.units // weights.span
        first, groups = columns.start // group, self._whole(len(columns)) // group
        words, factors = (
            At(WORDS, first * weights.group_bytes),
            At(FACTORS, first * chunks * integers.FACTOR_BYTES[weights.general]),
        )
        packed = Arguments(words=words, factors=factors, groups=groups, chunks=chunks)
        code = engine.compiled(integers.summed, self.target, weights.span, weights.of_errors > 0, weights.general)
        where = self.digits[at]
        yield integers.SUM_ARGUMENTS.step(code, **where, **packed, sums=self.sums, counter=self.counter)
        return Arguments(factor=_bits(1.0), a_norms=where["facts"])


class ManyRowsOfWeights(PackedPlan):
    """The steps of many rows, for which panels of weights are dequantised, a chunk at a time."""

    floats = False

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
