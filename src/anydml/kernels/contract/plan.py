"""The base of all plans of integer contractions: scratch, the packing of owned tensors, and rounds of parts of the work."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from anydml.kernels.call.signature import Arguments, stepped
from anydml.kernels.call.steps import At, Repeat, Rounds, Step
from anydml.kernels.code.targets import Target
from anydml.kernels.contract import partition, written
from anydml.kernels.contract.epilogue.plan import MODES, parameters
from anydml.kernels.contract.epilogue.rule import ROW
from anydml.kernels.contract.geometry import Matrix, OutputPart, Scratch, cut
from anydml.kernels.contract.layout import IntegerLayout
from anydml.kernels.contract.problem import NOTHING, IntegerProblem
from anydml.kernels.contract.tile import column_bytes

CONSTANTS = np.array([0] * 64 + [0x80] * 64, np.uint8)  # a zero point of 0; rows of B beyond the last
Steps = list[Step | Repeat]
Phases = list[list[Steps]]


class IntegerPlan:
    """The steps of a problem. `rounds` compute; `packing` packs owned tensors, once, into the memory "packed".

    scratch, passing, spare: the scratch of rounds, scratch whose content nobody reads afterwards, and the scratch of packing.
    The number of steps does not grow with batches, rows, columns and products: repeated steps are planned once.
    """

    by_channel = False  # whether groups have one channel and one filter

    def __init__(self, p: IntegerProblem, target: Target, threads: int, owned: bool, lines: int | None = None) -> None:
        self.at, self.owned = IntegerLayout(p, target, lines), owned
        self.scratch, self.passing, self.packed, self.spare = map(Scratch, ("scratch", "passing", "packed", "spare"))
        self.threads = partition.threads_for(self.at, threads, self.by_channel)
        self.packing: Steps = []
        self.rounds: list[Rounds] = []

    @property
    def memory(self) -> int:
        """The bytes of all scratch."""
        return self.scratch.size + self.passing.size + self.packed.size + self.spare.size

    def _rounds(self, before: Phases, memory: Scratch, phases: Callable[[OutputPart], Phases]) -> list[Rounds]:
        """The rounds of `before` and then of each part of the work; all parts use the same memory, behind what has been
        taken."""
        mark = top = memory.size

        def of(part: OutputPart) -> Phases:
            nonlocal top
            memory.size = mark
            made = phases(part)
            top = max(top, memory.size)
            return made

        grid = list(partition.grid(self.at))
        if len(grid) == 1 and not grid[0][1]:
            once = [*before, *of(grid[0][0])]
            if all(len(phase) == 1 for phase in once):  # a single thread needs no phases
                once = [[[step for phase in once for step in phase[0]]]]
            found = [Rounds(once)]
        else:
            found = [Rounds(before)] if before else []
            for part, moves in grid:
                found.append(Rounds(of(part), tuple(n for n, _ in moves), tuple(of(moved) for _, moved in moves)))
        memory.size = top
        return found

    def _fetched(self, part: OutputPart, first: At, nbytes: int) -> Steps:
        """The step that fetches the contiguous output of a piece for writing, if another thread may have read it."""
        once = len(part.outer) == len(part.inner) == 1 and nbytes <= self.at.tuning.written
        return [written.fetched(self.at.target, first, nbytes)] if once and self.threads > 1 else []


class FilterPlan(IntegerPlan):
    """The steps of a convolution whose rows are filters, with records that serve all batches.

    contiguous: whether rows of the output are contiguous and follow each other.
    """

    contiguous = False
    rows: At
    modes: At
    column: At

    def _take_records(self, memory: Scratch) -> None:
        """Take memory for the records of filters, and for the record of a column, which all columns share."""
        self.rows, self.modes = memory.take(self.at.problem.m * ROW), memory.take(MODES)
        self.column = memory.take(column_bytes(self.at.target))

    def _records(self) -> Steps:
        """The steps that make the records of filters without their terms, and the scale of the column."""
        at, p = self.at, self.at.problem
        if p.scales is None:
            return []
        into = self.column + at.dot.vectors * at.target.vector_bytes
        return [
            parameters(at, (0, 0), range(p.m), 0, 1, self.rows, self.modes),
            at.copied((at.width,), (0,), (4,), 4, p.scales[1].at, into),
        ]

    def _beside(self, a_zero_point: Matrix) -> Arguments:
        """The arguments for a kernel that computes the records' terms: the records, zero points, and the bias."""
        p, bias = self.at.problem, self.at.problem.bias or NOTHING
        zero_points = stepped("a_zero_point", a_zero_point.at, a_zero_point.row) | Arguments(b_zero_point=p.b_zero_point.at)
        return Arguments(rows=self.rows, modes=self.modes, **zero_points, **stepped("bias", bias.at, bias.row))

    def _phases(self, part: OutputPart) -> Phases:
        """The phase of a part: a piece for each thread, cut between batches, or else between rows."""
        name = "outer" if len(part.outer) >= self.threads else "rows"
        return [[[*self._of_rows(some), *self._piece(some)] for some in cut(part, self.threads, name)]]

    def _of_rows(self, part: OutputPart) -> Steps:
        c, count = self.at.problem.c, len(part.rows)
        return self._fetched(part, c.of(part.first, part.rows.start), count * c.row) if self.contiguous else []

    def _piece(self, part: OutputPart) -> Steps:
        raise NotImplementedError
