"""Scales and limits of means between 8-bit tensors, and the choice between an integer estimate and float64 sums.

By the statement, an element is dequantised (s d rounded to float32, with a centred integer d and the scale s); the mean is the
exact sum over the number n of elements, rounded; it is clamped and divided by the output's scale y, which is rounded to float32
and then to an integer. The estimate is S s / (n y) in float32, where S is the sum of d. The means of the rounded and of the
exact s d differ by no more than their elements do. The mean, its quotient, the factor and its product are rounded once each.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from fractions import Fraction
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from anydml.kernels.contract.quantised.bounds import elements_of, quantised
from anydml.kernels.match.between import QuantisedMeans
from anydml.kernels.windows.key import DEQUANTIZED, ESTIMATED
from anydml.tensor import DataType, limits

DIGITS = 24  # of float32
UNIT = 2.0**-DIGITS
RANGE = 258.0  # estimates beyond this saturate, as the stated results do
MARGIN = 1 + 2.0**-20  # covers the roundings of these computations themselves
FAR = 2.0**60  # scales lie between the reciprocal of this and this
NEVER = 2.0  # a limit that no distance from an integer reaches
MOST = 2.0**-4  # with a larger bound, deciding elements costs more than the estimate saves
TYPICAL = 64.0  # the assumed magnitude of outputs before rounding
LOOKED_AT = 1 << 11  # the number of sums from which the undecided share is estimated
REACH = 255  # the largest magnitude of a centred integer
FIELDS = [
    ("ratio", np.float64),  # the input's scale divided by the output's
    ("x_scale", np.float32), ("x_zero", np.int32), ("y_scale", np.float32), ("y_zero", np.int32),
    ("low", np.float32), ("high", np.float32),  # the range to which means are clamped
    ("least", np.int32), ("most", np.int32),  # the range of the output's type
    ("limit", np.float32), ("low_end", np.float32), ("high_end", np.float32),  # for the estimate, see `Numbers`
]  # fmt: skip
RECORD = np.dtype(FIELDS)


class Numbers(NamedTuple):
    """The record of `FIELDS` that a kernel reads, and the kind of sums that is expected to be faster.

    In the record, `limit` is the largest distance of an estimate from an integer that decides it, and `low_end` and `high_end`
    are the range to which it is clamped. share: the expected share of undecided sums.
    """

    record: NDArray[np.uint8]
    kind: str
    share: float


class Counts(NamedTuple):
    """The divisors of means, each with the share of the means that have it.

    all_of: whether these are all divisors. read: the number of input elements per mean.
    """

    shares: Mapping[int, float]
    all_of: bool
    read: float


def numbers(p: QuantisedMeans, x: DataType, y: DataType, counts: Counts, slack: float = 0.0) -> Numbers | str:
    """The record for means, or the reason that there is none. slack: is added to the bound of the estimate."""
    (x_scale, x_zero), (y_scale, y_zero) = p.x, p.rounding
    if not (1 / FAR < x_scale < FAR and 1 / FAR < y_scale < FAR):
        return "a scale is not positive, or extreme"
    least, most = limits(y)
    if abs(x_zero) > REACH or not least <= y_zero <= most:
        return "a zero point is beyond its type"
    integers, rounded = elements_of(x, x_scale, x_zero)
    off = float(np.abs(rounded.astype(np.float64) - x_scale * integers).max())
    bound = (off / y_scale + 4.2 * UNIT * RANGE) * MARGIN
    ratio = x_scale / y_scale
    exact = off == 0 and not slack and counts.all_of and all(_exact(x_scale, y_scale, n) for n in counts.shares)
    limit = NEVER if exact else float(np.nextafter(np.float32(0.5 - bound - slack), np.float32(-1)))
    shares = {n: 0.0 if exact else part * _undecided_share(ratio / n, bound) for n, part in counts.shares.items()}
    # in cycles: about 25 for an undecided element, and 6 for each of its terms; float64 sums: 0.5, and 1 for every 4 elements
    pays = bound < MOST and sum(share * (25 + 6 * n) for n, share in shares.items()) < 0.5 + counts.read / 4
    ends = [quantised(end, y_scale, y_zero, y) - y_zero for end in p.bounds]
    record = np.zeros(1, RECORD)
    record[0] = (ratio, x_scale, x_zero, y_scale, y_zero, *p.bounds, least, most, limit, *ends)
    return Numbers(record.view(np.uint8), ESTIMATED if pays else DEQUANTIZED, sum(shares.values()))


def _undecided_share(factor: float, bound: float) -> float:
    """The share of the sums whose estimates are undecided."""
    sums = np.arange(1, min(LOOKED_AT, math.ceil(TYPICAL / factor)) + 1) * factor
    return float((np.abs(sums - np.floor(sums) - 0.5) <= bound).mean())


def _exact(x_scale: float, y_scale: float, window: int) -> bool:
    """Whether nothing is rounded before the last step, neither in the statement nor in the estimate.

    Elements are exact. So are sums of a power of two of them and their quotients, if the scale has few digits.
    """
    factor = Fraction(x_scale) / Fraction(y_scale) / window
    if window & (window - 1) or factor.denominator & (factor.denominator - 1):
        return False
    return all(_odd(n) * REACH * window < 1 << DIGITS for n in (Fraction(x_scale).numerator, factor.numerator))


def _odd(n: int) -> int:
    """A positive integer without its factors of two."""
    return n // (n & -n)
