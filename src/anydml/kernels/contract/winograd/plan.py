"""Integer convolutions of 3x3 by Winograd's algorithm: matched, and planned.

Filters are transformed once, at `initialize`. Then some rows of tiles are transformed after the other, and multiplied by some
filters after the other, whose products are made sums and rounded.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from anydml.kernels.call.steps import At, Repeat, Step
from anydml.kernels.code import engine, processor
from anydml.kernels.code.targets import Target
from anydml.kernels.contract import partition
from anydml.kernels.contract.channels.plan import tiles
from anydml.kernels.contract.dot import dot_of
from anydml.kernels.contract.epilogue.plan import MODES, parameters
from anydml.kernels.contract.epilogue.rule import ROW
from anydml.kernels.contract.geometry import Batch, Matrix, OutputPart, Scratch, cut
from anydml.kernels.contract.images import image
from anydml.kernels.contract.images.image import NOT_THERE, ImageAxis, of_axis
from anydml.kernels.contract.images.rows import HOPS
from anydml.kernels.contract.layout import IntegerLayout
from anydml.kernels.contract.panels.source import Lying
from anydml.kernels.contract.panels.windows import BEFORE, BEHIND
from anydml.kernels.contract.places.problem import LONGEST, triple
from anydml.kernels.contract.problem import NOTHING, OUTPUTS, Problem, in_bytes, of_rows, three
from anydml.kernels.contract.repeats import along, each
from anydml.kernels.contract.rounds import rounds
from anydml.kernels.contract.tile import column_bytes
from anydml.kernels.contract.winograd import kernels as winograd
from anydml.kernels.contract.winograd.kernels import FILTER, POSITIONS, READ, TILE
from anydml.kernels.match.convolution import Convolution
from anydml.tensor import DataType, TensorFlags

CHANNELS = range(16, 917)  # of fewer, transforms cost more than they save; four sums of more are beyond int32
FEWEST = 16  # filters
TILES = processor.caches().second // 2  # bytes of transformed tiles
PRODUCTS = processor.caches().second // 4  # bytes of products
HEIGHT = 6  # filters of a tile of products


class Squared(NamedTuple):
    """A convolution of 3x3 without strides: its problem has filters as rows, less their zero points.

    channels, channel: of the input, and the bytes between them. taps: strides of filters: channels, y and x. axes: y and x.
    span: bytes of the input. line, place: of the output, in bytes.
    """

    problem: Problem
    zero_point: Matrix
    channels: int
    channel: int
    taps: tuple[int, int, int]
    axes: tuple[ImageAxis, ImageAxis]
    span: int
    line: int
    place: int

    def serves(self, target: Target) -> bool:
        """Whether 16 bits are multiplied in pairs, and hardly more outputs are computed than there are."""
        y, x = self.axes
        wanted = y.outputs * x.outputs
        computed = 4 * -(-y.outputs // TILE) * -(-x.outputs // TILE)
        return (
            target.architecture == "x86"
            and dot_of(target).group == 2
            and self.channels in CHANNELS
            and self.channels % 2 == 0
            and self.problem.m >= FEWEST
            and computed * 2 <= wanted * 3
            and x.outputs <= LONGEST
        )


def squared(p: Convolution) -> Squared | None:
    """The convolution by Winograd's algorithm; None where it is another one, or filters are not known before."""
    x, f, y = p.x.desc, p.filters.desc, p.output.desc
    known = [f] if p.filter_zero_point is None else [f, p.filter_zero_point.operand.desc]
    if p.groups > 1 or not all(t.flags & TensorFlags.OWNED_BY_DML for t in known):
        return None
    xs, fs, ys = in_bytes(x), in_bytes(f), in_bytes(y)
    axes = list(map(ImageAxis, x.sizes[2:], xs[2:], y.sizes[2:], f.sizes[2:], p.strides, p.dilations, p.starts))
    if len(axes) != 2 or any((a.taps, a.stride, a.dilation) != (FILTER, 1, 1) for a in axes):
        return None
    beside = [of_rows(b, 1) for b in (p.filter_zero_point, p.x_zero_point, p.output_zero_point, p.bias, *(p.scales or ()))]
    a_zero_point, b_zero_point, y_zero_point, bias, *scales = (m._replace(inner=0) for m in beside)
    source = Matrix(At(p.x.name), xs[0], 0, xs[1], 0)
    problem = Problem(
        *(f.sizes[0], f.sizes[1] * FILTER * FILTER, y.sizes[2] * y.sizes[3], (x.sizes[0], 1)),
        a=Matrix(At(p.filters.name), 0, 0, fs[0], 0),
        terms=(),
        b=Lying(source, False),
        c=Matrix(At(p.output.name), ys[0], 0, ys[1], 0),
        places=(),
        a_signed=f.data_type is DataType.INT8,
        b_signed=x.data_type is DataType.INT8,
        output=OUTPUTS[y.data_type],
        a_zero_point=NOTHING,
        b_zero_point=b_zero_point,
        y_zero_point=y_zero_point,
        scales=three(scales),
        bias=bias if p.bias else None,
    )
    _, *taps = triple([0, *fs[2:]])
    of_filter = fs[1], taps[0], taps[1]
    return Squared(problem, a_zero_point, x.sizes[1], xs[1], of_filter, (axes[0], axes[1]), x.element_bytes, ys[2], ys[3])


