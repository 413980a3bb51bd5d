"""The elementary functions of pairs, to 2^-80: the second stage, for elements that float64 leaves undecided; tests compare the
float64 functions with it.

Functions are Taylor series of reduced arguments; inverse functions take one Newton step from the value of float64. Apart from
that starting value, the polynomials of the first stage are not used. Arguments are finite, results between 2^-800 and 2^800;
infinities and arguments outside the domain belong to the first stage.

The bounds: the omitted terms of the series are below 2^-85, terms in plain float64 are below 2^-32 of the result, and fewer
than 2^8 operations of pairs have an error of 2^-98 each, none of them with a condition above 2^4.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from decimal import Context, Decimal
from fractions import Fraction
from typing import NamedTuple

from anydml.kernels.code.values import Value
from anydml.kernels.numbers.functions import circular, logarithms, powers
from anydml.kernels.numbers.functions.angles import FARTHEST, PI, near_angle, sin_cos, sin_cos_of
from anydml.kernels.numbers.functions.approximate import ROUNDER, Approximate
from anydml.kernels.numbers.functions.logarithms import parts
from anydml.kernels.numbers.functions.pairs import Pair, quick_sum, series, two_sum

REL = 2.0**-80
POW_REL = 2.0**-78  # an error of the logarithm counts up to 690 times

# log 2 in parts of 41, 41 and 53 bits: products of the first two with k are exact
_LN2 = [float.fromhex(x) for x in ("0x1.62e42fefa3p-1", "0x1.3de6af278ep-42", "0x1.9cc01f97b57a0p-83")]
LN2 = sum(map(Fraction, _LN2))
TWO_OVER_ROOT_PI = Fraction(float.fromhex("0x1.20dd750429b6dp+0")) + Fraction(float.fromhex("0x1.1ae3a914fed80p-56"))


class Doubled(NamedTuple):
    """A value as a pair, with its relative bound, which does not hold in the lanes of the guard."""

    head: Value
    tail: Value
    rel: float
    guard: Value | None = None


# (e^y - 1) / y for |y| <= 0.0217; from y^5 / 720 on, terms are below 2^-37; y^11 / 12! is below 2^-89
_EXP = [Fraction(1, math.factorial(n)) for n in range(1, 13)]


_MOST = 690.0


def _reduced_exp(x: Pair) -> tuple[Pair, Value]:
    """e^r - 1 and 2^k, where x = k log 2 + r; x is clamped to -690 .. 690."""
    body = x.head.body
    x = x.where(x.head.compared("olt", _MOST), _MOST).where(x.head.compared("ogt", -_MOST), -_MOST)
    shifted = body.fused(x.head, 1 / math.log(2), ROUNDER + 1023)
    power = (shifted.bits() << 52).cast(x.head.kind)
    k = shifted - (ROUNDER + 1023)
    first = body.fused(k, -_LN2[0], x.head)
    head, tail = two_sum(first, k * -_LN2[1])
    y = quick_sum(head, tail + (k * -_LN2[2] + x.tail)).scaled(1 / 16)
    p = series(y, _EXP, 5) * y
    for _ in range(4):
        p = p * (p + 2)
    return p, power


def _exp(x: Pair) -> Pair:
    p, power = _reduced_exp(x)
    return (p + 1).scaled(power)


def _expm1(x: Pair) -> Pair:
    p, power = _reduced_exp(x)
    return p.scaled(power) + (Pair(power, power.lift(0.0)) - 1)


def _log_near_one(f: Pair) -> Pair:
    """log(1 + f) for |f| <= 0.42: y + log(1 + d) with y from float64 and d = (1 + f) e^-y - 1, which is about 2^-45 |f|."""
    y = logarithms.log1p(f.head).value
    minus = Pair(-y, y.lift(0.0))
    d = f + (f + 1) * _expm1(minus)
    return d - d.head * d.head * 0.5 + y


def _parted(x: Pair) -> tuple[Value, Pair]:
    """The exponent e and m - 1, where x = 2^e m."""
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
    return sin_cos(x)[0]


def _cos(x: Pair) -> Pair:
    return sin_cos(x)[1]


def _tan(x: Pair) -> Pair:
    sin, cos = sin_cos(x)
    return sin / cos


def _begun(function: Callable[[Value], Approximate], x: Pair) -> tuple[Pair, Pair, Pair]:
    """The float64 value of an inverse function, with its sine and cosine."""
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
    """y + asin(d) with d = sqrt(1 - x^2) cos y - x sin y; near 1, where y comes from the head alone, d is 2^-26."""
    y, sin, cos = _begun(circular.acos, x)
    d = ((1 - x) * (x + 1)).root() * cos - x * sin
    return y + (d + d.head * d.head * d.head * (1 / 6))


def _atan2(y: Pair, x: Pair) -> Pair:
    """The angle y + atan(d) with d = (y cos - x sin) / (x cos + y sin), as in `_atan`."""
    angle = circular.atan2(y.head, x.head).value
    begun = Pair(angle, angle.lift(0.0))
    sin, cos = sin_cos_of(*near_angle(begun))
    return begun + (y * cos - x * sin) / (x * cos + y * sin)


def _pow(x: Pair, y: Pair) -> Pair:
    """e^(y log |x|), with the sign of float64's power."""
    size = _exp(y * _log(x.magnitude()))
    return size.negated(powers.pow(x.head, y.head).value.bits().compared("slt", 0))


# erf(x) / x in x^2 <= 1/4; from the seventh on, terms are below 2^-26
_ERF = [Fraction((-1) ** n, math.factorial(n) * (2 * n + 1)) * TWO_OVER_ROOT_PI for n in range(19)]
# the trapezoidal rule for the integral of e^(-t^2) / (x^2 + t^2) with step 3/8: with the pole's term, its error is e^-70
ROOT_HALF = Fraction(Decimal("0.5").sqrt(Context(prec=40)))
_STEP = Fraction(3, 8)
_NODES = [n * n * _STEP * _STEP for n in range(1, 22)]  # from the 13th on, weights are below 2^-34
_WEIGHTS = [Fraction((Decimal(t.numerator) / -t.denominator).exp(Context(prec=40))) for t in _NODES]


def erf_near_zero(x: Pair) -> Pair:
    """erf(x) for |x| <= 1/2."""
    return series(x * x, _ERF, 8) * x


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


def _gelu(x: Pair) -> Pair:
    return (_erfc(-x * x._lift(ROOT_HALF)) * x).scaled(0.5)


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
        *(_erf, _erfc, _gelu),
    )
}


def _made_of_two(function: Callable[[Pair, Pair], Pair]) -> Callable[[Pair, Pair], Doubled]:
    def apply(x: Pair, y: Pair) -> Doubled:
        found = function(x, y)
        return Doubled(found.head, found.tail, POW_REL if function is _pow else REL)

    return apply


# arguments are finite and not 0; for pow, x >= 0 or y is an integer
BINARY: Mapping[str, Callable[[Pair, Pair], Doubled]] = {f.__name__[1:]: _made_of_two(f) for f in (_atan2, _pow)}
