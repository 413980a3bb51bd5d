"""The search for one changed weight: in a product of integers by trial, in one of floats by least squares."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]

ROWS = 256  # of the differing rows, and of the others, that a trial examines
TRIALS = 1 << 27  # products in all trials of a column
EVIDENCE, PLENTY = 3, 64  # differing outputs, or outputs of a column: with fewer, some weight explains them by chance
PROMISING = 8  # the best weights, which are tried on every row


class Changed(NamedTuple):
    """A weight that would explain a column: its batch, row and column in B, and its value."""

    batch: int
    k: int
    column: int
    value: float


def of_integers(
    p: Mapping[str, Any], sums: Array, expected: Array, actual: Array, outputs: Callable[[Array, int, int], Array]
) -> Changed | None:
    """The integer weight that explains a product's one differing column; None if several differ or no weight explains it.

    p: the product's inputs; sums: its accumulators; outputs: a function from one column's accumulators to its outputs.
    """
    if (at := _column(expected, actual)) is None:
        return None
    batch, column = at
    wanted = actual[batch, :, column]
    differs = wanted != expected[batch, :, column]
    if np.count_nonzero(differs) < EVIDENCE and len(differs) < PLENTY:
        return None
    rows = np.concatenate([np.flatnonzero(differs)[:ROWS], np.flatnonzero(~differs)[:ROWS]])
    a = p["a"][batch].astype(np.int64) - p["a_zero_point"][min(batch, len(p["a_zero_point"]) - 1)]
    own = p["b"][batch, :, column].astype(np.int64)
    limits = np.iinfo(p["b"].dtype)
    values = np.arange(limits.min, limits.max + 1)
    best: list[tuple[int, int, int]] = []
    for k in range(a.shape[1]):
        if (k + 1) * len(values) * len(rows) > TRIALS:
            break
        changed = sums[batch, rows, column][:, None] + a[rows, k][:, None] * (values - own[k])
        equal = np.count_nonzero(outputs(changed, batch, column) == wanted[rows][:, None], axis=0)
        equal[own[k] - limits.min] = 0
        most = int(np.argmax(equal))
        best.append((int(equal[most]), k, int(values[most])))
    tried = []
    for _, k, value in sorted(best, reverse=True)[:PROMISING]:
        changed = sums[batch, :, column] + a[:, k] * (value - own[k])
        tried.append((int(np.count_nonzero(outputs(changed[:, None], batch, column)[:, 0] == wanted)), k, value))
    equal, k, value = max(tried, default=(0, 0, 0))
    return Changed(batch, k, column, value) if equal > np.count_nonzero(~differs) else None


def of_floats(a: Array, b: Array, expected: Array, actual: Array, factor: float) -> tuple[Changed, Array] | None:
    """The float weight that explains the one column of a product beyond rounding, and a mask of the outputs then explained.

    a, b: matrices with a leading batch dimension; factor: a factor of the products. Other columns may differ by rounding.
    """
    with np.errstate(all="ignore"):
        away = np.nan_to_num(actual.astype(np.float64) - expected, nan=0.0, posinf=0.0, neginf=0.0)
        size = np.abs(a).astype(np.float64) @ np.abs(b) * abs(factor)
    tolerance = 2.0**-24 * (a.shape[-1] + 8) * size
    beyond = np.abs(away) > tolerance
    columns = np.argwhere(beyond.any(axis=1))
    if len(columns) != 1:
        return None
    batch, column = (int(i) for i in columns[0])
    left = a[batch].astype(np.float64) * factor
    d = away[batch, :, column]
    power = (left * left).sum(axis=0)
    with np.errstate(all="ignore"):
        change = np.where(power > 0, left.T @ d / power, 0.0)
    residual = ((d[:, None] - left * change) ** 2).sum(axis=0)
    k = int(np.argmin(residual))
    explained = np.abs(d - left[:, k] * change[k]) <= tolerance[batch, :, column] + 2.0**-20 * np.abs(left[:, k] * change[k])
    if not np.any(explained & beyond[batch, :, column]) or np.any(~explained & beyond[batch, :, column]):
        return None
    whole = ~beyond
    whole[batch, :, column] |= explained
    return Changed(batch, k, column, float(b[batch, k, column]) + float(change[k])), whole


def _column(expected: Array, actual: Array) -> tuple[int, int] | None:
    """The batch and column of the only column that differs."""
    columns = np.argwhere((expected != actual).any(axis=1))
    return (int(columns[0][0]), int(columns[0][1])) if len(columns) == 1 else None
