"""The plan of products of packed panels: what is packed, in which pieces, and at which addresses."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from anydml.kernels.call.steps import Repeat, Rounds, Step
from anydml.kernels.code.targets import Target
from anydml.kernels.contract import partition
from anydml.kernels.contract.epilogue.plan import MODES, parameters
from anydml.kernels.contract.epilogue.rule import ROW
from anydml.kernels.contract.geometry import Batch, Matrix, OutputPart, Scratch
from anydml.kernels.contract.images.windows import PaddedWindows
from anydml.kernels.contract.panels.strided import StridedPanels
from anydml.kernels.contract.panels.windowed import WindowPanels
from anydml.kernels.contract.panels.work import PackedMatrix, Work
from anydml.kernels.contract.plan import IntegerPlan, Phases, Steps
from anydml.kernels.contract.problem import IntegerProblem
from anydml.kernels.contract.repeats import along, each


class PanelPlan(IntegerPlan):
    """The steps of products with panels of B. reserved: bytes at the beginning of scratch that something else uses."""

    def __init__(self, p: IntegerProblem, target: Target, threads: int, reserved: int = 0) -> None:
        dense = Scratch("scratch")
        dense.take(reserved)
        super().__init__(_dense(p, dense) if len(p.places) > 1 else p, target, threads, p.b.owned or p.fixed)
        self.scratch.size = dense.size
        b = p.b
        self.source = WindowPanels(self.at, b) if isinstance(b, PaddedWindows) else StridedPanels(self.at, b.matrix)
        self.whole = partition.whole(self.at)
        self.sharing: Steps = []
        self.shared = self._share()
        self.work = Work(self.at, self.source, self.shared, self.scratch)
        self.packing = [*self.sharing] if p.b.owned else []
        if p.fixed and self.at.blocks == 1 and not p.a.varies() and not self.work.by_batch:
            self.packing += self.work.fix(self.packed, self.spare)
        c, n = self.at.problem.c, self.at.problem.n  # only bytes that tiles store in their final places are estimated
        self.estimates = len(p.places) == 1 and (c.column == 1 or n == 1) and n >= self.at.width and c.at.base == "output"
        self.rounds = self._steps()
        if self.at.problem is not p:
            self.rounds.append(Rounds([[[self._placed(p)]]]))

    def _placed(self, p: IntegerProblem) -> Step:
        """The copy of a dense output to its final layout."""
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
        """Pack every B once if it is owned or serves several batches; else None."""
        at, source, b, owned = self.at, self.source, self.at.problem.b.matrix, self.at.problem.b.owned
        sizes = at.problem.batches
        outer, inner = sizes[0] if b.outer else 1, sizes[1] if b.inner else 1
        if not owned and (outer, inner) == sizes:
            return None

        def one_each(nbytes: int) -> Matrix:
            place = (self.packed if owned else self.scratch).take(outer * inner * nbytes)
            return Matrix(place, inner * nbytes if b.outer else 0, nbytes if b.inner else 0, 0, 0)

        shared = PackedMatrix(one_each(at.panels * at.panel_bytes), one_each(at.sums_bytes))
        scratch = self.spare if owned else self.scratch
        mark = scratch.size

        def pack(batch: Batch) -> Iterator[Step | Repeat]:
            scratch.size = mark
            ready = yield from source.ready(range(at.panels), scratch)
            begun = yield from source.begin(batch, scratch)
            packed, sums = (x.of(batch) for x in shared)
            yield from source.pack(ready, begun, range(at.panels), packed, sums, scratch)

        self.sharing = each(at.target, range(outer), range(inner), pack)
        return shared

    def _steps(self) -> list[Rounds]:
        at, work = self.at, self.work
        grid = list(partition.grid(at))
        before: Phases = []
        if self.sharing and not at.problem.b.owned:
            before.append([self.sharing])
        # no output may be written before every scale has been checked
        if work.fixed is None and at.quantized and (work.by_batch or grid[0][0] != self.whole):
            most = at.tuning.most_rows
            records = self.scratch.take(min(at.problem.m, most) * ROW)
            modes = self.scratch.take(MODES)

            def look(batch: Batch) -> Iterable[Step | Repeat]:
                def some(rows: range) -> list[Step]:
                    return [parameters(at, batch, rows, 0, at.problem.n, records, modes)]

                return along(at.target, self.whole.rows, most, some)

            outer, inner = (x if work.by_batch else range(1) for x in (self.whole.outer, self.whole.inner))
            before.append([each(at.target, outer, inner, look)])
        padded = work.padded([self._pieces(part) for part, _ in grid])

        def phases(part: OutputPart) -> Phases:
            steps = [work.piece(piece, into) for piece, into in zip(self._pieces(part), padded, strict=False)]
            found = [[rest for _, rest in steps]]
            return found if work.by_batch or not steps[0][0] else [[first for first, _ in steps], *found]

        return self._rounds(before, self.scratch, phases)

    def _pieces(self, part: OutputPart) -> list[OutputPart]:
        return partition.pieces(self.at, part, self.threads, self.shared is not None)


def _dense(p: IntegerProblem, scratch: Scratch) -> IntegerProblem:
    """The problem with its output in scratch, where columns have one stride."""
    size = 4 if p.output == "i32" else 1
    outer, inner = p.batches
    row = p.n * size
    at = scratch.take(outer * inner * p.m * row)
    return p._replace(c=Matrix(at, inner * p.m * row, p.m * row, row, size), places=((p.n, size),))
