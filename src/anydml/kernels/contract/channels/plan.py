"""The plan of convolutions with one channel and one filter per group, on instruction sets with dot products of bytes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from anydml.kernels.call.signature import Arguments
from anydml.kernels.call.steps import At, Repeat, Step
from anydml.kernels.code import engine
from anydml.kernels.code.targets import Target
from anydml.kernels.contract.channels import fours_of_lines, lines, weights
from anydml.kernels.contract.channels.fours_of_lines import STRIDES
from anydml.kernels.contract.channels.weights import PASSES
from anydml.kernels.contract.epilogue import estimates
from anydml.kernels.contract.epilogue.rule import ROW
from anydml.kernels.contract.geometry import Batch, Matrix, OutputPart, StridedColumns
from anydml.kernels.contract.images import image
from anydml.kernels.contract.images.image import NOT_THERE, of_axis, of_taps
from anydml.kernels.contract.images.windows import PaddedWindows
from anydml.kernels.contract.places import tile as places
from anydml.kernels.contract.places.problem import LONGEST, triple
from anydml.kernels.contract.plan import FilterPlan, Steps
from anydml.kernels.contract.problem import NOTHING, WRAPS, Estimated, IntegerProblem, axes_of, in_bytes, of_filters
from anydml.kernels.contract.repeats import along, each
from anydml.kernels.match.convolution import Convolution


class ByChannel(NamedTuple):
    """A convolution by channels: the rows of its problem are channels, the columns outputs. taps: strides of filters, y and x.

    owned: whether filters and all parameters are OWNED_BY_DML, so that records and weights are made once.
    """

    problem: IntegerProblem
    windows: PaddedWindows
    taps: tuple[int, int]
    line: int
    owned: bool

    def serves(self, target: Target) -> bool:
        x = self.windows.axes[2]
        contiguous = x.step == 1 or x.size == 1
        return places.serves(target) and contiguous and x.stride in STRIDES and self.problem.k <= WRAPS and x.outputs <= LONGEST

    def contiguous(self, size: int) -> bool:
        """Whether lines of the output follow each other, and channels. size: bytes of an output."""
        (_, y, x), c = self.windows.axes, self.problem.c
        return (c.column == x.outputs * size or y.outputs == 1) and c.row == self.problem.n * size


def by_channel(p: Convolution, estimated: Estimated | None = None) -> ByChannel | None:
    """The convolution by channels; None if a group has several channels, or the output's layout does not allow it."""
    x, f, y = p.x.desc, p.filters.desc, p.output.desc
    channels = x.sizes[1]
    if f.sizes[0] != p.groups or f.sizes[1] != 1:
        return None
    xs, fs, ys = in_bytes(x), in_bytes(f), in_bytes(y)
    axes = axes_of(p)
    order = sorted(range(len(axes)), key=lambda i: axes[i].outputs * axes[i].taps > 1)
    z, y_, x_ = windowed = triple([NOT_THERE, NOT_THERE, *(axes[i] for i in order)])
    line, place = triple([0, 0, *(ys[2 + i] for i in order)])[1:]
    if z.outputs * z.taps > 1 or (x_.outputs > 1 and place != y.data_type.dtype.itemsize):
        return None
    source = Matrix(At(p.x.name), xs[0], 0, xs[1], 0)
    filters, output = Matrix(At(p.filters.name), 0, 0, fs[0], 0), Matrix(At(p.output.name), ys[0], 0, ys[1], line)
    nothing = StridedColumns(NOTHING, False)
    problem = of_filters(p, y_.outputs * x_.outputs, filters, nothing, output, estimated)
    taps_y, taps_x = triple([0, 0, *(fs[2 + i] for i in order)])[1:]
    return ByChannel(
        problem, PaddedWindows(source, x.element_bytes, channels, xs[1], windowed), (taps_y, taps_x), line, p.fixed
    )


def filters_of(p: ByChannel) -> Arguments:
    """The arguments that say where the channels' filters are."""
    a, (_, y, x), (tap_y, tap_x) = p.problem.a, p.windows.axes, p.taps
    taps = Arguments(taps_y=y.taps, tap_y=tap_y, taps_x=x.taps, tap_x=tap_x)
    return {"filters": a.at, "filter": a.row, "channels": p.problem.m, **taps}


