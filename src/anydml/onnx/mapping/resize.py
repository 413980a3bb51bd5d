"""Resize and Upsample, by RESAMPLE3 with offsets of the coordinates; and regions of images."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from anydml.functional import functions as dml
from anydml.onnx.errors import INVALID, NOT_IN_DIRECTML, Refused
from anydml.onnx.mapping.interpolation import interpolated
from anydml.onnx.nodes import Node
from anydml.onnx.values import Value, axes_of, fits, known, reshape


class Axis(NamedTuple):
    """A dimension: the result at index o is read at the coordinate (o - after) / scale - before of the input."""

    size: int
    result: int
    scale: float
    before: float = 0.0
    after: float = 0.0

    @property
    def kept(self) -> bool:
        return self == Axis(self.size, self.size, 1.0) or self.size == self.result == 1


def resize(n: Node, x: Value, *inputs: Value) -> Value:
    """RESAMPLE3, or GEMM for cubic interpolation and antialiasing, by scales or sizes; before operator set 11, by scales."""
    roi, scales, sizes = (None, *inputs, None)[:3] if n.opset < 11 else (*inputs, None, None, None)[:3]
    mode = n.get("mode", "nearest")
    if mode not in ("nearest", "linear", "cubic"):
        raise Refused(f"there is no interpolation {mode!r}", INVALID)
    along = axes_of(n.get("axes", range(x.ndim)), x.ndim)
    place = n.get("coordinate_transformation_mode", "half_pixel" if n.opset >= 11 else "asymmetric")
    given = [float(v) for v in known(scales).reshape(-1)] if scales is not None and 0 not in scales.shape else None
    wanted = [int(v) for v in known(sizes).reshape(-1)] if sizes is not None and 0 not in sizes.shape else None
    if (given is None) == (wanted is None) or len(given or wanted or ()) != len(along):
        raise Refused("it takes either scales or sizes, one for each of its axes", INVALID)
    if given is None:
        assert wanted is not None
        given, wanted = _by_policy(n, [x.shape[a] for a in along], wanted)
    _positive(given)
    window = [0.0] * len(along) + [1.0] * len(along)
    if place == "tf_crop_and_resize" and roi is not None:
        window = [float(v) for v in known(roi).reshape(-1)]
    axes = [Axis(size, size, 1.0) for size in x.shape]
    for i, a in enumerate(along):
        size = x.shape[a]
        result = math.floor(size * given[i]) if wanted is None else wanted[i]
        width = size * given[i] if wanted is None else float(result)  # ONNX does not round this size down
        axes[a] = _placed(place, size, result, width, given[i], window[i], window[len(along) + i])
    antialias = mode != "nearest" and bool(n.get("antialias", 0)) and any(axis.scale < 1 for axis in axes)
    if mode == "cubic" or antialias:
        fits([axis.result for axis in axes])
        return interpolated(x, axes, mode, n.get("cubic_coeff_a", -0.75), bool(n.get("exclude_outside", 0)), antialias)
    return _resampled(x, axes, mode, n.get("nearest_mode", "round_prefer_floor" if n.opset >= 11 else "floor"))


def _positive(scales: list[float]) -> None:
    for scale in scales:
        if not 0 < scale < math.inf:
            raise Refused(f"a scale is {scale}; it must be above 0 and finite", INVALID)


def _by_policy(n: Node, own: list[int], wanted: list[int]) -> tuple[list[float], list[int]]:
    """Scales and sizes if sizes are given: by keep_aspect_ratio_policy, each dimension has its own scale, or all the same."""
    if 0 in own:
        raise Refused("it has no elements to resize", INVALID)
    policy = n.get("keep_aspect_ratio_policy", "stretch")
    ratios = [w / size for w, size in zip(wanted, own, strict=True)]
    if policy == "stretch":
        return ratios, wanted
    scale = min(ratios) if policy == "not_larger" else max(ratios)
    return [scale] * len(own), [math.floor(scale * size + 0.5) for size in own]


def _placed(place: str, size: int, result: int, width: float, scale: float, start: float, end: float) -> Axis:
    if place == "pytorch_half_pixel" and result == 1:
        return Axis(size, result, 1.0)
    if place in ("half_pixel", "pytorch_half_pixel"):
        return Axis(size, result, scale, 0.5, -0.5)
    if place == "half_pixel_symmetric":
        offset = size / 2 * (1 - result / (scale * size))
        return Axis(size, result, scale, 0.5 - offset, -0.5)
    if place == "asymmetric":
        return Axis(size, result, scale)
    if place == "tf_half_pixel_for_nn":
        return Axis(size, result, scale, 0.0, -0.5)
    if place == "align_corners":
        return Axis(size, result, (width - 1) / (size - 1) if result > 1 and size > 1 else 1.0)
    if place == "tf_crop_and_resize":
        if not (0 <= start <= 1 and 0 <= end <= 1):
            raise Refused("it reads outside of the tensor, where ONNX has extrapolation_value", NOT_IN_DIRECTML)
        if result == 1 or size == 1 or start == end:
            at = (start + end) / 2 if result == 1 else start
            return Axis(size, result, 1.0 if result == 1 else math.inf, -at * (size - 1))
        return Axis(size, result, (width - 1) / ((end - start) * (size - 1)), -start * (size - 1))
    raise Refused(f"there is no coordinate transformation {place!r}", INVALID)


def _resampled(x: Value, axes: list[Axis], mode: str, nearest: str) -> Value:
    """RESAMPLE3, for which neighbouring dimensions that do not change are merged."""
    sizes = [axis.result for axis in axes]
    fits(sizes)
    joined: list[Axis] = []
    for axis in axes:
        if joined and axis.kept and joined[-1].kept:
            size = joined.pop().size * axis.size
            joined.append(Axis(size, size, 1.0))
        else:
            joined.append(Axis(axis.size, axis.size, 1.0) if axis.kept else axis)
    if all(axis.kept for axis in joined):
        return x
    if any(axis.scale == math.inf for axis in joined):
        raise Refused("all results are read at one coordinate", NOT_IN_DIRECTML)
    before = {"round_prefer_floor": 0.5, "round_prefer_ceil": -0.5}.get(nearest, 0.0) if mode == "nearest" else 0.0
    up = nearest in ("round_prefer_floor", "ceil")
    made = dml.resample3(
        reshape(x, [axis.size for axis in joined]),
        "NEAREST_NEIGHBOR" if mode == "nearest" else "LINEAR",
        "INCREASING" if up else "DECREASING",
        [axis.scale for axis in joined],
        [axis.before + before * (not axis.kept) for axis in joined],
        [axis.after for axis in joined],
        output_sizes=[axis.result for axis in joined],
    )
    return reshape(made, sizes)


def upsample(n: Node, x: Value, scales: Value = None) -> Value:
    given = n.get("scales") if scales is None else [float(v) for v in known(scales).reshape(-1)]
    if given is None or len(given) != x.ndim:
        raise Refused(f"it takes a scale for each of {x.ndim} dimensions", INVALID)
    _positive(given)
    axes = [Axis(size, math.floor(size * scale), scale) for size, scale in zip(x.shape, given, strict=True)]
    mode = n.get("mode", "nearest")
    if mode not in ("nearest", "linear"):
        raise Refused(f"RESAMPLE3 has no interpolation {mode!r}", NOT_IN_DIRECTML)
    return _resampled(x, axes, mode, "floor")


def roi_align(n: Node, x: Value, regions: Value, batches: Value) -> Value:
    """ROI_ALIGN1. With a sampling_ratio of 0, the number of samples adapts to the size of a bin."""
    if n.get("mode", "avg") != "avg":
        raise Refused("ROI_ALIGN1 takes the largest interpolated element, ONNX the largest weighted one", NOT_IN_DIRECTML)
    ratio, scale = n.get("sampling_ratio", 0), n.get("spatial_scale", 1.0)
    half = n.get("coordinate_transformation_mode", "half_pixel" if n.opset >= 16 else "output_half_pixel") == "half_pixel"
    return dml.roi_align1(
        x,
        regions,
        batches.view(np.uint64),
        "AVERAGE",
        "LINEAR",
        spatial_scale_x=scale,
        spatial_scale_y=scale,
        input_pixel_offset=0.5 if half else 0.0,
        output_pixel_offset=-0.5,
        minimum_samples_per_output=ratio or 1,
        maximum_samples_per_output=ratio or 2**32 - 1,
        output_sizes=(regions.shape[0], x.shape[1], n.get("output_height", 1), n.get("output_width", 1)),
    )


def max_roi_pool(n: Node, x: Value, regions: Value) -> Value:
    height, width = n.get("pooled_shape")
    rows = reshape(regions, (1, 1, *regions.shape))
    return dml.roi_pooling(x, rows, n.get("spatial_scale", 1.0), pooled_size=(width, height))


TABLE: dict[str, Callable[..., Any]] = {
    "MaxRoiPool": max_roi_pool,
    "Resize": resize,
    "RoiAlign": roi_align,
    "Upsample": upsample,
}
