"""A convolution's B: a window of the input in every column, read from an image of the input and never written out."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from typing import TYPE_CHECKING

from anydml.kernels.call.steps import At, Repeat, Step
from anydml.kernels.code import engine
from anydml.kernels.contract.geometry import Batch, Matrix, Scratch
from anydml.kernels.contract.images import image
from anydml.kernels.contract.images.image import RECORD, ImageAxis, of_axis
from anydml.kernels.contract.images.rows import HOPS
from anydml.kernels.contract.panels import packing
from anydml.kernels.contract.panels.source import PanelProducts, Ready
from anydml.kernels.contract.repeats import along

if TYPE_CHECKING:
    from anydml.kernels.contract.layout import IntegerLayout

BEFORE, BEHIND = 64, 128  # bytes next to an image that may be read, or written as well
SEGMENTS = (1, 2, 3, 4, 5, 6, 8, 12, 17, 32)  # how many a panel's columns may be compiled as


class PaddedWindows:
    """The windows of an input, of which padding has the value of B's zero point.

    matrix: the input's batches. span: its bytes from the first element to the last. channels, channel: how many are in a
    window, and the bytes between them. axes: z, y and x.
    """

    owned = False

    def __init__(
        self, matrix: Matrix, span: int, channels: int, channel: int, axes: tuple[ImageAxis, ImageAxis, ImageAxis]
    ) -> None:
        self.matrix, self.span, self.channels, self.channel, self.axes = matrix, span, channels, channel, axes
        z, y, x = axes
        unit_y = x.phases * x.length
        unit_z = y.phases * y.length * unit_y
        self.units = unit_z, unit_y, 1
        self.of_channel = z.phases * z.length * unit_z

    def cut(self, lines: int) -> PaddedWindows:
        """Those of so many lines of outputs."""
        z, y, x = self.axes
        return PaddedWindows(self.matrix, self.span, self.channels, self.channel, (z, y._replace(outputs=lines), x))

    def segments(self, at: IntegerLayout) -> int:
        """At most so many runs of neighbours in the image are a panel's columns."""
        x = self.axes[2].outputs
        if x == at.problem.n or x % at.width == 0:
            return 1
        needed = at.width // x if at.width % x == 0 and at.problem.n >= at.width else 1 - -(at.width - 1) // x
        return next(count for count in SEGMENTS if count >= min(needed, at.width))

    def is_thin(self, at: IntegerLayout) -> bool:
        """Panels are multiplied as they are made of an image."""
        return True

    def ready(self, at: IntegerLayout, panels: range, scratch: Scratch) -> Generator[Step | Repeat, None, Ready]:
        """The offsets of a window's elements in the image, and the segments that every panel's columns are."""
        p, segments = at.problem, self.segments(at)
        made = Ready(scratch.take(8 * p.k), scratch.take(len(panels) * segments * RECORD), panels.start)
        each = zip(self.axes, self.units, strict=True)
        numbers = (n for a, unit in each for n in (a.taps, a.phases, a.length, a.stride, a.dilation, unit))
        yield Step(engine.compiled(image.offsets, at.target), (self.channels, self.of_channel, made.offsets, *numbers))
        first, last = at.start(panels.start), at.start(panels.stop - 1)
        _, y, x = self.axes
        where = made.places, x.outputs, y.outputs, self.units[1], self.units[0]
        code = engine.compiled(image.places, at.target)
        yield Step(code, (first, last, len(panels), p.n, at.width, segments, *where))
        return made

    def begin(self, at: IntegerLayout, batch: Batch, scratch: Scratch) -> Generator[Step | Repeat, None, At]:
        """The image."""
        x, p = self.axes[2], at.problem
        begun = scratch.take(BEFORE + self.channels * self.of_channel + BEHIND) + BEFORE
        bounds = scratch.take(24 * x.phases)
        hop = x.step * x.stride
        code = engine.compiled(image.fill, at.target, hop if hop in HOPS else 0)
        source, end = self.matrix.of(batch), self.matrix.at + self.span
        numbers = (n for axis in self.axes for n in of_axis(axis))
        yield Step(code, (source, end, self.channels, self.channel, p.b_zero_point.of(batch), begun, bounds, *numbers))
        return begun

    def pack(
        self, at: IntegerLayout, ready: Ready, begun: At, panels: range, packed: At, sums: At, scratch: Scratch
    ) -> Iterator[Step | Repeat]:
        """The panels, a vector of each row made of the segments that their columns are."""
        p, count, segments = at.problem, len(panels), self.segments(at)
        code = engine.compiled(packing.pack, at.target, p.a_signed, p.b_signed, segments)
        places = self._places(ready, panels, segments)

        def block(k: range) -> Iterator[Step]:
            into, totals = packed + at.depth(k.start), sums + k.start // at.block * count * at.width * 4
            shared = len(k), count, into, at.panel_bytes, totals, 0, at.pad
            yield Step(code, (begun, 0, *shared, ready.offsets + 8 * k.start, places))

        yield from along(at.target, range(p.k), at.block, block)

    def multiply(self, at: IntegerLayout, ready: Ready, begun: At, panels: range, by: PanelProducts) -> Iterator[Step]:
        """As `pack` makes panels, which go no further than registers."""
        p, segments = at.problem, self.segments(at)
        code = engine.compiled(packing.pack, at.target, p.a_signed, p.b_signed, segments, by.rows)
        nowhere = At("constants"), 0
        shared = p.k, len(panels), *nowhere, by.sums, 0, at.pad, ready.offsets, self._places(ready, panels, segments)
        yield Step(code, (begun, 0, *shared, by.a, by.a_row, by.products, by.products_row))

    @staticmethod
    def _places(ready: Ready, panels: range, segments: int) -> At:
        return ready.places + (panels.start - ready.first) * segments * RECORD
