"""A small int8 network for keywords as a .tflite file, and the same network with other weights."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from lite_models import Writer

Array = NDArray[Any]
NODES = ("first", "second", "third", "pooled", "flat", "scores", "chances")
WEIGHTS = {"first weights": "first", "second weights": "second", "third weights": "third", "score weights": "scores"}


def network(random: np.random.Generator, batch: int = 1, changed: str = "") -> bytes:
    """Convolutions, depthwise and not, a mean, a reshape, a product and a softmax. changed: the tensor with another weight."""
    writer = Writer()

    def constant(name: str, dtype: str, sizes: tuple[int, ...], scale: Any, axis: int = 0) -> int:
        spread = (-127, 128) if dtype == "int8" else (-500, 500)
        data = random.integers(*spread, sizes).astype(dtype)
        if name == changed:
            data.reshape(-1)[data.size // 3] ^= 0x55
        return writer.tensor(name, dtype, sizes, scale, 0, axis, data)

    def weighted(name: str, x: int, scale: float, sizes: tuple[int, ...], axis: int, scales: Array) -> tuple[int, int, int]:
        bias = name.removesuffix("weights") + "bias"
        count = sizes[axis]
        return x, constant(name, "int8", sizes, scales, axis), constant(bias, "int32", (count,), np.float32(scale) * scales)

    sizes = (batch, 12, 10, 1)
    signature = (-1, 12, 10, 1)
    x = writer.tensor("spectrum", "int8", sizes, 0.58, 83, signature=signature)
    scales = np.array([0.004, 0.005, 0.006, 0.007], np.float32)
    first = writer.tensor("first", "int8", (batch, 6, 5, 4), 0.3, -128, signature=(-1, 6, 5, 4))
    stride = dict(StrideH=2, StrideW=2, FusedActivationFunction=1)
    writer.node("CONV_2D", weighted("first weights", x, 0.58, (4, 3, 3, 1), 0, scales), [first], "Conv2DOptions", **stride)
    second = writer.tensor("second", "int8", (batch, 6, 5, 4), 0.25, -128, signature=(-1, 6, 5, 4))
    each = dict(StrideH=1, StrideW=1, DepthMultiplier=1, FusedActivationFunction=3)
    parts = weighted("second weights", first, 0.3, (1, 3, 3, 4), 3, scales)
    writer.node("DEPTHWISE_CONV_2D", parts, [second], "DepthwiseConv2DOptions", **each)
    third = writer.tensor("third", "int8", (batch, 6, 5, 8), 0.21, -128, signature=(-1, 6, 5, 8))
    plain = dict(StrideH=1, StrideW=1, FusedActivationFunction=1)
    parts = weighted("third weights", second, 0.25, (8, 1, 1, 4), 0, np.repeat(scales, 2))
    writer.node("CONV_2D", parts, [third], "Conv2DOptions", **plain)
    pooled = writer.tensor("pooled", "int8", (batch, 1, 1, 8), 0.21, -128, signature=(-1, 1, 1, 8))
    window = dict(StrideH=5, StrideW=6, FilterHeight=6, FilterWidth=5, Padding=1)
    writer.node("AVERAGE_POOL_2D", [third], [pooled], "Pool2DOptions", **window)
    flat = writer.tensor("flat", "int8", (batch, 8), 0.21, -128, signature=(-1, 8))
    writer.node("RESHAPE", [pooled, writer.constant("sizes", [-1, 8], "int32")], [flat], "ReshapeOptions")
    scores = writer.tensor("scores", "int8", (batch, 5), 0.2, 14, signature=(-1, 5))
    parts = weighted("score weights", flat, 0.21, (5, 8), 0, np.array([0.01], np.float32))
    writer.node("FULLY_CONNECTED", parts, [scores], "FullyConnectedOptions", FusedActivationFunction=0)
    chances = writer.tensor("chances", "int8", (batch, 5), 1 / 256, -128, signature=(-1, 5))
    writer.node("SOFTMAX", [scores], [chances], "SoftmaxOptions", Beta=1.0)
    return writer.model([x], [chances], ["sound", "words"])


def spectrum(random: np.random.Generator, batch: int = 1) -> Array:
    return random.integers(-128, 128, (batch, 12, 10, 1)).astype(np.int8)
