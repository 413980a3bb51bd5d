"""The base of all plans of integer contractions: memory to work in, what is packed once, and rounds of parts of the work."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from anydml.kernels.call.signature import Arguments, stepped
from anydml.kernels.call.steps import At, Repeat, Rounds, Step
from anydml.kernels.code.targets import Target
from anydml.kernels.contract import partition
from anydml.kernels.contract.epilogue.plan import MODES, parameters
from anydml.kernels.contract.epilogue.rule import ROW
from anydml.kernels.contract.geometry import Matrix, OutputPart, Scratch, cut
from anydml.kernels.contract.layout import IntegerLayout
from anydml.kernels.contract.problem import NOTHING, IntegerProblem
from anydml.kernels.contract.tile import column_bytes

CONSTANTS = np.array([0] * 64 + [0x80] * 64, np.uint8)  # a zero point that is not there; rows of B beyond the last
Steps = list[Step | Repeat]
Phases = list[list[Steps]]


class IntegerPlan:
    """The steps of a problem. `rounds` compute; `packing` packs what is owned, once, into the memory "packed".

    scratch, passing, spare: memory that rounds work in, that whose content nobody reads afterwards, and that which packing
    needs. There are no more steps for many batches, rows, columns and products than for some: what is repeated is planned once.
    """

    def __init__(self, p: IntegerProblem, target: Target, threads: int, owned: bool, lines: int | None = None) -> None:
        self.at, self.owned = IntegerLayout(p, target, lines), owned
        self.scratch, self.passing, self.packed, self.spare = map(Scratch, ("scratch", "passing", "packed", "spare"))
        self.threads = partition.threads_for(self.at, threads)
        self.packing: Steps = []
        self.rounds: list[Rounds] = []

    @property
    def memory(self) -> int:
        """Bytes to work in."""
        return self.scratch.size + self.passing.size + self.packed.size + self.spare.size

    def _rounds(self, before: Phases, memory: Scratch, phases: Callable[[OutputPart], Phases]) -> list[Rounds]:
        """What comes before all parts of the work, and then each part, in the same memory behind what has been taken."""
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
            if all(len(phase) == 1 for phase in once):  # one thread needs no phases
                once = [[[step for phase in once for step in phase[0]]]]
            found = [Rounds(once)]
        else:
            found = [Rounds(before)] if before else []
            for part, moves in grid:
                found.append(Rounds(of(part), tuple(n for n, _ in moves), tuple(of(moved) for _, moved in moves)))
        memory.size = top
        return found


class FilterPlan(IntegerPlan):
    """The steps of a convolution whose rows are filters, with records of theirs that serve all batches."""

    rows: At
    modes: At
    column: At

    def _take_records(self, memory: Scratch) -> None:
        """Take memory for the records of filters, and for that of a column, which is the same for all."""
        self.rows, self.modes = memory.take(self.at.problem.m * ROW), memory.take(MODES)
        self.column = memory.take(column_bytes(self.at.target))

    def _records(self) -> Steps:
        """The records of filters but for their terms, and the scale of the column."""
        at, p = self.at, self.at.problem
        if p.scales is None:
            return []
        into = self.column + at.dot.vectors * at.target.vector_bytes
        return [
            parameters(at, (0, 0), range(p.m), 0, 1, self.rows, self.modes),
            at.copied((at.width,), (0,), (4,), 4, p.scales[1].at, into),
        ]

    def _beside(self, a_zero_point: Matrix) -> Arguments:
        """The arguments of a kernel that makes the terms of records: where these are, zero points, and the bias."""
        p, bias = self.at.problem, self.at.problem.bias or NOTHING
        zero_points = stepped("a_zero_point", a_zero_point.at, a_zero_point.row) | Arguments(b_zero_point=p.b_zero_point.at)
        return Arguments(rows=self.rows, modes=self.modes, **zero_points, **stepped("bias", bias.at, bias.row))

    def _phases(self, part: OutputPart) -> Phases:
        """The phase of a part: a piece of it for each thread, cut between batches, or else between rows."""
        name = "outer" if len(part.outer) >= self.threads else "rows"
        return [[self._piece(some) for some in cut(part, self.threads, name)]]

    def _piece(self, part: OutputPart) -> Steps:
        raise NotImplementedError
