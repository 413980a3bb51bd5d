"""Arrays and integers rounded to float32 in integer arithmetic, which no floating-point state of the thread can change."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray


def round_to_odd(value: int) -> float:
    """An integer in float64 such that rounding that to float32 rounds the integer: lost bits leave the last one set."""
    excess = max(0, abs(value).bit_length() - 50)
    if excess > 200:
        return -math.inf if value < 0 else math.inf
    kept = abs(value) >> excess
    kept |= kept << excess != abs(value)
    return math.ldexp(-kept if value < 0 else kept, excess)


def round_to_float32(x: NDArray[Any]) -> NDArray[np.float32]:
    """float64 rounded to float32, half to even, by integer arithmetic: whatever the thread's floating-point state.

    (A cast obeys the rounding mode, and under flush-to-zero makes 0 of a subnormal result.)
    """
    bits = np.ascontiguousarray(x).view(np.uint64)
    exponent, fraction = (bits >> 52 & 0x7FF).astype(np.int64), (bits & (2**52 - 1)).astype(np.int64)
    significand = np.where(exponent > 0, fraction | 2**52, fraction)
    biased = exponent - 1023 + 127  # float32's exponent, where it is normal there
    shift = np.where(biased >= 1, 29, np.minimum(30 - biased, 62))  # the bits that float32 has no room for
    kept, lost, half = significand >> shift, significand & ((np.int64(1) << shift) - 1), np.int64(1) << (shift - 1)
    kept += (lost > half) | ((lost == half) & (kept & 1 == 1))
    # the leading bit of `kept` adds one to the exponent below it, and so does a carry out of rounding
    magnitude = np.minimum(kept + (np.maximum(biased - 1, 0) << 23), 0x7F800000)
    magnitude = np.where(exponent == 0x7FF, np.where(fraction != 0, 0x7FC00000, 0x7F800000), magnitude)
    sign = (bits >> 63).astype(np.int64) << 31
    rounded: NDArray[np.float32] = (magnitude | sign).astype(np.uint32).view(np.float32)
    return rounded
