"""e^d of a difference d from the largest score, which is at most 1; 0 if d is far below 0.

With AVX-512, 2^(n / 16) comes from a table, and the remaining factor is a polynomial of degree 5.
"""

from __future__ import annotations

from typing import NamedTuple

from anydml.kernels.code.values import Body, Value
from anydml.kernels.numbers.floats.numbers import U
from anydml.kernels.numbers.functions.approximate import ROUNDER, at_least
from anydml.kernels.numbers.functions.coefficients import EXP_NEAR
from anydml.kernels.numbers.functions.exponentials import EXP_REL, LOG2_E, LOWEST, exponential
from anydml.kernels.numbers.functions.paired_tables import SIXTEENTHS
from anydml.kernels.numbers.functions.picks import picked
from anydml.kernels.reduce.softmax import LN2

ZEROED = -708.0  # below this, the power is 0


class Error(NamedTuple):
    """The relative error of a power: a constant, and a share of |d|."""

    rel: float
    share: float


# an entry, the product and r have errors of u each; that of LN2 is 2^-55.2
PICKED = Error(EXP_NEAR.rel + 3.1 * U, LOG2_E * 2.0**-55.2)


def _picks(body: Body, lanes: int) -> bool:
    return "avx512f" in body.target.features and lanes >= 8


def error(body: Body, lanes: int) -> Error:
    """The error of `power` for a number of lanes, where the power is at least 2^-1000; the error of smaller powers is below
    2^-1000.
    """
    return PICKED if _picks(body, lanes) else Error(EXP_REL, 0.0)


def power(d: Value, *, near: bool = False) -> Value:
    """e^d; NaN if d is NaN. near: whether d is at least ZEROED + 1."""
    body = d.body
    if not _picks(body, d.kind.lanes):
        return exponential(d if near else at_least(d, LOWEST))
    x = d if near else at_least(d, ZEROED)
    shifted = body.fused(x, LOG2_E, ROUNDER / 16)
    index = shifted.bits()
    scale = (picked(SIXTEENTHS, "double", index).bits() + (index << 48)).cast(d.kind)
    made = EXP_NEAR(body.fused(shifted - ROUNDER / 16, -LN2, x)) * scale
    return made if near else body.chosen(d.compared("olt", ZEROED), 0.0, made)
