"""The plan of integer convolutions with 3x3 filters by Winograd's algorithm.

Filters are transformed once, at `initialize`. Then a few rows of tiles at a time are transformed, and multiplied with a few
filters at a time, whose products are summed and rounded.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from anydml.kernels.call.signature import Arguments, stepped
from anydml.kernels.call.steps import At, Repeat, Step
from anydml.kernels.code import engine
from anydml.kernels.code.targets import Target
from anydml.kernels.contract import tuning
from anydml.kernels.contract.channels.plan import tiles
from anydml.kernels.contract.dot import dot_of
from anydml.kernels.contract.epilogue.rule import ROW
from anydml.kernels.contract.geometry import Batch, Matrix, OutputPart, StridedColumns
from anydml.kernels.contract.images.image import NOT_THERE, ImageAxis
from anydml.kernels.contract.images.windows import BEFORE, BEHIND, filled
from anydml.kernels.contract.places.problem import LONGEST, triple
from anydml.kernels.contract.plan import FilterPlan, Steps
from anydml.kernels.contract.problem import NOTHING, IntegerProblem, axes_of, in_bytes, of_filters
from anydml.kernels.contract.repeats import along, each
from anydml.kernels.contract.winograd import kernels
from anydml.kernels.contract.winograd.kernels import FILTER, POSITIONS, READ, TILE
from anydml.kernels.match.convolution import Convolution
from anydml.tensor import TensorFlags

CHANNELS = range(16, 917)  # for fewer, transforms cost more than they save; for more, int32 does not hold four times a sum
HEIGHT = 6  # filters of a tile of products


class Squared(NamedTuple):
    """A convolution of 3x3 without strides: the rows of its problem are filters, minus their zero points.

    channels, channel: of the input, and the bytes between them. taps: strides of filters: channels, y and x. axes: y and x.
    span: bytes of the input. line, place: strides of the output, in bytes.
    """

    problem: IntegerProblem
    zero_point: Matrix
    channels: int
    channel: int
    taps: tuple[int, int, int]
    axes: tuple[ImageAxis, ImageAxis]
    span: int
    line: int
    place: int

    def serves(self, target: Target) -> bool:
        """Whether 16 bits are multiplied in pairs, and few outputs are computed in vain."""
        y, x = self.axes
        wanted = y.outputs * x.outputs
        computed = 4 * -(-y.outputs // TILE) * -(-x.outputs // TILE)
        return (
            target.architecture == "x86"
            and dot_of(target).group == 2
            and self.channels in CHANNELS
            and self.channels % 2 == 0
            and self.problem.m >= tuning.TUNING.fewest_filters
            and computed * 2 <= wanted * 3
            and x.outputs <= LONGEST
        )


def squared(p: Convolution) -> Squared | None:
    """The convolution by Winograd's algorithm; None if it is of another kind, or filters are not owned."""
    x, f, y = p.x.desc, p.filters.desc, p.output.desc
    known = [f] if p.filter_zero_point is None else [f, p.filter_zero_point.operand.desc]
    if p.groups > 1 or not all(t.flags & TensorFlags.OWNED_BY_DML for t in known):
        return None
    xs, fs, ys = in_bytes(x), in_bytes(f), in_bytes(y)
    axes = axes_of(p)
    if len(axes) != 2 or any((a.taps, a.stride, a.dilation) != (FILTER, 1, 1) for a in axes):
        return None
    filters, output = Matrix(At(p.filters.name), 0, 0, fs[0], 0), Matrix(At(p.output.name), ys[0], 0, ys[1], 0)
    windows = StridedColumns(Matrix(At(p.x.name), xs[0], 0, xs[1], 0), False)
    problem = of_filters(p, y.sizes[2] * y.sizes[3], filters, windows, output)
    _, *taps = triple([0, *fs[2:]])
    of_filter = fs[1], taps[0], taps[1]
    place = x.sizes[1], xs[1], of_filter, (axes[0], axes[1]), x.element_bytes, ys[2], ys[3]
    return Squared(problem._replace(a_zero_point=NOTHING), problem.a_zero_point, *place)