class ChannelPlan(FilterPlan):
    """The steps of a convolution by channels."""

    by_channel = True

    def __init__(self, p: ByChannel, target: Target, threads: int) -> None:
        super().__init__(p.problem, target, threads, p.owned)
        self.of, at = p, self.at
        self.contiguous = p.contiguous(at.size)
        at.row_products, at.panels = p.problem.k * at.panels, 1  # the work is only divided by channels
        (_, y, x), m = p.windows.axes, p.problem.m
        self.pieces = -(-x.taps // 4)
        self.narrow = x.outputs <= at.width // 2
        self.of_piece = 2 * at.width if self.narrow else -(-x.outputs // at.width) * at.width * 4
        self.lines = y.phases * y.length
        self.fours = self.lines * self.pieces * self.of_piece
        self.of_channel = 8 + 4 * PASSES * y.taps * self.pieces
        kept = self.packed if p.owned else self.scratch
        self._take_records(kept)
        self.weights, self.offsets = kept.take(m * self.of_channel), kept.take(8 * PASSES * y.taps * self.pieces)
        before = [*self._records(), *self._weights()]
        if p.owned:
            self.packing = before
        self.rounds = self._rounds([] if p.owned else [[before]], self.passing, self._phases)

    def _weights(self) -> Steps:
        """The steps that make the channels' weights, the terms of their records, and the offsets of a window's elements."""
        at, p, y = self.at, self.of.problem, self.of.windows.axes[1]
        code = engine.compiled(weights.weights, at.target, p.a_signed, p.b_signed, at.kind.biased)
        written = Arguments(weights=self.weights, of_channel=self.of_channel, pieces=self.pieces)
        made = weights.WEIGHTS.step(code, **written, **filters_of(self.of), **self._beside(p.a_zero_point))
        fours = of_taps("z", 1, 1, 1, 1, 1, 0) | of_taps("x", self.pieces, 1, 1, 1, 1, self.of_piece)
        fours |= of_taps("y", y.taps, y.phases, y.length, y.stride, y.dilation, self.pieces * self.of_piece)
        where = engine.compiled(image.offsets, at.target)
        return [made, image.OFFSETS.step(where, channels=PASSES, channel=0, offsets=self.offsets, **fours)]

    def _piece(self, part: OutputPart) -> Steps:
        """Some channels of some batches: the fours of a few channels at a time are made and then multiplied."""
        at, p, w = self.at, self.of.problem, self.of.windows
        _, y, x = w.axes
        most = min(len(part.rows), max(1, at.tuning.fours // self.fours))
        fours = self.passing.take(most * self.fours)
        make = engine.compiled(fours_of_lines.fours, at.target, p.b_signed, x.stride, self.narrow, x.dilation == 1)

        def product(batch: Batch) -> Iterator[Step | Repeat]:
            def channels(rows: range) -> Iterator[Step]:
                count, line = len(rows), self.pieces * self.of_piece
                source = Arguments(source=w.matrix.of(batch, rows.start), channel=w.channel, zero_point=p.b_zero_point.at)
                of_x = Arguments(dilation_x=x.dilation, start_x=x.start, size_x=x.size, taps=x.taps)
                into = Arguments(channels=count, pieces=self.pieces, fours=fours, piece=self.of_piece)
                yield fours_of_lines.FOURS.step(make, **source, **of_axis(y), **of_x, **into)
                of_weights = Arguments(weights=self.weights + rows.start * self.of_channel, of_channel=self.of_channel)
                beside = Arguments(
                    rows=self.rows + rows.start * ROW, column=self.column, modes=self.modes, offsets=self.offsets
                )
                signature = estimates.estimating(lines.MULTIPLY, at.kind.estimated)
                for height, number, first in tiles(y.outputs, lines.ROWS * 2 if self.narrow else lines.ROWS):
                    code = engine.compiled(lines.multiply, at.target, at.kind, height, self.narrow)
                    c = p.c.of(batch, rows.start) + first * p.c.column
                    of_fours = Arguments(fours=fours + first * line, channels=count, channel=self.fours, line=line)
                    of_c = Arguments(tiles=number, width=x.outputs, c=c, c_row=p.c.row, c_line=p.c.column)
                    estimated = at.estimates(batch, rows.start, 0)
                    yield signature.step(code, **of_fours, **of_weights, **of_c, **beside, **estimated)

            yield from along(at.target, part.rows, most, channels)

        return each(at.target, part.outer, part.inner, product)


def tiles(count: int, most: int) -> Iterator[tuple[int, int, int]]:
    """Triples (height, number, first line) of tiles that cover `count` lines, in at most two heights, which differ by one."""
    tiles = -(-count // most)
    height, taller = divmod(count, tiles)
    if taller:
        yield height + 1, taller, 0
    yield height, tiles - taller, taller * (height + 1)
