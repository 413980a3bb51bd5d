"""The plan of convolutions with one channel and one filter per group, on instruction sets without dot products of bytes."""

from __future__ import annotations

from collections.abc import Iterator

from anydml.kernels.call.signature import Arguments
from anydml.kernels.call.steps import At, Repeat, Step
from anydml.kernels.code import engine
from anydml.kernels.code.targets import Target
from anydml.kernels.contract.channels import taps
from anydml.kernels.contract.channels.plan import ByChannel, filters_of, tiles
from anydml.kernels.contract.epilogue.rule import ROW
from anydml.kernels.contract.geometry import Batch, OutputPart
from anydml.kernels.contract.images import image
from anydml.kernels.contract.images.image import of_taps
from anydml.kernels.contract.images.windows import BEFORE, BEHIND, filled
from anydml.kernels.contract.places import tile as places
from anydml.kernels.contract.places.problem import LONGEST
from anydml.kernels.contract.plan import FilterPlan, Steps
from anydml.kernels.contract.problem import WRAPS
from anydml.kernels.contract.repeats import along, each


def serves(p: ByChannel, target: Target) -> bool:
    """Whether a convolution is computed by taps on an instruction set."""
    x = p.windows.axes[2]
    return target.architecture == "x86" and not places.serves(target) and p.problem.k <= WRAPS and x.outputs <= LONGEST


class TapsPlan(FilterPlan):
    """The steps of a convolution by channels that multiplies two taps at a time."""

    by_channel = True

    def __init__(self, p: ByChannel, target: Target, threads: int) -> None:
        super().__init__(p.problem, target, threads, p.owned)
        self.of, at = p, self.at
        self.contiguous = p.contiguous(at.size)
        at.row_products, at.panels = p.problem.k * at.panels, 1  # the work is only divided by channels
        (_, y, x), m = p.windows.axes, p.problem.m
        self.pairs = -(-y.taps * x.taps // 2)
        self.line = x.length  # bytes from one line to the next, in the image and in the output
        self.image = y.phases * y.length * self.line
        self.vectors = -(-((y.outputs - 1) * self.line + x.outputs) // at.width)
        self.output = self.vectors * at.width * at.size
        self.most = max(1, min(m, at.tuning.images // (x.phases * self.image + self.output)))
        self.of_phase = BEFORE + -(-self.most * self.image // 64) * 64 + BEHIND
        self.of_channel = 4 * self.pairs
        kept = self.packed if p.owned else self.scratch
        self._take_records(kept)
        self.weights, self.offsets = kept.take(m * self.of_channel + 2), kept.take(16 * self.pairs)
        before = [*self._records(), *self._weights()]
        if p.owned:
            self.packing = before
        self.rounds = self._rounds([] if p.owned else [[before]], self.scratch, self._phases)

    def _weights(self) -> Steps:
        """The steps that make the channels' weights, the terms of their records, and the offsets of a window's elements."""
        at, p, (_, y, x) = self.at, self.of.problem, self.of.windows.axes
        code = engine.compiled(taps.weights, at.target, p.a_signed, p.b_signed, at.kind.biased)
        written = Arguments(weights=self.weights, of_channel=self.of_channel)
        made = taps.WEIGHTS.step(code, **written, **filters_of(self.of), **self._beside(p.a_zero_point))
        where = engine.compiled(image.offsets, at.target)
        lines = of_taps("z", 1, 1, 1, 1, 1, 0) | of_taps("y", y.taps, y.phases, y.length, y.stride, y.dilation, self.line)
        lines |= of_taps("x", x.taps, x.phases, self.of_phase, x.stride, x.dilation, 1)  # phases are images of their own
        return [made, image.OFFSETS.step(where, channels=1, channel=0, offsets=self.offsets, **lines)]

    def _piece(self, part: OutputPart) -> Steps:
        """Some channels of some batches: the images of a few channels at a time are made and then multiplied."""
        at, p, w, scratch = self.at, self.of.problem, self.of.windows, self.scratch
        _, y, x = w.axes
        images = scratch.take(x.phases * self.of_phase) + BEFORE
        made, bounds = scratch.take(self.most * self.output), scratch.take(24)
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
                count, zero_point = len(rows), p.b_zero_point.at
                source = w.matrix.of(batch, rows.start), w.matrix.at + w.span
                for phase in range(x.phases):
                    # the elements of a phase, a stride apart, form a dimension with `length` outputs
                    one = x._replace(outputs=x.length, taps=1, dilation=1, start=x.start - phase * x.dilation % x.stride)
                    into = images + phase * self.of_phase, bounds
                    yield filled(at.target, source, (count, w.channel), zero_point, into, (image.NOT_THERE, y, one))
                weights = Arguments(weights=self.weights + rows.start * self.of_channel, of_channel=self.of_channel)
                beside = Arguments(rows=self.rows + rows.start * ROW, column=self.column, modes=self.modes)
                for _, number, first, code in multiply:
                    of_image = Arguments(image=images + first, channels=count, channel=self.image, offsets=self.offsets)
                    to = Arguments(tiles=number, c=made + first * at.size, c_channel=self.output)
                    yield taps.MULTIPLY.step(code, **of_image, pairs=self.pairs, **weights, **to, **beside)
                sizes, from_ = (count, y.outputs, x.outputs), (self.output, self.line * at.size, at.size)
                c: At = p.c.of(batch, rows.start)
                yield at.copied(sizes, from_, (p.c.row, p.c.column, at.size), at.size, made, c)

            yield from along(at.target, part.rows, self.most, channels)

        return each(at.target, part.outer, part.inner, product)
