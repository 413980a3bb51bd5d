"""Small random descs of operators that are nests of reductions, in every mode, made with NumPy's generator."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

import hostile_data
from anydml import DataType, TensorDesc, operators
from anydml.schema.operator import Desc

Array = NDArray[Any]
Rng = np.random.Generator
MODES = ("LINEAR", "NEAREST_NEIGHBOR")
FLOATS = ("FLOAT32", "FLOAT16")
SCALES = (2.0, 3.0, 0.5, 1.5, 6.0, 1 / 3, 2 / 3, 0.1, 7 / 3, 1.0)


class Case:
    """The fields and inputs of a desc that is being made. kind: of the inputs' values."""

    def __init__(self, rng: Rng, kind: str) -> None:
        self.rng, self.kind = rng, kind
        self.data_type = str(rng.choice(FLOATS))
        self.fields: dict[str, Any] = {}
        self.inputs: dict[str, Array] = {}

    def pick(self, *values: Any) -> Any:
        return values[int(self.rng.integers(len(values)))]

    def sizes(self, least: int, most: int, count: int) -> list[int]:
        return [int(n) for n in self.rng.integers(least, most + 1, count)]

    def tensor(self, sizes: Any, data_type: str | None = None) -> TensorDesc:
        """A tensor, sometimes with gaps or another order of dimensions."""
        order = self.rng.permutation(len(sizes)) if self.rng.random() < 0.3 else np.arange(len(sizes))
        strides, step = [0] * len(sizes), 1
        for d in reversed(order.tolist()):
            strides[d] = step
            step = step * sizes[d] + int(self.rng.random() < 0.2)
        return TensorDesc(DataType[data_type or self.data_type], tuple(sizes), strides=tuple(strides))

    def input(self, name: str, sizes: Any, values: Array | None = None) -> None:
        x = hostile_data.values(self.data_type, tuple(sizes), self.rng, self.kind) if values is None else values
        self.inputs[name] = x
        self.fields[name] = self.tensor(sizes, TensorDesc.of(x).data_type.name)


def resample(c: Case, name: str) -> None:
    rank = 4 if name in ("RESAMPLE", "RESAMPLE1") else int(c.rng.integers(1, 5))
    if name == "RESAMPLE3":
        c.data_type = c.pick("FLOAT32", "FLOAT16", "INT8", "UINT8")
    source, scales = c.sizes(1, 3, rank), [1.0] * rank
    target = list(source)
    for d in {rank - 1, int(c.rng.integers(rank))}:
        source[d], scales[d] = int(c.rng.integers(1, 10)), c.pick(*SCALES)
        target[d] = c.pick(max(1, int(source[d] * scales[d])), int(c.rng.integers(1, 15)))
    c.fields |= dict(interpolation_mode=c.pick(*MODES), scales=tuple(scales))
    if name != "RESAMPLE":
        c.fields["input_pixel_offsets"] = tuple(c.pick(0.5, 0.5, 0.0, 0.3) for _ in scales)
        c.fields["output_pixel_offsets"] = tuple(c.pick(-0.5, -0.5, 0.0, 0.25) for _ in scales)
    if name in ("RESAMPLE2", "RESAMPLE3", "RESAMPLE_GRAD1"):
        c.fields["rounding_direction"] = c.pick("INCREASING", "DECREASING")
    if name == "RESAMPLE3":
        c.fields["antialiased"] = c.pick(False, True)
    if "GRAD" in name:
        c.input("input_gradient_tensor", target)
        c.fields["output_gradient_tensor"] = c.tensor(source)
    else:
        c.input("input_tensor", source)
        c.fields["output_tensor"] = c.tensor(target)


def upsample(c: Case, name: str) -> None:
    source, (w, h) = c.sizes(1, 6, 4), c.sizes(1, 4, 2)
    c.input("input_tensor", source)
    c.fields |= dict(scale_size=(w, h), interpolation_mode="LINEAR")
    c.fields["output_tensor"] = c.tensor((*source[:2], source[2] * h, source[3] * w))


