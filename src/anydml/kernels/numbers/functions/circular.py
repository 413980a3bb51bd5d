"""The circular functions and their inverses in float64.

u is 2^-53; relative errors add up, their products are below u / 100.
"""

from __future__ import annotations

import math

from anydml.kernels.code.values import Value
from anydml.kernels.numbers.functions.approximate import INFINITY, ROUNDER, Approximate
from anydml.kernels.numbers.functions.coefficients import ASIN, ATAN, SIN, TAN
from anydml.kernels.numbers.functions.polynomials import U

# pi as a sum of 32, 32 and 53 bits: products of the first two and k + 1/2 below 2^20 are exact
PI = (float.fromhex("0x1.921fb544p+1"), float.fromhex("0x1.0b4611a6p-33"), float.fromhex("0x1.3198a2e037073p-68"))
FARTHEST = 2.0**21  # beyond it, k has too many bits

# The error of r = x - k PI: the first difference is exact, or (k = 1/2) a sum that does not cancel, rounded; the other two are
# rounded. The error of k PI[2], and of PI itself, is |x| 2^-116, which is at most u r, or else r is guarded.
_R_REL = 4.1 * U
assert min(SIN.argument, TAN.argument) >= 2 * _R_REL + U
SIN_REL = SIN.rel + _R_REL + U
TAN_REL = TAN.rel + _R_REL + 2.1 * U

# s = sqrt((1 - |x|) / 2) has an error of u, its square none; s and the product have u each
_ARC_REL = ASIN.rel + 2.1 * U
ASIN_REL = 2 * _ARC_REL + 2.2 * U  # pi / 2 - 2 arc is at least half of 2 arc; the constant has an error of 0.6 u and is rounded
ACOS_REL = _ARC_REL + 1.1 * U  # pi / 2 - arc is at least twice arc; or pi - 2 arc

# a quotient of two rounded sums has an error of 3 u, its square 7 u, the product u; pi / 4, which is at least 0.39 of it, 0.3 u
ATAN_REL = ATAN.rel + 5.9 * U
ATAN2_REL = ATAN_REL + 1.8 * U  # pi - angle, which is at least pi / 2
assert ATAN.argument >= 7 * U


def _less(x: Value, k: Value, unit: float) -> Value:
    """x - k pi unit."""
    for part in PI:
        x = x.body.fused(k, -part * unit, x)
    return x


def _guard(x: Value, r: Value) -> Value:
    size = x.magnitude()
    return r.magnitude().compared("olt", size * 2.0**-63) | size.compared("oge", FARTHEST)


def of_half_turn(r: Value, odd: Value) -> Value:
    """sin(r), negated if the integer is odd; |r| is at most pi / 2."""
    value = r * SIN(r * r)
    return (value.bits() ^ (odd << 63)).cast(r.kind)


def of_quarter_turn(r: Value, odd: Value) -> Value:
    """tan(r), or -1 / tan(r) if the integer is odd; |r| is at most pi / 4."""
    t = r * TAN(r * r)
    even = (odd & 1).compared("eq", 0)
    return r.body.chosen(even, t, -1.0) / r.body.chosen(even, 1.0, t)


def _of_rest(x: Value, k: Value, odd: Value) -> Approximate:
    """sin(x - k pi), negated if the integer is odd."""
    r = _less(x, k, 1)
    return Approximate(of_half_turn(r, odd), SIN_REL, _guard(x, r))


def sin(x: Value) -> Approximate:
    """(-1)^k sin(x - k pi)."""
    shifted = x.body.fused(x, 1 / math.pi, ROUNDER)
    return _of_rest(x, shifted - ROUNDER, shifted.bits())


def cos(x: Value) -> Approximate:
    """(-1)^(k + 1) sin(x - (k + 1/2) pi), which is accurate near the zeros of cos."""
    shifted = x.body.fused(x, 1 / math.pi, -0.5) + (ROUNDER + 1)
    return _of_rest(x, shifted - (ROUNDER + 1) + 0.5, shifted.bits())


def tan(x: Value) -> Approximate:
    """tan(x - k pi / 2), or -1 / tan(x - k pi / 2) if k is odd."""
    shifted = x.body.fused(x, 2 / math.pi, ROUNDER)
    r = _less(x, shifted - ROUNDER, 0.5)
    return Approximate(of_quarter_turn(r, shifted.bits()), TAN_REL, _guard(x, r))


def _arc(x: Value) -> tuple[Value, Value]:
    """Whether |x| is above 1/2; and asin(|x|) up to 1/2, else acos(|x|) / 2. NaN above 1."""
    size = x.magnitude()
    far = size.compared("ogt", 0.5)
    square = x.body.chosen(far, 0.5 - size * 0.5, x * x)
    return far, x.body.chosen(far, square.root(), size) * ASIN(square)


def asin(x: Value) -> Approximate:
    far, arc = _arc(x)
    return Approximate(x.body.chosen(far, math.pi / 2 - arc * 2, arc).signed_as(x), ASIN_REL)


def acos(x: Value) -> Approximate:
    far, arc = _arc(x)
    arc = arc.signed_as(x)
    beyond = x.body.chosen(x.compared("olt", 0.0), math.pi, x.lift(0.0)) + arc * 2
    return Approximate(x.body.chosen(far, beyond, math.pi / 2 - arc), ACOS_REL)


def _angle(y: Value, x: Value) -> Value:
    """The angle of (x, y), both at least 0: the nearest of 0, pi / 4 and pi / 2, plus the arc tangent of the rest."""
    body = x.body
    low, high = y.compared("ole", x * 0.414215), y.compared("ogt", x * 2.41421)
    above = body.chosen(low, y, body.chosen(high, -x, y - x))
    below = body.chosen(low, x, body.chosen(high, y, y + x))
    below = body.chosen(below.compared("oeq", 0.0), 1.0, below)
    base = body.chosen(low, 0.0, body.chosen(high, math.pi / 2, x.lift(math.pi / 4)))
    t = above / below
    return base + t * ATAN(t * t)


def atan(x: Value) -> Approximate:
    return Approximate(_angle(x.magnitude(), x.lift(1.0)).signed_as(x), ATAN_REL)


def atan2(y: Value, x: Value) -> Approximate:
    """C's atan2; guarded where both are below 2^-1000 or one is beyond 2^1000."""
    body = x.body
    height, width = y.magnitude(), x.magnitude()
    angle = _angle(height, width)
    infinite = height.compared("oeq", INFINITY) & width.compared("oeq", INFINITY)
    angle = body.chosen(infinite, math.pi / 4, angle)
    left = x.bits().compared("slt", 0)
    most = body.chosen(height.compared("ogt", width), height, width)
    small = most.compared("olt", 2.0**-1000) & most.compared("ogt", 0.0)
    large = most.compared("ogt", 2.0**1000) & most.compared("olt", INFINITY)
    return Approximate(body.chosen(left, math.pi - angle, angle).signed_as(y), ATAN2_REL, small | large)
