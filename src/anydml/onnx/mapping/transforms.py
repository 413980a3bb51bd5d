"""Discrete Fourier transforms: products with matrices of cosines and sines."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from anydml.functional import functions as dml
from anydml.onnx.errors import INVALID, NOT_YET, Refused
from anydml.onnx.nodes import Node
from anydml.onnx.values import Array, Value, axis_of, number, part, reshape, transpose

MOST = 1 << 24  # elements of a matrix


def matrix(length: int, kept: int, inverse: bool, parts: int, dtype: Any) -> Array:
    """The matrix {length * parts, kept * 2} of a transform. parts: 1 for real numbers, 2 for complex ones."""
    if length * parts * kept * 2 > MOST:
        raise Refused(f"a transform of {length} elements needs a matrix of more than {MOST} elements", NOT_YET)
    turns = np.outer(np.arange(length), np.arange(kept)) % length
    sign = 1 if inverse else -1
    angles = 2 * np.pi * turns / length
    cosines, sines = np.cos(angles), sign * np.sin(angles)
    scale = 1 / length if inverse else 1.0
    whole = np.zeros((length, parts, kept, 2))
    whole[:, 0, :, 0] = cosines
    whole[:, 0, :, 1] = sines
    if parts == 2:
        whole[:, 1, :, 0] = -sines
        whole[:, 1, :, 1] = cosines
    return (whole * scale).reshape(length * parts, kept * 2).astype(dtype)


def mirrored(length: int, dtype: Any) -> Array:
    """The matrix of the inverse transform to real numbers from the first half, whose mirror image is the rest."""
    half = length // 2 + 1
    if 2 * half * length > MOST:
        raise Refused(f"a transform of {length} elements needs a matrix of more than {MOST} elements", NOT_YET)
    angles = 2 * np.pi * (np.outer(np.arange(half), np.arange(length)) % length) / length
    twice = np.where((np.arange(half) == 0) | (2 * np.arange(half) == length), 1, 2)[:, None] / length
    return np.stack([twice * np.cos(angles), -twice * np.sin(angles)], 1).reshape(2 * half, length).astype(dtype)


def dft(n: Node, x: Value, length: Value = None, axis: Value = None) -> Value:
    """DFT: one GEMM, whose sums are rounded once, with cosines and sines that are rounded.

    The last dimension holds the one or two parts of a number. An input longer than the transform is cut off, a shorter one is
    followed by zeros. A one-sided inverse takes the first half of the numbers; the rest is its mirror image.
    """
    given = n.get("axis", 1) if axis is None and n.opset < 20 else -2 if axis is None else int(number(axis))
    along = axis_of(given, x.ndim)
    if along == x.ndim - 1:
        raise Refused("the last dimension holds the parts of numbers, and cannot be transformed", INVALID)
    inverse, onesided = bool(n.get("inverse", 0)), bool(n.get("onesided", 0))
    own, parts = x.shape[along], x.shape[-1]
    size = (2 * (own - 1) if inverse and onesided else own) if length is None else int(number(length))
    if inverse and onesided and parts != 2:
        raise Refused("the input of a one-sided inverse must have real and imaginary parts", INVALID)
    needed = size // 2 + 1 if inverse and onesided else size
    kept = size // 2 + 1 if onesided and not inverse else size
    made_parts = 1 if inverse and onesided else 2
    order = [*(i for i in range(x.ndim - 1) if i != along), along, x.ndim - 1]
    moved = transpose(x, order)
    if own > needed:
        moved = part(moved, [slice(None)] * (x.ndim - 2) + [slice(0, needed)])
    took = min(own, needed)
    lead = moved.shape[:-2]
    rows = reshape(moved, (int(np.prod(lead, dtype=np.int64)), took * parts))
    whole = mirrored(size, x.dtype) if made_parts == 1 else matrix(size, kept, inverse, parts, x.dtype)
    made = reshape(dml.gemm(rows, whole[: took * parts]), (*lead, kept, made_parts))
    back = np.argsort([*order[:-1], x.ndim - 1])
    return transpose(made, [int(i) for i in back])


TABLE: dict[str, Callable[..., Any]] = {"DFT": dft}
