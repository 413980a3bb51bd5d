"""The base of all plans of contractions of floats: phases of steps for each thread, batches, and the second stage."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import lru_cache
from itertools import zip_longest
from math import prod
from typing import NamedTuple

import numpy as np

from anydml.kernels.call.signature import Arguments
from anydml.kernels.call.steps import At, Repeat, Step
from anydml.kernels.code import engine
from anydml.kernels.code.targets import Target
from anydml.kernels.contract.floats import epilogue
from anydml.kernels.contract.floats.epilogue import EpilogueKey, with_streams
from anydml.kernels.contract.floats.formula import Stored
from anydml.kernels.contract.floats.layout import FloatLayout, StreamPlace
from anydml.kernels.contract.floats.packed import tile
from anydml.kernels.contract.floats.second import refine
from anydml.kernels.contract.floats.shares import ThreadShare, pieces, turns
from anydml.kernels.contract.floats.tuning import FloatTuning
from anydml.kernels.contract.geometry import ConstantTables, Scratch
from anydml.kernels.contract.repeats import repeated
from anydml.kernels.elementwise.streams import CONSTANT, CONTIGUOUS, STRIDED
from anydml.tensor import DataType

Steps = Iterable[Step | Repeat]
Refining = Callable[[Target, EpilogueKey, tuple[DataType, DataType]], str]  # emits a kernel of the second stage
STREAM = 5  # arguments of a stream: its address, and strides


class FloatProblem(NamedTuple):
    """A contraction on an instruction set. formula: of the stored element. factors: the types of rows and of columns."""

    target: Target
    layout: FloatLayout
    formula: Stored
    factors: tuple[DataType, DataType]
    threads: int
    tuning: FloatTuning

    @property
    def places(self) -> list[StreamPlace]:
        """The places of the streams that the formula reads beside the sums, and of the output."""
        return [*(self.layout.streams[k] for k in self.formula.others), self.layout.output]


class FloatMemory(NamedTuple):
    """Memory that plans work in.

    kept: elements' bits and counters, all zero unless something is undecided; scratch: not needed after the call; packed:
    factors that are packed once.
    """

    kept: Scratch
    scratch: Scratch
    packed: Scratch
    constants: ConstantTables


class FloatPlan:
    """The steps of a contraction, phase by phase, for each thread. undecided_counts: each thread's count of undecided elements.

    packing: the steps that pack rows, and columns, once. The subclass of an algorithm defines the steps of a piece, or those of
    a batch of a piece.
    """

    entries: At
    counter: At
    undecided: At

    def __init__(self, p: FloatProblem, memory: FloatMemory) -> None:
        self.target, self.layout, self.formula, self.factors, self.threads, self.tuning = p
        found, formula, self.places = p.layout, p.formula, p.places
        self.kept, self.scratch, self.constants = memory.kept, memory.scratch, memory.constants
        self.packing: list[Step | Repeat] = []
        last = len(self.places) - 1
        types = [formula.types[k] for k in (*formula.others, -1)]
        layouts = (
            _layout_of(place, t, found, last=k == last) for k, (place, t) in enumerate(zip(self.places, types, strict=True))
        )
        self.stream_names = epilogue.streams(len(self.places)).names
        self.key = EpilogueKey(formula, tuple(layouts), found.padded)
        self.lanes = p.target.vector_bytes // 8
        self.width = tile.width(p.target)
        self.table = self.constants.add(found.table)
        self.bits = self.kept.take(-(-prod(found.batches) * found.rows * found.columns // 8))
        # what most steps have in common
        (_, n1, n2), (_, f1, f2), (b0, b1, b2) = found.sizes, found.flat, found.b.columns
        strides = [x for p in self.places for x in (p.at, p.row, *p.columns)]
        self.strides = Arguments(zip(self.stream_names, strides, strict=True))
        self.of_block = Arguments(n1=f1, n2=f2, terms=found.terms, done=self.constants.none)
        self.of_tensors = Arguments(a_row=found.a.row, a_term=found.a_term, b0=b0, b1=b1, b2=b2, b_term=found.b_term)
        self.of_tensors.update(n1=n1, n2=n2, f1=f1, f2=f2, columns=found.columns, bits=self.bits)
        self.of_tensors.update(channels=found.channels, positions=len(found.table), table=self.table)

    def plan_phases(self) -> None:
        """Plan the phases of all threads; all phases use the same scratch."""
        found, scratch = self.layout, self.scratch
        work = prod(found.batches) * found.rows * found.columns * found.terms
        shares = self._shares(self.threads if work >= self.tuning.alone else 1)
        count = max(1, -(-work // (self.tuning.long * len(shares))))
        self.undecided_counts = [self.kept.take(64) for _ in shares]
        mark = top = scratch.size
        self.phases: list[list[list[Step | Repeat]]] = []
        for turn in zip_longest(*(self._turns(piece, count) for piece in shares)):
            scratch.size = mark
            phase = []
            for piece, at in zip(turn, self.undecided_counts, strict=True):
                if piece is not None:
                    self.undecided = at
                    phase.append(self._piece(piece))
            self.phases.append(phase)
            top = max(top, scratch.size)
        scratch.size = top

    def _shares(self, count: int) -> list[ThreadShare]:
        return pieces(self.layout, tile.height(self.target), self.width, count, (False, False))

    def _turns(self, piece: ThreadShare, count: int) -> list[ThreadShare]:
        return turns(piece, self.width, count)

    # --- one thread ---

    def _piece(self, piece: ThreadShare) -> list[Step | Repeat]:
        """The steps of a piece; allocate its scratch."""
        raise NotImplementedError

    def _batch(self, batch: tuple[int, ...], piece: ThreadShare) -> Steps:
        """The steps of one batch of a piece."""
        raise NotImplementedError

    def _batches(
        self,
        piece: ThreadShare,
        steps: Callable[[tuple[int, ...]], Steps] | None = None,
        sizes: tuple[int, ...] | None = None,
        ranges: Callable[[tuple[int, ...], range], Steps] | None = None,
    ) -> list[Step | Repeat]:
        """The steps of a piece's batches; steps: those of a batch, by default `_batch`.

        sizes: the numbers of batches; ranges: the steps of a range of batches along the last dimension.
        """
        sizes = self.layout.batches if sizes is None else sizes

        def along(before: tuple[int, ...], first: int, end: int) -> list[Step | Repeat]:
            """The steps of the batches whose first indices are `before`; first, end: their range of numbers among these."""
            if len(before) == len(sizes):
                if ranges is not None:  # there are no dimensions
                    return list(ranges(before, range(1)))
                return list(self._batch(before, piece) if steps is None else steps(before))
            if ranges is not None and len(before) == len(sizes) - 1:
                return list(ranges(before, range(first, end)))
            below = prod(sizes[len(before) + 1 :])
            whole = range(-(-first // below), end // below)
            found: list[Step | Repeat] = []
            if first % below:  # the end of a partial one
                i = first // below
                found += along((*before, i), first % below, min(end - i * below, below))
            found += repeated(self.target, whole, lambda i: along((*before, i), 0, below))
            if end % below and end // below * below >= first:
                found += along((*before, end // below), 0, end % below)
            return found

        return along((), piece.batches.start, piece.batches.stop)

    def along(self, items: range, most: int, steps: Callable[[range], Steps]) -> list[Step | Repeat]:
        """`steps` of at most `most` items at a time."""
        firsts = range(items.start, items.start + len(items) // most * most, most)
        found = repeated(self.target, firsts, lambda first: steps(range(first, first + most)))
        rest = range(items.start + len(firsts) * most, items.stop)
        return [*found, *steps(rest)] if rest else found

    def _number(self, batch: tuple[int, ...]) -> int:
        """A batch's number in row-major order."""
        number = 0
        for i, n in zip(batch, self.layout.batches, strict=True):
            number = number * n + i
        return number

    def refined(self, key: EpilogueKey, values: Arguments, kernel: Refining = refine.refined) -> Step:
        """A step of the second stage; values: of all its arguments but the list, its counter and that of undecided elements."""
        code = engine.compiled(kernel, self.target, key, self.factors)
        listed: Arguments = {**values, "list": self.entries, "counter": self.counter, "open": self.undecided}
        return with_streams(refine.ARGUMENTS, len(self.places)).step_from(code, listed)

    def refine(
        self,
        batch: tuple[int, ...],
        some: range,
        columns: range,
        key: EpilogueKey,
        known: Arguments,
        kernel: Refining = refine.refined,
    ) -> Step:
        """A step of the second stage, which decides listed elements, or some of them. known: of packed factors, and streams."""
        found = self.layout
        bit = (self._number(batch) * found.rows + some.start) * found.columns
        a, b = found.a.of(batch, some.start), found.b.of(batch)
        return self.refined(key, {**known, **self.of_tensors, "a": a, "b": b, "first": columns.start, "bit": bit}, kernel)

    def unpacked(self, sums: At, sums_row: int, b_norms: At) -> Arguments:
        """The arguments of the second stage if it reads all terms from the tensors."""
        none = self.counter
        of_sums = Arguments(sums=sums, sums_row=sums_row, b_norms=b_norms)
        return of_sums | Arguments(rows_at=none, tile=0, height=0, panels_at=none, panel=0, width=0)

    def streams_of(self, batch: tuple[int, ...], row: int) -> Arguments:
        """The arguments of streams from a row on."""
        found = self.strides.copy()
        for name, place in zip(self.stream_names[::STREAM], self.places, strict=True):
            found[name] = place.of(batch, row)
        return found

    def with_block(self, values: Arguments, batch: tuple[int, ...], some: range, columns: range) -> Arguments:
        """`values`, and the arguments of a block and of the streams for it."""
        found = values | self.streams_of(batch, some.start)
        found.update(rows=len(some), first=columns.start, count=len(columns))
        return found

    def of_blocks(self, **own: At | int) -> Arguments:
        """The arguments that all blocks of a piece have; own: those of an algorithm."""
        none = self.counter
        unread = Arguments(a_norms=none, rests=none, a_low=none, b_low=none)
        return {**self.of_block, **unread, "list": self.entries, "counter": none, **own}

    def stored(self, key: EpilogueKey, values: Arguments) -> Step:
        """The step that stores a block."""
        code = engine.compiled(epilogue.block, self.target, key)
        return with_streams(epilogue.ARGUMENTS, len(self.places)).step_from(code, values)


@lru_cache(maxsize=256)
def bound_factor(additions: int) -> int:
    """The bits of the factor of a sum's bound, to be multiplied by norms; additions: the most that a term goes through."""
    return int(np.float64((additions + 8) * 2.0**-53).view(np.int64))


def _layout_of(p: StreamPlace, data_type: DataType, found: FloatLayout, *, last: bool) -> str:
    stride = p.columns[2]
    if stride == data_type.dtype.itemsize or (found.flat[2] == 1 and last):
        return CONTIGUOUS
    return CONSTANT if not stride and not last else STRIDED
