"""Norms of dequantised weights: upper bounds of sums of magnitudes, and of the errors of their roundings."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from anydml.exact.float32 import round_to_float32, widened
from anydml.kernels.match.between import REACH
from anydml.tensor import DataType, limits

AT_ONCE = 1 << 15  # weights that are processed at once: their float64 values stay in a cache
MARGIN = 1 + 2.0**-20  # the factor that makes sums in float64 upper bounds in spite of their roundings


def norms(
    integers: NDArray[np.integer[Any]], scale: NDArray[np.float32], axis: int | None
) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any]]:
    """Upper bounds, for each channel, of the sums of |weight| and |weight - scale * integer|, and the sum of the differences.

    The error of the last one is smaller than the margin of the second. integers: magnitudes of at most REACH.
    """
    rows = integers.reshape(1, -1) if axis is None else np.moveaxis(integers, axis, 0).reshape(integers.shape[axis], -1)
    magnitudes, errors, lean = (np.empty(len(rows)) for _ in range(3))
    some = max(1, AT_ONCE // max(1, rows.shape[1]))
    for first in range(0, len(rows), some):
        part = slice(first, first + some)
        exact = widened(scale[part])[:, None] * rows[part]  # 24 bits and 8
        rounded = widened(round_to_float32(exact))
        off = rounded - exact
        magnitudes[part], errors[part], lean[part] = np.abs(rounded).sum(1), np.abs(off).sum(1), off.sum(1)
    return magnitudes * MARGIN, errors * MARGIN, lean


def most_norms(
    data_type: DataType, zero: NDArray[np.int64], scale: NDArray[np.float32], terms: int
) -> tuple[NDArray[Any], NDArray[Any]]:
    """Upper bounds as those of `norms`, for any integers of a type. terms: the number of integers of a channel."""
    low, high = limits(data_type)
    integers = np.arange(-REACH, REACH + 1)
    there = (integers >= (low - zero)[:, None]) & (integers <= (high - zero)[:, None])
    exact = widened(scale)[:, None] * integers
    rounded = widened(round_to_float32(exact))
    found = [np.where(there, np.abs(table), 0).max(1) * (terms * MARGIN) for table in (rounded, rounded - exact)]
    return found[0], found[1]
