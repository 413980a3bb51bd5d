"""The steps of contractions whose packed rows and columns are sliced, too, and multiplied by AMX.

A block is stored from sums of products of slices. If that leaves too many of its elements undecided, the block, and those of
its batch that follow, are computed as without slices.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import lcm, prod
from typing import NamedTuple

import numpy as np

from anydml.kernels.call.signature import Arguments
from anydml.kernels.call.steps import At, Repeat, Step
from anydml.kernels.code import engine
from anydml.kernels.code.tile_registers import ROWS
from anydml.kernels.contract.dot import dot_of
from anydml.kernels.contract.floats.epilogue import with_streams
from anydml.kernels.contract.floats.layout import StreamPlace
from anydml.kernels.contract.floats.packed import tile
from anydml.kernels.contract.floats.packed.at_once import DONE
from anydml.kernels.contract.floats.packed.factors import FactorPacking, PackedFactor
from anydml.kernels.contract.floats.packed.plan import PackedPlan
from anydml.kernels.contract.floats.plan import FloatMemory, FloatProblem
from anydml.kernels.contract.floats.shares import ThreadShare
from anydml.kernels.contract.floats.slices import left_out, products, slicing
from anydml.kernels.contract.floats.slices.slicing import DEPTH, STEP
from anydml.kernels.contract.geometry import Scratch

ONE = int(np.float64(1).view(np.int64))  # the bits of a bound over the product of the sizes
MOST_TERMS = 1 << 15  # of longer sums, blocks have fewer columns than slices expect


def serves(p: FloatProblem, owned: tuple[bool, bool]) -> bool:
    """Whether slices are faster: tile registers multiply them, and enough rows and columns share the work of slicing.

    owned: whether rows, and columns, are sliced once.
    """
    found, tuning = p.layout, p.tuning
    if not dot_of(p.target).amx or p.target.later or not 0 < found.terms <= MOST_TERMS:
        return False
    sizes = (found.rows, found.columns, found.terms)
    filled = prod(up(n, unit) / n for n, unit in zip(sizes, (ROWS, ROWS, DEPTH), strict=True))
    of_column = (tuning.sliced_owned if owned[1] else tuning.sliced_column) / found.rows
    of_row = 0 if owned[0] else tuning.sliced_row / found.columns
    return tuning.sliced_product * filled + of_column + of_row + tuning.sliced_sum / found.terms < tuning.sliced_most


def up(count: int, unit: int = ROWS) -> int:
    """A number rounded up to whole registers."""
    return -(-count // unit) * unit


class SlicedFactor(NamedTuple):
    """Slices of a packed factor: in sixteens of rows, or of columns; and what `slicing` stores for each of these.

    step, number_step: bytes from one batch to the next, of slices, and of numbers. sixteen: bytes of slices of sixteen.
    """

    at: At
    sizes: At
    nearer: At
    scales: At
    middles: At
    step: int
    number_step: int
    sixteen: int

    def of(self, number: int, first: int) -> tuple[At, ...]:
        """The addresses of a batch's slices, sizes, nearer sizes, scales and middles from the `first` row or column on.

        first: a multiple of 16.
        """
        along = number * self.number_step + first * 8
        numbers = (at + along for at in (self.sizes, self.nearer, self.scales, self.middles))
        return self.at + (number * self.step + first // ROWS * self.sixteen), *numbers


class SlicedPacking(FactorPacking):
    """The steps that pack and slice factors. slices: by the address of the packed factor. off: as in `products`."""

    def __init__(self, p: FloatProblem, table: At) -> None:
        super().__init__(p, table)
        self.slices: dict[At, SlicedFactor] = {}
        self.least = products.least(p.layout.terms)

    def memory(self, found: PackedFactor, count: int, memory: Scratch) -> None:
        """Memory for the slices of `count` rows, in two heights of tiles, or columns, in two widths of panels."""
        number, most = prod(found.sizes), up(count) + ROWS
        sixteen = -(-self.layout.terms // DEPTH) * STEP
        sizes, nearer, scales, middles = (memory.take(number * most * 8) for _ in range(4))
        at, step = memory.take(number * most // ROWS * sixteen), most // ROWS * sixteen
        self.slices[found.at] = SlicedFactor(at, sizes, nearer, scales, middles, step, most * 8, sixteen)

    def tiles(self, into: PackedFactor, batch: tuple[int, ...], some: range, height: int, at: int) -> Iterator[Step]:
        yield from super().tiles(into, batch, some, height, at)
        terms = self.layout.terms
        values = self._values(into, batch, up(at), len(some) // height, terms * height * 8)
        values["from"], values["norms"] = into.of(batch, at * terms * 8, at)
        yield slicing.ARGUMENTS.step_from(engine.compiled(slicing.rows, self.target, height), values)

    def columns(self, into: PackedFactor, batch: tuple[int, ...], columns: range) -> Iterator[Step]:
        yield from super().columns(into, batch, columns)
        terms = self.layout.terms
        for part, across in self.parts(columns):
            done, vectors = part.start - columns.start, -(-len(part) // (across * self.lanes)) * across
            values = self._values(into, batch, up(done), vectors, terms * across * self.lanes * 4)
            values["from"], values["norms"] = into.of(batch, done * terms * 4, done)
            yield slicing.ARGUMENTS.step_from(engine.compiled(slicing.columns, self.target, across), values)

    def _values(self, into: PackedFactor, batch: Sequence[int], first: int, count: int, packed: int) -> Arguments:
        of_slices = Arguments(zip(("into", "sizes", "nearer", "scales", "middles"), self.of(into, batch, first), strict=True))
        return of_slices | Arguments(least=self.least, packed=packed, count=count, terms=self.layout.terms)

    def of(self, packed: PackedFactor, batch: Sequence[int], first: int) -> tuple[At, ...]:
        """The addresses of slices, sizes, nearer sizes, scales and middles from the `first` row or column on."""
        return self.slices[packed.at].of(packed.number(batch), first)


class SlicedPlan(PackedPlan):
    """The steps of slices."""

    pack: SlicedPacking

    def __init__(self, p: FloatProblem, memory: FloatMemory, once: tuple[bool, bool]) -> None:
        super().__init__(p, memory, once)
        self.pack = SlicedPacking(p, self.table)
        self.at_once, self.alternate, self.step = False, False, None
        self.columns_at_once, self.unit = p.tuning.slices_group, lcm(self.width, ROWS)
        self.slices_key = self.key._replace(mixed=True)

    def _memory(self, name: str, count: int, size: int, place: StreamPlace, once: Scratch | None) -> PackedFactor:
        found = super()._memory(name, count, size, place, once)
        self.pack.memory(found, count, self.scratch if once is None else once)
        return found

    def _piece(self, piece: ThreadShare) -> list[Step | Repeat]:
        (taller, *_) = tile.heights(self.target, piece.rows)
        self.taller = len(taller[0])
        self.off = self.scratch.take(64)
        return super()._piece(piece)

    def _tiles_at_once(self, height: int, depth: int) -> int:
        return self.tuning.slices_tiles

    def _batch(self, batch: tuple[int, ...], piece: ThreadShare) -> Iterator[Step | Repeat]:
        yield products.BEGIN.step(engine.compiled(products.begin, self.target), off=self.off)
        yield from super()._batch(batch, piece)

    def _at_first(
        self, batch: tuple[int, ...], some: range, height: int, at: tuple[int, int], across: int, columns: range,
        values: Arguments,
    ) -> Iterator[Step]:  # fmt: skip
        target, (row, column) = self.target, at
        row = row if row < self.taller else up(self.taller) + row - self.taller
        of_slices: Arguments = {**values, "off": self.off, "done": self.off, "factor": ONE}
        of_slices["vectors"] = -(-len(columns) // (across * self.lanes)) * across
        for side, packed, first in (("a", self.rows, row), ("b", self.columns, up(column))):
            names = (side, f"{side}_norms", f"{side}_nearer", f"{side}_scales", f"{side}_middles")
            of_slices.update(zip(names, self.pack.of(packed, batch, first), strict=True))
        _, of_slices["f1"], of_slices["f2"] = self.layout.flat
        of_slices["most"] = len(some) * len(columns) // self.tuning.slices_listed
        yield products.ARGUMENTS.step_from(engine.compiled(products.sums, target), of_slices)
        yield self.stored(self.slices_key, of_slices)
        yield products.ENOUGH.step_from(engine.compiled(products.enough, target), of_slices)
        code = engine.compiled(left_out.decided, target, self.slices_key)
        yield with_streams(left_out.ARGUMENTS, len(self.places)).step_from(code, of_slices)
        values["done"] = self.counter + DONE
