"""Winograd's F(4x4, 3x3) in float64: 16 sums of 3x3 windows from 36 products of transformed inputs and transformed filters.

In one dimension, the sums y of filters g over windows of d are y = A ((G g) * (B d)). This is the transpose of multiplying the
polynomials with the coefficients y and g by their values at the points 0, a, -a, b, -b and at infinity. Two dimensions are
transformed one after the other. a and b are chosen so that coefficients are exact in float64, and bounds are small.

The bound. u = 2^-53; |x| is the Euclidean norm over the channels, and for g and d over their elements, too. At position t of
the transform, U and V are the computed transforms of g and d. Every term goes through at most 4 and 3 roundings in one
dimension, so that their errors are at most 8 u g' and 6 u d' in norm, with g' = |G[t]| |g| and d' = |B[t]| |d|, by Cauchy and
Schwarz within the rows of G and B. The sum over channels of U V has an error of at most n u |U| |V|, n from `roundings`. The
errors of U and V add 8 u g' |V| + 6 u |U| d'; A, and the two ends of the bound, add 10 u |U| |V|. With k = n + 10 this is at
most k u P Q for P = |U| + 8 g' / k and Q = |V| + 6 d' / k; the neglected terms, of order u^2, are covered by P Q and SLACK.
The error of output (i, j) is at most the sum over t of |A[i, t1]| |A[j, t2]| k u P Q. For any weights s, this is, by Cauchy
and Schwarz, at most k u times the root of the sum of |A| |A| P^2 / s, which belongs to the row, times the root of the sum of
|A| |A| s Q^2, which belongs to the tile. For independent elements, s = |G[t]| / |B[t]| balances the positions; then the row's
roots are proportional to AMPLIFIED, and its norm is the largest ratio to that. No number here overflows or underflows.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from anydml.kernels.code.values import Value

TILE, READ, FILTER = 4, 6, 3  # outputs, inputs and elements of a filter, in each dimension
POSITIONS = READ * READ
A, B = 0.625, 1.625
A2, B2 = A * A, B * B  # exact, like all products of these short numbers
OF_FILTERS, OF_INPUTS, OF_OUTPUTS = 2 * 4, 2 * 3, 2 * 4  # roundings in both dimensions
BLOCK = 32  # terms of a product that are accumulated before they are added to others

# a point's powers divided by the product of its differences from the other points; this is exact, the quotient rounds once
_AT_0, _OF_A, _OF_B = A2 * B2, 2 * A2 * (A2 - B2), 2 * B2 * (B2 - A2)
INPUTS = np.array(
    [
        [A2 * B2, 0, -(A2 + B2), 0, 1, 0],
        [0, -A * B2, -B2, A, 1, 0],
        [0, A * B2, -B2, -A, 1, 0],
        [0, -B * A2, -A2, B, 1, 0],
        [0, B * A2, -A2, -B, 1, 0],
        [0, A2 * B2, 0, -(A2 + B2), 0, 1],
    ]
)
FILTERS = np.array(
    [
        [1 / _AT_0, 0, 0],
        [1 / _OF_A, A / _OF_A, A2 / _OF_A],
        [1 / _OF_A, -A / _OF_A, A2 / _OF_A],
        [1 / _OF_B, B / _OF_B, B2 / _OF_B],
        [1 / _OF_B, -B / _OF_B, B2 / _OF_B],
        [0, 0, 1],
    ]
)
OUTPUTS = np.array(
    [
        [1, 1, 1, 1, 1, 0],
        [0, A, -A, B, -B, 0],
        [0, A2, A2, B2, B2, 0],
        [0, A * A2, -A * A2, B * B2, -B * B2, 1],
    ]
)
SLACK = 1 + 2.0**-20  # for the roundings in bounds
FILTER_NORMS, INPUT_NORMS = (np.linalg.norm(m, axis=1) * SLACK for m in (FILTERS, INPUTS))
AMPLIFIED = np.abs(OUTPUTS) @ (INPUT_NORMS * FILTER_NORMS) * SLACK


def roundings(channels: int) -> int:
    """k, the bound over u P Q: a term is rounded once, goes through at most BLOCK additions in its block, and then through one
    addition for each block."""
    return 1 + min(channels, BLOCK) + -(-channels // BLOCK) + OF_OUTPUTS + 2


def norms(squares: Sequence[Sequence[Value]], whole: Value, rows: NDArray[Any], part: Value) -> list[list[Value]]:
    """P or Q at each position: the norm from its square, plus `part` of the whole norm times the norms of the rows."""
    rest = whole.root() * part
    return [
        [x.root() * SLACK + rest * float(rows[i] * rows[j] * SLACK) for j, x in enumerate(line)]
        for i, line in enumerate(squares)
    ]


def weighted(norms: Sequence[Sequence[Value]], weights: NDArray[Any]) -> list[list[Value]]:
    """For each output, the sum of squared norms times the magnitudes of OUTPUTS and times weights, rounded up."""
    factors = np.abs(OUTPUTS) * weights * SLACK

    def summed(xs: Sequence[Value]) -> list[Value]:
        made = []
        for row in factors:
            total = None
            for factor, x in zip(row, xs, strict=True):
                if factor:
                    term = x * float(factor)
                    total = term if total is None else total + term
            assert total is not None
            made.append(total)
        return made

    down = [summed([norms[i][j] * norms[i][j] for i in range(READ)]) for j in range(READ)]
    return [summed([down[j][i] for j in range(READ)]) for i in range(TILE)]


def inputs(x: Sequence[Value]) -> list[Value]:
    """The product of INPUTS and x, with at most 3 roundings of each term."""
    fused = x[0].body.fused
    even_a, odd_a = fused(x[2], -B2, x[4]), fused(x[1], -A * B2, x[3] * A)
    even_b, odd_b = fused(x[2], -A2, x[4]), fused(x[1], -B * A2, x[3] * B)
    first, last = (fused(x[k], A2 * B2, fused(x[k + 2], -(A2 + B2), x[k + 4])) for k in (0, 1))
    return [first, even_a + odd_a, even_a - odd_a, even_b + odd_b, even_b - odd_b, last]


def filters(x: Sequence[Value], row: int) -> list[Value]:
    """A row of the transformed filter x, whose elements are given line by line: FILTERS[row] x FILTERS^T, with at most 4
    roundings of each term in each dimension, including those of the coefficients."""
    fused = x[0].body.fused

    def column(q: int) -> Value:
        made = None
        for y, factor in zip(x[q::FILTER], FILTERS[row].tolist(), strict=True):
            if factor:
                made = fused(y, factor, made) if made is not None else y if factor == 1 else y * factor
        assert made is not None
        return made

    d = [column(q) for q in range(FILTER)]
    made = [d[0] * float(FILTERS[0, 0])]
    for first, second, third in FILTERS[1:4:2].tolist():
        even, odd = fused(d[2], third, d[0] * first), d[1] * second
        made += [even + odd, even - odd]
    return [*made, d[2]]


def outputs(x: Sequence[Value]) -> list[Value]:
    """The product of OUTPUTS and x, with at most 4 roundings of each term."""
    fused = x[0].body.fused
    sum_a, sum_b, less_a, less_b = x[1] + x[2], x[3] + x[4], x[1] - x[2], x[3] - x[4]
    return [
        (x[0] + sum_a) + sum_b,
        fused(less_b, B, less_a * A),
        fused(sum_b, B2, sum_a * A2),
        fused(less_b, B * B2, fused(less_a, A * A2, x[5])),
    ]
