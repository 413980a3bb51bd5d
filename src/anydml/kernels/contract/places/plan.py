"""The plan of convolutions whose columns are filters: these are packed once, and multiplied with places of an image."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from anydml.kernels.call.signature import Arguments, stepped
from anydml.kernels.call.steps import Repeat, Step
from anydml.kernels.code import engine
from anydml.kernels.code.targets import Target
from anydml.kernels.contract import partition
from anydml.kernels.contract.epilogue import estimates
from anydml.kernels.contract.epilogue import filters as records
from anydml.kernels.contract.epilogue.plan import MODES, parameters
from anydml.kernels.contract.epilogue.rule import ROW
from anydml.kernels.contract.geometry import Batch, Matrix, OutputPart, Scratch
from anydml.kernels.contract.images.image import NOT_THERE
from anydml.kernels.contract.images.windows import BEFORE, BEHIND, filled
from anydml.kernels.contract.places import tile as places
from anydml.kernels.contract.places.problem import Convolved
from anydml.kernels.contract.plan import IntegerPlan, Phases, Steps
from anydml.kernels.contract.problem import NOTHING
from anydml.kernels.contract.repeats import along, each


class PlacePlan(IntegerPlan):
    """The steps of a convolution by places and filters."""

    def __init__(self, p: Convolved, target: Target, threads: int) -> None:
        super().__init__(p.problem, target, threads, p.filters.owned, p.lines)
        self.of, at, scratch = p, self.at, self.scratch
        groups = p.problem.batches[1]
        place, kept = (self.packed if once else scratch for once in (self.owned, p.fixed))
        self.b, self.sums = (_each(place, groups, size) for size in (at.panels * at.panel_bytes, at.sums_bytes))
        self.rows, self.modes, self.columns = (
            _each(kept, groups, size) for size in (ROW, MODES, at.panels * at.width * records.COLUMN)
        )
        y, x = p.windows.axes[1:]
        # the fewest strips that are short enough, all of one length
        whole = p.windows.channels * p.windows.of_channel
        self.strip = -(-p.lines // -(-whole // at.tuning.strip))
        self.windows = p.windows.cut(self.strip)
        self.taps = y.taps * x.taps
        self.steps = p.windows.channels // 4 * self.taps
        self.offsets = kept.take(8 * self.steps)
        self.packing, made = self._packing(), self._records()
        before = [*([] if self.owned else self.packing), *([] if p.fixed else made)]
        self.packing += made if p.fixed else []
        self.rounds = self._rounds([[before]] if before else [], self.passing, self._phases)

    def _phases(self, part: OutputPart) -> Phases:
        cut = partition.pieces(self.at, part, self.threads, True)
        return [[[*self._of_filters(piece), *self._piece(piece)] for piece in cut]]

    def _of_filters(self, part: OutputPart) -> Steps:
        """The step that fetches the output of a piece's filters for writing, if it is contiguous."""
        at, c = self.at, self.of.problem.c
        line, of_filter = self.of.line * at.size, self.of.problem.m * at.size
        if len(part.rows) < at.rows or (c.row != line and at.rows > 1) or c.column != of_filter:
            return []
        start, end = at.start(part.panels.start), at.end(part.panels.stop - 1)
        return self._fetched(part, c.of(part.first, 0, start), (end - start) * of_filter)

    def _packing(self) -> Steps:
        def pack(batch: Batch) -> list[Step]:
            return [self.of.filters.pack(self.at, batch, self.b.of(batch), self.sums.of(batch))]

        return each(self.at.target, range(1), range(self.of.problem.batches[1]), pack)

    def _records(self) -> Steps:
        """The steps that make the records of each group's filters, and the offsets of a window's elements in the image."""
        at, p = self.at, self.of.problem

        def group(batch: Batch) -> Iterator[Step | Repeat]:
            scale, bias = p.scales[1] if p.scales else NOTHING, p.bias or NOTHING
            if p.scales:
                yield parameters(at, batch, range(1), 0, p.n, self.rows.of(batch), self.modes.of(batch))
            code = engine.compiled(records.filters, at.target, self.of.flipped, p.b_signed, bool(p.scales), at.kind.biased)
            into = Arguments(sums=self.sums.of(batch), columns=self.columns.of(batch), modes=self.modes.of(batch))
            yield records.FILTERS.step(
                code,
                panels=at.panels,
                last=at.start(at.panels - 1),
                k=p.k,
                a_zero_point=p.a_zero_point.of(batch),
                **into,
                **stepped("b_zero_point", p.b_zero_point.of(batch), p.b_zero_point.column),
                **stepped("b_scale", scale.of(batch), scale.column),
                **stepped("bias", bias.of(batch), bias.column),
            )

        where = self.windows.offsets(at.target, self.offsets, group=4)
        return [where, *each(at.target, range(1), range(p.batches[1]), group)]

    def _piece(self, part: OutputPart) -> Steps:
        """Some lines of some batches with some panels, a strip of lines at a time."""
        strip = _ImageStrip(self, self.passing)

        def product(batch: Batch) -> Iterator[Step | Repeat]:
            def lines(rows: range) -> Iterator[Step | Repeat]:
                yield from strip.image(batch, rows)
                yield from along(
                    self.at.target, part.panels, max(1, self.at.tuning.filters // self.at.panel_bytes), filters(rows)
                )

            def filters(rows: range) -> Callable[[range], Iterator[Step]]:
                return lambda panels: strip.tiles(batch, rows, panels)

            yield from along(self.at.target, part.rows, self.strip, lines)

        return each(self.at.target, part.outer, part.inner, product)


class _ImageStrip:
    """Lines of the output that are computed from an image of their own: its memory, and its steps."""

    def __init__(self, plan: PlacePlan, scratch: Scratch) -> None:
        self.plan, self.of, self.at = plan, plan.of, plan.at
        w, four = plan.windows, 4 * plan.windows.of_channel
        self.begun = scratch.take(BEFORE + w.channels // 4 * four + BEHIND) + BEFORE
        self.bounds = scratch.take(24 * w.axes[2].phases)
        self.sums = scratch.take(four + BEHIND)
        self.terms = scratch.take(4 * plan.strip * self.of.line + 64)
        self.four, self.line = four, 4 * w.units[1]

    def image(self, batch: Batch, rows: range) -> Iterator[Step]:
        """The steps that make the image, and the terms of the lines' places."""
        at, p, w = self.at, self.of.problem, self.plan.windows
        _, y, x = w.axes
        if self.of.one is not None:  # lines are contiguous in the input
            one = self.of.one
            x = one._replace(outputs=self.plan.strip * self.of.line, start=-rows.start * self.of.line)
            y = NOT_THERE
        else:
            y = y._replace(start=y.start - rows.start * y.stride)
        fours, source = w.channels // 4, (p.a.of(batch), w.matrix.at + w.span)
        zero_point, into, axes = p.a_zero_point.of(batch), (self.begun, self.bounds), (NOT_THERE, y, x)
        yield filled(at.target, source, (fours, w.channel), zero_point, into, axes, self.of.flipped)
        signs = p.a_signed, p.b_signed, at.kind.full
        zero_point = p.b_zero_point.of(batch)
        summed = engine.compiled(records.places, at.target, *signs)
        planes = Arguments(image=self.begun, plane=self.four, fours=fours, count=w.of_channel)
        yield records.PLACES.step(summed, **planes, sums=self.sums, b_zero_point=zero_point)
        terms = engine.compiled(records.terms, at.target, *signs)
        of_lines = Arguments(sums=self.sums, line=self.line, lines=len(rows), outputs=self.of.line)
        of_taps = Arguments(offsets=self.plan.offsets, taps=self.plan.taps)
        yield records.TERMS.step(terms, **of_lines, **of_taps, terms=self.terms, b_zero_point=zero_point)

    def tiles(self, batch: Batch, rows: range, panels: range) -> Iterator[Step]:
        """The products of all places with some panels."""
        at, plan, p, width = self.at, self.plan, self.of.problem, self.of.line
        start = at.start(panels.start)
        b, columns = plan.b.of(batch), plan.columns.of(batch) + panels.start * at.width * records.COLUMN
        filters = Arguments(b=b + panels.start * at.panel_bytes, b_panel=at.panel_bytes, panels=len(panels))
        filters |= Arguments(last=at.start(panels.stop - 1) - start, offsets=plan.offsets, steps=plan.steps)
        beside = Arguments(row=plan.rows.of(batch), columns=columns, modes=plan.modes.of(batch))
        signature = estimates.estimating(places.MULTIPLY, at.kind.estimated)
        for lines, count, height, tiles, y, x in _tiles(len(rows), width):
            code = engine.compiled(places.multiply, at.target, at.kind, lines, height)
            image, terms = self.begun + y * self.line + 4 * x, self.terms + 4 * (y * width + x)
            a = Arguments(image=image, line=self.line, terms=terms, terms_line=4 * width)
            c = Arguments(c=p.c.of(batch, rows.start + y, start) + x * at.size, c_row=p.c.column, c_line=p.c.row)
            estimated = at.estimates(batch, 0, start)
            yield signature.step(code, **a, **filters, **c, line_tiles=count, tiles=tiles, **beside, **estimated)


def _each(scratch: Scratch, groups: int, nbytes: int) -> Matrix:
    """Memory for every group."""
    nbytes = -(-nbytes // 64) * 64
    return Matrix(scratch.take(groups * nbytes), 0, nbytes, 0, 0)


def _tiles(lines: int, width: int) -> Iterator[tuple[int, int, int, int, int, int]]:
    """Tuples (lines, count, height, tiles, y, x): tiles of `lines` lines by `height` places, their number down and across, and
    the first place.

    Heights differ by at most one, so that no tile is partial.
    """
    most = places.lines_of(width)
    across = -(-width // places.MOST)
    height, taller = divmod(width, across)
    for of_tile, count, y in ((most, lines // most, 0), (lines % most, 1, lines - lines % most)):
        if of_tile and count:
            if taller:
                yield of_tile, count, height + 1, taller, y, 0
            yield of_tile, count, height, across - taller, y, taller * (height + 1)
