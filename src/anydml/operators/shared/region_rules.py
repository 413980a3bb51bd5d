"""The field meanings, rules and errata of operators that sample regions of images."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from anydml.schema.constraint import Constraint, DataRule
from anydml.schema.enumerations import ReduceFunction
from anydml.spelling import snake_case
from anydml.tensor import TensorDesc

REGIONS = "The regions, rows of x1, y1, x2, y2, {[1, [1,]] R, 4}."
BATCHES = "The image of each region, {[1, [1, [1,]]] R}."
REDUCTION = "AVERAGE or MAX: the reduction of an output's samples."
MODE = "NEAREST_NEIGHBOR or LINEAR, for each sample."
SCALE_X, SCALE_Y = "The factor of x1 and x2.", "The factor of y1 and y2."
INPUT_OFFSET, OUTPUT_OFFSET = "The offset of positions in the input.", "The offset of samples in a region."
MINIMUM = "The smallest number of samples of an output in each dimension."
MAXIMUM = "The largest number of samples of an output in each dimension."
ALIGNED = "Whether the first and the last sample of a region lie on its corners."
MOST_SAMPLES = 1 << 24  # of one output

REGION_ERRATA = (
    "The page computes the step of Y from variables of X, and its loops run over one sample too many.",
    "The page does not say how the number of samples is made an integer: rounded up (our decision, as in ONNX). The region's "
    "size and that number are computed in float32, everything else exactly.",
    "The page does not say what is out of bounds: positions below -1 or above the size. Others outside the image are moved to "
    "the edge, as results of DirectML show.",
    "The page does not say which element is nearest at a tie: the later one, floor(x + 1/2) (our decision).",
    "The page does not say where the samples lie with AlignRegionsToCorners: size / (outputs * n - 1) apart; a single one lies "
    "at the centre (our decision).",
    "The page does not say which regions are legal: those with finite coordinates and at most 2^24 samples of each output (our "
    "decision).",
)


def regions_of(d: Any) -> int:
    count: int = d.roi_tensor.sizes[-2]
    return count


def _finite(wire: str) -> Constraint:
    name = snake_case(wire)
    return Constraint(
        f"{name}_finite",
        f"`{wire}` must be finite.",
        lambda d: math.isfinite(getattr(d, name)),
        breaks=lambda d: {name: math.inf},
    )


def region_rules(images: str, outputs: str, *, offsets: bool = True) -> tuple[Constraint, ...]:
    """The rules about regions.

    images: the tensors with the images' sizes, separated by blanks; outputs: the tensor with the sizes of the sampled regions.
    """
    wires, name = images.split(), snake_case(outputs)

    def batches_fit(d: Any) -> bool:
        sizes = d.batch_indices_tensor.sizes
        return bool(sizes[-1] == regions_of(d) and all(n == 1 for n in sizes[:-1]))

    def images_fit(d: Any) -> bool:
        first = [(regions_of(d), t.sizes[1]) for wire in wires if (t := getattr(d, snake_case(wire))) is not None]
        return all(getattr(d, name).sizes[:2] == sizes for sizes in first)

    def grown(wire: str, at: int) -> Callable[[Any], Mapping[str, Any]]:
        def changes(d: Any) -> Mapping[str, Any]:
            t: TensorDesc = getattr(d, snake_case(wire))
            sizes = list(t.sizes)
            sizes[at] += 1
            return {snake_case(wire): replace(t, sizes=tuple(sizes), strides=None)}

        return changes

    return (
        Constraint(
            "roi_sizes",
            "`ROITensor.Sizes` must end in 4, and be 1 before the last two: x1, y1, x2, y2 of each region.",
            lambda d: d.roi_tensor.sizes[-1] == 4 and all(n == 1 for n in d.roi_tensor.sizes[:-2]),
            breaks=grown("ROITensor", -1),
        ),
        Constraint(
            "batch_indices_sizes",
            "`BatchIndicesTensor.Sizes` must be 1 before the last, which must be the second last of `ROITensor.Sizes`: a batch "
            "index for each region.",
            batches_fit,
            expected=lambda d: {"BatchIndicesTensor.Sizes": (*(1,) * (len(d.batch_indices_tensor.sizes) - 1), regions_of(d))},
            breaks=grown("BatchIndicesTensor", -1),
        ),
        Constraint(
            "regions_and_channels_match",
            f"`{outputs}.Sizes` must begin with the second last of `ROITensor.Sizes` and the second of "
            f"{' and of '.join(f'`{wire}.Sizes`' for wire in wires)}: the regions, and the channels.",
            images_fit,
            breaks=grown(outputs, 0),
        ),
        Constraint(
            "reduction_supported",
            "`ReductionFunction` must be AVERAGE or MAX.",
            lambda d: d.reduction_function in (ReduceFunction.AVERAGE, ReduceFunction.MAX),
            expected=lambda d: {"ReductionFunction": [ReduceFunction.AVERAGE, ReduceFunction.MAX]},
            breaks=lambda d: {"reduction_function": ReduceFunction.SUM},
        ),
        Constraint(
            "samples_ordered",
            "`MaximumSamplesPerOutput` must not be below `MinimumSamplesPerOutput`, which must be at least 1.",
            lambda d: 1 <= d.minimum_samples_per_output <= d.maximum_samples_per_output,
            breaks=lambda d: {"minimum_samples_per_output": d.maximum_samples_per_output + 1},
        ),
        *map(_finite, ("SpatialScaleX", "SpatialScaleY")),
        *(map(_finite, ("InputPixelOffset", "OutputPixelOffset")) if offsets else ()),
    )


def region_data_rules(images: str, outputs: str) -> tuple[DataRule, DataRule]:
    """The rules about the data of BatchIndicesTensor and ROITensor, with tensors as in `region_rules`."""
    wires, name = images.split(), snake_case(outputs)

    def out_of_range(d: Any, indices: NDArray[Any]) -> NDArray[np.bool_]:
        there = [t for wire in wires if (t := getattr(d, snake_case(wire))) is not None]
        return np.asarray(indices >= there[0].sizes[0], np.bool_)

    def unusable(d: Any, regions: NDArray[Any]) -> NDArray[np.bool_]:
        with np.errstate(all="ignore"):  # a coordinate that is not finite breaks the rule anyway
            every = np.broadcast_to(regions, (*regions.shape[:-1], 4))  # stride 0 may leave one element
            samples = np.ones(regions.shape[:-1], np.float64)
            for at, scale, size in ((0, d.spatial_scale_x, -1), (1, d.spatial_scale_y, -2)):
                corners = every[..., at::2].astype(np.float32) * np.float32(scale)
                needed = np.ceil(np.abs(corners[..., 1] - corners[..., 0]) / np.float32(getattr(d, name).sizes[size]))
                samples *= np.clip(needed, d.minimum_samples_per_output, d.maximum_samples_per_output)
        return np.asarray(~np.isfinite(regions) | (samples > MOST_SAMPLES)[..., None])

    named = " or ".join(f"`{wire}.Sizes`" for wire in wires)
    return (
        DataRule("batch_in_range", f"a batch index is less than the first of {named}.", ("BatchIndicesTensor",), out_of_range),
        DataRule(
            "region_usable",
            "a region's coordinates are finite, and each output has at most 2^24 samples.",
            ("ROITensor",),
            unusable,
        ),
    )
