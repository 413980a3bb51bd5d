"""Constants that were dequantised before: the integers and scales that give the same floats."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from anydml.exact.float32 import round_to_float32

LOW, HIGH = -128, 127
SOME = 32  # elements of a row that are looked at first
WHOLES = np.arange(2, HIGH + 2)
AT_ONCE = 1 << 15  # numbers that are looked at at once


def integers_of(rows: NDArray[np.float32]) -> tuple[NDArray[np.int8], NDArray[np.float32]] | None:
    """For each row, integers of 8 bits and a scale whose products, rounded to float32, are its elements; None where none are.

    A scale is the least magnitude over a whole number, the smallest that serves, and is found among the nearest floats.
    """
    if not np.isfinite(rows).all():
        return None
    magnitudes = np.abs(rows)
    largest = magnitudes.argmax(1)
    most = np.take_along_axis(magnitudes, largest[:, None], 1)[:, 0].astype(np.float64)
    least = np.where(magnitudes > 0, magnitudes, np.float32(np.inf)).min(1).astype(np.float64)
    least[most == 0] = 1.0
    some = np.concatenate([rows[:, :SOME], np.take_along_axis(rows, largest[:, None], 1)], 1).astype(np.float64)
    integers, scales = np.zeros(rows.shape, np.int8), np.ones(len(rows), np.float32)

    def left_of(left: NDArray[np.intp], wholes: NDArray[np.int64]) -> NDArray[np.intp]:
        """The rows that are none with a scale of the least magnitude over a whole number of each."""
        near = np.flatnonzero(_near(some[left], (wholes / least[left])[:, None]).all(1))
        done = np.zeros(len(left), bool)
        for part in _parts(len(near), rows.shape[1]):
            of = left[near[part]]
            done[near[part]], integers[of], scales[of] = _with(rows[of], most[of], largest[of], wholes[near[part]] / least[of])
        return left[~done]

    left = left_of(np.arange(len(rows)), np.ones(len(rows), np.int64))
    open_ = np.ones((len(rows), len(WHOLES)), bool)  # which may serve: three elements tell of most that do not
    for part in _parts(len(left), len(WHOLES)):
        for column in {0, some.shape[1] // 2, some.shape[1] - 1}:
            open_[left[part]] &= _near(some[left[part], column][:, None], WHOLES / least[left[part]][:, None])
    while left.size:
        if not open_[left].any(1).all():
            return None
        at = open_[left].argmax(1)  # of each row, the first whole number that may serve
        open_[left, at] = False
        left = left_of(left, WHOLES[at])
    return integers, scales


def _with(
    rows: NDArray[np.float32], most: NDArray[np.float64], largest: NDArray[np.intp], factors: NDArray[np.float64]
) -> tuple[NDArray[np.bool_], NDArray[np.int8], NDArray[np.float32]]:
    """Which rows are integers times scales of about 1 / factors; these integers and scales."""
    found = np.rint(rows * factors[:, None])
    fits = (found.min(1) >= LOW) & (found.max(1) <= HIGH)
    found[~fits] = 0
    at = np.abs(found[np.arange(len(rows)), largest]).astype(np.float64)
    middle = np.where(at == 0, 1.0, most / np.maximum(at, 1)).astype(np.float32)
    scales, done = middle.copy(), np.zeros(len(rows), bool)
    for scale in (middle, np.nextafter(middle, np.float32(0)), np.nextafter(middle, np.float32(np.inf))):
        open_ = np.flatnonzero(fits & ~done)
        product = round_to_float32(scale[open_].astype(np.float64)[:, None] * found[open_])
        same = open_[(product == rows[open_]).all(1)]
        scales[same], done[same] = scale[same], True
    return done, found.astype(np.int8), scales


def _parts(count: int, width: int) -> list[slice]:
    """So many rows of a width in parts that are looked at at once."""
    step = max(1, AT_ONCE // width)
    return [slice(first, first + step) for first in range(0, count, step)]


def _near(numbers: NDArray[np.float64], factors: NDArray[np.float64]) -> NDArray[np.bool_]:
    """Whether numbers times factors are near to integers of 8 bits."""
    ratio = numbers * factors
    integers = np.rint(ratio)
    found: NDArray[np.bool_] = (np.abs(ratio - integers) <= np.abs(ratio) * 2.0**-22) & (integers >= LOW) & (integers <= HIGH)
    return found
