"""A convolution's B: a window of the input in every column, read from an image of the input and never written out."""

from __future__ import annotations

from collections.abc import Generator, Iterator

from anydml.kernels.call.steps import At, Repeat, Step
from anydml.kernels.code import engine
from anydml.kernels.contract.geometry import Batch, Scratch
from anydml.kernels.contract.images import image
from anydml.kernels.contract.images.image import RECORD
from anydml.kernels.contract.images.windows import BEFORE, BEHIND, PaddedWindows, filled
from anydml.kernels.contract.layout import IntegerLayout
from anydml.kernels.contract.panels import packing
from anydml.kernels.contract.panels.source import PanelProducts, Ready
from anydml.kernels.contract.repeats import along

SEGMENTS = (1, 2, 3, 4, 5, 6, 8, 12, 17, 32)  # how many a panel's columns may be compiled as


class WindowPanels:
    """Panels of windows. segments: at most so many runs of neighbours in the image are a panel's columns."""

    is_thin = True  # panels are multiplied as they are made of an image

    def __init__(self, at: IntegerLayout, windows: PaddedWindows) -> None:
        self.at, self.windows = at, windows
        x, n, width = windows.axes[2].outputs, at.problem.n, at.width
        self.segments = 1
        if x != n and x % width != 0:
            needed = width // x if width % x == 0 and n >= width else 1 - -(width - 1) // x
            self.segments = next(count for count in SEGMENTS if count >= min(needed, width))

    def ready(self, panels: range, scratch: Scratch) -> Generator[Step | Repeat, None, Ready]:
        """The offsets of a window's elements in the image, and the segments that every panel's columns are."""
        at, w, segments = self.at, self.windows, self.segments
        made = Ready(scratch.take(8 * at.problem.k), scratch.take(len(panels) * segments * RECORD), panels.start)
        yield w.offsets(at.target, made.offsets)
        first, last = at.start(panels.start), at.start(panels.stop - 1)
        _, y, x = w.axes
        where = made.places, x.outputs, y.outputs, w.units[1], w.units[0]
        code = engine.compiled(image.places, at.target)
        yield Step(code, (first, last, len(panels), at.problem.n, at.width, segments, *where))
        return made

    def begin(self, batch: Batch, scratch: Scratch) -> Generator[Step | Repeat, None, At]:
        """The image."""
        w = self.windows
        begun = scratch.take(BEFORE + w.channels * w.of_channel + BEHIND) + BEFORE
        bounds = scratch.take(24 * w.axes[2].phases)
        source = w.matrix.of(batch), w.matrix.at + w.span
        zero_point = self.at.problem.b_zero_point.of(batch)
        yield filled(self.at.target, source, (w.channels, w.channel), zero_point, (begun, bounds), w.axes)
        return begun

    def pack(self, ready: Ready, begun: At, panels: range, packed: At, sums: At, scratch: Scratch) -> Iterator[Step | Repeat]:
        """The panels, a vector of each row made of the segments that their columns are."""
        at, p, count = self.at, self.at.problem, len(panels)
        code = engine.compiled(packing.pack, at.target, p.a_signed, p.b_signed, self.segments)
        places = self._places(ready, panels)

        def block(k: range) -> Iterator[Step]:
            into, totals = packed + at.depth(k.start), sums + k.start // at.block * count * at.width * 4
            shared = len(k), count, into, at.panel_bytes, totals, 0, at.pad
            yield Step(code, (begun, 0, *shared, ready.offsets + 8 * k.start, places))

        yield from along(at.target, range(p.k), at.block, block)

    def multiply(self, ready: Ready, begun: At, panels: range, by: PanelProducts) -> Iterator[Step]:
        """As `pack` makes panels, which go no further than registers."""
        at, p = self.at, self.at.problem
        code = engine.compiled(packing.pack, at.target, p.a_signed, p.b_signed, self.segments, by.rows)
        nowhere = At("constants"), 0
        shared = p.k, len(panels), *nowhere, by.sums, 0, at.pad, ready.offsets, self._places(ready, panels)
        yield Step(code, (begun, 0, *shared, by.a, by.a_row, by.products, by.products_row))

    def _places(self, ready: Ready, panels: range) -> At:
        return ready.places + (panels.start - ready.first) * self.segments * RECORD
