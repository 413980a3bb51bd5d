"""Exact requantisation in NumPy: an estimate with a proved error, and integers where the estimate is undecided.

r = q * a * b / y. In float64 a * b is exact (48 bits), c = a * b / y has at most one rounding and t = q * c one
more: |t - r| <= 2^-50 |r| in any rounding mode, and no step meets a subnormal. For |t| < 2^11, the only half-integer that
can lie between r and t is h = floor(t) + 1/2, and only if |t - h| <= 2^-39. These few (with ties, many) are decided in
integers: with the scales' significands and exponents, q * p * 2^(e + 1) is compared with (2h) * y.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from anydml.exact.float32 import significands, widened

SATURATED = 1024.0  # beyond any 8-bit output with any zero point
UNDECIDED = 2.0**-32  # far more than the estimate's error of 2^-39, far less than most distances to a tie


class Requantize:
    """The function q -> q * a * b / y, rounded half to even and clamped to +-1024; scales broadcast against q."""

    def __init__(self, a: NDArray[Any], b: NDArray[Any], y: NDArray[Any]) -> None:
        self.scales = (a, b, y)
        # the product is exact, and nothing here or below leaves float64's normal range: 2^-426 < |c| < 2^405
        self.c = widened(a) * widened(b) / widened(y)

    def __call__(self, q: NDArray[np.float64]) -> NDArray[np.float64]:
        t = q * self.c
        np.clip(t, -SATURATED, SATURATED, out=t)
        floor = np.floor(t)
        t -= floor
        t -= 0.5  # exact: the distance of the estimate above h
        undecided = np.abs(t) <= UNDECIDED
        rounded = floor + (t > 0)
        if undecided.any():
            at = np.nonzero(undecided)
            (am, ae), (bm, be), (ym, ye) = map(significands, self.scales)
            exact = (am * bm * np.sign(ym), np.abs(ym), ae + be - ye)
            p, y, e = (np.broadcast_to(x, q.shape)[at] for x in exact)
            rounded[at] = _decide(q[at].astype(np.int64), p, y, e, floor[at].astype(np.int64))
        return rounded


def _decide(
    q: NDArray[np.int64], p: NDArray[np.int64], y: NDArray[np.int64], e: NDArray[np.int64], floor: NDArray[np.int64]
) -> NDArray[np.int64]:
    """floor or floor + 1, whichever is nearer to q * p / y * 2^e, at a tie the even one; the quotient is next to a tie."""
    tie = 2 * floor + 1
    above = np.empty(len(q), np.int64)  # the sign of quotient - tie / 2
    # q * p * 2^(e + 1) and tie * y are nearly equal, so if the smaller side fits in 62 bits before its shift, both do after
    small = (np.abs(q.astype(np.float64) * p.astype(np.float64)) < 2.0**61) & (e < 60) & (e > -60)
    shift = e[small] + 1
    left = (q[small] * p[small]) << np.maximum(shift, 0)
    right = (tie[small] * y[small]) << np.maximum(-shift, 0)
    above[small] = np.sign(left - right)
    for i in np.flatnonzero(~small).tolist():
        by = int(e[i]) + 1
        numerator, denominator = int(q[i]) * int(p[i]), int(tie[i]) * int(y[i])
        numerator, denominator = numerator << max(by, 0), denominator << max(-by, 0)
        above[i] = (numerator > denominator) - (numerator < denominator)
    decided: NDArray[np.int64] = floor + ((above > 0) | ((above == 0) & (floor & 1 == 1)))
    return decided
