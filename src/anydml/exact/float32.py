"""Arrays and integers rounded to float32, independently of the thread's floating-point state."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

TINY = np.finfo(np.float32).tiny  # the smallest normal number


def round_to_odd(value: int) -> float:
    """An integer as float64, rounded to odd (lost bits set the last one), so that rounding to float32 rounds the integer."""
    excess = max(0, abs(value).bit_length() - 50)
    if excess > 200:
        return -math.inf if value < 0 else math.inf
    kept = abs(value) >> excess
    kept |= kept << excess != abs(value)
    return math.ldexp(-kept if value < 0 else kept, excess)


def significands(scale: NDArray[Any]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Odd integers m, 0 for zeros, and exponents e such that finite float32 are m * 2^e; computed from their bits."""
    bits = scale.view(np.uint32).astype(np.int64)
    exponent, fraction = bits >> 23 & 0xFF, bits & 0x7FFFFF
    m = np.where(exponent > 0, fraction | 0x800000, fraction)
    low = np.maximum(m & -m, 1)  # the lowest set bit; 1 for zeros
    m = m // low
    e = np.maximum(exponent, 1) - 150 + np.frexp(low.astype(np.float64))[1] - 1
    return np.where(bits >> 31 != 0, -m, m), e


def widened(scale: NDArray[Any]) -> NDArray[np.float64]:
    """The values in float64, exactly; under denormals-are-zero, a cast would make subnormal ones 0."""
    wide = scale.astype(np.float64)
    if ((scale.view(np.uint32) & 0x7FFFFFFF) - np.uint32(1) < 0x7FFFFF).any():  # zeros are not subnormal: they wrap around
        m, e = significands(scale)
        wide = np.ldexp(m.astype(np.float64), e.astype(np.int32))
    return wide


def products_in_float32(integers: NDArray[Any], factors: NDArray[np.float32]) -> NDArray[np.float32]:
    """Integers below 2^37 times finite factors, rounded once; products with a zero are +0.

    Integers of 8 and 16 bits are float32 numbers, so that a product is rounded once, with the sign of positive factors.
    Otherwise, a factor is a 24-bit integer m times a power of two. Bits of an integer times m that do not fit float64 set its
    last bit, which is far below float32's last bit, so that rounding it rounds the product.
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


# two ties of each sign, and a subnormal: other rounding modes, and flush-to-zero, cast at least one of them differently
_PROBES = np.array([1 + 2**-24, 1 + 3 * 2**-24, -1 - 2**-24, -1 - 3 * 2**-24, 2**-149], np.float64)
_CAST = np.array([0x3F800000, 0x3F800002, 0xBF800000, 0xBF800002, 1], np.uint32)


def _rounds_as_usual() -> bool:
    """Whether this thread rounds half to even, and to subnormals."""
    return _PROBES.astype(np.float32).tobytes() == _CAST.tobytes()


def round_to_float32(x: NDArray[Any]) -> NDArray[np.float32]:
    """float64 rounded to float32, half to even, independently of the thread's floating-point state; NaN becomes the usual NaN.

    A cast follows the thread's rounding mode, and flush-to-zero makes subnormal results 0. The cast is therefore tried on
    probes in this thread; if it gives other results, and for NaN, the rounding is done in integers.
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
    biased = exponent - 1023 + 127  # float32's exponent, if the result is normal
    shift = np.where(biased >= 1, 29, np.minimum(30 - biased, 62))  # the number of bits that do not fit float32
    kept, lost, half = significand >> shift, significand & ((np.int64(1) << shift) - 1), np.int64(1) << (shift - 1)
    kept += (lost > half) | ((lost == half) & (kept & 1 == 1))
    # the leading bit of `kept`, and a carry out of rounding, each add one to the exponent
    magnitude = np.minimum(kept + (np.maximum(biased - 1, 0) << 23), 0x7F800000)
    magnitude = np.where(exponent == 0x7FF, np.where(fraction != 0, 0x7FC00000, 0x7F800000), magnitude)
    sign = (bits >> 63).astype(np.int64) << 31
    rounded: NDArray[np.float32] = (magnitude | sign).astype(np.uint32).view(np.float32)
    return rounded
