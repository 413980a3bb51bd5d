"""Bounds of the difference between the estimate, which is made from integer sums, and the quotient that is rounded as stated.

As stated, an output is F(A), where A is the sum of X W + bias, over the reals. X and W are s d and t e, rounded to float32,
where d and e are integers and s and t scales. F rounds to float32, clamps, divides by the output's scale y, rounds to float32,
and rounds to an integer. Let S be the sum of d e. Then

    X W - s d t e = s d (W - t e) + (X - s d) W,    so    |A - s t S - bias| <= E = s max|d| sum|W - t e| + max|X - s d| sum|W|

If the weights are known, the first part of E is centred at s m sum(W - t e), where m is the middle of the range of d: this is
added to the bias, and max|d - m| replaces max|d|; for bytes whose zero point is 0, that is half as much.

The estimate is v = S g + b in float32, with g = s t / y and b = bias / y, rounded. If another tensor r (o - z) is added, F adds
it, rounded to float32, after its first rounding, and rounds again; the estimate adds o h, with h = r / y, and b contains -z h.
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from anydml.exact.float32 import round_to_float32
from anydml.exact.formats import FLOAT32, half_even, nearest, significand
from anydml.kernels.contract.quantised.sums import QuantisedSums
from anydml.tensor import DataType, limits

UNIT = 2.0**-24
RANGE = 258.0  # estimates beyond this saturate, and so does F, since F never decreases
MOST = 2.0**-4  # with a larger bound, deciding outputs costs more than the estimate saves
FAR = 2.0**60
NEVER = np.float32(2)  # a limit that no distance reaches
SHARE = 2.0**-7  # with more outputs than this decided one by one, sums of floats are faster
TYPICAL = 64.0  # the assumed magnitude of outputs before rounding
MARGIN = 1 + 2.0**-20  # covers the roundings of these computations themselves


class EstimateNumbers(NamedTuple):
    """The numbers of the estimate, by channel: v = sum * factor + term is certain if |v - rint(v)| is below the limit.

    low, high: of the outputs, from the bounds of a region. other: the factor of the added tensor. most: an upper bound of all
    |v|.
    """

    factor: NDArray[np.float32]
    term: NDArray[np.float32]
    limit: NDArray[np.float32]
    low: int
    high: int
    other: np.float32
    most: float


def elements_of(data_type: DataType, scale: float, zero: int) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
    """For each byte, the centred integer and the dequantised number."""
    bytes_ = np.arange(256, dtype=np.uint8)
    integers = (bytes_.view(np.int8) if data_type is DataType.INT8 else bytes_).astype(np.int64) - zero
    return integers, round_to_float32(np.float64(scale) * integers)


def estimate(
    region: QuantisedSums, x_type: DataType, other_type: DataType | None, output: DataType, fused: bool = False
) -> EstimateNumbers | str:
    """The estimate of a region's outputs, or the reason that there is none. fused: whether multiply-adds round only once."""
    x_scale, (w_scales, _) = region.x[0], region.weights
    y_scale, zero = region.rounding
    other, other_zero = region.other or (0.0, 0)
    scales = np.array([x_scale, y_scale, *w_scales, *([other] if region.other else [])])
    if not (np.isfinite(scales).all() and (scales > 1 / FAR).all() and (scales < FAR).all()):
        return "a scale is not positive, or extreme"
    if not np.isfinite(region.bias).all():
        return "the bias is not finite"
    (low, high, off), (magnitudes, errors) = _roundings(x_type, *region.x), region.norms
    widest = max(-low, high)
    middle = 0.0 if region.lean is None else (low + high) / 2
    shift = 0.0 if region.lean is None else x_scale * middle * region.lean / y_scale
    error = (x_scale * (high - middle if region.lean is not None else widest) * errors + off * magnitudes) * MARGIN
    added, per_unit = 0.0, other / y_scale
    if other_type is not None:
        added = 255 * per_unit
        error += _roundings(other_type, *region.other)[2] * MARGIN if region.other else 0
    factor = x_scale * w_scales.astype(np.float64) / y_scale
    term = region.bias.astype(np.float64) / y_scale - other_zero * per_unit + shift
    if not ((factor > 1 / FAR).all() and (factor < FAR).all() and (np.abs(term) < FAR).all() and added < FAR):
        return "the output's scale is far from the inputs'"
    of_term = np.abs(region.bias.astype(np.float64)) / y_scale + abs(other_zero) * per_unit + np.abs(shift)
    before = RANGE + added
    # roundings of float(sum), if that is not exact, of its factor (in any direction), and of the product, if that is not fused;
    # of the term; of v
    small = widest * (magnitudes + errors) * MARGIN < w_scales / UNIT
    rounded = 2.05 + np.where(small, 0, 1) + (0 if fused else 1)
    bound = error / y_scale + UNIT * (rounded * (before + of_term) + 2.05 * of_term + 1.05 * before)
    # as stated: of the sum and of the quotient
    bound += UNIT * (1.05 * (RANGE + 256 * per_unit) + 1.05 * RANGE)
    if other_type is not None:  # the added tensor's factor and product, and v again; as stated: of both
        bound += UNIT * (3.05 * added + 1.05 * RANGE + 1.05 * RANGE)
    bound *= MARGIN
    if not (bound < MOST).all():
        return "what the roundings of the float tensors may change is too much"
    exact = (error == 0) & _exact(np.array([factor, term, np.full_like(factor, per_unit)]), before + of_term)
    exact &= math.frexp(y_scale)[0] == 0.5
    if _ties(factor[~exact], bound[~exact]) > SHARE:
        return "the scales make a tie of too many sums"
    limit = np.where(exact, NEVER, np.nextafter((0.5 - bound).astype(np.float32), np.float32(0)))
    low, high = (quantised(bound, y_scale, zero, output) for bound in region.bounds)
    most = float(((x_scale * widest * (magnitudes + errors)) / y_scale + of_term).max()) + added + 1
    return EstimateNumbers(factor.astype(np.float32), term.astype(np.float32), limit, low, high, np.float32(per_unit), most)


