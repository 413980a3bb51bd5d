"""Number formats: conversions of bits to exact numbers and back, rounded once, half to even.

A *value* is one of three things. A Python float is a zero with its sign, an infinity or NaN, and nothing else, so Python's own
arithmetic follows IEEE 754 between two of them. An `mpq` is an exact number other than zero. A `Real` (in `reals.py`) is a
number other than zero that can be computed to any precision.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any

import ml_dtypes
import numpy as np
from gmpy2 import mpq, mpz
from numpy.typing import DTypeLike, NDArray

Array = NDArray[Any]
Value = Any
INFINITY, NAN = math.inf, math.nan
EXACT = type(mpq(1))
ONE = mpq(1)


@dataclass(frozen=True)
class Format:
    """A binary floating-point format: of IEEE 754, or of 8 bits without infinities."""

    width: int  # in bits
    precision: int  # bits of a significand, with the hidden one
    least: int  # the exponent of the smallest number: all numbers are multiples of 2**least
    only_nan: int | None = None  # the bits of NaN, up to its sign, in a format without infinities; 0: those of -0

    @cached_property
    def top(self) -> int:
        """The exponent of the power of two that exceeds all finite numbers."""
        fields = (1 << (self.width - self.precision)) - (1 if self.only_nan is None else 0)  # of exponents
        return fields - 1 + self.least + self.precision - 1

    @cached_property
    def largest(self) -> int:
        """The bits of the largest finite number."""
        if self.only_nan is None:
            return self.infinity - 1
        return (1 << (self.width - 1)) - (2 if self.only_nan else 1)

    @cached_property
    def infinity(self) -> int:
        return (1 << (self.width - 1)) - (1 << (self.precision - 1))

    @cached_property
    def nan(self) -> int:
        """The bits of the positive quiet NaN without payload, or of the only NaN."""
        if self.only_nan is not None:
            return self.only_nan or self.sign
        return self.infinity | 1 << (self.precision - 2)

    @cached_property
    def sign(self) -> int:
        return 1 << (self.width - 1)


FORMATS = {
    np.dtype(ml_dtypes.bfloat16): Format(16, 8, -133),
    np.dtype(np.float16): Format(16, 11, -24),
    np.dtype(np.float32): Format(32, 24, -149),
    np.dtype(np.float64): Format(64, 53, -1074),
    np.dtype(ml_dtypes.float8_e4m3fn): Format(8, 4, -9, 0x7F),
    np.dtype(ml_dtypes.float8_e5m2): Format(8, 3, -16),
    np.dtype(ml_dtypes.float8_e4m3fnuz): Format(8, 4, -10, 0),
    np.dtype(ml_dtypes.float8_e5m2fnuz): Format(8, 3, -17, 0),
}


def format_of(dtype: DTypeLike) -> Format:
    return FORMATS[np.dtype(dtype)]


# --- from bits ---


def bits(array: Array) -> Array:
    """The array's bit patterns, as unsigned integers of its shape."""
    packed = np.ascontiguousarray(array).reshape(array.shape)
    return packed.view(f"u{array.itemsize}")


def parts(array: Array) -> tuple[Array, Array, Array]:
    """The signed integer significands, the exponents, and the kinds of the elements of a floating-point array.

    A finite element is significand * 2**exponent, and its kind is -1.0, -0.0, 0.0 or 1.0. Another element is its own kind.
    Products and sums of kinds have NaN, infinities and signs of zeros as in IEEE 754, without any rounding.
    """
    f = format_of(array.dtype)
    pattern = bits(array)
    exponent = (pattern >> (f.precision - 1) & ((1 << (f.width - f.precision)) - 1)).astype(np.int64)
    fraction = (pattern & ((1 << (f.precision - 1)) - 1)).astype(np.int64)
    negative = pattern >> (f.width - 1) != 0
    finite = exponent < (1 << (f.width - f.precision)) - 1
    if f.only_nan is not None:
        finite = pattern != f.nan if f.only_nan == 0 else (pattern & f.only_nan) != f.only_nan
    significand = fraction | np.where(exponent > 0, 1 << (f.precision - 1), 0)
    infinite = (fraction == 0) & (f.only_nan is None)
    kind = np.where(finite, np.where(significand == 0, 0.0, 1.0), np.where(infinite, np.inf, np.nan))
    kind = np.where(negative, -kind, kind)
    significand = np.where(finite, np.where(negative, -significand, significand), 0)
    return significand, np.maximum(exponent, 1) - 1 + f.least, kind


def values(array: Array) -> list[Value]:
    """The elements in row-major order, as values. Integers are values too."""
    if array.dtype.kind in "iu":
        return [mpq(x) if x else 0.0 for x in array.ravel().tolist()]
    significands, exponents, kinds = (x.ravel().tolist() for x in parts(array))
    return [
        _scaled(significand, exponent) if significand else kind
        for significand, exponent, kind in zip(significands, exponents, kinds, strict=True)
    ]


def _scaled(significand: int, exponent: int) -> Any:
    return mpq(significand << exponent) if exponent >= 0 else mpq(significand, 1 << -exponent)


def exact(x: float | int | Fraction) -> Value:
    """A Python number as a value."""
    if isinstance(x, float) and (x == 0 or not math.isfinite(x)):
        return x
    return mpq(x) if x else 0.0


# --- to bits ---


