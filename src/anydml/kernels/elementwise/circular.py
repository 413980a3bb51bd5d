"""The circular functions and their inverses in float64.

u is 2^-53; relative errors add up, their products are below u / 100.
"""

from __future__ import annotations

import math

from anydml.kernels.code.values import Value
from anydml.kernels.elementwise.approximate import ROUNDER, Approximate
from anydml.kernels.elementwise.coefficients import SIN
from anydml.kernels.elementwise.polynomials import U

# pi as a sum of 32, 32 and 53 bits: products of the first two and k + 1/2 below 2^20 are exact
PI = (float.fromhex("0x1.921fb544p+1"), float.fromhex("0x1.0b4611a6p-33"), float.fromhex("0x1.3198a2e037073p-68"))
FARTHEST = 2.0**21  # beyond it k has too many bits
# x - k PI[0] is exact, or (k = 1/2) off by u of a sum that does not cancel; the other two differences are rounded. k PI[2]
# and what PI lacks are off by |x| 2^-116, which is u of r at most, or else r is guarded
_R_REL = 4.1 * U
assert SIN.argument >= 2 * _R_REL + U
SIN_REL = SIN.rel + _R_REL + U


def _less(x: Value, k: Value) -> Value:
    """x - k pi."""
    for part in PI:
        x = x.body.fused(k, -part, x)
    return x


def _of_rest(x: Value, k: Value, odd: Value) -> Approximate:
    """sin(x - k pi), negative where the integer is odd."""
    r, size = _less(x, k), x.magnitude()
    value = r * SIN(r * r)
    guard = r.magnitude().compared("olt", size * 2.0**-63) | size.compared("ogt", FARTHEST)
    return Approximate((value.bits() ^ (odd << 63)).cast(x.kind), SIN_REL, guard)


def sin(x: Value) -> Approximate:
    """(-1)^k sin(x - k pi)."""
    shifted = x.body.fused(x, 1 / math.pi, ROUNDER)
    return _of_rest(x, shifted - ROUNDER, shifted.bits())


def cos(x: Value) -> Approximate:
    """(-1)^(k + 1) sin(x - (k + 1/2) pi): so it is accurate beside its zeros."""
    shifted = x.body.fused(x, 1 / math.pi, -0.5) + (ROUNDER + 1)
    return _of_rest(x, shifted - (ROUNDER + 1) + 0.5, shifted.bits())