def of_sums(region: QuantisedSums, x_type: DataType, terms: int) -> NDArray[np.float32]:
    """Upper bounds, by channel, of the errors of sums of `terms` products in float64, in any order."""
    widest = float(np.abs(elements_of(x_type, *region.x)[1]).max())
    magnitudes = widest * region.norms[0] + np.abs(region.bias.astype(np.float64))
    return (magnitudes * (terms + 8) * 2.0**-52).astype(np.float32)  # twice what is needed


def of_magnitudes(terms: int) -> float:
    """The share of the sum of their magnitudes that the roundings of `terms` products' sum in float64 lose, in any order."""
    return (terms + 4) * 2.0**-52


def _exact(numbers: NDArray[np.float64], most: NDArray[np.float64]) -> NDArray[np.bool_]:
    """Whether neither the estimate nor the statement rounds anything before the last step, with scales of powers of two.

    numbers: factors, terms, factors of the added tensor; they are all multiples of a power of two, and `most` is below 2^24 of
    these.
    """
    unit = np.where(numbers > 0, numbers, np.inf)[::2].min(0)
    multiples = np.rint(numbers / unit) * unit == numbers
    found: NDArray[np.bool_] = (np.frexp(unit)[0] == 0.5) & multiples.all(0) & (most < unit / UNIT)
    return found


def _ties(factor: NDArray[np.float64], bound: NDArray[np.float64]) -> float:
    """The share of undecided sums, if a factor is so close to p / q, with an even q, that every q-th sum is close to a tie."""
    if not factor.size:
        return 0.0
    q = np.arange(2, 256, 2)
    off = factor[:, None] * q
    # of a sum, the distance from a tie is this over q and the factor: if that is below the bound, it is undecided
    off -= np.rint(off)
    np.abs(off, out=off)
    least = bound * factor / TYPICAL
    return float((least / np.maximum(off, least[:, None] * q, out=off).min(1)).mean())


def _roundings(data_type: DataType, scale: float, zero: int) -> tuple[float, float, float]:
    """The least and the largest centred integer, and the largest difference of dequantised numbers from scale times integer."""
    integers, rounded = elements_of(data_type, scale, zero)
    off = np.abs(rounded.astype(np.float64) - scale * integers).max()
    return float(integers.min()), float(integers.max()), float(off)


def quantised(x: float, scale: float, zero: int, output: DataType) -> int:
    """A quantised float32: the quotient is rounded to float32, and that to an integer."""
    low, high = limits(output)
    if x in (-np.inf, np.inf):
        return low if x < 0 else high
    if x == 0:
        return min(max(zero, low), high)
    quotient = Fraction(x) / Fraction(scale)
    bits = nearest(quotient.numerator, quotient.denominator, FLOAT32)
    if bits & ~FLOAT32.sign >= FLOAT32.infinity:
        return low if x < 0 else high
    m, exponent = significand(bits)
    n = half_even(m << max(exponent, 0), 1 << max(-exponent, 0))
    return min(max(n + zero, low), high)
