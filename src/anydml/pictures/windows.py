"""Slices and windows from their attributes alone, so that a desc that breaks rules is drawn as well.

SLICE and SLICE1: a grid with the window and the copied elements, and a ruler for each dimension. Convolution, pooling and
others with strides, dilations and padding: a ruler for each spatial dimension.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from anydml.pictures.grids import Place, element, grid
from anydml.pictures.model import Beside, Cell, Ruler, Rulers, Span, Tone
from anydml.pictures.tables import Marks
from anydml.pictures.words import circled

FAR = 1 << 20  # positions beyond which nothing is drawn
MOST = 64  # positions that are picked on a ruler


class Along(NamedTuple):
    """A slice along one dimension. allowed: the elements that the window has; paths: the attributes that tell."""

    size: int
    offset: int
    extent: int
    stride: int
    copied: int
    allowed: int
    start: int

    def picked(self, n: int) -> range | tuple[int, ...]:
        """The first n positions, in the order in which they are copied."""
        if not self.stride:
            return (self.start,) * n
        return range(self.start, self.start + self.stride * n, self.stride)


def _along(desc: Any) -> list[Along] | None:
    """The slice along each dimension; None if the desc is none, or its arrays differ in length."""
    sizes, out = desc.input_tensor.sizes, desc.output_tensor.sizes
    if hasattr(desc, "input_window_offsets"):
        arrays: tuple[Sequence[int], ...] = (desc.input_window_offsets, desc.input_window_sizes, desc.input_window_strides)
    elif desc.spec.name == "SLICE":
        arrays = (desc.offsets, desc.sizes, desc.strides)
    else:
        return None
    if len({len(sizes), len(out), *map(len, arrays)}) > 1:
        return None
    made = []
    for n, o, offset, extent, stride in zip(sizes, out, *arrays, strict=True):
        if desc.spec.name == "SLICE":  # its sizes count elements of the output
            extent, allowed = 1 + (extent - 1) * stride, extent
        else:
            allowed = 1 + (extent - 1) // abs(stride) if stride and extent > 0 else max(extent, 0) if stride else o
        start = offset if stride >= 0 else offset + extent - 1
        made.append(Along(n, offset, extent, stride, o, allowed, start))
    return made if all(max(map(abs, a)) < FAR for a in made) else None


def is_slice(desc: Any) -> bool:
    return desc.spec.name in ("SLICE", "SLICE1")


def slices(desc: Any, marks: Marks, arrays: Mapping[str, Any]) -> list[Beside | Rulers]:
    """The picture of a slice: grids of the input and the output, and a ruler for each dimension."""
    along = _along(desc)
    if along is None or not along:
        return []
    last = along[-2:]
    lead = tuple(a.start for a in along[:-2])
    places = {(*lead, *at): i for i, at in enumerate(_product([a.picked(min(a.copied, MOST)) for a in last]), 1)}
    total = max(len(places), 1)
    edges = [(*lead, *(a.offset for a in last)), (*lead, *(a.offset + max(a.extent, 1) - 1 for a in last))]

    def cell(at: Place) -> Cell:
        value = element(arrays, "input_tensor", at)
        inside = all(0 <= i < a.size for i, a in zip(at, along, strict=True))
        in_window = all(a.offset <= i < a.offset + a.extent for i, a in zip(at[-2:], last, strict=True))
        if (order := places.get(at)) is not None:
            tone: Tone = "read" if inside and in_window else "fault"
            return Cell(value, tone, 0.2 + 0.8 * order / total, str(order), start=order == 1)
        if not inside:
            return Cell("", "fault" if in_window else "outside", said="outside of the input")
        return Cell(value, "inside" if in_window else "plain")

    def of_output(at: Place) -> Cell:
        order = 1 + at[-1] + (at[-2] * last[-1].copied if len(at) > 1 else 0)
        value = element(arrays, "output_tensor", at)
        return Cell(value, "read", 0.2 + 0.8 * order / total, str(order), start=order == 1)

    sizes, out = desc.input_tensor.sizes, desc.output_tensor.sizes
    grids = (
        grid("Input", sizes, [*places, *edges], cell, lead, (edges[0], edges[1])),
        grid("Output", out, [(0,) * len(out)], of_output, (0,) * max(0, len(out) - 2)),
    )
    said = "framed: the window; ▸ is copied first; equal numbers and shades are the same element"
    if any(c.tone == "fault" for row in grids[0].cells for c in row):
        said += "; marked: outside of the input, or of the window"
    fields = ("InputWindowOffsets", "InputWindowSizes", "InputWindowStrides") if len(along) and hasattr(
        desc, "input_window_offsets") else ("Offsets", "Sizes", "Strides")  # fmt: skip
    rulers = tuple(_ruler(d, a, fields, marks) for d, a in enumerate(along))
    return [Beside("The window and its elements", grids, said), Rulers("Along each dimension", rulers)]


def _product(ranges: Sequence[Sequence[int]]) -> list[Place]:
    found: list[Place] = [()]
    for r in ranges:
        found = [(*at, i) for at in found for i in r]
    return found


def _ruler(d: int, a: Along, fields: Sequence[str], marks: Marks) -> Ruler:
    numbers = marks.at(*(f"{field}[{d}]" for field in fields), f"OutputTensor.Sizes[{d}]", f"InputTensor.Sizes[{d}]")
    tone: Tone = "fault" if numbers else "window"
    picked = tuple(a.picked(min(a.copied, MOST)))
    left = tuple(a.picked(min(a.allowed, MOST)))[len(picked) :]
    said = f"offset {a.offset}, size {a.extent}, stride {a.stride}: from {a.start} on, {a.copied} of {a.allowed}"
    if left:
        said += f"; left out: {', '.join(map(str, left[:6]))}{', …' if len(left) > 6 else ''}"
    if numbers:
        said += f"; see {circled(', '.join(map(str, numbers)))}"
    span = (Span(a.offset, a.offset + max(a.extent, 0), tone, "window"),)
    return Ruler(f"dimension {d}", a.size, span, picked, left, said)


def windows(desc: Any, marks: Marks) -> Rulers | None:
    """The spatial dimensions of a convolution, a pooling or a padding: the input, its padding, and the first window."""
    start, end = getattr(desc, "start_padding", None), getattr(desc, "end_padding", None)
    if start is None or end is None or len(start) != len(end):
        return None
    source = next((t for t in (getattr(desc, n, None) for n in ("input_tensor", "input_gradient_tensor")) if t), None)
    if source is None or len(source.sizes) < len(start):
        return None
    sizes = source.sizes[len(source.sizes) - len(start) :]
    filters = getattr(desc, "filter_tensor", None)
    extents = (
        getattr(desc, "window_size", None) or getattr(desc, "window_sizes", None) or (filters.sizes[2:] if filters else ())
    )
    strides = getattr(desc, "strides", None) or ()
    dilations = getattr(desc, "dilations", None) or (1,) * len(extents)
    backward = getattr(getattr(desc, "direction", None), "name", "") == "BACKWARD"
    found = []
    for i, n in enumerate(sizes):
        before, after = start[i], end[i]
        if max(n, before, after) > FAR or min(n, before, after) < 0:
            return None
        if not before and not after and not extents and n == 1:
            continue
        paths = [f"{name}[{i}]" for name in ("StartPadding", "EndPadding", "Strides", "Dilations", "WindowSize")]
        numbers = marks.at(*paths, f"InputTensor.Sizes[{len(source.sizes) - len(start) + i}]")
        tone: Tone = "fault" if numbers else "outside"
        spans = [Span(-before, 0, tone, "padding")] * bool(before) + [Span(n, n + after, tone, "padding")] * bool(after)
        picked: tuple[int, ...] = ()
        said = f"padding {before} before, {after} after"
        if i < len(extents) and i < len(dilations) and i < len(strides) and extents[i] * max(dilations[i], 1) < FAR:
            if not backward:
                first = -before
                picked = tuple(first + k * dilations[i] for k in range(min(extents[i], MOST)))
                spans.append(Span(first, first + 1 + (extents[i] - 1) * dilations[i], "window", "first window"))
                said = f"window {extents[i]}, dilation {dilations[i]}, stride {strides[i]}; {said}"
            else:
                said = f"transposed: filter {extents[i]}, dilation {dilations[i]}, stride {strides[i]}; {said}"
        if numbers:
            said += f"; see {circled(', '.join(map(str, numbers)))}"
        found.append(Ruler(f"dimension {len(source.sizes) - len(start) + i}", n, tuple(spans), picked, said=said))
    return Rulers("Windows and padding", tuple(found)) if found else None
