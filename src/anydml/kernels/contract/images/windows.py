"""The windows of an input that a convolution reads, in bytes, and the step that makes an image of it."""

from __future__ import annotations

from anydml.kernels.call.signature import Arguments
from anydml.kernels.call.steps import At, Step
from anydml.kernels.code import engine
from anydml.kernels.code.targets import Target
from anydml.kernels.contract.geometry import Matrix
from anydml.kernels.contract.images import image
from anydml.kernels.contract.images.image import FILL, OFFSETS, ImageAxis, of_axis, of_taps
from anydml.kernels.contract.images.rows import HOPS

BEFORE, BEHIND = 64, 128  # bytes before and behind an image that may be read, and also written
Axes = tuple[ImageAxis, ImageAxis, ImageAxis]


class PaddedWindows:
    """The windows of an input whose padding has the value of B's zero point.

    matrix: the input's batches. span: its bytes from the first element to the last. channels, channel: the number of channels
    in a window, and the bytes between them. axes: z, y and x.
    """

    owned = False

    def __init__(self, matrix: Matrix, span: int, channels: int, channel: int, axes: Axes) -> None:
        self.matrix, self.span, self.channels, self.channel, self.axes = matrix, span, channels, channel, axes
        z, y, x = axes
        unit_y = x.phases * x.length
        unit_z = y.phases * y.length * unit_y
        self.units = unit_z, unit_y, 1
        self.of_channel = z.phases * z.length * unit_z

    def cut(self, lines: int) -> PaddedWindows:
        """The windows of `lines` lines of outputs."""
        z, y, x = self.axes
        return PaddedWindows(self.matrix, self.span, self.channels, self.channel, (z, y._replace(outputs=lines), x))

    def offsets(self, target: Target, into: At, group: int = 1) -> Step:
        """The step that writes the offsets of a window's elements in an image whose channels are in groups."""
        numbers: dict[str, int] = {}
        for d, a, unit in zip("zyx", self.axes, self.units, strict=True):
            numbers |= of_taps(d, a.taps, a.phases, a.length, a.stride, a.dilation, group * unit)
        code, channels = engine.compiled(image.offsets, target), self.channels // group
        return OFFSETS.step(code, channels=channels, channel=group * self.of_channel, offsets=into, **numbers)


def filled(
    target: Target,
    source: tuple[At, At],
    channels: tuple[int, int],
    zero_point: At,
    into: tuple[At, At],
    axes: Axes,
    flipped: bool | None = None,
) -> Step:
    """The step that makes an image. source: the addresses of the input's batch, and of the input's end. into: the image, and
    memory for bounds. flipped: None unless the image has four channels at each place; then whether 128 is added to them."""
    hop = axes[2].step * axes[2].stride
    kinds = () if flipped is None else (True, flipped)
    code = engine.compiled(image.fill, target, hop if hop in HOPS else 0, *kinds)
    places = Arguments(source=source[0], end=source[1], zero_point=zero_point, image=into[0], bounds=into[1])
    numbers = {**of_axis(axes[0], "z"), **of_axis(axes[1], "y"), **of_axis(axes[2], "x")}
    return FILL.step(code, **places, channels=channels[0], channel=channels[1], **numbers)
