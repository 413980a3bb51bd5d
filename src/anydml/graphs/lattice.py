"""Constants that were dequantised before: the integers and scales that give the same floats."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from anydml.exact.float32 import round_to_float32

LOW, HIGH = -128, 127
SOME = 32  # elements of a row that are looked at first


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
    open_ = np.ones(len(rows), bool)
    integers, scales = np.zeros(rows.shape, np.int8), np.ones(len(rows), np.float32)
    some = np.concatenate([rows[:, :SOME], np.take_along_axis(rows, largest[:, None], 1)], 1).astype(np.float64)
    for whole in range(1, HIGH + 2):
        left = np.flatnonzero(open_)
        if not left.size:
            return integers, scales
        tried = left[_near(some[left], least[left], whole).all(1)]
        if not tried.size:
            continue
        found = np.rint(rows[tried] * (whole / least[tried]).astype(np.float32)[:, None])
        at = np.abs(found[np.arange(len(tried)), largest[tried]]).astype(np.float64)
        middle = np.where(at == 0, 1.0, most[tried] / np.maximum(at, 1)).astype(np.float32)
        for scale in (middle, np.nextafter(middle, np.float32(0)), np.nextafter(middle, np.float32(np.inf))):
            same = (scale[:, None] * found == rows[tried]).all(1) & open_[tried]
            same &= (found.min(1) >= LOW) & (found.max(1) <= HIGH)
            these = tried[same]
            if not these.size or not _rounds_to(found[same].astype(np.int16), scale[same], rows[these]):
                continue
            integers[these], scales[these] = found[same], scale[same]
            open_[these] = False
    return None if open_.any() else (integers, scales)


def _rounds_to(integers: NDArray[np.int16], scales: NDArray[np.float32], rows: NDArray[np.float32]) -> bool:
    """Whether the products are these, in whatever mode the thread's processor rounds."""
    table = round_to_float32(scales.astype(np.float64)[:, None] * np.arange(LOW, HIGH + 1))
    return bool((np.take_along_axis(table, integers - np.int16(LOW), 1) == rows).all())


def _near(rows: NDArray[np.float64], least: NDArray[np.float64], whole: int) -> NDArray[np.bool_]:
    """Whether elements are near to integers of 8 bits, times the least magnitude over a whole number."""
    ratio = rows * (whole / least[:, None])
    integers = np.rint(ratio)
    near: NDArray[np.bool_] = (np.abs(ratio - integers) <= np.abs(ratio) * 2.0**-22) & (integers >= LOW) & (integers <= HIGH)
    return near
