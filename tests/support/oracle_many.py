"""The oracle for many outputs: quantizes tens of millions of sums per second, in integers only.

Nothing of anydml is imported here, and no floats are used. It is independent of the other oracle: long division with 32-bit
digits. `test_oracle.py` compares it with the oracle's fractions.
"""

from itertools import product
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]

BLOCK = 8192  # outputs at a time, whose numbers fit in the cache
BEYOND = 1024  # the limit of the results of `rounded_quotients`, far above those of 8-bit outputs


def four_sizes(sizes: tuple[int, ...]) -> tuple[int, ...]:
    """Sizes extended to four dimensions by leading ones."""
    return (1,) * (4 - len(sizes)) + sizes


def quantize_many(
    sums: NDArray[np.int64], a_scale: Array, b_scale: Array, output_scale: Array, zero_point: Array | None, lo: int, hi: int
) -> NDArray[np.int64]:
    """Quantizes sums with scales and zero points of any granularity, by `rounded_quotients` on blocks."""
    four = four_sizes(sums.shape)
    places: list[Array] = [np.zeros(1, np.int64) if zero_point is None else zero_point.astype(np.int64)]
    for scale in (a_scale, b_scale, output_scale):
        bits = scale.view(np.uint32).astype(np.int64)
        exponents = bits >> 23 & 0xFF
        if not ((exponents < 0xFF) & (bits & 0x7FFFFFFF != 0)).all():
            raise ValueError("a scale is zero, infinite or not a number")
        magnitudes = bits & 0x7FFFFF | np.where(exponents > 0, 1 << 23, 0)
        places += [np.where(bits >> 31 != 0, -magnitudes, magnitudes), np.maximum(exponents, 1) - 150]
    everywhere: list[Array] = [np.broadcast_to(x.reshape(four_sizes(x.shape)), four) for x in places]
    zero_points, a, a_exponent, b, b_exponent, y, y_exponent = everywhere
    many, result = sums.reshape(four), np.empty(four, np.int64)
    width = min(four[3], BLOCK)
    height = BLOCK // width
    for i, j, top, left in product(range(four[0]), range(four[1]), range(0, four[2], height), range(0, four[3], width)):
        at = (i, j, slice(top, top + height), slice(left, left + width))
        exponent = a_exponent[at] + b_exponent[at] - y_exponent[at]
        quotients = rounded_quotients(many[at], a[at] * b[at], y[at], exponent)
        result[at] = np.clip(quotients + zero_points[at], lo, hi)
    return result.reshape(sums.shape)


def rounded_quotients(q: Array, p: Array, y: Array, exponent: Array) -> NDArray[np.int64]:
    """q * p / y * 2**exponent rounded half to even, and limited to BEYOND in magnitude; in integers, by long division.

    For |q| < 2**46, 0 < |p| < 2**48 and 0 < |y| < 2**24. Comments give the bounds of the steps, which are all below 2**64.
    Magnitudes are divided without signs, since rounding half to even is symmetric.
    """
    low = np.uint64(2**32 - 1)
    if int(np.abs(q).max()) >= 1 << 46:
        raise ValueError("a sum of 2**46 or more")
    negative = (q < 0) ^ (p < 0) ^ (y < 0)
    magnitudes: list[Array] = [np.abs(x).astype(np.uint64) for x in (q, p, y)]
    whole, p_, y_ = magnitudes
    if int(exponent.max()) > 0:
        # If |q| * 2**exponent >= 2**40, the quotient is at least 2**16 for all p and y, so 2**40 can be used instead.
        bound = np.where(exponent > 0, np.uint64(1 << 40), np.uint64(1 << 46))
        for places in (np.clip(exponent - at, 0, 16).astype(np.uint64) for at in (0, 16, 32)):
            whole = np.minimum(np.minimum(whole, bound) << places, bound)
    whole = whole << 1  # 2 * |q| < 2**47: twice the quotient is computed, whose lowest bit is the half
    # 2 * |q| * p = n2 * 2**64 + n1 * 2**32 + n0
    q1, q0, p1, p0 = whole >> 32, whole & low, p_ >> 32, p_ & low  # < 2**15, 2**32, 2**16, 2**32
    n0, middle = q0 * p0, q1 * p0 + q0 * p1  # < 2**64, 2**49
    n1 = (n0 >> 32) + (middle & low)  # < 2**33
    n2 = q1 * p1 + (middle >> 32) + (n1 >> 32)  # < 2**31
    # divided by y digit by digit: d2 * 2**64 + d1 * 2**32 + d0, and a remainder
    d2 = n2 // y_
    rest = (n2 - d2 * y_) << 32 | n1 & low  # < 2**56
    d1 = rest // y_
    rest = (rest - d1 * y_) << 32 | n0 & low
    d0 = rest // y_
    rest = rest - d0 * y_
    upper = d2 << 32 | d1  # < 2**63
    # shifted right by -exponent, in two steps; bits that are shifted out make `rest` nonzero
    shift = np.maximum(-exponent, 0).astype(np.uint64)
    first = np.minimum(shift, 32)
    rest |= d0 & ((np.uint64(1) << first) - 1)
    # With a shift below 32, an upper half of 2**20 is already beyond the limit; larger ones would lose bits.
    upper = np.where(first < 32, np.minimum(upper, 1 << 20), upper)
    twice = upper << (32 - first) | d0 >> first
    second = np.minimum(shift - first, 63)  # a number below 2**63 is 0 after 63 bits
    rest |= twice & ((np.uint64(1) << second) - 1)
    twice >>= second
    floor = twice >> 1
    floor += twice & 1 & ((rest != 0) | floor)
    rounded = np.minimum(floor, BEYOND).astype(np.int64)
    signed: NDArray[np.int64] = np.where(negative, -rounded, rounded)
    return signed
