"""The elementary functions of pairs, to 2^-80: the second stage of what float64 leaves undecided, and what judges float64.

Taylor series of reduced arguments, and one step of Newton's method from the value of float64 for what inverts them: nothing is
taken from the polynomials of the first stage, but where Newton's step begins. Arguments are finite, results between 2^-800 and
2^800; infinities and what lies outside a domain are the first stage's.

The bounds: what the series lack is below 2^-85, their terms in plain float64 are below 2^-32 of the result, and fewer than 2^8
operations of pairs are off by 2^-98 each, none of them with a condition above 2^4.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from decimal import Context, Decimal
from fractions import Fraction
from typing import NamedTuple

from anydml.kernels.code.values import Value
from anydml.kernels.elementwise import circular, logarithms
from anydml.kernels.elementwise.approximate import ROUNDER, Approximate
from anydml.kernels.elementwise.logarithms import parts
from anydml.kernels.elementwise.pairs import Pair, halves, quick_sum, two_sum

REL = 2.0**-80
FARTHEST = 2.0**130  # the largest argument of sin, cos and tan

# of 41, 41 and 53 bits; of 32, 32, 32 and 53 bits: products of all but the last and k are exact
_LN2 = [float.fromhex(x) for x in ("0x1.62e42fefa3p-1", "0x1.3de6af278ep-42", "0x1.9cc01f97b57a0p-83")]
_HALF_PI = [float.fromhex(x) for x in ("0x1.921fb544p+0", "0x1.0b4611a6p-34", "0x1.3198a2e0p-69", "0x1.b839a252049c1p-104")]
# by 24 bits
_TWO_OVER_PI = [
    (0xA2F9836E4E441529FC2757D1F534DDC0DB6295993C439041FE5163ABDEBBC561B7246E3A >> 24 * (11 - i) & 0xFFFFFF)
    * 2.0 ** (-24 * (i + 1))
    for i in range(12)
]
LN2, PI = sum(map(Fraction, _LN2)), 2 * sum(map(Fraction, _HALF_PI))
TWO_OVER_ROOT_PI = Fraction(float.fromhex("0x1.20dd750429b6dp+0")) + Fraction(float.fromhex("0x1.1ae3a914fed80p-56"))


class Doubled(NamedTuple):
    """A value as a pair, and its relative bound, which does not hold in the lanes of the guard."""

    head: Value
    tail: Value
    rel: float
    guard: Value | None = None


def _series(x: Pair, terms: Sequence[Fraction], exact: int) -> Pair:
    """The sum of terms[i] x^i, where those from `exact` on are so small that float64 serves them."""
    *others, last = terms[exact:]
    small = x.head.lift(float(last))
    for c in reversed(others):
        small = x.head.body.fused(small, x.head, float(c))
    found = Pair(*two_sum(x.head.lift(0.0), small))
    for c in reversed(terms[:exact]):
        found = found * x + c
    return found


# of e^y - 1 divided by y, for |y| <= 0.0217; the terms from y^5 / 720 on are below 2^-37, y^11 / 12! is below 2^-89
_EXP = [Fraction(1, math.factorial(n)) for n in range(1, 13)]
# of sin(r) / r and of cos(r), in r^2 <= 0.617; the terms from the seventh and the eighth on are below 2^-36
_SIN = [Fraction((-1) ** n, math.factorial(2 * n + 1)) for n in range(14)]
_COS = [Fraction((-1) ** n, math.factorial(2 * n)) for n in range(14)]


_MOST = 690.0


def _reduced_exp(x: Pair) -> tuple[Pair, Value]:
    """e^r - 1 and 2^k, where x = k log 2 + r, or 690 or -690 beyond."""
    body = x.head.body
    x = x.where(x.head.compared("olt", _MOST), _MOST).where(x.head.compared("ogt", -_MOST), -_MOST)
    shifted = body.fused(x.head, 1 / math.log(2), ROUNDER + 1023)
    power = (shifted.bits() << 52).cast(x.head.kind)
    k = shifted - (ROUNDER + 1023)
    first = body.fused(k, -_LN2[0], x.head)
    head, tail = two_sum(first, k * -_LN2[1])
    y = quick_sum(head, tail + (k * -_LN2[2] + x.tail)).scaled(1 / 16)
    p = _series(y, _EXP, 5) * y
    for _ in range(4):
        p = p * (p + 2)
    return p, power


def _exp(x: Pair) -> Pair:
    p, power = _reduced_exp(x)
    return (p + 1).scaled(power)


def _expm1(x: Pair) -> Pair:
    p, power = _reduced_exp(x)
    return p.scaled(power) + (Pair(power, power.lift(0.0)) - 1)


def near_angle(x: Pair) -> tuple[Pair, Value]:
    """r and the bits of k, where x = k pi / 2 + r, for |x| up to 2^21."""
    body = x.head.body
    shifted = body.fused(x.head, 2 / math.pi, ROUNDER)
    k = shifted - ROUNDER
    r, rest = body.fused(k, -_HALF_PI[0], x.head), k * -_HALF_PI[3]
    for part in (k * -_HALF_PI[1], k * -_HALF_PI[2], x.tail):  # what is left may be as small as the tail
        r, tail = two_sum(r, part)
        rest = rest + tail
    return quick_sum(r, rest), shifted.bits()


def _far_angle(x: Pair) -> tuple[Pair, Value]:
    """The same for |x| up to 2^130: x 2 / pi, without multiples of 4, as the exact sum of products of parts of both."""
    sums = [x.head.lift(0.0)] * 3
    for part in (*halves(x.head), *halves(x.tail)):
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


def _sin_cos(x: Pair) -> tuple[Pair, Pair]:
    """For |x| up to FARTHEST."""
    far = x.head.magnitude().compared("ogt", 2.0**21)
    (rest, bits), (far_rest, far_bits) = near_angle(x), _far_angle(x)
    return sin_cos_of(far_rest.where(far, rest), x.head.body.chosen(far, far_bits, bits))


def sin_cos_of(rest: Pair, bits: Value) -> tuple[Pair, Pair]:
    """The sine and the cosine of k pi / 2 + rest."""
    square = rest * rest
    sin, cos = _series(square, _SIN, 6) * rest, _series(square, _COS, 7)
    odd, half = (bits & 1).compared("eq", 1), (bits & 2).compared("eq", 2)
    return cos.where(odd, sin).negated(half), sin.where(odd, cos).negated(odd ^ half)


def _log_near_one(f: Pair) -> Pair:
    """log(1 + f) for |f| <= 0.42: y + log(1 + d) with y from float64 and d = (1 + f) e^-y - 1, of which 2^-45 |f| is left."""
    y = logarithms.log1p(f.head).value
    minus = Pair(-y, y.lift(0.0))
    d = f + (f + 1) * _expm1(minus)
    return d - d.head * d.head * 0.5 + y


def _parted(x: Pair) -> tuple[Value, Pair]:
    """x = 2^e m: e, and m - 1."""
    exponent, m, moved = parts(x.head)
    scale = (x.head.body.constant(moved.kind, 2046 << 52) - (moved & (2047 << 52))).cast(x.head.kind)
    return exponent, quick_sum(m - 1, x.tail * scale)


def _log(x: Pair) -> Pair:
    exponent, f = _parted(x)
    return _log_near_one(f) + x._lift(LN2) * exponent


def _log1p(x: Pair) -> Pair:
    exponent, f = _parted(x + 1)
    near = x.head.magnitude().compared("olt", 0.25)
    return _log_near_one(x.where(near, f)) + x._lift(LN2) * exponent


def _sigmoid(x: Pair) -> Pair:
    return 1.0 / (_exp(-x) + 1)


def _softplus(x: Pair) -> Pair:
    below = x.head.compared("olt", 0.0)
    return x.where(~below, 0.0) + _log1p(_exp(-x.magnitude()))


def _tanh(x: Pair) -> Pair:
    p = _expm1(x.scaled(2.0))
    return p / (p + 2)


def _sinh(x: Pair) -> Pair:
    p = _expm1(x.magnitude())
    return (p + p / (p + 1)).scaled(0.5).negated(x.head.bits().compared("slt", 0))


def _cosh(x: Pair) -> Pair:
    p = _exp(x)
    return (p + 1.0 / p).scaled(0.5)


def _asinh(x: Pair) -> Pair:
    size = x.magnitude()
    square = size * size
    found = _log1p(size + square / ((square + 1).root() + 1))
    return found.negated(x.head.bits().compared("slt", 0))


def _acosh(x: Pair) -> Pair:
    t = x - 1
    return _log1p(t + (t * (t + 2)).root())


def _atanh(x: Pair) -> Pair:
    size = x.magnitude()
    return _log1p(size.scaled(2.0) / (1 - size)).scaled(0.5).negated(x.head.bits().compared("slt", 0))


def _sin(x: Pair) -> Pair:
    return _sin_cos(x)[0]


def _cos(x: Pair) -> Pair:
    return _sin_cos(x)[1]


def _tan(x: Pair) -> Pair:
    sin, cos = _sin_cos(x)
    return sin / cos


def _begun(function: Callable[[Value], Approximate], x: Pair) -> tuple[Pair, Pair, Pair]:
    """The value of float64 for an angle, its sine and its cosine."""
    angle = function(x.head).value
    begun = Pair(angle, angle.lift(0.0))
    return begun, *sin_cos_of(*near_angle(begun))


def _atan(x: Pair) -> Pair:
    """y + atan(d) with d = (x cos y - sin y) / (cos y + x sin y)."""
    y, sin, cos = _begun(circular.atan, x)
    return y + (x * cos - sin) / (cos + x * sin)


def _asin(x: Pair) -> Pair:
    """y + asin(d) with d = x cos y - sqrt(1 - x^2) sin y."""
    y, sin, cos = _begun(circular.asin, x)
    return y + (x * cos - ((1 - x) * (x + 1)).root() * sin)


def _acos(x: Pair) -> Pair:
    """y + asin(d) with d = sqrt(1 - x^2) cos y - x sin y; beside 1, where y is that of the head alone, d is 2^-26."""
    y, sin, cos = _begun(circular.acos, x)
    d = ((1 - x) * (x + 1)).root() * cos - x * sin
    return y + (d + d.head * d.head * d.head * (1 / 6))


# erf(x) / x, of x^2 <= 1/4; the terms from the seventh on are below 2^-26
_ERF = [Fraction((-1) ** n, math.factorial(n) * (2 * n + 1)) * TWO_OVER_ROOT_PI for n in range(19)]
# the trapezoidal rule for the integral of e^(-t^2) / (x^2 + t^2) with the step 3/8: it lacks e^-70 where the pole is counted
_STEP = Fraction(3, 8)
_NODES = [n * n * _STEP * _STEP for n in range(1, 22)]  # the weights from the 13th on are below 2^-34
_WEIGHTS = [Fraction((Decimal(t.numerator) / -t.denominator).exp(Context(prec=40))) for t in _NODES]


def erf_near_zero(x: Pair) -> Pair:
    """erf(x) for |x| <= 1/2."""
    return _series(x * x, _ERF, 8) * x


def erfc_far(z: Pair) -> Pair:
    """erfc(z) for z >= 1/2."""
    square = z * z
    far = z.head.lift(0.0)
    for node, weight in zip(_NODES[12:], _WEIGHTS[12:], strict=True):
        far = far + float(weight) / (square.head + float(node))
    found = Pair(*two_sum(far, z.head.lift(0.0)))
    for node, weight in zip(reversed(_NODES[:12]), reversed(_WEIGHTS[:12]), strict=True):
        found = found + z._lift(weight) / (square + node)
    found = (found.scaled(2.0) + 1.0 / square) * z * _exp(-square) * (_STEP / PI)
    pole = 2.0 / (1 - _exp(z * (2 * PI / _STEP)))
    return found + pole.where(z.head.compared("olt", 8.0), 0.0)


def _erf(x: Pair) -> Pair:
    size = x.magnitude()
    far = (1 - erfc_far(size)).negated(x.head.compared("olt", 0.0))
    return erf_near_zero(x).where(size.head.compared("olt", 0.5), far)


def _erfc(x: Pair) -> Pair:
    size = x.magnitude()
    far = erfc_far(size)
    far = (2 - far).where(x.head.compared("olt", 0.0), far)
    return (1 - erf_near_zero(x)).where(size.head.compared("olt", 0.5), far)


def _made(function: Callable[[Pair], Pair]) -> Callable[[Value, Value], Doubled]:
    def apply(head: Value, tail: Value) -> Doubled:
        found = function(Pair(head, tail))
        guard = head.magnitude().compared("ogt", FARTHEST) if function in (_sin, _cos, _tan) else None
        return Doubled(found.head, found.tail, REL, guard)

    return apply


UNARY: Mapping[str, Callable[[Value, Value], Doubled]] = {
    f.__name__[1:]: _made(f)
    for f in (
        *(_exp, _expm1, _sinh, _cosh, _tanh, _sigmoid, _softplus),
        *(_log, _log1p, _asinh, _acosh, _atanh),
        *(_sin, _cos, _tan, _asin, _acos, _atan),
        *(_erf, _erfc),
    )
}