def magnitude_bits(m: Any, e: int, f: Format) -> int:
    """The bits of the number nearest to m * 2**e, for an integer m > 0, half to even."""
    length: int = m.bit_length()
    top = length + e  # 2**(top - 1) <= m * 2**e < 2**top
    if top > f.top:
        return f.largest + 1
    last = max(top - f.precision, f.least)  # the exponent of the last digit
    shift = last - e
    if shift <= 0:
        q = int(m << -shift)
    elif shift > length:
        q = 0  # less than half of the last digit
    else:
        q = int(m >> shift)
        rest, half = m - (q << shift), 1 << (shift - 1)
        if rest > half or (rest == half and q & 1):
            q += 1
    # If the significand overflows, the exponent increases; after the largest number, the result is infinity.
    return ((last - f.least) << (f.precision - 1)) + q


def fraction_bits(x: Any, f: Format) -> int:
    """The bits of an exact number other than zero (an mpq or a Fraction), rounded."""
    n, d = x.numerator, x.denominator
    negative = n < 0
    n = abs(n)
    if d & (d - 1) == 0:
        magnitude = magnitude_bits(n, 1 - d.bit_length(), f)
    else:
        # The quotient with 70 bits and more, and a last bit that tells whether there is a remainder: it is rounded like the
        # exact one.
        shift = max(0, 70 + d.bit_length() - n.bit_length())
        q, rest = divmod(n << shift, d)
        magnitude = magnitude_bits(2 * q + (rest != 0), -shift - 1, f)
    return with_sign(magnitude, f, negative=negative)


def with_sign(magnitude: int, f: Format, *, negative: bool) -> int:
    """The bits of a number, 0 or infinity of this magnitude; without infinities, NaN beyond the largest number."""
    if f.only_nan is not None and magnitude > f.largest:
        return f.nan
    if magnitude == 0 and f.only_nan == 0:
        return 0  # there is no -0
    return magnitude | f.sign if negative else magnitude


def special_bits(x: float, f: Format) -> int:
    """The bits of a zero, an infinity or NaN."""
    if x != x:
        return f.nan
    magnitude = 0 if x == 0 else f.largest + 1
    return with_sign(magnitude, f, negative=math.copysign(1.0, x) < 0)


def value_bits(value: Value, f: Format) -> int:
    """The bits of a value, rounded once."""
    kind = type(value)
    if kind is EXACT:
        return fraction_bits(value, f)
    if kind is float:
        return special_bits(value, f)
    rounded: int = value.rounded(f)
    return rounded


def from_bits(pattern: int, dtype: DTypeLike) -> Value:
    """One bit pattern as a value."""
    dtype = np.dtype(dtype)
    return values(np.array([pattern], f"u{dtype.itemsize}").view(dtype))[0]


def rounded(value: Value, dtype: DTypeLike) -> Value:
    """The value that is stored: rounded to the type."""
    return from_bits(value_bits(value, format_of(dtype)), dtype)


def stored(results: Iterable[Value], sizes: Sequence[int], dtype: DTypeLike) -> Array:
    """An array of values, each rounded once; for integer types, truncated and saturated."""
    dtype = np.dtype(dtype)
    if dtype.kind in "iu":
        return np.array([truncated(value, dtype) for value in results], dtype).reshape(sizes)
    f = format_of(dtype)
    return np.array([value_bits(value, f) for value in results], f"u{dtype.itemsize}").view(dtype).reshape(sizes)


# --- integers ---


def limits(dtype: DTypeLike) -> tuple[int, int]:
    info = np.iinfo(np.dtype(dtype))
    return int(info.min), int(info.max)


def wrapped(x: int, dtype: DTypeLike) -> int:
    """An integer modulo 2**bits of the type."""
    lo, hi = limits(dtype)
    return (int(x) - lo) % (hi - lo + 1) + lo


def saturated(x: int, dtype: DTypeLike) -> int:
    lo, hi = limits(dtype)
    return min(max(int(x), lo), hi)


def truncated(value: Value, dtype: DTypeLike) -> int:
    """A value truncated to an integer, saturated; NaN gives 0; not for a Real."""
    lo, hi = limits(dtype)
    if type(value) is float:
        if value != value or value == 0:
            return 0
        return hi if value > 0 else lo
    return saturated(abs(value.numerator) // value.denominator * (1 if value > 0 else -1), dtype)


def half_even(x: Any) -> int:
    """The integer nearest to an exact number, half to even."""
    floor, rest = divmod(x.numerator, x.denominator)
    twice = 2 * rest
    up = twice > x.denominator or (twice == x.denominator and floor % 2 == 1)
    return int(floor) + int(up)


def to_integer_array(results: Iterable[int], sizes: Sequence[int], dtype: DTypeLike) -> Array:
    """An array of integers of any size, modulo 2**bits of the type."""
    return np.array([wrapped(x, dtype) for x in results], dtype).reshape(sizes)


def square_root(x: Any) -> Any:
    """A number that every format rounds like the square root of x > 0, which may be irrational."""
    n, d = mpz(x.numerator), mpz(x.denominator)
    # sqrt(n / d) = sqrt(n * d) / d, with so many digits that the root has 70 bits more than d, and a last bit as above
    shift = 70 + d.bit_length()
    root = math.isqrt(int(n * d << 2 * shift))
    rest = root * root != n * d << 2 * shift
    return mpq(2 * root + rest, d << (shift + 1))
