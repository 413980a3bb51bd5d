"""The B of a convolution: each column is a window of the input, read from an image of the input, and never written out."""

from __future__ import annotations

from collections.abc import Generator, Iterator

from anydml.kernels.call.signature import Arguments
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

SEGMENTS = (1, 2, 3, 4, 5, 6, 8, 12, 17, 32)  # the numbers of segments of a panel that kernels are compiled for


class WindowPanels:
    """Panels of windows. segments: the most contiguous runs of the image that make up a panel's columns."""

    is_thin = True  # panels are multiplied as they are made from an image

    def __init__(self, at: IntegerLayout, windows: PaddedWindows) -> None:
        self.at, self.windows = at, windows
        x, n, width = windows.axes[2].outputs, at.problem.n, at.width
        self.segments = 1
        if x != n and x % width != 0:
            needed = width // x if width % x == 0 and n >= width else 1 - -(width - 1) // x
            self.segments = next(count for count in SEGMENTS if count >= min(needed, width))

    def ready(self, panels: range, scratch: Scratch) -> Generator[Step | Repeat, None, Ready]:
        """The offsets of a window's elements in the image, and the segments of every panel's columns."""
        at, w, segments = self.at, self.windows, self.segments
        made = Ready(scratch.take(8 * at.problem.k), scratch.take(len(panels) * segments * RECORD), panels.start)
        yield w.offsets(at.target, made.offsets)
        first, last = at.start(panels.start), at.start(panels.stop - 1)
        _, y, x = w.axes
        sizes = Arguments(panels=len(panels), columns=at.problem.n, width=at.width, segments=segments)
        of_image = Arguments(outputs_x=x.outputs, outputs_y=y.outputs, unit_y=w.units[1], unit_z=w.units[0])
        code = engine.compiled(image.places, at.target)
        yield image.PLACES.step(code, first=first, last=last, **sizes, places=made.places, **of_image)
        return made

    def begin(self, batch: Batch, scratch: Scratch) -> Generator[Step | Repeat, None, At]:
        """The step that makes the image."""
        w = self.windows
        begun = scratch.take(BEFORE + w.channels * w.of_channel + BEHIND) + BEFORE
        bounds = scratch.take(24 * w.axes[2].phases)
        source = w.matrix.of(batch), w.matrix.at + w.span
        zero_point = self.at.problem.b_zero_point.of(batch)
        yield filled(self.at.target, source, (w.channels, w.channel), zero_point, (begun, bounds), w.axes)
        return begun

    def pack(self, ready: Ready, begun: At, panels: range, packed: At, sums: At, scratch: Scratch) -> Iterator[Step | Repeat]:
        """Pack the panels: each row is assembled from the segments of its columns."""
        at, p, count = self.at, self.at.problem, len(panels)
        code = engine.compiled(packing.pack, at.target, p.a_signed, p.b_signed, self.segments)
        places = self._places(ready, panels)

        def block(k: range) -> Iterator[Step]:
            into, totals = packed + at.depth(k.start), sums + k.start // at.block * count * at.width * 4
            to = Arguments(packed=into, panel=at.panel_bytes, sums=totals, last=0, pad=at.pad)
            of_windows = Arguments(offsets=ready.offsets + 8 * k.start, places=places)
            yield packing.PACK.step(code, b=begun, b_row=0, k=len(k), panels=count, **to, **of_windows)

        yield from along(at.target, range(p.k), at.block, block)

    def multiply(self, ready: Ready, begun: At, panels: range, by: PanelProducts) -> Iterator[Step]:
        """Make panels as `pack` does, but keep them in registers."""
        at, p = self.at, self.at.problem
        code = engine.compiled(packing.pack, at.target, p.a_signed, p.b_signed, self.segments, by.rows)
        to = Arguments(packed=At("constants"), panel=0, sums=by.sums, last=0, pad=at.pad)  # nothing is packed
        products = Arguments(a=by.a, a_row=by.a_row, products=by.products, products_row=by.products_row)
        of_windows = Arguments(offsets=ready.offsets, places=self._places(ready, panels))
        yield packing.MULTIPLY.step(code, b=begun, b_row=0, k=p.k, panels=len(panels), **to, **of_windows, **products)

    def _places(self, ready: Ready, panels: range) -> At:
        return ready.places + (panels.start - ready.first) * self.segments * RECORD