def _regions(c: Case, count: int) -> Array:
    regions = c.rng.uniform(-2, 9, (count, 4))
    return np.round(regions * 2) / 2 if c.rng.random() < 0.5 else regions  # halves: samples exactly at elements


def roi_pooling(c: Case, name: str) -> None:
    n, channels, h, w, count, ph, pw = c.sizes(1, 5, 7)
    regions = np.zeros((1, 1, count, 5))
    regions[..., 0], regions[..., 1:] = c.rng.integers(0, n, count), _regions(c, count)
    c.input("input_tensor", (n, channels, h, w))
    c.input("roi_tensor", regions.shape, regions.astype(c.data_type.lower()))
    c.fields |= dict(spatial_scale=c.pick(1.0, 0.5, 1.3), pooled_size=(pw, ph))
    c.fields["output_tensor"] = c.tensor((count, channels, ph, pw))


def roi_align(c: Case, name: str) -> None:
    n, channels, h, w, count, ph, pw = c.sizes(1, 4 if name == "ROI_ALIGN_GRAD" else 5, 7)
    least = int(c.rng.integers(1, 3))
    most = c.pick(least, 3, 2**32 - 1)
    maximum = c.pick(True, False)
    c.fields |= dict(
        reduction_function="MAX" if maximum else "AVERAGE",
        interpolation_mode=c.pick(*MODES),
        spatial_scale_x=c.pick(1.0, 0.5, 1.3, -1.0),
        spatial_scale_y=c.pick(1.0, 0.25),
        minimum_samples_per_output=least,
        maximum_samples_per_output=most,
    )
    if name != "ROI_ALIGN":
        c.fields |= dict(input_pixel_offset=c.pick(0.5, 0.0, 0.3), output_pixel_offset=c.pick(-0.5, 0.0))
        c.fields["align_regions_to_corners"] = c.pick(True, False)
    c.input("roi_tensor", (count, 4), _regions(c, count).astype(c.data_type.lower()))
    c.input("batch_indices_tensor", (count,), c.rng.integers(0, n, count).astype(np.uint32))
    if name != "ROI_ALIGN_GRAD":
        c.input("input_tensor", (n, channels, h, w))
        c.fields["output_tensor"] = c.tensor((count, channels, ph, pw))
        c.fields["out_of_bounds_input_value"] = c.pick(0.0, 3.0)
        return
    c.input("input_tensor", (n, channels, h, w))
    c.input("input_gradient_tensor", (count, channels, min(ph, 2), min(pw, 3)))
    c.fields["output_gradient_tensor"] = c.tensor((n, channels, h, w))
    if c.fields["interpolation_mode"] == "LINEAR" and not maximum:
        c.fields["output_roi_gradient_tensor"] = c.tensor((count, 4))


