"""Operators that read images at computed positions, and gradients of windows, timed together with onnxruntime and torch."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np

from benchmarks.rest_cases import Array, Case, floats

CHANNELS, SIZE = 32, 56


def cases() -> Iterator[Case]:
    image = floats(1, CHANNELS, SIZE, SIZE)
    for mode, theirs in (("LINEAR", "linear"), ("NEAREST_NEIGHBOR", "nearest")):
        for scale in (2.0, 0.5, 1.5):
            yield _resized(image, mode, theirs, scale)
    yield from _regions(image)
    yield Case(
        f"local response, {CHANNELS} x {SIZE} x {SIZE}",
        "LOCAL_RESPONSE_NORMALIZATION",
        {"input_tensor": image},
        {"output_tensor": np.empty_like(image)},
        dict(cross_channel=True, local_size=5, alpha=1e-4, beta=0.75, bias=1.0),
        ("LRN", [], {"size": 5, "alpha": 1e-4, "beta": 0.75, "bias": 1.0}),
        lambda torch, x, y: partial(torch.nn.functional.local_response_norm, x[0], 5, 1e-4, 0.75, 1.0),
    )
    yield from _gradients(image)


def _resized(image: Array, mode: str, theirs: str, scale: float) -> Case:
    linear = mode == "LINEAR"
    centre = 0.5 if linear else 0.0
    size = int(SIZE * scale)
    coordinates = "half_pixel" if linear else "asymmetric"
    attributes: dict[str, Any] = {"mode": theirs, "coordinate_transformation_mode": coordinates}
    return Case(
        f"resize by {scale:g}, {theirs}",
        "RESAMPLE3",
        {"input_tensor": image},
        {"output_tensor": np.empty((1, CHANNELS, size, size), np.float32)},
        dict(
            interpolation_mode=mode,
            rounding_direction="DECREASING",
            scales=(1.0, 1.0, scale, scale),
            input_pixel_offsets=(centre,) * 4,
            output_pixel_offsets=(-centre,) * 4,
        ),
        (
            "Resize",
            [np.zeros(0, np.float32), np.array([1, 1, scale, scale], np.float32)],
            attributes | ({} if linear else {"nearest_mode": "floor"}),
        ),
        lambda torch, x, y: partial(
            torch.nn.functional.interpolate,
            x[0],
            scale_factor=scale,
            mode="bilinear" if linear else "nearest",
            **({"align_corners": False} if linear else {}),
        ),
    )


def _regions(image: Array) -> Iterator[Case]:
    count = 64
    corners = np.sort(np.random.default_rng(2).uniform(0, SIZE, (count, 2, 2)), axis=1).reshape(count, 4).astype(np.float32)
    first = np.zeros(count, np.uint32)
    made = {"output_tensor": np.empty((count, CHANNELS, 7, 7), np.float32)}
    samples = dict(minimum_samples_per_output=2, maximum_samples_per_output=2)
    yield Case(
        f"{count} regions, 7 x 7 means of samples",
        "ROI_ALIGN1",
        {"input_tensor": image, "roi_tensor": corners, "batch_indices_tensor": first},
        made,
        dict(reduction_function="AVERAGE", interpolation_mode="LINEAR", **samples),
        (
            "RoiAlign",
            [corners, first.astype(np.int64)],
            {"mode": "avg", "output_height": 7, "output_width": 7, "sampling_ratio": 2},
        ),
    )
    regions = np.concatenate([first[:, None].astype(np.float32), corners], 1)
    yield Case(
        f"{count} regions, 7 x 7 maxima",
        "ROI_POOLING",
        {"input_tensor": image, "roi_tensor": regions[None, None]},
        made,
        dict(pooled_size=(7, 7)),
        ("MaxRoiPool", [regions], {"pooled_shape": [7, 7]}),
    )


def _gradients(image: Array) -> Iterator[Case]:
    half = SIZE // 2
    incoming, passed = floats(1, CHANNELS, half, half), np.empty_like(image)
    windows = dict(strides=(2, 2), window_size=(3, 3), start_padding=(1, 1), end_padding=(1, 1))
    yield Case(
        "gradient of means, 3 x 3 by 2",
        "AVERAGE_POOLING_GRAD",
        {"input_gradient_tensor": incoming},
        {"output_gradient_tensor": passed},
        dict(include_padding=True, **windows),
        None,
        lambda torch, x, y: partial(
            torch.ops.aten.avg_pool2d_backward, x[0], torch.zeros(y.shape), [3, 3], [2, 2], [1, 1], False, True, None
        ),
    )
    yield Case(
        "gradient of maxima, 3 x 3 by 2",
        "MAX_POOLING_GRAD",
        {"input_tensor": image, "input_gradient_tensor": incoming},
        {"output_gradient_tensor": passed},
        dict(dilations=(1, 1), **windows),
    )
    twice = floats(1, CHANNELS, 2 * SIZE, 2 * SIZE)
    yield Case(
        "gradient of a resize by 2, linear",
        "RESAMPLE_GRAD1",
        {"input_gradient_tensor": twice},
        {"output_gradient_tensor": passed},
        dict(
            interpolation_mode="LINEAR",
            rounding_direction="DECREASING",
            scales=(1.0, 1.0, 2.0, 2.0),
            input_pixel_offsets=(0.5,) * 4,
            output_pixel_offsets=(-0.5,) * 4,
        ),
        None,
        lambda torch, x, y: partial(
            torch.ops.aten.upsample_bilinear2d_backward, x[0], [2 * SIZE, 2 * SIZE], list(y.shape), False, None, None
        ),
    )
    columns = floats(1, CHANNELS * 9, SIZE * SIZE)
    one = (1, 1)
    yield Case(
        "fold, 3 x 3",
        "FOLD",
        {"input_tensor": columns},
        {"output_tensor": passed},
        dict(window_sizes=(3, 3), strides=one, dilations=one, start_padding=one, end_padding=one),
        None,
        lambda torch, x, y: partial(torch.nn.functional.fold, x[0], (SIZE, SIZE), 3, padding=1),
    )
    parameters = [floats(1000, 1000) for _ in range(4)]
    names = ("input_parameters_tensor", "input_first_moment_tensor", "input_second_moment_tensor", "gradient_tensor")
    inputs = dict(zip(names, (*parameters[:2], np.abs(parameters[2]), parameters[3]), strict=True))
    yield Case(
        "a step of Adam, 10^6 parameters",
        "ADAM_OPTIMIZER",
        inputs | {"training_step_tensor": np.full((1, 1), 5, np.uint32)},
        {
            f"output_{name}_tensor": np.empty((1000, 1000), np.float32)
            for name in ("parameters", "first_moment", "second_moment")
        },
        {},
    )
