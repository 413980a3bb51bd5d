"""Deviations of SLICE1. Their arguments are its attributes, with an entry in elements for each dimension.

The result is masked where the deviation would read outside of the input.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from anydml.operators.slice import max_copied

Array = NDArray[Any]


def step_then_reverse(
    input: Array,
    input_window_offsets: Sequence[int],
    input_window_sizes: Sequence[int],
    input_window_strides: Sequence[int],
    output_sizes: Sequence[int],
) -> Array:
    """Steps from the window's first element even where the stride is negative, and then reverses the elements."""
    last = [
        (max_copied(size, stride) - 1) * -stride if stride < 0 else 0
        for size, stride in zip(input_window_sizes, input_window_strides, strict=True)
    ]
    starts = [offset + beyond for offset, beyond in zip(input_window_offsets, last, strict=True)]
    return _copied(input, starts, input_window_strides, output_sizes)


def reverse_then_step(
    input: Array,
    input_window_offsets: Sequence[int],
    input_window_sizes: Sequence[int],
    input_window_strides: Sequence[int],
    output_sizes: Sequence[int],
) -> Array:
    """Reverses the whole input where the stride is negative, then steps forwards from the window's offset."""
    window = zip(input.shape, input_window_offsets, input_window_strides, strict=True)
    starts = [size - 1 - offset if stride < 0 else offset for size, offset, stride in window]
    return _copied(input, starts, input_window_strides, output_sizes)


def first_element(
    input: Array,
    input_window_offsets: Sequence[int],
    input_window_sizes: Sequence[int],
    input_window_strides: Sequence[int],
    output_sizes: Sequence[int],
) -> Array:
    """Starts at the window's first element even where the stride is negative, and steps backwards from there."""
    return _copied(input, input_window_offsets, input_window_strides, output_sizes)


def sign_ignored(
    input: Array,
    input_window_offsets: Sequence[int],
    input_window_sizes: Sequence[int],
    input_window_strides: Sequence[int],
    output_sizes: Sequence[int],
) -> Array:
    """Starts at the window's first element and steps forwards, whatever the sign of the stride."""
    return _copied(input, input_window_offsets, [abs(stride) for stride in input_window_strides], output_sizes)


def one_element_off(
    input: Array,
    input_window_offsets: Sequence[int],
    input_window_sizes: Sequence[int],
    input_window_strides: Sequence[int],
    output_sizes: Sequence[int],
    *,
    dimension: int,
    by: int = 1,
) -> Array:
    """Starts `by` elements of the input too late in one dimension; too early if `by` is negative."""
    starts = _starts(input_window_offsets, input_window_sizes, input_window_strides)
    starts[dimension] += by
    return _copied(input, starts, input_window_strides, output_sizes)


def maximum_output_sizes(
    input: Array,
    input_window_offsets: Sequence[int],
    input_window_sizes: Sequence[int],
    input_window_strides: Sequence[int],
    output_sizes: Sequence[int],
) -> Array:
    """Writes all elements that the window meets, packed; a smaller output has the beginning of them."""
    starts = _starts(input_window_offsets, input_window_sizes, input_window_strides)
    largest = list(map(max_copied, input_window_sizes, input_window_strides))
    whole = _copied(input, starts, input_window_strides, largest)
    return np.ravel(whole)[: math.prod(output_sizes)].reshape(output_sizes)


def _starts(offsets: Sequence[int], sizes: Sequence[int], strides: Sequence[int]) -> list[int]:
    window = zip(offsets, sizes, strides, strict=True)
    return [offset if stride > 0 else offset + size - 1 for offset, size, stride in window]


def _copied(input: Array, starts: Sequence[int], strides: Sequence[int], sizes: Sequence[int]) -> Array:
    """Input[start + stride * c], masked where that index is outside."""
    along = zip(starts, strides, sizes, strict=True)
    indices = [start + stride * np.arange(size) for start, stride, size in along]
    outside = [(i < 0) | (i >= size) for i, size in zip(indices, input.shape, strict=True)]
    bits = input.view(f"u{input.itemsize}")  # integers, so that every NaN keeps its payload
    taken = bits[np.ix_(*(np.clip(i, 0, size - 1) for i, size in zip(indices, input.shape, strict=True)))].view(input.dtype)
    mask = np.zeros(taken.shape, bool)
    for dimension, beyond in enumerate(outside):
        mask |= beyond.reshape(-1, *(1,) * (taken.ndim - 1 - dimension))
    return np.ma.MaskedArray(taken, mask)
