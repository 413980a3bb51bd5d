"""Order in rows of numbers with bounds: the elements that may be at a place, and the bounds of the element there."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from anydml.explain.bounded import Number, Unbounded, between, is_exact

Array = NDArray[Any]


def order(keys: Array, *, decreasing: bool) -> Array:
    """The positions of the elements of sorted rows; equal elements keep their order, and NaN sorts above +inf."""
    nan = np.isnan(keys)
    numbers = np.where(nan, 0, -keys if decreasing else keys)
    return np.lexsort((numbers, ~nan if decreasing else nan), axis=-1)


def element(row: Number, place: Array, *, decreasing: bool) -> Number:
    """The element at a place of each sorted row, bounded by the elements there if all numbers are at their low or high ends."""
    value, low, high = (
        np.take_along_axis(x, np.take_along_axis(order(x, decreasing=decreasing), place[..., None], -1), -1)[..., 0]
        for x in row
    )
    return between(value, low, high)


def position(row: Number, place: Array, *, decreasing: bool) -> Number:
    """The position in the row of the element at a place of the sorted row, with the first and last possible position."""
    value = np.take_along_axis(order(row.value, decreasing=decreasing), place[..., None], -1)[..., 0].astype(np.float64)
    if is_exact(row):
        return Number(value, value, value)
    if np.isnan(row.value).any():
        raise Unbounded("an order of NaN among rounded numbers")
    least, most = (-row.high, -row.low) if decreasing else (row.low, row.high)
    count = least.shape[-1]
    before = _less(np.sort(most, axis=-1), least, side="left")  # numbers that are surely before each element
    after = count - _less(np.sort(least, axis=-1), most, side="right")  # numbers that are surely after it
    return _ends(value, (before <= place[..., None]) & (place[..., None] < count - after))


def first(row: Number, there: Array, *, smallest: bool, value: Array) -> Number:
    """The position of the largest or smallest element where `there` is true; value: the position without rounding."""
    if np.isnan(row.value).any():
        raise Unbounded("an order of NaN among rounded numbers")
    least, most = (-row.high, -row.low) if smallest else (row.low, row.high)
    largest = np.where(there, least, -np.inf).max(axis=-1, keepdims=True)
    return _ends(value.astype(np.float64), there & (most >= largest))


def _less(rows: Array, x: Array, *, side: Literal["left", "right"]) -> Array:
    """The number of elements of a sorted row before each number."""
    flat, numbers = rows.reshape(-1, rows.shape[-1]), x.reshape(-1, x.shape[-1])
    made = [np.searchsorted(row, own, side=side) for row, own in zip(flat, numbers, strict=True)]
    return np.array(made).reshape(x.shape)


def _ends(value: Array, possible: Array) -> Number:
    count = possible.shape[-1]
    low, high = np.argmax(possible, axis=-1), count - 1 - np.argmax(possible[..., ::-1], axis=-1)
    return Number(value, np.fmin(low, value), np.fmax(high, value))
