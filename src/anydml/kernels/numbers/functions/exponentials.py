"""The exponential function and related functions in float64. u is 2^-53; relative errors add up, their products are below u /
100.

e^x = 2^k e^r, where k is x / log 2, rounded. For x <= -709.3 and x >= 710, the result is 0 or infinity without a test: 2^k is
made of its bits, which are those of 0 for k = -1023 and those of infinity for k = 1024.
"""

from __future__ import annotations

from typing import NamedTuple

from anydml.kernels.code.values import Value
from anydml.kernels.numbers.functions.approximate import INFINITY, ROUNDER, Approximate, at_least, at_most
from anydml.kernels.numbers.functions.coefficients import EXP, EXPM1, LOG_WIDE
from anydml.kernels.numbers.functions.polynomials import U

LOWEST, HIGHEST = -709.3, 710.0
LOG2_E = float.fromhex("0x1.71547652b82fep+0")
# log 2 in parts of 41 and 53 bits
LN2_HEAD, LN2_TAIL = float.fromhex("0x1.62e42fefa3p-1"), float.fromhex("0x1.3de6af278ece6p-42")

# |r - exact| <= 0.36 u: k LN2_HEAD has 52 bits and its difference from x is exact; the rest is below 2^-30, and the second
# difference is rounded, where |r| <= 0.35
EXP_REL = EXP.rel + 0.4 * U
# k = 0: EXPM1.rel + u; k = 1 at r = -0.3466 is the worst: 2 (0.293 (EXPM1.rel + 2 u) + 0.707 * 0.36 u) / 0.414 + u
EXPM1_REL = 1.416 * EXPM1.rel + 5.2 * U


class Reduced(NamedTuple):
    """x = k log 2 + r with |r| <= 0.3466, and 2^k."""

    r: Value
    power: Value


def reduced(x: Value, tail: Value | None = None) -> Reduced:
    """The reduction of x, or of x + tail, where x has 53 bits, -709.3 <= x <= 710 or NaN, and |tail| <= 2^-15."""
    body = x.body
    shifted = body.fused(x, LOG2_E, ROUNDER + 1023)
    power = (shifted.bits() << 52).cast(x.kind)
    k = shifted - (ROUNDER + 1023)
    r = body.fused(k, -LN2_HEAD, x)
    return Reduced(body.fused(k, -LN2_TAIL, r if tail is None else r + tail), power)


def exponential(x: Value, tail: Value | None = None) -> Value:
    """e^x for an x that needs no limits: see `reduced`."""
    r, power = reduced(x, tail)
    return EXP(r) * power


def exp(x: Value) -> Approximate:
    return Approximate(exponential(at_most(at_least(x, LOWEST), HIGHEST)), EXP_REL)


def _less_one(x: Value) -> Value:
    """e^x - 1 for -709.3 <= x <= 709; a zero may have the wrong sign."""
    r, power = reduced(x)
    return x.body.fused(power, r * EXPM1(r), power - 1)


def expm1(x: Value) -> Approximate:
    near = _less_one(at_least(x.body.chosen(x.compared("ogt", 709.0), HIGHEST, x), LOWEST))
    return Approximate(near.signed_as(x), EXPM1_REL)


def tanh(x: Value) -> Approximate:
    """y / (y + 2) with y = e^(2 |x|) - 1; the condition of the quotient is 2 / (y + 2) <= 1. From 22 on, the result is 1."""
    y = _less_one(at_most(x.magnitude() * 2, 44.0))
    return Approximate((y / (y + 2)).signed_as(x), EXPM1_REL + 2.1 * U)


def sinh(x: Value) -> Approximate:
    """(y + y / (y + 1)) / 2 with y = e^|x| - 1: the conditions of both terms are at most 1, and no term is negative."""
    size = x.magnitude()
    y = _less_one(at_most(size, 709.0))
    found = (y + y / (y + 1)) * 0.5
    found = x.body.chosen(size.compared("ogt", 709.0), INFINITY, found)
    return Approximate(found.signed_as(x), EXPM1_REL + 3.1 * U)


def cosh(x: Value) -> Approximate:
    """(y + 1 / y) / 2 with y = e^|x|."""
    y = exponential(at_most(x.magnitude(), HIGHEST))
    return Approximate((y + 1 / y) * 0.5, EXP_REL + 2.1 * U)


def sigmoid(x: Value) -> Approximate:
    """1 / (1 + e^-x); the condition of the quotient is below 1."""
    return Approximate(1 / (exp(-x).value + 1), EXP_REL + 2.1 * U)


def softplus(x: Value) -> Approximate:
    """log(1 + e^x) = max(x, 0) + log(1 + y) with y = e^-|x|, and log(1 + y) = log((1 + s) / (1 - s)) with s = y / (2 + y).

    s has an error of EXP_REL + 2 u, its square twice that and u.
    """
    y = exponential(at_least(-x.magnitude(), LOWEST))
    s = y / (y + 2)
    assert LOG_WIDE.argument >= 2 * (EXP_REL + 2.1 * U) + U
    return Approximate(at_least(x, 0.0) + s * LOG_WIDE(s * s), EXP_REL + LOG_WIDE.rel + 4.1 * U)
