"""The rules of scales and zero points that are per tensor, per row or per column."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from anydml.schema.constraint import Constraint
from anydml.spelling import snake_case


def right_aligned(sizes: tuple[int, ...]) -> tuple[int, int, int, int]:
    """Sizes as {BatchCount, ChannelCount, Height, Width}, with leading ones added; ValueError for more than four."""
    if len(sizes) > 4:
        raise ValueError(f"{sizes} cannot be read as batch, channel, height, width")
    batch, channel, height, width = (1, 1, 1, *sizes)[-4:] if len(sizes) < 4 else sizes
    return batch, channel, height, width


def granular(wire: str, axis: str, of: str) -> tuple[Constraint, Constraint]:
    """The two rules of a scale or zero point: it is per tensor, or per "row" or "column" of `of`; not per batch (extension).

    Sizes are right-aligned with {BatchCount, ChannelCount, Height, Width}.
    """
    name, data = snake_case(wire), snake_case(of)
    short = name.removesuffix("_tensor")

    def fits(d: Any) -> bool:
        t = getattr(d, name)
        if t is None or t.sizes.count(1) == len(t.sizes):
            return True
        batch, channel, height, width = right_aligned(t.sizes)
        b, c, m, n = right_aligned(getattr(d, data).sizes)
        finer = width == 1 and height in (1, m) if axis == "row" else height == 1 and width in (1, n)
        return bool(finer and batch in (1, b) and channel in (1, c))

    def not_by_batch(d: Any) -> bool:
        t = getattr(d, name)
        return t is None or len(t.sizes) <= 2 or right_aligned(t.sizes)[:2] == (1, 1)

    def would_fit(d: Any) -> Mapping[str, Any]:
        count = len(getattr(d, name).sizes)
        _, _, m, n = right_aligned(getattr(d, data).sizes)
        finest = (1, 1, m, 1) if axis == "row" else (1, 1, 1, n)
        return {f"{wire}.Sizes": list(dict.fromkeys([(1,) * count, finest[4 - count :]]))}

    noun = "zero point" if "zero_point" in short else "scale"
    size = "second last" if axis == "row" else "last"
    sentence = (
        f"`{wire}.Sizes` must be all 1 (per tensor), or equal the {size} of `{of}.Sizes` in that place alone (per {axis})."
    )
    beyond = f"`{wire}.Sizes` must be 1 before the last two: a documented {noun} is the same for every batch."
    return (
        Constraint(f"{short}_sizes", sentence, fits, expected=would_fit),
        Constraint(f"{short}_not_by_batch", beyond, not_by_batch, extension=True),
    )
