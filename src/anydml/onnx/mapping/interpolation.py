"""Cubic interpolation and antialiasing: a product with a matrix of weights for each dimension."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from anydml.functional import functions as dml
from anydml.onnx.errors import NOT_YET, Refused
from anydml.onnx.values import Array, Value, reshape, transpose

MOST = 1 << 24  # elements of a matrix


def cubic(distance: Array, a: float) -> Array:
    """The cubic kernel with coefficient a, which is 0 for distances of 2 and more."""
    d = np.abs(distance)
    near, far = ((a + 2) * d - (a + 3)) * d * d + 1, ((a * d - 5 * a) * d + 8 * a) * d - 4 * a
    return np.where(d <= 1, near, np.where(d < 2, far, 0))


def weights(axis: Any, mode: str, a: float, exclude: bool, antialias: bool) -> Array:
    """The matrix {results, elements} of a dimension, in float64.

    exclude: elements outside of the tensor have no weight, instead of being the nearest element inside. spread: if the result
    is smaller, the kernel is as much wider (antialiasing).
    """
    if axis.size * axis.result > MOST:
        raise Refused(f"it needs a matrix of {axis.size * axis.result} elements, more than {MOST}", NOT_YET)
    scale = min(axis.scale, 1.0) if antialias else 1.0
    reach = int(np.ceil((2 if mode == "cubic" else 1) / scale)) + 1
    at = (np.arange(axis.result) - axis.after) / axis.scale - axis.before
    taps = np.floor(at)[:, None] + np.arange(-reach, reach + 2)
    away = (taps - at[:, None]) * scale
    found = cubic(away, a) if mode == "cubic" else np.maximum(1 - np.abs(away), 0)
    outside = (taps < 0) | (taps >= axis.size)
    if exclude:
        found = np.where(outside, 0, found)
    if exclude or antialias:
        found = found / found.sum(1, keepdims=True)
    matrix = np.zeros((axis.result, axis.size))
    rows = np.broadcast_to(np.arange(axis.result)[:, None], taps.shape)
    np.add.at(matrix, (rows, np.clip(taps, 0, axis.size - 1).astype(np.int64)), found)
    return matrix


def interpolated(x: Value, axes: Sequence[Any], mode: str, a: float, exclude: bool, antialias: bool) -> Value:
    """A GEMM for every dimension that changes, from the last to the first. Weights and the results of each GEMM are rounded."""
    for i in reversed(range(x.ndim)):
        axis = axes[i]
        if axis.kept:
            continue
        matrix = weights(axis, mode, a, exclude, antialias).T.astype(x.dtype)
        order = [*(j for j in range(x.ndim) if j != i), i]
        moved = transpose(x, order)
        rows = reshape(moved, (int(np.prod(moved.shape[:-1], dtype=np.int64)), axis.size))
        made = reshape(dml.gemm(rows, matrix), (*moved.shape[:-1], axis.result))
        x = transpose(made, [int(j) for j in np.argsort(order)])
    return x
