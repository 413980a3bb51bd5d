"""Winograd's F(4x4, 3x3) in float64: 16 sums of 3x3 windows from 36 products of what is read and of the filter, transformed.

In one dimension, sums y of filters g over windows of d are y = A ((G g) * (B d)): the polynomials with the coefficients of y
and g are multiplied at the points 0, a, -a, b, -b and at infinity, and transposed, that makes windows of d. Two dimensions
are one after the other. a and b are such that coefficients are float64, and bounds are small.

The bound. u = 2^-53; |x| is the Euclidean norm over the channels, and for g and d over their elements, too. At position t of
the transform, U and V are what is computed of g and d, with at most 4 and 3 roundings on every term's way in one dimension,
so that their errors are at most 8 u g' and 6 u d' in norm, g' = |G[t]| |g|, d' = |B[t]| |d|, by Cauchy and Schwarz within
the rows of G and B. The sum over channels of U V errs by at most n u |U| |V|, n from `roundings`; what U and V err adds
8 u g' |V| + 6 u |U| d', and the way through A, and the two ends of the bound, 10 u |U| |V|. With k = n + 10 that is at most
k u P Q for P = |U| + 8 g' / k and Q = |V| + 6 d' / k; what is missing here, of the order of u^2, is in P Q and in SLACK.
An output (i, j) errs by at most the sum over t of |A[i, t1]| |A[j, t2]| k u P Q. With any weights s that is, by Cauchy and
Schwarz, at most k u times the root of the sum of |A| |A| P^2 / s, a row's, times that of |A| |A| s Q^2, a tile's. They lie
evenly for elements that are independent with s = |G[t]| / |B[t]|; then the row's roots are as AMPLIFIED, and its norm is
their largest ratio to that. No number here is beyond the range of float64, or below it.
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
A2, B2 = A * A, B * B  # as all that is made of few digits, exact
OF_FILTERS, OF_INPUTS, OF_OUTPUTS = 2 * 4, 2 * 3, 2 * 4  # roundings in both dimensions
BLOCK = 32  # terms of a product that are added up before they are added to others

# a point's powers over the product of its differences from the others, which is exact: each is rounded once
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
SLACK = 1 + 2.0**-20  # for the roundings of bounds
FILTER_NORMS, INPUT_NORMS = (np.linalg.norm(m, axis=1) * SLACK for m in (FILTERS, INPUTS))
AMPLIFIED = np.abs(OUTPUTS) @ (INPUT_NORMS * FILTER_NORMS) * SLACK


def roundings(channels: int) -> int:
    """k, the bound over u P Q: a term is rounded once and added up at most BLOCK times in its block, and then with one sum
    of a block after the other."""
    return 1 + min(channels, BLOCK) + -(-channels // BLOCK) + OF_OUTPUTS + 2


def norms(squares: Sequence[Sequence[Value]], whole: Value, rows: NDArray[Any], part: Value) -> list[list[Value]]:
    """At each position, the norm from its square, and a part of that of the whole times the norms of the transform's rows."""
    rest = whole.root() * part
    return [
        [x.root() * SLACK + rest * float(rows[i] * rows[j] * SLACK) for j, x in enumerate(line)]
        for i, line in enumerate(squares)
    ]


def weighted(norms: Sequence[Sequence[Value]], weights: NDArray[Any]) -> list[list[Value]]:
    """For each output, the sum of the squares of norms, times the magnitudes of OUTPUTS and weights, rounded up."""
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
    """Row by row of INPUTS: 3 roundings at most."""
    fused = x[0].body.fused
    even_a, odd_a = fused(x[2], -B2, x[4]), fused(x[1], -A * B2, x[3] * A)
    even_b, odd_b = fused(x[2], -A2, x[4]), fused(x[1], -B * A2, x[3] * B)
    first, last = (fused(x[k], A2 * B2, fused(x[k + 2], -(A2 + B2), x[k + 4])) for k in (0, 1))
    return [first, even_a + odd_a, even_a - odd_a, even_b + odd_b, even_b - odd_b, last]


def filters(x: Sequence[Value], row: int) -> list[Value]:
    """Of a filter's lines, one after the other, the line that a row of FILTERS makes of its columns, row by row of FILTERS: 4
    roundings at most in each dimension, with those of the coefficients."""
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
    """Row by row of OUTPUTS: 4 roundings at most."""
    fused = x[0].body.fused
    sum_a, sum_b, less_a, less_b = x[1] + x[2], x[3] + x[4], x[1] - x[2], x[3] - x[4]
    return [
        (x[0] + sum_a) + sum_b,
        fused(less_b, B, less_a * A),
        fused(sum_b, B2, sum_a * A2),
        fused(less_b, B * B2, fused(less_a, A * A2, x[5])),
    ]
