"""From a problem to steps of machine code: what is packed where, in which pieces, under which addresses."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np

from anydml.kernels.call.steps import Repeat, Rounds, Step
from anydml.kernels.code.targets import Target
from anydml.kernels.contract import partition
from anydml.kernels.contract.epilogue.plan import MODES, parameters
from anydml.kernels.contract.epilogue.rule import ROW
from anydml.kernels.contract.geometry import Batch, Matrix, OutputPart, Scratch
from anydml.kernels.contract.layout import IntegerLayout
from anydml.kernels.contract.panels.work import PackedMatrix, Work
from anydml.kernels.contract.problem import Problem
from anydml.kernels.contract.repeats import along, each

CONSTANTS = np.array([0] * 64 + [0x80] * 64, np.uint8)  # a zero point that is not there; rows of B beyond the last
Phases = list[list[list[Step | Repeat]]]


class IntegerPlan:
    """The steps of a problem. `rounds` compute; `packing` packs an owned B, once, into the memory "packed".

    reserved: bytes of scratch at the beginning that are another's.
    There are no more steps for many batches, rows, columns and products than for some: what is repeated is planned once.
    """

    def __init__(self, p: Problem, target: Target, threads: int, reserved: int = 0) -> None:
        self.owned = p.b.owned
        self.scratch, self.packed, self.spare = (Scratch(base) for base in ("scratch", "packed", "spare"))
        self.passing = Scratch("passing")
        self.scratch.size = -(-reserved // 64) * 64
        self.at = IntegerLayout(self._dense(p) if len(p.places) > 1 else p, target)
        self.packing: list[Step | Repeat] = []
        self.threads = partition.threads_for(self.at, threads)
        self.whole = partition.whole(self.at)
        self.shared = self._share()
        self.work = Work(self.at, self.shared, self.scratch)
        self.rounds = self._rounds()
        if self.at.problem is not p:
            self.rounds.append(Rounds([[[self._placed(p)]]]))

    @property
    def estimates(self) -> bool:
        """Whether tiles can estimate outputs: they are written where they belong."""
        p = self.at.problem
        return len(p.places) == 1 and (p.c.column == 1 or p.n == 1) and p.n >= self.at.width and p.c.at.base == "output"

    def _dense(self, p: Problem) -> Problem:
        """The problem with an output in scratch memory, where columns are at an even pace."""
        size = 4 if p.output == "i32" else 1
        outer, inner = p.batches
        row = p.n * size
        at = self.scratch.take(outer * inner * p.m * row)
        return p._replace(c=Matrix(at, inner * p.m * row, p.m * row, row, size), places=((p.n, size),))

    def _placed(self, p: Problem) -> Step:
        """The copy of that output to where it belongs."""
        c = self.at.problem.c
        sizes, strides = zip(*p.places, strict=True)
        size, dense = c.column, [c.column]
        for n in sizes[:0:-1]:
            dense.insert(0, dense[0] * n)
        return self.at.copied(
            (*p.batches, p.m, *sizes),
            (c.outer, c.inner, c.row, *dense),
            (p.c.outer, p.c.inner, p.c.row, *strides),
            size,
            c.at,
            p.c.at,
        )

    def _share(self) -> PackedMatrix | None:
        """Pack every B once where it is owned or serves several batches."""
        at, source = self.at, self.at.problem.b
        sizes = at.problem.batches
        outer, inner = sizes[0] if source.matrix.outer else 1, sizes[1] if source.matrix.inner else 1
        if not self.owned and (outer, inner) == sizes:
            return None

        def one_each(nbytes: int) -> Matrix:
            place = (self.packed if self.owned else self.scratch).take(outer * inner * nbytes)
            return Matrix(place, inner * nbytes if source.matrix.outer else 0, nbytes if source.matrix.inner else 0, 0, 0)

        shared = PackedMatrix(one_each(at.panels * at.panel_bytes), one_each(at.sums_bytes))
        scratch = self.spare if self.owned else self.scratch
        mark = scratch.size

        def pack(batch: Batch) -> Iterator[Step | Repeat]:
            scratch.size = mark
            ready = yield from source.ready(at, range(at.panels), scratch)
            begun = yield from source.begin(at, batch, scratch)
            packed, sums = (x.of(batch) for x in shared)
            yield from source.pack(at, ready, begun, range(at.panels), packed, sums, scratch)

        self.packing = each(at.target, range(outer), range(inner), pack)
        return shared

    def _rounds(self) -> list[Rounds]:
        at, work = self.at, self.work
        grid = list(partition.grid(at))
        once = grid[0][0] == self.whole
        before: Phases = []
        if self.packing and not self.owned:
            before.append([self.packing])
        # nothing may be written before every scale has been looked at
        if at.quantized and (work.by_batch or not once):
            most = partition.MOST_ROWS
            records = self.scratch.take(min(at.problem.m, most) * ROW)
            modes = self.scratch.take(MODES)

            def look(batch: Batch) -> Iterable[Step | Repeat]:
                def some(rows: range) -> list[Step]:
                    return [parameters(at, batch, rows, 0, at.problem.n, records, modes)]

                return along(at.target, self.whole.rows, most, some)

            outer, inner = (x if work.by_batch else range(1) for x in (self.whole.outer, self.whole.inner))
            before.append([each(at.target, outer, inner, look)])
        padded = work.padded([self._pieces(part) for part, _ in grid])
        mark, top = self.scratch.size, 0

        def phases(part: OutputPart) -> Phases:
            nonlocal top
            self.scratch.size = mark  # rounds work in the same memory
            steps = [work.piece(piece, into) for piece, into in zip(self._pieces(part), padded, strict=False)]
            top = max(top, self.scratch.size)
            found = [[rest for _, rest in steps]]
            return found if work.by_batch or not steps[0][0] else [[first for first, _ in steps], *found]

        if once:
            found = [Rounds([*before, *phases(self.whole)], (), ())]
            if self.threads == 1:  # one thread needs no phases
                found = [Rounds([[[step for phase in found[0].phases for piece in phase for step in piece]]], (), ())]
        else:
            found = [Rounds(before, (), ())] if before else []
            for part, moves in grid:
                times = tuple(times for times, _ in moves)
                found.append(Rounds(phases(part), times, tuple(phases(moved) for _, moved in moves)))
        self.scratch.size = top
        return found

    def _pieces(self, part: OutputPart) -> list[OutputPart]:
        return partition.pieces(self.at, part, self.threads, self.shared is not None)
