"""Winograd's F(4x4, 3x3) in float64: 16 sums of 3x3 windows from 36 products of what is read and of the filter, transformed.

In one dimension, sums y of filters g over windows of d are y = A ((G g) * (B d)): the polynomials with the coefficients of y
and g are multiplied at the points 0, a, -a, b, -b and at infinity, and transposed, that makes windows of d. Two dimensions
are one after the other. a and b are such that coefficients are float64, and bounds are small.

The bound. A computed y is a sum of terms, each a product of coefficients, of an element of g and of one of d, times
(1 + t) for every rounding that it went through, |t| <= u. At most 3 are in a pass of B, 4 in one of G or of A (with the
coefficient's own), each passed twice, and `roundings` in the products: n together. So y is at most n u / (1 - n u) times the
same sum of magnitudes away from the real one. By Cauchy and Schwarz, within a row of B and of G and over all channels, these
magnitudes are at most AMPLIFIED[i] AMPLIFIED[j] |g| |d| for the output at (i, j) of a tile: |g| and |d| are the norms of the
filter and of all that the tile's 6x6 elements hold, and AMPLIFIED[i] is the sum over t of |A[i, t]| times the norms of row t
of B and of G. No number here is beyond the range of float64, or below it.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from anydml.kernels.code.values import Value

TILE, READ, FILTER = 4, 6, 3  # outputs, inputs and elements of a filter, in each dimension
POSITIONS = READ * READ
A, B = 0.625, 1.625
A2, B2 = A * A, B * B  # as all that is made of few digits, exact
ROUNDINGS = 2 * 3 + 2 * 4 + 2 * 4  # in all transforms
BLOCK = 32  # terms of a product that are added up before they are added to others

# 1 over the products of a point's differences from the others
_AT_0, _AT_A, _AT_B = 1 / (A2 * B2), 1 / (2 * A2 * (A2 - B2)), 1 / (2 * B2 * (B2 - A2))
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
        [_AT_0, 0, 0],
        [_AT_A, A * _AT_A, A2 * _AT_A],
        [_AT_A, -A * _AT_A, A2 * _AT_A],
        [_AT_B, B * _AT_B, B2 * _AT_B],
        [_AT_B, -B * _AT_B, B2 * _AT_B],
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
SLACK = 1 + 2.0**-20
AMPLIFIED = np.abs(OUTPUTS) @ (np.linalg.norm(INPUTS, axis=1) * np.linalg.norm(FILTERS, axis=1)) * SLACK


def factor(channels: int) -> float:
    """The bound for so many channels over AMPLIFIED[i] AMPLIFIED[j] |g| |d|.

    In a product, a term is rounded once and added up to BLOCK times in its block, and then with one sum of a block after the
    other. 2 are for the two ends that the bound makes, which are rounded; its own roundings are in SLACK.
    """
    roundings = 1 + min(channels, BLOCK) + -(-channels // BLOCK)
    return (ROUNDINGS + roundings + 2) * 2.0**-53


def inputs(x: Sequence[Value]) -> list[Value]:
    """Row by row of INPUTS: 3 roundings at most."""
    fused = x[0].body.fused
    even_a, odd_a = fused(x[2], -B2, x[4]), fused(x[1], -A * B2, x[3] * A)
    even_b, odd_b = fused(x[2], -A2, x[4]), fused(x[1], -B * A2, x[3] * B)
    first, last = (fused(x[k], A2 * B2, fused(x[k + 2], -(A2 + B2), x[k + 4])) for k in (0, 1))
    return [first, even_a + odd_a, even_a - odd_a, even_b + odd_b, even_b - odd_b, last]


def filters(x: Sequence[Value]) -> list[Value]:
    """Row by row of FILTERS: 4 roundings at most, with those of the coefficients."""
    made = [x[0] * _AT_0]
    for point, at in ((A, _AT_A), (B, _AT_B)):
        even, odd = x[0].body.fused(x[2], point * point * at, x[0] * at), x[1] * (point * at)
        made += [even + odd, even - odd]
    return [*made, x[2]]


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
