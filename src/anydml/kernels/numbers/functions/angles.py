"""Sines and cosines of angles in twice float64's precision, and the reduction of angles modulo pi / 2."""

from __future__ import annotations

import math
from fractions import Fraction

from anydml.kernels.code.values import Value
from anydml.kernels.numbers.functions.approximate import ROUNDER
from anydml.kernels.numbers.functions.pairs import Pair, halves, quick_sum, series, two_sum

FARTHEST = 2.0**130  # the largest angle
# pi / 2 in parts of 32, 32, 32 and 53 bits: products of all but the last with k are exact
_HALF_PI = [float.fromhex(x) for x in ("0x1.921fb544p+0", "0x1.0b4611a6p-34", "0x1.3198a2e0p-69", "0x1.b839a252049c1p-104")]
PI = 2 * sum(map(Fraction, _HALF_PI))
# 2 / pi in parts of 24 bits
_TWO_OVER_PI = [
    (0xA2F9836E4E441529FC2757D1F534DDC0DB6295993C439041FE5163ABDEBBC561B7246E3A >> 24 * (11 - i) & 0xFFFFFF)
    * 2.0 ** (-24 * (i + 1))
    for i in range(12)
]

# the series of sin(r) / r and of cos(r) in r^2 <= 0.617; from the seventh and the eighth term on they are below 2^-36
_SIN = [Fraction((-1) ** n, math.factorial(2 * n + 1)) for n in range(14)]
_COS = [Fraction((-1) ** n, math.factorial(2 * n)) for n in range(14)]


def near_angle(x: Pair) -> tuple[Pair, Value]:
    """r, and bits whose low ones are those of k, where x = k pi / 2 + r, for |x| up to 2^21."""
    body = x.head.body
    shifted = body.fused(x.head, 2 / math.pi, ROUNDER)
    k = shifted - ROUNDER
    r, rest = body.fused(k, -_HALF_PI[0], x.head), k * -_HALF_PI[3]
    for part in (k * -_HALF_PI[1], k * -_HALF_PI[2], x.tail):  # the remainder may be as small as the tail
        r, tail = two_sum(r, part)
        rest = rest + tail
    return quick_sum(r, rest), shifted.bits()


def _far_angle(x: Pair) -> tuple[Pair, Value]:
    """The result of `near_angle` for |x| up to 2^130, from x 2 / pi modulo 4: the exact sum of products of parts of x and of
    2 / pi."""
    sums = [x.head.lift(0.0)] * 3
    single = x.tail.name == x.head.lift(0.0).name  # whether x is a single float
    for part in (*halves(x.head), *(() if single else halves(x.tail))):
        for digits in _TWO_OVER_PI:
            p = part * digits  # 51 bits: a multiple of 4 from 2^53 on
            p = p - ((p * 0.25 + ROUNDER) - ROUNDER) * 4
            p = x.head.body.chosen((part * digits).magnitude().compared("olt", 2.0**53), p, 0.0)
            for i in range(2):
                sums[i], p = two_sum(sums[i], p)
            sums[2] = sums[2] + p
    shifted = sums[0] + ROUNDER
    head, tail = two_sum(sums[0] - (shifted - ROUNDER), sums[1])
    return quick_sum(head, tail + sums[2]) * (PI / 2), shifted.bits()


def sin_cos(x: Pair) -> tuple[Pair, Pair]:
    """The sine and the cosine of x, for |x| up to FARTHEST."""
    far = x.head.magnitude().compared("ogt", 2.0**21)
    (rest, bits), (far_rest, far_bits) = near_angle(x), _far_angle(x)
    return sin_cos_of(far_rest.where(far, rest), x.head.body.chosen(far, far_bits, bits))


def sin_cos_of(rest: Pair, bits: Value) -> tuple[Pair, Pair]:
    """The sine and the cosine of k pi / 2 + rest."""
    square = rest * rest
    sin, cos = series(square, _SIN, 6) * rest, series(square, _COS, 7)
    odd, half = (bits & 1).compared("eq", 1), (bits & 2).compared("eq", 2)
    return cos.where(odd, sin).negated(half), sin.where(odd, cos).negated(odd ^ half)
