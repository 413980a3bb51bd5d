"""Convolutions of one channel and one filter a group, by taps: planned where no instruction multiplies fours of bytes."""

from __future__ import annotations

from collections.abc import Iterator

from anydml.kernels.call.steps import At, Repeat, Step
from anydml.kernels.code import engine
from anydml.kernels.code.targets import Target
from anydml.kernels.contract import partition
from anydml.kernels.contract.channels import taps
from anydml.kernels.contract.channels.plan import ByChannel, tiles
from anydml.kernels.contract.epilogue.plan import MODES, parameters
from anydml.kernels.contract.epilogue.rule import ROW
from anydml.kernels.contract.geometry import Batch, OutputPart, Scratch, cut
from anydml.kernels.contract.images import image
from anydml.kernels.contract.images.image import of_axis
from anydml.kernels.contract.images.rows import HOPS
from anydml.kernels.contract.layout import WRAPS, IntegerLayout
from anydml.kernels.contract.panels.windows import BEFORE, BEHIND
from anydml.kernels.contract.places import tile as places
from anydml.kernels.contract.places.problem import LONGEST
from anydml.kernels.contract.problem import NOTHING
from anydml.kernels.contract.repeats import along, each
from anydml.kernels.contract.rounds import rounds
from anydml.kernels.contract.tile import column_bytes

CHUNK = 96 << 10  # bytes of images and results that are made before the next ones


def serves(p: ByChannel, target: Target) -> bool:
    """Whether the convolution goes by taps on an instruction set."""
    x = p.windows.axes[2]
    return target.architecture == "x86" and not places.serves(target) and p.problem.k <= WRAPS and x.outputs <= LONGEST


class Taps:
    """The steps of a convolution by channels, as `Plan` has them for products."""

    def __init__(self, p: ByChannel, target: Target, threads: int) -> None:
        self.of, self.owned = p, p.owned
        self.scratch, self.packed, self.spare = (Scratch(base) for base in ("scratch", "packed", "spare"))
        self.passing = Scratch("passing")
        self.at = at = IntegerLayout(p.problem, target)
        at.row_products, at.panels = p.problem.k * at.panels, 1  # only channels are shared out
        self.threads = partition.threads_for(at, threads)
        scratch, (_, y, x), m = self.scratch, p.windows.axes, p.problem.m
        self.pairs = -(-y.taps * x.taps // 2)
        self.line = x.length  # bytes from a line of the image to the next, and from a line of the output
        self.image = y.phases * y.length * self.line
        self.vectors = -(-((y.outputs - 1) * self.line + x.outputs) // at.width)
        self.output = self.vectors * at.width * at.size
        self.most = max(1, min(m, CHUNK // (x.phases * self.image + self.output)))
        self.of_phase = BEFORE + -(-self.most * self.image // 64) * 64 + BEHIND
        self.of_channel = 4 * self.pairs
        kept = self.packed if p.owned else scratch
        self.rows, self.modes = kept.take(m * ROW), kept.take(MODES)
        self.weights = kept.take(m * self.of_channel + 2)
        self.column = kept.take(column_bytes(target))
        self.offsets = kept.take(16 * self.pairs)
        before = self._before()
        self.packing = before if p.owned else []
        self.rounds = rounds(at, scratch, [] if p.owned else before, self._shared, self._piece)

    def _shared(self, part: OutputPart) -> list[OutputPart]:
        return cut(part, self.threads, "outer" if len(part.outer) >= self.threads else "rows")

    def _before(self) -> list[Step | Repeat]:
        """The records of channels, their weights, and where elements of a window are."""
        at, p, (_, y, x), found = self.at, self.of.problem, self.of.windows.axes, list[Step | Repeat]()
        if p.scales:
            found.append(parameters(at, (0, 0), range(p.m), 0, 1, self.rows, self.modes))
            into = self.column + at.dot.vectors * at.target.vector_bytes
            found.append(at.copied((at.width,), (0,), (4,), 4, p.scales[1].at, into))
        bias = p.bias or NOTHING
        code = engine.compiled(taps.weights, at.target, p.a_signed, p.b_signed, at.kind.biased)
        of_taps = y.taps, self.of.taps[0], x.taps, self.of.taps[1]
        beside = p.a_zero_point.at, p.a_zero_point.row, p.b_zero_point.at, self.rows, bias.at, bias.row, self.modes
        found.append(Step(code, (p.a.at, p.a.row, p.m, *of_taps, self.weights, self.of_channel, *beside)))
        where = engine.compiled(image.offsets, at.target)
        of_y = y.taps, y.phases, y.length, y.stride, y.dilation, self.line
        of_x = x.taps, x.phases, self.of_phase, x.stride, x.dilation, 1  # phases of lines are images of their own
        found.append(Step(where, (1, 0, self.offsets, 1, 1, 1, 1, 1, 0, *of_y, *of_x)))
        return found

    def _piece(self, part: OutputPart) -> list[Step | Repeat]:
        """Some channels of some batches: images of some of them, which are multiplied before the next ones."""
        at, p, w, scratch = self.at, self.of.problem, self.of.windows, self.scratch
        _, y, x = w.axes
        images = scratch.take(x.phases * self.of_phase) + BEFORE
        made, bounds = scratch.take(self.most * self.output), scratch.take(24)
        hop = x.step * x.stride
        fill = engine.compiled(image.fill, at.target, hop if hop in HOPS else 0)
        multiply = [
            (
                height,
                count,
                first * at.width,
                engine.compiled(taps.multiply, at.target, p.output, at.kind.biased, p.b_signed, height),
            )
            for height, count, first in tiles(self.vectors, taps.ROWS)
        ]

        def product(batch: Batch) -> Iterator[Step | Repeat]:
            def channels(rows: range) -> Iterator[Step]:
                count, source, zero_point = len(rows), w.matrix.of(batch, rows.start), p.b_zero_point.at
                for phase in range(x.phases):
                    # its elements, a stride apart, are a dimension of so many places
                    one = x._replace(outputs=x.length, taps=1, dilation=1, start=x.start - phase * x.dilation % x.stride)
                    where = images + phase * self.of_phase, bounds
                    axes = *of_axis(image.NOT_THERE), *of_axis(y), *of_axis(one)
                    yield Step(fill, (source, w.matrix.at + w.span, count, w.channel, zero_point, *where, *axes))
                beside = self.rows + rows.start * ROW, self.column, self.modes
                of_weights = self.weights + rows.start * self.of_channel, self.of_channel
                for _, number, first, code in multiply:
                    of_image = images + first, count, self.image, self.offsets, self.pairs
                    into = made + first * at.size, self.output
                    yield Step(code, (*of_image, *of_weights, number, *into, *beside))
                sizes, from_ = (count, y.outputs, x.outputs), (self.output, self.line * at.size, at.size)
                c: At = p.c.of(batch, rows.start)
                yield at.copied(sizes, from_, (p.c.row, p.c.column, at.size), at.size, made, c)

            yield from along(at.target, part.rows, self.most, channels)

        return each(at.target, part.outer, part.inner, product)
