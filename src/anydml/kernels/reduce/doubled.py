"""Softmax in sums of two float64 values, for the few elements whose quotient float64 leaves undecided.

u is 2^-53. A pair h + l has |l| <= 2 u |h|. Products and sums of pairs have a relative error of a few u^2, or 2^-77 if the
target has no fused operations.
"""

from __future__ import annotations

from fractions import Fraction
from math import factorial

from anydml.kernels.code.values import Value
from anydml.kernels.numbers.floats.numbers import Number, U, odd_of
from anydml.kernels.numbers.functions.approximate import at_least, product
from anydml.kernels.numbers.functions.exponentials import LN2_HEAD, LOG2_E
from anydml.kernels.numbers.functions.pairs import two_sum
from anydml.kernels.numbers.known import Known
from anydml.kernels.reduce.softmax import VANISHING, Shares

Pair = tuple[Value, Value]

# log 2 - LN2_HEAD in two parts, from 60 decimals of log 2: the error is 2^-150
_LN2 = Fraction(693147180559945309417232121458176568075500134360255254120680, 10**60)
_REST = _LN2 - Fraction(LN2_HEAD)
_MIDDLE = float(_REST)
_LAST = float(_REST - Fraction(_MIDDLE))
_PLAIN = range(18, 6, -1)  # x^7 / 7! and later terms are below 2^-22 of e^x, so that 3 u of them is 2^-73
_POWER = 2.0**-69  # the error of a power: 2^-73, 2^-85 for the terms after x^18, and the products of pairs
_SHARE = 2.0**-63  # the error of a quotient: two powers', and the division's


def power(shares: Shares, x: Value) -> Pair:
    """e^(x - c) 2^-k with a relative error of _POWER: see `Shares.ended`."""
    body = x.body
    d = at_least(x - shares.c, shares.least)
    shifted = body.fused(d, LOG2_E, shares.rounder)
    n = shifted - shares.rounder
    high, low = product(n, n.lift(_MIDDLE))
    r, left = two_sum(body.fused(n, -LN2_HEAD, d), -high)  # the first difference is exact
    r, rest = two_sum(r, left - low - n * _LAST)
    found = r.lift(1 / factorial(_PLAIN[0]))
    for i in _PLAIN[1:]:
        found = body.fused(found, r, 1 / factorial(i))
    made: Pair = found, found.lift(0.0)
    for i in range(_PLAIN[-1] - 1, -1, -1):
        high, low = product(made[0], r)
        low = low + made[0] * rest + made[1] * r
        first = 1 / factorial(i)
        second = float(Fraction(1, factorial(i)) - Fraction(first))
        total, left = two_sum(high.lift(first), high)
        made = two_sum(total, left + low + second)
    scale = ((shifted.bits() << 52) + (1023 << 52)).cast(x.kind)
    return made[0] * scale, made[1] * scale


def added(total: Pair, more: Pair) -> Pair:
    """The sum of pairs that are not negative."""
    high, left = two_sum(total[0], more[0])
    return high, total[1] + (left + more[1])


def lost(additions: int) -> float:
    """The relative error of a sum if a pair goes through this many additions: tails and rounding errors of heads are added up
    in float64."""
    return 4 * (additions * U) ** 2


def share(e: Pair, total: Pair, additions: int) -> Number:
    """A power divided by a row's sum of powers; the error is _SHARE and that of the additions."""
    s = two_sum(*total)
    q = e[0] / s[0]
    high, low = product(q, s[0])
    rest = (((e[0] - high) - low) + e[1] - q * s[1]) / s[0]
    y, left = two_sum(q, rest)
    bound = y * (_SHARE + lost(additions))
    return Number(
        y.body,
        lambda: y,
        Known(0.0, 1.0),
        rel=1.0,
        saturated=VANISHING,
        ends=lambda: (odd_of(*two_sum(y, left - bound)), odd_of(*two_sum(y, left + bound))),
        finer=lambda: (y, left, bound),
    )
