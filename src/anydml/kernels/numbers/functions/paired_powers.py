"""x^y of float32 as pairs, computed in float64, on targets with look-ups of 16 entries.

u is 2^-53. x = 2^e m, and log2 x = e + log2 c + log2(1 + r) with r = m / c - 1, where 1 / c has eight bits, so that r is exact;
2^z is 2^n times 2^(z - n), where n is a multiple of 1/16.
"""

from __future__ import annotations

import math

from anydml.kernels.code.values import Body, Value
from anydml.kernels.numbers.functions import paired_tables as tables
from anydml.kernels.numbers.functions.coefficients import EXP2_NEAR, LOG2_NEAR
from anydml.kernels.numbers.functions.pair_intervals import PairInterval
from anydml.kernels.numbers.functions.paired import halved
from anydml.kernels.numbers.functions.picks import picked
from anydml.kernels.numbers.functions.polynomials import U

ROUNDER = 1.5 * 2.0**48  # adding it rounds to sixteenths, whose count is then in the low bits
FAR = 90.0  # beyond these exponents of 2, float32 tails lose digits

# log2(1 + r), log2 c and e + log2 c are at most 2.2 times log2 x, and the last two are rounded; so are the sum of all and its
# product with y
_LOG2_REL = 2.2 * (LOG2_NEAR.rel + 1.1 * U) + 6.5 * U
# the power's own error, an entry's and two products'; the tail's roundings are below 2^-47
MARGIN = (FAR * math.log(2) * _LOG2_REL + EXP2_NEAR.rel + 4.1 * U + 2.0**-46) * 1.001


def serves(body: Body) -> bool:
    return "avx512f" in body.target.features


def halved_exponent(y: Value) -> Value:
    """A float32 that is an integer if y / 2 is one: y / 2, made from the bits of y; for a zero, an infinity.

    For a subnormal y it is NaN, for NaN it may be anything. A multiplication by 1/2 would be slow for subnormal numbers.
    """
    return (y.bits() - (1 << 23)).cast(y.kind)


def pow(x: Value, y: Value) -> PairInterval:
    """x^y for finite nonzero x; a negative x needs an integer y."""
    body, fused = x.body, x.body.fused
    double = x.kind.of("double")
    size = x.magnitude()
    bits = size.converted("fpext", double).bits()
    moved = bits - tables.LOG2_FIRST
    exponent = moved.shifted_right(52, signed=True)
    index = moved.shifted_right(48, signed=False)
    m = (bits - (exponent << 52)).cast(double)
    r = fused(m, picked(tables.LOG2_FACTORS, "double", index), -1.0)  # exact
    head = exponent.converted("sitofp", double) + picked(tables.LOG2_VALUES, "double", index)
    z = fused(LOG2_NEAR(r), r, head) * y.converted("fpext", double)
    shifted = z + ROUNDER
    index = shifted.bits()
    scale = (picked(tables.SIXTEENTHS, "double", index).bits() + (index << 48)).cast(double)
    power = EXP2_NEAR(z - (shifted - ROUNDER)) * scale
    head, tail = halved(power, x.kind)
    share = head * MARGIN
    half = halved_exponent(y)
    whole, even = (body.intrinsic("roundeven", v).compared("oeq", v) for v in (y, half))
    negative = x.bits().compared("slt", 0)
    outside = (size.bits() - 1).compared("uge", 0x7F7FFFFF) | (negative & ~whole) | z.magnitude().compared("uge", FAR)
    sign = body.chosen(negative & ~even, body.constant(x.kind.integer, -(1 << 31)), 0)
    square, of_two = size * size, y.compared("oeq", 2.0)  # many squares are ties, and the float32 product rounds them correctly
    ends = [(power * (1 + e)).converted("fptrunc", x.kind) for e in (-MARGIN, MARGIN)]
    low, high = (body.chosen(of_two, square, end) for end in ends)
    return PairInterval(head, tail - share, tail + share, outside, sign, 2.0**-23, (low, high))
