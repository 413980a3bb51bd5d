"""The logarithm and related functions in float64. u is 2^-53; relative errors add up, their products are below u / 100.

log x = e log 2 + log m, with m between sqrt(1/2) and sqrt(2), and log m = log((1 + s) / (1 - s)) for s = (m - 1) / (m + 1).
"""

from __future__ import annotations

import math

from anydml.kernels.code.values import Value
from anydml.kernels.numbers.functions.approximate import INFINITY, Approximate
from anydml.kernels.numbers.functions.coefficients import LOG
from anydml.kernels.numbers.functions.polynomials import U

LN2 = float.fromhex("0x1.62e42fefa39efp-1")
_LARGE = 2.0**60  # beyond this, 1 + x is x, and x^2 + 1 is x^2, within 2^-60
# the bits of 1 and of sqrt(1/2), and the mask of a significand
_ONE, _ROOT, _FRACTION = 1023 << 52, 0x3FE6A09E667F3BCD, (1 << 52) - 1

# e = 0: s has an error of 2 u, and its product is rounded; else e LN2 has an error of 2 u and is at most twice the result, and
# the sum is rounded
LOG_REL = LOG.rel + 8.2 * U
LOG1P_REL = LOG.rel + 9.5 * U  # s has an error of 3.2 u


def parts(x: Value) -> tuple[Value, Value, Value]:
    """e, m, and the bits of 2^e plus those of a significand, for a positive x = 2^e m."""
    kind, whole = x.kind, x.kind.integer
    moved = x.bits() + (_ONE - _ROOT)
    exponent = (moved.shifted_right(52, signed=False) | (1075 << 52)).cast(kind) - (2.0**52 + 1023)
    m = ((moved & _FRACTION) + x.body.constant(whole, _ROOT)).cast(kind)
    return exponent, m, moved


def _sum(exponent: Value, f: Value) -> Value:
    """e log 2 + log(1 + f)."""
    s = f / (f + 2)
    return exponent.body.fused(exponent, LN2, s * LOG(s * s))


def _with_limits(x: Value, found: Value) -> Value:
    """The logarithm `found` of x, or its limit at 0 and infinity, or NaN below 0."""
    body = x.body
    found = body.chosen(x.compared("olt", INFINITY), found, x)
    # all bits set are a NaN, and the mask keeps those of minus infinity
    below = (x.compared("une", 0.0).converted("sext", x.kind.integer) | -(1 << 52)).cast(x.kind)
    return body.chosen(x.compared("ogt", 0.0), found, below)


def log(x: Value) -> Approximate:
    """The logarithm; subnormal numbers are guarded."""
    exponent, m, _ = parts(x)
    guard = x.compared("ogt", 0.0) & x.compared("olt", 2.0**-1022)
    return Approximate(_with_limits(x, _sum(exponent, m - 1)), LOG_REL, guard)


def _of_one_more(x: Value) -> Value:
    """log(1 + x), where a zero may have the wrong sign: 1 + x = y + c exactly up to 2^53; beyond, c does not matter."""
    y = x + 1
    c = x - (y - 1)
    exponent, m, moved = parts(y)
    scale = (x.body.constant(moved.kind, 2046 << 52) - (moved & (2047 << 52))).cast(x.kind)
    return _with_limits(y, _sum(exponent, x.body.fused(c, scale, m - 1)))


def log1p(x: Value) -> Approximate:
    return Approximate(_of_one_more(x).signed_as(x), LOG1P_REL)


def _of_large(x: Value, more: Value) -> Value:
    """log(1 + more), or log(2 x) from x = 2^60 on."""
    large = x.compared("ogt", _LARGE)
    return _of_one_more(x.body.chosen(large, x, more)) + x.body.chosen(large, LN2, x.lift(0.0))


def asinh(x: Value) -> Approximate:
    """log(1 + y) with y = |x| + x^2 / (1 + sqrt(1 + x^2)), which has an error of 6 u; the condition of the logarithm is below
    1."""
    size = x.magnitude()
    square = x * x
    more = size + square / ((square + 1).root() + 1)
    return Approximate(_of_large(size, more).signed_as(x), LOG1P_REL + 7.1 * U)


def acosh(x: Value) -> Approximate:
    """log(1 + y) with y = t + sqrt(t (x + 1)) and t = x - 1, which has an error of 3.5 u."""
    t = x - 1
    found = _of_large(x, t + (t * (x + 1)).root())
    return Approximate(x.body.chosen(x.compared("oge", 1.0), found, math.nan), LOG1P_REL + 4.6 * U)


def atanh(x: Value) -> Approximate:
    """log(1 + y) / 2 with y = 2 |x| / (1 - |x|), which has an error of 2 u."""
    size = x.magnitude()
    return Approximate((_of_one_more(size * 2 / (1 - size)) * 0.5).signed_as(x), LOG1P_REL + 2.1 * U)
