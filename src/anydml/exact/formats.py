"""Floating-point formats as integers: bit patterns to significands, and rational numbers to the nearest bit pattern.

No floats are used, so that the calling thread's rounding mode and flush-to-zero flags cannot change a result.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import NamedTuple

from anydml.tensor import DataType


class Format(NamedTuple):
    """A binary format of IEEE 754, or one of the 8-bit formats without infinities.

    bits: the width of a pattern. precision: the bits of the significand, with the hidden bit. lowest: the exponent of the
    smallest subnormal number. highest: finite numbers are below 2^highest. suffix: "" for IEEE 754's; "FN": no infinity, and
    NaN is the largest pattern of each sign; "FNUZ": no infinity, no -0, and NaN has the pattern that would be -0.
    """

    bits: int
    precision: int
    lowest: int
    highest: int
    suffix: str = ""

    @property
    def infinity(self) -> int:
        """The bit pattern of +infinity; in formats without it, the one above the largest number."""
        if self.suffix:
            return self.largest + 1
        return (1 << self.bits - self.precision) - 1 << self.precision - 1

    @property
    def largest(self) -> int:
        """The bit pattern of the largest finite number."""
        if self.suffix:
            return self.sign - (2 if self.suffix == "FN" else 1)
        return self.infinity - 1

    @property
    def quiet_nan(self) -> int:
        """The bit pattern of the positive quiet NaN without payload."""
        return self.infinity if self.suffix else self.infinity | 1 << self.precision - 2

    @property
    def negative_zero(self) -> int:
        """The bit pattern of -0; in formats without it, that of 0."""
        return 0 if self.suffix == "FNUZ" else self.sign

    def is_finite(self, bits: int) -> bool:
        """Whether a bit pattern is that of a finite number."""
        return bits & ~self.sign <= self.largest and (self.suffix != "FNUZ" or bits != self.sign)

    def beyond(self, sign: int) -> int:
        """The bit pattern of a number beyond the largest: an infinity with the sign bit `sign`, or NaN."""
        return self.infinity if self.suffix else sign | self.infinity

    @property
    def sign(self) -> int:
        """The sign bit."""
        return 1 << self.bits - 1


FLOAT16 = Format(16, 11, -24, 16)
FLOAT32 = Format(32, 24, -149, 128)
FLOAT64 = Format(64, 53, -1074, 1024)
BFLOAT16 = Format(16, 8, -133, 128)
E4M3FN, E5M2 = Format(8, 4, -9, 9, "FN"), Format(8, 3, -16, 16)
E4M3FNUZ, E5M2FNUZ = Format(8, 4, -10, 8, "FNUZ"), Format(8, 3, -17, 16, "FNUZ")
FORMATS: Mapping[DataType, Format] = {  # of the types of floats; the others are of integers
    DataType.FLOAT16: FLOAT16,
    DataType.FLOAT32: FLOAT32,
    DataType.FLOAT64: FLOAT64,
    DataType.BFLOAT16: BFLOAT16,
    DataType.FLOAT8_E4M3FN: E4M3FN,
    DataType.FLOAT8_E5M2: E5M2,
    DataType.FLOAT8_E4M3FNUZ: E4M3FNUZ,
    DataType.FLOAT8_E5M2FNUZ: E5M2FNUZ,
}


class FloatLimits(NamedTuple):
    """The difference between 1 and the next number, the least normal number, and the largest, as in `np.finfo`."""

    eps: float
    tiny: float
    max: float


def float_limits(data_type: DataType) -> FloatLimits:
    """The limits of a type of floats."""
    form = FORMATS[data_type]
    m, e = significand(form.largest, form)
    return FloatLimits(2.0 ** (1 - form.precision), 2.0 ** (form.lowest + form.precision - 1), math.ldexp(m, e))


def significand(bits: int, form: Format = FLOAT32) -> tuple[int, int]:
    """A finite bit pattern as (m, e) with value m * 2^e; m is 0 for both zeros, and negative for negative numbers."""
    width = form.precision - 1
    exponent = bits >> width & (1 << form.bits - form.precision) - 1
    fraction = bits & (1 << width) - 1
    if exponent:
        fraction |= 1 << width
        exponent -= 1
    return (-fraction if bits & form.sign else fraction), exponent + form.lowest


def nearest(numerator: int, denominator: int, form: Format) -> int:
    """The bit pattern of a rational number that is not 0, rounded half to even; the denominator is positive.

    Subnormal numbers are kept, overflow gives an infinity, or NaN in formats without it, and numbers that round to 0 keep
    their sign in formats with -0.
    """
    n, sign = (-numerator, form.sign) if numerator < 0 else (numerator, 0)
    exponent = n.bit_length() - denominator.bit_length()
    if (n << -exponent if exponent < 0 else n) < (denominator << exponent if exponent > 0 else denominator):
        exponent -= 1  # now 2^exponent <= n / denominator < 2^(exponent + 1)
    if exponent >= form.highest:
        return form.beyond(sign)
    step = max(exponent - form.precision + 1, form.lowest)
    d = denominator << step if step > 0 else denominator
    m, rest = divmod(n << -step if step < 0 else n, d)
    m += 2 * rest > d or (2 * rest == d and m & 1)
    if m < 1 << form.precision - 1:
        return sign | m if m or sign == 0 else form.negative_zero  # subnormal, or 0
    # a carry into the next binade increments the exponent field by itself, up to infinity's
    found = (step - form.lowest + 1 << form.precision - 1) + m - (1 << form.precision - 1)
    return sign | found if found <= form.largest else form.beyond(sign)


def half_even(numerator: int, denominator: int) -> int:
    """The integer nearest to a rational number, at a tie the even one; the denominator is positive."""
    quotient, rest = divmod(numerator, denominator)
    return quotient + (2 * rest > denominator or (2 * rest == denominator and quotient & 1))


def wrapped(value: int, bits: int, signed: bool) -> int:
    """An integer modulo 2^bits, in two's complement if signed."""
    value &= (1 << bits) - 1
    return value - (1 << bits) if signed and value >> bits - 1 else value
