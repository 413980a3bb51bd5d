"""Arrays and integers rounded to float32, whatever the floating-point state of the thread."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

TINY = np.finfo(np.float32).tiny  # the smallest that is no subnormal


def round_to_odd(value: int) -> float:
    """An integer in float64 such that rounding that to float32 rounds the integer: lost bits leave the last one set."""
    excess = max(0, abs(value).bit_length() - 50)
    if excess > 200:
        return -math.inf if value < 0 else math.inf
    kept = abs(value) >> excess
    kept |= kept << excess != abs(value)
    return math.ldexp(-kept if value < 0 else kept, excess)


def significands(scale: NDArray[Any]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Odd integers m, 0 for zeros, and exponents e with m * 2^e the values of finite float32, from their bits alone."""
    bits = scale.view(np.uint32).astype(np.int64)
    exponent, fraction = bits >> 23 & 0xFF, bits & 0x7FFFFF
    m = np.where(exponent > 0, fraction | 0x800000, fraction)
    low = np.maximum(m & -m, 1)  # the lowest bit that is set; of zeros, 1
    m = m // low
    e = np.maximum(exponent, 1) - 150 + np.frexp(low.astype(np.float64))[1] - 1
    return np.where(bits >> 31 != 0, -m, m), e


def widened(scale: NDArray[Any]) -> NDArray[np.float64]:
    """The values in float64, exactly, subnormal ones too: under denormals-are-zero a cast would make 0 of those."""
    wide = scale.astype(np.float64)
    if ((scale.view(np.uint32) & 0x7FFFFFFF) - np.uint32(1) < 0x7FFFFF).any():  # a zero is none of them: it wraps around
        m, e = significands(scale)
        wide = np.ldexp(m.astype(np.float64), e.astype(np.int32))
    return wide


def products_in_float32(integers: NDArray[Any], factors: NDArray[np.float32]) -> NDArray[np.float32]:
    """Integers below 2^37 times finite factors, rounded once; of zeros, +0 is the product.

    Integers of 8 and 16 bits are numbers of float32 themselves, so that a product is rounded once, with the sign of factors
    above 0. Else, a factor is a whole number m of 24 bits times a power of two. What float64 has no room for of an integer
    times m leaves its last bit set, far below what float32 holds: rounding that rounds the product.
    """
    if integers.dtype.itemsize < 4 and (factors >= TINY).all() and _rounds_as_usual():
        with np.errstate(all="ignore"):
            found: NDArray[np.float32] = np.multiply(integers, factors, dtype=np.float32)
        return found
    m, exponent = np.frexp(widened(factors))
    product = integers * np.ldexp(m, 24).astype(np.int64)  # below 2^61
    large = np.abs(product) >= 2**52
    kept = np.where(large, product >> 9 | (product & 511 != 0), product)
    return round_to_float32(np.ldexp(kept.astype(np.float64), exponent + np.where(large, 9 - 24, -24)))


# two ties, of each sign, and a subnormal: cast as they are to be by no other rounding mode, nor where subnormals are flushed
_PROBES = np.array([1 + 2**-24, 1 + 3 * 2**-24, -1 - 2**-24, -1 - 3 * 2**-24, 2**-149], np.float64)
_CAST = np.array([0x3F800000, 0x3F800002, 0xBF800000, 0xBF800002, 1], np.uint32)


def _rounds_as_usual() -> bool:
    """Whether this thread rounds half to even, and to subnormals."""
    return _PROBES.astype(np.float32).tobytes() == _CAST.tobytes()


def round_to_float32(x: NDArray[Any]) -> NDArray[np.float32]:
    """float64 rounded to float32, half to even, whatever the thread's floating-point state; of NaN, the usual one.

    A cast obeys the rounding mode, and under flush-to-zero makes 0 of a subnormal result. So it is tried, in this thread, on
    numbers that tell; where it is another one, and of NaN, integers do it.
    """
    if _rounds_as_usual():
        with np.errstate(all="ignore"):
            cast = np.ascontiguousarray(x).astype(np.float32)
            if not np.isnan(cast.min(initial=0)):
                return cast
    return _by_integers(x)


def _by_integers(x: NDArray[Any]) -> NDArray[np.float32]:
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