class IntegerWinogradPlan(FilterPlan):
    """The steps of such a convolution."""

    def __init__(self, p: Squared, target: Target, threads: int) -> None:
        y, x = p.axes
        self.across, high = (-(-a.outputs // TILE) for a in (x, y))
        super().__init__(p.problem, target, threads, owned=True, lines=high)
        self.of, m = p, p.problem.m
        self.at.panels = 1  # the work is only divided by rows of tiles
        self.pairs = p.channels // 2
        self.heights = [*tiles(m, HEIGHT)]
        self.of_row = 4 * self.pairs  # bytes of a filter's position
        self.a_position = m * self.of_row
        self.a, self.sums = self.packed.take(POSITIONS * self.a_position), self.packed.take(4 * m)
        self.packing = self._packing()
        self._take_records(self.scratch)
        self.chunk = max(1, min(high, self.at.tuning.tiles // (POSITIONS * self.of_row * self.across)))
        self.chunk = -(-high // -(-high // self.chunk))
        self.rounds = self._rounds([[[*self._records(), self._terms()]]], self.scratch, self._phases)

    def _packing(self) -> Steps:
        found, p = Steps(), self.of.problem
        for height, count, first in self.heights:
            code = engine.compiled(kernels.filters, self.at.target, p.a_signed, height)
            filters = Arguments(filters=p.a.of((0, 0), first), row=p.a.row, rows=height * count, channels=self.of.channels)
            filters |= zip(("channel", "line", "place"), self.of.taps, strict=True)
            zero_point = stepped("zero_point", self.of.zero_point.of((0, 0), first), self.of.zero_point.row)
            into = Arguments(into=self.a + first * self.of_row, position=self.a_position, tile=height * self.of_row)
            found.append(kernels.FILTERS.step(code, **filters, **zero_point, **into, sums=self.sums + 4 * first))
        return found

    def _terms(self) -> Step:
        """The step for the terms of filters' records."""
        at, p = self.at, self.of.problem
        bias = p.bias or NOTHING
        code = engine.compiled(kernels.terms, at.target, p.b_signed, at.kind.biased)
        beside = Arguments(rows=self.rows, modes=self.modes, **stepped("bias", bias.at, bias.row))
        return kernels.TERMS.step(code, m=p.m, sums=self.sums, zero_point=p.b_zero_point.at, **beside)

    def _piece(self, part: OutputPart) -> Steps:
        """Rows of tiles of some batches, a few at a time."""
        at, scratch, (y, x), target = self.at, self.scratch, self.of.axes, self.at.target
        most = min(self.chunk, len(part.rows))
        line = TILE * self.across + READ - TILE
        images = scratch.take(BEFORE + self.of.channels * 2 * (most + 1) * line + BEHIND) + BEFORE
        bounds = scratch.take(24)
        columns = -(-most * self.across // at.width)
        pitch = columns * at.width * 4
        position = self.pairs * pitch + 2 * target.vector_bytes  # the last line is written beyond its end
        b = scratch.take(POSITIONS * position)
        group = max(1, at.tuning.products // (POSITIONS * pitch * HEIGHT))  # tiles of filters that are multiplied at a time
        row = pitch
        products = scratch.take(POSITIONS * group * HEIGHT * row + 8 * target.vector_bytes)
        c_line = -(-self.across * TILE // at.width) * at.width * at.size
        c_m = most * TILE * c_line
        made = scratch.take(group * HEIGHT * c_m)
        transform = engine.compiled(kernels.inputs, target, self.of.problem.b_signed)
        p = self.of.problem
        kinds = p.output, at.kind.biased

        def product(batch: Batch) -> Iterator[Step | Repeat]:
            def some(tile_rows: range) -> Iterator[Step | Repeat]:
                count = len(tile_rows)
                of_y = y._replace(outputs=count, taps=READ, stride=TILE, start=y.start - TILE * tile_rows.start)
                of_x = x._replace(outputs=line, taps=1)
                source = p.b.matrix.of(batch), p.b.matrix.at + self.of.span
                channels, axes = (self.of.channels, self.of.channel), (NOT_THERE, of_y, of_x)
                yield filled(target, source, channels, p.b_zero_point.at, (images, bounds), axes)
                odd = (count + 1) * line
                of_image = Arguments(image=images, channel=2 * odd, odd=odd, line=line, pairs=self.pairs)
                of_tiles = Arguments(tile_rows=count, tiles=self.across)
                yield kernels.INPUTS.step(transform, **of_image, **of_tiles, into=b, position=position, pitch=pitch)
                lines = min(TILE * count, y.outputs - TILE * tile_rows.start)
                for height, number, first in self.heights:

                    def filters(some: range, height: int = height, first: int = first) -> Iterator[Step]:
                        start, rows = first + some.start * height, len(some) * height
                        a = Arguments(a=self.a + start * self.of_row, a_position=self.a_position, a_tile=height * self.of_row)
                        of_b = Arguments(b=b, position=position, pitch=pitch, columns=columns, pairs=self.pairs)
                        into = Arguments(into=products, into_position=group * HEIGHT * row, into_row=row)
                        code = engine.compiled(kernels.products, target, height)
                        yield kernels.PRODUCTS.step(code, **a, tiles=len(some), **of_b, **into)
                        code = engine.compiled(kernels.sums, target, *kinds)
                        from_: Arguments = {"from": products, "position": group * HEIGHT * row, "row": row, "m": rows}
                        beside = Arguments(rows=self.rows + start * ROW, column=self.column, modes=self.modes)
                        to = Arguments(c=made, c_m=c_m, c_line=c_line)
                        yield kernels.SUMS.step(code, **from_, **of_tiles, **to, **beside)
                        c = p.c.of(batch, start) + TILE * tile_rows.start * self.of.line
                        steps = (c_m, c_line, at.size), (p.c.row, self.of.line, self.of.place)
                        yield at.copied((rows, lines, x.outputs), *steps, at.size, made, c)

                    yield from along(target, range(number), group, filters)

            yield from along(target, part.rows, most, some)

        return each(target, part.outer, part.inner, product)
