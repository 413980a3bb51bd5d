"""Normalisations, timed together with onnxruntime and torch."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import numpy as np

from benchmarks.rest_cases import Case, floats


def cases() -> Iterator[Case]:
    for rows, width in ((512, 768), (1024, 768), (128, 4096)):
        x, one = floats(rows, width), np.ones((1, width), np.float32)
        yield Case(
            f"layer normalisation, {rows} x {width}",
            "MEAN_VARIANCE_NORMALIZATION1",
            {"input_tensor": x, "scale_tensor": one, "bias_tensor": one},
            {"output_tensor": np.empty_like(x)},
            dict(axes=(1,), normalize_variance=True, epsilon=1e-5),
            ("LayerNormalization", [one[0], one[0]], {"axis": -1, "epsilon": 1e-5}),
            lambda torch, x, y: partial(torch.nn.functional.layer_norm, x[0], x[0].shape[1:], x[1][0], x[2][0], 1e-5),
        )
    x, factors = floats(1024, 768), np.abs(floats(1, 768)) + 0.5
    yield Case(
        "RMS normalisation, 1024 x 768",
        "MEAN_VARIANCE_NORMALIZATION2",
        {"input_tensor": x, "scale_tensor": factors},
        {"output_tensor": np.empty_like(x)},
        dict(axes=(1,), use_mean=False, use_variance=True, epsilon=1e-5),
        ("SimplifiedLayerNormalization", [factors[0]], {"axis": -1, "epsilon": 1e-5}),
    )
    yield Case(
        "lines by their lengths, 1024 x 768",
        "LP_NORMALIZATION",
        {"input_tensor": x},
        {"output_tensor": np.empty_like(x)},
        dict(axis=1, p=2, epsilon=0.0),
        ("LpNormalization", [], {"axis": -1, "p": 2}),
        lambda torch, x, y: partial(torch.nn.functional.normalize, x[0], 2.0, 1),
    )
    for sizes in ((8, 64, 56, 56), (8, 256, 56, 56)):
        yield from _of_channels(sizes)


def _of_channels(sizes: tuple[int, ...]) -> Iterator[Case]:
    shown = " x ".join(map(str, sizes))
    per_channel = (1, sizes[1], 1, 1)
    image, channel = floats(*sizes), [np.abs(floats(*per_channel)) + 0.5] * 4
    made = {"output_tensor": np.empty_like(image)}
    names = ("mean_tensor", "variance_tensor", "scale_tensor", "bias_tensor")
    yield Case(
        f"batch normalisation, {shown}",
        "BATCH_NORMALIZATION",
        {"input_tensor": image} | dict(zip(names, channel, strict=True)),
        made,
        dict(spatial=True, epsilon=1e-5),
        ("BatchNormalization", [c.ravel() for c in channel], {"epsilon": 1e-5}),
    )
    yield Case(
        f"instance normalisation, {shown}",
        "MEAN_VARIANCE_NORMALIZATION1",
        {"input_tensor": image, "scale_tensor": channel[0], "bias_tensor": channel[1]},
        made,
        dict(axes=(2, 3), normalize_variance=True, epsilon=1e-5),
        ("InstanceNormalization", [c.ravel() for c in channel[:2]], {"epsilon": 1e-5}),
    )
    found = {f"output_{name}_tensor": np.empty(per_channel, np.float32) for name in ("mean", "variance")}
    yield Case(
        f"batch normalisation in training, {shown}",
        "BATCH_NORMALIZATION_TRAINING",
        {"input_tensor": image, "scale_tensor": channel[0], "bias_tensor": channel[1]},
        made | found,
        dict(epsilon=1e-5),
        None,
        lambda torch, x, y: partial(torch.native_batch_norm, x[0], x[1].ravel(), x[2].ravel(), None, None, True, 0.1, 1e-5),
    )
    given = dict(zip(names[:3], channel, strict=False))
    gradients = {"output_gradient_tensor": np.empty_like(image)}
    gradients |= {f"output_{name}_gradient_tensor": np.empty(per_channel, np.float32) for name in ("scale", "bias")}
    yield Case(
        f"its gradients, {shown}",
        "BATCH_NORMALIZATION_TRAINING_GRAD",
        {"input_tensor": image, "input_gradient_tensor": image[::-1].copy(), **given},
        gradients,
        dict(epsilon=1e-5),
    )
