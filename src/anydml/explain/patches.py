"""A convolution as a matrix product: a row for every position of the output, a column for every output channel."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]


def patches(d: Any, x: Array, fill: int, *, channels_last: bool = False) -> Array:
    """The elements that positions read: {groups, batches * positions, channels of a group * elements of a channel's filter}.

    d: the desc of a forward convolution. fill: the value outside of the input. channels_last: the order of a row's elements,
    which matters where neighbouring products are added first.
    """
    kernel = d.filter_tensor.sizes[2:]
    positions = d.output_tensor.sizes[2:]
    reach = [(n - 1) * s + (k - 1) * a + 1 for n, s, k, a in zip(positions, d.strides, kernel, d.dilations, strict=True)]
    ends = [max(0, r - n - p) for r, n, p in zip(reach, x.shape[2:], d.start_padding, strict=True)]
    margins = [(0, 0), (0, 0), *zip(d.start_padding, ends, strict=True)]
    padded = np.pad(x, margins, constant_values=fill)
    steps = padded.strides[2:]
    windows = np.lib.stride_tricks.as_strided(
        padded,
        (*x.shape[:2], *positions, *kernel),
        (
            *padded.strides[:2],
            *(s * step for s, step in zip(d.strides, steps, strict=True)),
            *(a * step for a, step in zip(d.dilations, steps, strict=True)),
        ),
        writeable=False,
    )
    n, groups, rank = x.shape[0], d.group_count, len(kernel)
    parts = windows.reshape(n, groups, x.shape[1] // groups, math.prod(positions), *kernel)
    order = (1, 0, 3, *range(4, 4 + rank), 2) if channels_last else (1, 0, 3, 2, *range(4, 4 + rank))
    return np.ascontiguousarray(parts.transpose(order)).reshape(groups, n * math.prod(positions), -1)


def filters(d: Any, weights: Array, *, channels_last: bool = False) -> Array:
    """The filters: {groups, channels of a group * elements of a channel's filter, output channels of a group}."""
    m, c, *kernel = weights.shape
    parts = weights.reshape(d.group_count, m // d.group_count, c, math.prod(kernel))
    order = (0, 3, 2, 1) if channels_last else (0, 2, 3, 1)
    return np.ascontiguousarray(parts.transpose(order)).reshape(d.group_count, -1, m // d.group_count)


def positions(d: Any, x: Array) -> Array:
    """An array of the output's sizes as {groups, batches * positions, output channels of a group}."""
    n, m, *rest = x.shape
    parts = x.reshape(n, d.group_count, m // d.group_count, math.prod(rest))
    return np.ascontiguousarray(parts.transpose(1, 0, 3, 2)).reshape(d.group_count, -1, m // d.group_count)


def by_channel(d: Any, x: Array) -> Array:
    """A scale, zero point or bias of the output channels, or of all of them: {groups, 1, channels of a group or 1}."""
    if x.size == 1:
        return np.broadcast_to(x.reshape(1, 1, 1), (d.group_count, 1, 1))
    return x.reshape(d.group_count, 1, -1)


def place(d: Any, group: int, k: int, column: int) -> tuple[int, ...]:
    """The index of a weight in the filter tensor."""
    m, *rest = d.filter_tensor.sizes
    return (group * (m // d.group_count) + column, *(int(i) for i in np.unravel_index(k, rest)))


def inputs(d: Any, arrays: Mapping[str, Array]) -> dict[str, Any]:
    """The inputs of a convolution of 8-bit integers as inputs of a product, with a bias for each column of accumulators."""
    x, w = arrays["input_tensor"], arrays["filter_tensor"]

    def of(name: str, dtype: Any) -> Array:
        found = arrays.get(f"{name}_tensor")
        return by_channel(d, np.zeros(1, dtype) if found is None else found)

    zero_point = of("input_zero_point", x.dtype)
    fill = int(zero_point.flat[0])
    p: dict[str, Any] = {
        "a": patches(d, x, fill),
        "b": filters(d, w),
        "a_zero_point": zero_point,
        "b_zero_point": of("filter_zero_point", w.dtype),
    }
    if "bias_tensor" in arrays:
        p["bias"] = by_channel(d, arrays["bias_tensor"]).astype(np.int64)
    if "output_scale_tensor" in arrays:
        p["output_data_type"] = d.output_tensor.data_type.dtype
        p["output_zero_point"] = of("output_zero_point", p["output_data_type"])
        for name, tensor in (("a", "input"), ("b", "filter"), ("output", "output")):
            p[f"{name}_scale"] = of(f"{tensor}_scale", np.float32)
    return p