class Squares:
    """The steps of such a convolution, as `Plan` has them for products."""

    owned = True

    def __init__(self, p: Squared, target: Target, threads: int) -> None:
        self.of = p
        self.scratch, self.packed, self.spare = (Scratch(base) for base in ("scratch", "packed", "spare"))
        self.passing = Scratch("passing")
        y, x = p.axes
        self.across, high = (-(-a.outputs // TILE) for a in (x, y))
        self.at = at = IntegerLayout(p.problem, target, high)
        at.panels = 1  # only rows of tiles are shared out
        self.threads = partition.threads_for(at, threads)
        scratch, m, self.pairs = self.scratch, p.problem.m, p.channels // 2
        self.heights = [*tiles(m, HEIGHT)]
        self.of_row = 4 * self.pairs  # bytes of a filter's position
        self.a_position = m * self.of_row
        self.a, self.sums = self.packed.take(POSITIONS * self.a_position), self.packed.take(4 * m)
        self.packing = self._packing()
        self.rows, self.modes, self.column = scratch.take(m * ROW), scratch.take(MODES), scratch.take(column_bytes(target))
        self.chunk = max(1, min(high, TILES // (POSITIONS * self.of_row * self.across)))
        self.chunk = -(-high // -(-high // self.chunk))
        self.rounds = rounds(at, scratch, self._before(), self._shared, self._piece)

    def _shared(self, part: OutputPart) -> list[OutputPart]:
        return cut(part, self.threads, "outer" if len(part.outer) >= self.threads else "rows")

    def _packing(self) -> list[Step | Repeat]:
        found, p = list[Step | Repeat](), self.of.problem
        for height, count, first in self.heights:
            code = engine.compiled(winograd.filters, self.at.target, p.a_signed, height)
            where = self.a + first * self.of_row, self.a_position, height * self.of_row, self.sums + 4 * first
            from_ = p.a.of((0, 0), first), p.a.row, *self.of.taps
            zero_point = self.of.zero_point.of((0, 0), first), self.of.zero_point.row
            found.append(Step(code, (*from_, *zero_point, height * count, self.of.channels, *where)))
        return found

    def _before(self) -> list[Step | Repeat]:
        """The records of filters."""
        at, p, found = self.at, self.of.problem, list[Step | Repeat]()
        if p.scales:
            found.append(parameters(at, (0, 0), range(p.m), 0, 1, self.rows, self.modes))
            into = self.column + at.dot.vectors * at.target.vector_bytes
            found.append(at.copied((at.width,), (0,), (4,), 4, p.scales[1].at, into))
        bias = p.bias or NOTHING
        code = engine.compiled(winograd.terms, at.target, p.b_signed, at.kind.biased)
        found.append(Step(code, (p.m, self.sums, p.b_zero_point.at, self.rows, bias.at, bias.row, self.modes)))
        return found

    def _piece(self, part: OutputPart) -> list[Step | Repeat]:
        """Rows of tiles of some batches, some after the other."""
        at, scratch, (y, x), target = self.at, self.scratch, self.of.axes, self.at.target
        most = min(self.chunk, len(part.rows))
        line = TILE * self.across + READ - TILE
        images = scratch.take(BEFORE + self.of.channels * 2 * (most + 1) * line + BEHIND) + BEFORE
        bounds = scratch.take(24)
        columns = -(-most * self.across // at.width)
        pitch = columns * at.width * 4
        position = self.pairs * pitch + 2 * target.vector_bytes  # the last line's tiles are written too far
        b = scratch.take(POSITIONS * position)
        group = max(1, PRODUCTS // (POSITIONS * pitch * HEIGHT))  # tiles of filters
        row = pitch
        products = scratch.take(POSITIONS * group * HEIGHT * row + 8 * target.vector_bytes)
        c_line = -(-self.across * TILE // at.width) * at.width * at.size
        c_m = most * TILE * c_line
        made = scratch.take(group * HEIGHT * c_m)
        hop = x.step
        fill = engine.compiled(image.fill, target, hop if hop in HOPS else 0)
        transform = engine.compiled(winograd.inputs, target, self.of.problem.b_signed)
        p = self.of.problem
        kinds = p.output, at.kind.biased

        def product(batch: Batch) -> Iterator[Step | Repeat]:
            def some(tile_rows: range) -> Iterator[Step | Repeat]:
                count = len(tile_rows)
                of_y = y._replace(outputs=count, taps=READ, stride=TILE, start=y.start - TILE * tile_rows.start)
                of_x = x._replace(outputs=line, taps=1)
                axes = *of_axis(NOT_THERE), *of_axis(of_y), *of_axis(of_x)
                source = p.b.matrix
                where = source.of(batch), source.at + self.of.span, self.of.channels, self.of.channel
                yield Step(fill, (*where, p.b_zero_point.at, images, bounds, *axes))
                odd = (count + 1) * line
                yield Step(transform, (images, 2 * odd, odd, line, self.pairs, count, self.across, b, position, pitch))
                lines = min(TILE * count, y.outputs - TILE * tile_rows.start)
                for height, number, first in self.heights:

                    def filters(some: range, height: int = height, first: int = first) -> Iterator[Step]:
                        start, rows = first + some.start * height, len(some) * height
                        a = self.a + start * self.of_row, self.a_position, height * self.of_row, len(some), self.pairs
                        into = products, group * HEIGHT * row, row
                        code = engine.compiled(winograd.products, target, height)
                        yield Step(code, (*a, b, position, pitch, columns, *into))
                        code = engine.compiled(winograd.sums, target, *kinds)
                        from_ = products, group * HEIGHT * row, row, rows, count, self.across
                        yield Step(code, (*from_, made, c_m, c_line, self.rows + start * ROW, self.column, self.modes))
                        c = p.c.of(batch, start) + TILE * tile_rows.start * self.of.line
                        steps = (c_m, c_line, at.size), (p.c.row, self.of.line, self.of.place)
                        yield at.copied((rows, lines, x.outputs), *steps, at.size, made, c)

                    yield from along(target, range(number), group, filters)

            yield from along(target, part.rows, most, some)

        return each(target, part.outer, part.inner, product)
