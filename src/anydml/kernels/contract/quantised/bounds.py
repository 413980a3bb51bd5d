"""Bounds: how far an estimate that is made of integer sums may lie from the quotient that is rounded as stated.

As stated, an output is F(A), with A = the sum of X W + bias, over the reals. X and W are s d and t e, rounded to float32, where
d and e are integers and s and t scales. F rounds to float32, clamps, divides by the output's scale y, rounds to float32, and
rounds to an integer. Let S be the sum of d e. Then

    X W - s d t e = s d (W - t e) + (X - s d) W,    so    |A - s t S - bias| <= E = s max|d| sum|W - t e| + max|X - s d| sum|W|

The estimate is v = S g + b in float32, with g = s t / y and b = bias / y, rounded.
"""

from __future__ import annotations

from fractions import Fraction
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from anydml.exact.float32 import round_to_float32
from anydml.exact.formats import FLOAT32, half_even, nearest, significand
from anydml.graphs.plan import Region
from anydml.tensor import DataType, limits

UNIT = 2.0**-24
RANGE = 258.0  # an estimate beyond this saturates; F of it does, too, as F never decreases
MOST = 2.0**-4  # a bound above this leaves more open than the estimate saves
FAR = 2.0**60
MARGIN = 1 + 2.0**-20  # for what the roundings of these computations lose


class Estimate(NamedTuple):
    """The numbers of the estimate, by channel: v = sum * factor + term, and the limit that |v - rint(v)| has to stay below.

    low, high: of the outputs, where the bounds of a region lie.
    """

    factor: NDArray[np.float32]
    term: NDArray[np.float32]
    limit: NDArray[np.float32]
    low: int
    high: int


def elements_of(data_type: DataType, scale: float, zero: int) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
    """For each byte the centred integer, and that dequantised."""
    bytes_ = np.arange(256, dtype=np.uint8)
    integers = (bytes_.view(np.int8) if data_type is DataType.INT8 else bytes_).astype(np.int64) - zero
    return integers, round_to_float32(np.float64(scale) * integers)


def estimate(region: Region, x_type: DataType, output: DataType) -> Estimate | str:
    """The estimate of a region's outputs, or why there is none."""
    x_scale, (w_scales, _) = region.x[0], region.weights
    y_scale, zero = region.rounding
    scales = np.array([x_scale, y_scale, *w_scales])
    if not (np.isfinite(scales).all() and (scales > 1 / FAR).all() and (scales < FAR).all()):
        return "a scale is not positive, or extreme"
    if not np.isfinite(region.bias).all():
        return "the bias is not finite"
    integers, rounded = elements_of(x_type, *region.x)
    widest = float(np.abs(integers).max())
    off = float(np.abs(rounded.astype(np.float64) - x_scale * integers).max())
    error = (x_scale * widest * region.errors + off * region.magnitudes) * MARGIN
    factor, term = x_scale * w_scales.astype(np.float64) / y_scale, region.bias.astype(np.float64) / y_scale
    if not ((factor > 1 / FAR).all() and (factor < FAR).all() and (np.abs(term) < FAR).all()):
        return "the output's scale is far from the inputs'"
    if (np.abs(term) < 1 / FAR).any() and not (term[np.abs(term) < 1 / FAR] == 0).all():
        return "the bias is far below the output's scale"
    # of float(sum), of the factor (rounded in any direction), and of the product, where it is not fused: of what is added
    # to the term to give v; then of the term and of v; and the two roundings of the quotient
    product, of_term = RANGE + np.abs(term), np.abs(term)
    bound = (error / y_scale + UNIT * (4.05 * product + 2.05 * of_term + 3.1 * RANGE)) * MARGIN
    if not (bound < MOST).all():
        return "what the roundings of the float tensors may change is too much"
    limit = np.nextafter((0.5 - bound).astype(np.float32), np.float32(0))
    low, high = (quantised(bound, y_scale, zero, output) for bound in region.bounds)
    return Estimate(factor.astype(np.float32), term.astype(np.float32), limit, low, high)


def quantised(x: float, scale: float, zero: int, output: DataType) -> int:
    """A float32 quantised: the quotient rounded to float32, that to an integer."""
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


def as_stated(total: Fraction, region: Region, output: DataType) -> int:
    """An output of its exact sum, rounded step by step."""
    x = 0.0
    if total:
        m, exponent = significand(nearest(total.numerator, total.denominator, FLOAT32))
        x = float(Fraction(m) * Fraction(2) ** exponent)
    low, high = region.bounds
    return quantised(min(high, max(low, x)), *region.rounding, output)
