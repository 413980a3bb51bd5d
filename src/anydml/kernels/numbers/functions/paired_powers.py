"""x^y of float32 as pairs, computed in float64, on targets with look-ups of eight float32 or of 16 float64.

u is 2^-53. x = 2^e m, and log2 x = e + log2 c + log2(1 + r) with r = m / c - 1, where 1 / c has eight bits, or five of eight
entries, so that r is exact; 2^z is 2^n times 2^(z - n), where n is a multiple of 1/16, or of 1/8.
"""

from __future__ import annotations

import math
from typing import NamedTuple

from anydml.kernels.code.values import Value
from anydml.kernels.numbers.functions import paired_tables as tables
from anydml.kernels.numbers.functions.coefficients import EXP2_NEAR, EXP2_NEAR_EIGHTHS, LOG2_NEAR, LOG2_NEAR_EIGHTHS
from anydml.kernels.numbers.functions.pair_intervals import PairInterval
from anydml.kernels.numbers.functions.paired import halved
from anydml.kernels.numbers.functions.picks import picked
from anydml.kernels.numbers.functions.polynomials import Polynomial, U

FAR = 90.0  # beyond these exponents of 2, float32 tails lose digits


class Powers(NamedTuple):
    """The tables of an instruction set. rounder: adding it rounds to exponents of entries, whose count is then in the low bits.

    Constants are computed here, and not where code is emitted, which may be in a thread that rounds in another direction.
    """

    bits: int
    rounder: float
    entries: tuple[float, ...]
    power: Polynomial
    margin: float


def _margin(power: Polynomial, logarithm: Polynomial, share: float) -> float:
    """share: the largest ratio of log2(1 + r), or log2 c, or e + log2 c, to log2 x."""
    # the last two are rounded; so are the sum of all and its product with y
    of_logarithm = share * (logarithm.rel + 1.1 * U) + 6.5 * U
    # the power's own error, an entry's and two products'; the tail's roundings are below 2^-47
    return (FAR * math.log(2) * of_logarithm + power.rel + 4.1 * U + 2.0**-46) * 1.001


SIXTEEN = Powers(4, 1.5 * 2.0**48, tables.SIXTEENTHS, EXP2_NEAR, _margin(EXP2_NEAR, LOG2_NEAR, 2.2))
EIGHT = Powers(3, 1.5 * 2.0**49, tables.EIGHTHS, EXP2_NEAR_EIGHTHS, _margin(EXP2_NEAR_EIGHTHS, LOG2_NEAR_EIGHTHS, 2.5))


def halved_exponent(y: Value) -> Value:
    """A float32 that is an integer if y / 2 is one: y / 2, made from the bits of y; for a zero, an infinity.

    For a subnormal y it is NaN, for NaN it may be anything. A multiplication by 1/2 would be slow for subnormal numbers.
    """
    return (y.bits() - (1 << 23)).cast(y.kind)


def pow(x: Value, y: Value) -> PairInterval:
    """x^y for finite nonzero x; a negative x needs an integer y. With tables of eight entries, x is not subnormal."""
    body, double = x.body, x.kind.of("double")
    many = "avx512f" in body.target.features
    of, size, least = (SIXTEEN, x.magnitude(), 1) if many else (EIGHT, x.magnitude(), 1 << 23)
    z = (_log2_of_16 if many else _log2_of_8)(size) * y.converted("fpext", double)
    shifted = z + of.rounder
    index = shifted.bits()
    scale = (picked(of.entries, "double", index).bits() + (index << 52 - of.bits)).cast(double)
    power = of.power(z - (shifted - of.rounder)) * scale
    head, tail = halved(power, x.kind)
    margin = of.margin
    share = head * margin
    half = halved_exponent(y)
    whole, even = (body.intrinsic("roundeven", v).compared("oeq", v) for v in (y, half))
    negative = x.bits().compared("slt", 0)
    outside = (size.bits() - least).compared("uge", 0x7F800000 - least)
    outside = outside | (negative & ~whole) | z.magnitude().compared("uge", FAR)
    sign = body.chosen(negative & ~even, body.constant(x.kind.integer, -(1 << 31)), 0)
    square, of_two = size * size, y.compared("oeq", 2.0)  # many squares are ties, and the float32 product rounds them correctly
    ends = [(power * (1 + e)).converted("fptrunc", x.kind) for e in (-margin, margin)]
    low, high = (body.chosen(of_two, square, end) for end in ends)
    return PairInterval(head, tail - share, tail + share, outside, sign, 2.0**-23, (low, high))


def _log2_of_16(size: Value) -> Value:
    """In float64, which has no subnormal float32."""
    fused, double = size.body.fused, size.kind.of("double")
    bits = size.converted("fpext", double).bits()
    moved = bits - tables.LOG2_FIRST
    exponent = moved.shifted_right(52, signed=True)
    index = moved.shifted_right(48, signed=False)
    m = (bits - (exponent << 52)).cast(double)
    r = fused(m, picked(tables.LOG2_FACTORS, "double", index), -1.0)  # exact
    head = exponent.converted("sitofp", double) + picked(tables.LOG2_VALUES, "double", index)
    return fused(LOG2_NEAR(r), r, head)


def _log2_of_8(size: Value) -> Value:
    """r in float32, as that of the logarithm in pairs."""
    fused, double = size.body.fused, size.kind.of("double")
    bits = size.bits()
    moved = bits - tables.LOG_FIRST
    exponent = moved.shifted_right(23, signed=True)
    index = moved.shifted_right(20, signed=False)
    m = (bits - (exponent << 23)).cast(size.kind)
    r = fused(m, picked(tables.LOG_FACTORS, "float", index), -1.0).converted("fpext", double)  # exact
    value = picked(tables.LOG2_VALUES_8, "double", index.converted("zext", double.integer))
    return fused(LOG2_NEAR_EIGHTHS(r), r, exponent.converted("sitofp", double) + value)