def _windows(c: Case, rank: int, *, dilated: bool) -> tuple[list[int], list[int]]:
    """Set the attributes of windows; return the sizes of the image, and the number of positions along each dimension."""
    window, strides = c.sizes(1, 3, rank), c.sizes(1, 3, rank)
    dilations = c.sizes(1, 2, rank) if dilated else [1] * rank
    before, after, more = c.sizes(0, 2, rank), c.sizes(0, 2, rank), c.sizes(0, 5, rank)
    extents = [(k - 1) * d + 1 for k, d in zip(window, dilations, strict=True)]
    sizes = [max(1, e - a - b + m) for e, a, b, m in zip(extents, before, after, more, strict=True)]
    places = [(n + a + b - e) // s + 1 for n, a, b, e, s in zip(sizes, before, after, extents, strides, strict=True)]
    c.fields |= dict(strides=strides, start_padding=before, end_padding=after, window_size=window)
    if dilated:
        c.fields["dilations"] = dilations
    return sizes, places


def fold(c: Case, name: str) -> None:
    c.data_type = c.pick("FLOAT32", "FLOAT16", "INT8", "UINT8", "INT32", "UINT64")
    sizes, places = _windows(c, int(c.rng.integers(1, 4)), dilated=True)
    window = c.fields["window_sizes"] = c.fields.pop("window_size")
    n, channels = c.sizes(1, 2, 2)
    c.input("input_tensor", (n, channels * int(np.prod(window)), int(np.prod(places))))
    c.fields["output_tensor"] = c.tensor((n, channels, *sizes))


def pooling_gradient(c: Case, name: str) -> None:
    maximum = name.startswith("MAX")
    sizes, places = _windows(c, int(c.rng.integers(2, 4)), dilated=maximum)
    channels = int(c.rng.integers(1, 3))
    if maximum:
        c.input("input_tensor", (1, channels, *sizes))
    else:
        c.fields["include_padding"] = c.pick(True, False)
    c.input("input_gradient_tensor", (1, channels, *places))
    c.fields["output_gradient_tensor"] = c.tensor((1, channels, *sizes))


def local_response(c: Case, name: str) -> None:
    sizes = c.sizes(1, 5, 4)
    c.input("input_tensor", sizes)
    if "GRAD" in name:
        c.input("input_gradient_tensor", sizes)
    c.fields["output_gradient_tensor" if "GRAD" in name else "output_tensor"] = c.tensor(sizes)
    c.fields |= dict(
        cross_channel=c.pick(True, False),
        local_size=int(c.rng.integers(1, 5)),
        alpha=c.pick(1e-4, 1.0, 2.0),
        beta=c.pick(0.75, 0.5, 1.0, 2.0),
        bias=c.pick(1.0, 2.0, 0.0),
    )


MOMENTS = ("input_parameters_tensor", "input_first_moment_tensor", "input_second_moment_tensor", "gradient_tensor")


def adam(c: Case, name: str) -> None:
    """A step with any number; second moments are mostly not negative."""
    sizes = c.sizes(1, 12, int(c.rng.integers(1, 4)))
    for field in MOMENTS:
        c.input(field, sizes)
        c.fields[field] = TensorDesc.of(c.inputs[field])
        if "moment" not in field:
            continue
        c.fields[field.replace("input", "output")] = c.tensor(sizes)
    c.fields["output_parameters_tensor"] = c.tensor(sizes)
    if c.rng.random() < 0.8:
        c.inputs[MOMENTS[2]] = np.abs(c.inputs[MOMENTS[2]])
    c.input("training_step_tensor", (1,) * len(sizes), np.full((1,) * len(sizes), c.pick(0, 1, 2, 30, 2**32 - 1), np.uint32))
    c.fields |= dict(
        learning_rate=c.pick(0.001, 0.1), beta1=c.pick(0.9, 0.5, 0.0), beta2=c.pick(0.999, 0.75), epsilon=c.pick(1e-8, 0.0)
    )


OPERATORS: Mapping[str, Callable[[Case, str], None]] = {
    **dict.fromkeys(("RESAMPLE", "RESAMPLE1", "RESAMPLE2", "RESAMPLE3", "RESAMPLE_GRAD", "RESAMPLE_GRAD1"), resample),
    "UPSAMPLE_2D": upsample,
    "ROI_POOLING": roi_pooling,
    **dict.fromkeys(("ROI_ALIGN", "ROI_ALIGN1", "ROI_ALIGN_GRAD"), roi_align),
    "FOLD": fold,
    **dict.fromkeys(("AVERAGE_POOLING_GRAD", "MAX_POOLING_GRAD"), pooling_gradient),
    "ADAM_OPTIMIZER": adam,
    **dict.fromkeys(("LOCAL_RESPONSE_NORMALIZATION", "LOCAL_RESPONSE_NORMALIZATION_GRAD"), local_response),
}


def case(name: str, rng: Rng, kind: str) -> tuple[Desc, dict[str, Array]]:
    """A desc of an operator, and its inputs."""
    c = Case(rng, kind)
    OPERATORS[name](c, name)
    operator: Any = operators.find(name)
    made: Desc = operator(**c.fields)
    return made, c.inputs
