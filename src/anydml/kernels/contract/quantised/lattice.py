"""Float constants that were once dequantised: the integers and scales whose products these floats are."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from anydml.exact.float32 import products_in_float32

LOW, HIGH = -128, 127
MIDDLE, REACH = -0.5, 127.5
NEAR = 2.0**-22 * (1 + 2.0**-20)  # relative distance to an integer: a bound of the roundings of a product and its factor
SOME = 32  # elements of a row that are tested first
WHOLES = np.arange(1, HIGH + 2)
AT_ONCE = 1 << 15  # numbers that are tested at once


def integers_of(rows: NDArray[np.float32]) -> tuple[NDArray[np.int8], NDArray[np.float32]] | None:
    """For each row, 8-bit integers and a scale whose products, rounded to float32, are its elements; None if a row has none.

    The scale is close to the row's least nonzero magnitude divided by a whole number. The smallest whole number for which one
    of the nearest floats works is taken.
    """
    magnitudes = np.abs(rows)
    largest = magnitudes.argmax(1)  # that of a NaN, if there is one
    most = np.take_along_axis(magnitudes, largest[:, None], 1)[:, 0].astype(np.float64)
    if not np.isfinite(most).all():
        return None
    # magnitudes have the same order as their bits as integers; minus one, the bits of zero become the largest integer
    least = ((magnitudes.view(np.uint32) - np.uint32(1)).min(1) + np.uint32(1)).view(np.float32).astype(np.float64)
    least[most == 0] = 1.0
    some = np.concatenate([rows[:, :SOME], np.take_along_axis(rows, largest[:, None], 1)], 1).astype(np.float64)
    of, wholes = _candidates(some, least)
    integers, scales, left = np.zeros(rows.shape, np.int8), np.ones(len(rows), np.float32), np.ones(len(rows), bool)
    while left.any():
        tried, first = np.unique(of, return_index=True)  # for each row, the smallest whole number
        if len(tried) < np.count_nonzero(left):
            return None
        for part in _parts(len(tried), rows.shape[1]):
            at = tried[part]
            factors = wholes[first[part]] / least[at]
            done, integers[at], scales[at] = _with(rows[at], most[at], largest[at], factors)
            left[at] = ~done
        others = left[of]
        others[first] = False
        of, wholes = of[others], wholes[others]
    return integers, scales


def _candidates(some: NDArray[np.float64], least: NDArray[np.float64]) -> tuple[NDArray[np.intp], NDArray[np.int64]]:
    """Pairs of a row and a whole number such that the row's least magnitude over this number may be a scale, in order."""
    found = []  # the last of `some` excludes most pairs
    for rows in _parts(len(some), len(WHOLES)):
        of, at = np.nonzero(_near(some[rows, -1:], WHOLES / least[rows, None]))
        found.append((of + rows.start, WHOLES[at]))
    of, wholes = map(np.concatenate, zip(*found, strict=True))
    near = [_near(some[of[p]], (wholes[p] / least[of[p]])[:, None]).all(1) for p in _parts(len(of), some.shape[1])]
    may = np.concatenate([*near, np.zeros(0, bool)])
    return of[may], wholes[may]


def _with(
    rows: NDArray[np.float32], most: NDArray[np.float64], largest: NDArray[np.intp], factors: NDArray[np.float64]
) -> tuple[NDArray[np.bool_], NDArray[np.int8], NDArray[np.float32]]:
    """Whether each row is integers times a scale of about 1 / factor; these integers and scales."""
    near = rows.astype(np.float64)
    near *= factors[:, None]
    np.rint(near, out=near)
    fits = (near.min(1) >= LOW) & (near.max(1) <= HIGH)
    near[~fits] = 0
    found = near.astype(np.int8)
    at = np.abs(near[np.arange(len(rows)), largest])
    middle = np.where(at == 0, 1.0, most / np.maximum(at, 1)).astype(np.float32)
    scales, done = middle.copy(), np.zeros(len(rows), bool)
    for scale in (middle, np.nextafter(middle, np.float32(0)), np.nextafter(middle, np.float32(np.finfo(np.float32).max))):
        remaining = np.flatnonzero(fits & ~done)
        # most rows that are not such products differ at the largest element
        remaining = remaining[
            products_in_float32(found[remaining, largest[remaining]], scale[remaining]) == rows[remaining, largest[remaining]]
        ]
        same = remaining[(products_in_float32(found[remaining], scale[remaining, None]) == rows[remaining]).all(1)]
        scales[same], done[same] = scale[same], True
    return done, found, scales


def _parts(count: int, width: int) -> list[slice]:
    """Slices of `count` rows of a width, each tested at once."""
    step = max(1, AT_ONCE // width)
    return [slice(first, first + step) for first in range(0, count, step)]


def _near(numbers: NDArray[np.float64], factors: NDArray[np.float64]) -> NDArray[np.bool_]:
    """Whether numbers times factors are close to 8-bit integers."""
    ratio = numbers * factors
    integers = np.rint(ratio)
    ratio -= integers
    found: NDArray[np.bool_] = (np.abs(ratio) <= np.abs(integers) * NEAR) & (np.abs(integers - MIDDLE) <= REACH)
    return found
