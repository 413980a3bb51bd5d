"""The oracle for many outputs: quantized sums in integers alone, tens of millions of them in a second.

Nothing of anydml is imported here, and no float takes part. It is a road of its own, long division in 32-bit digits;
`test_oracle.py` holds it against the oracle's fractions.
"""

from itertools import product
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]

BLOCK = 8192  # outputs at a time: their numbers stay in the cache
BEYOND = 1024  # where `rounded_quotients` stops: no 8-bit output with its zero point comes near


def four_sizes(sizes: tuple[int, ...]) -> tuple[int, ...]:
    """Sizes read right-aligned in four dimensions: missing leading sizes are 1."""
    return (1,) * (4 - len(sizes)) + sizes


def quantize_many(
    sums: NDArray[np.int64], a_scale: Array, b_scale: Array, output_scale: Array, zero_point: Array | None, lo: int, hi: int
) -> NDArray[np.int64]:
    """Quantizes sums under scales and zero points of any granularity: `rounded_quotients`, block by block."""
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
    """q * p / y * 2**exponent rounded half to even, and no further from 0 than BEYOND; in integers, by long division.

    For |q| < 2**46, 0 < |p| < 2**48 and 0 < |y| < 2**24. The bounds of the steps, all of them below 2**64, stand beside
    them. Signs are put aside, since rounding half to even is symmetric.
    """
    low = np.uint64(2**32 - 1)
    if int(np.abs(q).max()) >= 1 << 46:
        raise ValueError("a sum of 2**46 or more")
    negative = (q < 0) ^ (p < 0) ^ (y < 0)
    magnitudes: list[Array] = [np.abs(x).astype(np.uint64) for x in (q, p, y)]
    whole, p_, y_ = magnitudes
    if int(exponent.max()) > 0:
        # Where |q| * 2**exponent >= 2**40 the quotient is at least 2**16 whatever p and y are, so 2**40 does as well.
        bound = np.where(exponent > 0, np.uint64(1 << 40), np.uint64(1 << 46))
        for places in (np.clip(exponent - at, 0, 16).astype(np.uint64) for at in (0, 16, 32)):
            whole = np.minimum(np.minimum(whole, bound) << places, bound)
    whole = whole << 1  # 2 * |q| < 2**47: the quotient is taken twice, so that its lowest bit is the half
    # 2 * |q| * p = n2 * 2**64 + n1 * 2**32 + n0
    q1, q0, p1, p0 = whole >> 32, whole & low, p_ >> 32, p_ & low  # < 2**15, 2**32, 2**16, 2**32
    n0, middle = q0 * p0, q1 * p0 + q0 * p1  # < 2**64, 2**49
    n1 = (n0 >> 32) + (middle & low)  # < 2**33
    n2 = q1 * p1 + (middle >> 32) + (n1 >> 32)  # < 2**31
    # divided by y, digit by digit: d2 * 2**64 + d1 * 2**32 + d0, and a rest
    d2 = n2 // y_
    rest = (n2 - d2 * y_) << 32 | n1 & low  # < 2**56
    d1 = rest // y_
    rest = (rest - d1 * y_) << 32 | n0 & low
    d0 = rest // y_
    rest = rest - d0 * y_
    upper = d2 << 32 | d1  # < 2**63
    # shifted right by -exponent, in two steps; what drops out is remembered in `rest`, if only as not being 0
    shift = np.maximum(-exponent, 0).astype(np.uint64)
    first = np.minimum(shift, 32)
    rest |= d0 & ((np.uint64(1) << first) - 1)
    # Short of 32 places, an upper half of 2**20 is beyond the end already, and a greater one could be lost.
    upper = np.where(first < 32, np.minimum(upper, 1 << 20), upper)
    twice = upper << (32 - first) | d0 >> first
    second = np.minimum(shift - first, 63)  # of less than 2**63 nothing is left after 63 places
    rest |= twice & ((np.uint64(1) << second) - 1)
    twice >>= second
    floor = twice >> 1
    floor += twice & 1 & ((rest != 0) | floor)
    rounded = np.minimum(floor, BEYOND).astype(np.int64)
    signed: NDArray[np.int64] = np.where(negative, -rounded, rounded)
    return signed
