"""Winograd's F(4x4, 3x3) and F(4x4, 5x5) in float64: 16 sums of windows from 36 or 64 products of transforms.

In one dimension, the sums y of filters g over windows of d are y = A ((G g) * (B d)). This is the transpose of multiplying the
polynomials with the coefficients y and g by their values at the points 0, a, -a, b, -b, .. and at infinity. Two dimensions are
transformed one after the other. a, b, .. are chosen so that coefficients are exact in float64, and bounds are small.

The bound. u = 2^-53; |x| is the Euclidean norm over the channels, and for g and d over their elements, too. At position t of
the transform, U and V are the computed transforms of g and d. In both dimensions together, every term goes through at most F
and D roundings, `of_filters` and `of_inputs`, so that their errors are at most F u g' and D u d' in norm, with g' = |G[t]| |g|
and d' = |B[t]| |d|, by Cauchy and Schwarz within the rows of G and B. The sum over channels of U V has an error of at most
n u |U| |V|, n from `roundings`. The errors of U and V add F u g' |V| + D u |U| d'; A, and the two ends of the bound, add
10 u |U| |V|. With k = n + 10 this is at most k u P Q for P = |U| + F g' / k and Q = |V| + D d' / k; the neglected terms, of
order u^2, are covered by P Q and SLACK. The error of output (i, j) is at most the sum over t of |A[i, t1]| |A[j, t2]| k u P Q.
For any weights s, this is, by Cauchy and Schwarz, at most k u times the root of the sum of |A| |A| P^2 / s, which belongs to
the row, times the root of the sum of |A| |A| s Q^2, which belongs to the tile. For independent elements, s = |G[t]| / |B[t]|
balances the positions; then the row's roots are proportional to `amplified`, and its norm is the largest ratio to that. No
number here overflows or underflows.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from anydml.kernels.code.values import Value

TILE = 4  # outputs in each dimension
OF_OUTPUTS = 2 * 4  # roundings in both dimensions
BLOCK = 32  # terms of a product that are accumulated before they are added to others
SLACK = 1 + 2.0**-20  # for the roundings in bounds


def roundings(channels: int) -> int:
    """k, the bound over u P Q: a term is rounded once, goes through at most BLOCK additions in its block, and then through one
    addition for each block."""
    return 1 + min(channels, BLOCK) + -(-channels // BLOCK) + OF_OUTPUTS + 2


class Transform:
    """The transforms of windows of `taps` x `taps`. points: a, b, ..; all numbers have few digits.

    read: inputs in each dimension; inputs, filters, outputs: B, G and A.
    """

    def __init__(self, taps: int, points: Sequence[float]) -> None:
        self.taps, self.read, self.points = taps, TILE + taps - 1, points
        assert self.read == 2 * len(points) + 2
        self.positions, self.elements = self.read**2, taps**2
        # roundings in both dimensions
        self.of_filters, self.of_inputs = 2 * (1 + taps), 2 * (1 + len(points))
        squares = [p * p for p in points]
        # the polynomial of all points but one and its negative; of all but 0
        self.others = [_even([s for s in squares if s != own]) for own in squares]
        self.all = _even(squares)
        signed = [x for p in points for x in (p, -p)]
        rows = [_placed(self.all, 0, self.read)]
        for p in signed:
            even = self.others[points.index(abs(p))]
            rows.append(_placed(even, 2, self.read) + p * _placed(even, 1, self.read))
        self.inputs = np.array([*rows, _placed(self.all, 1, self.read)])
        # a point's powers over the product of its differences from the other points; this is exact, the quotient rounds once
        scales = [self.all[0], *(2 * p * p * prod(p * p - s for s in squares if s != p * p) for p in signed)]
        taken = [[p**n / scale for n in range(taps)] for p, scale in zip([0.0, *signed], scales, strict=True)]
        self.filters = np.array([*taken, [0.0] * (taps - 1) + [1.0]])
        self.outputs = np.array([[p**n for p in (0.0, *signed)] + [float(n == TILE - 1)] for n in range(TILE)])
        self.filter_norms, self.input_norms = (np.linalg.norm(m, axis=1) * SLACK for m in (self.filters, self.inputs))
        self.amplified = np.abs(self.outputs) @ (self.input_norms * self.filter_norms) * SLACK

    def weighted(
        self, square: Callable[[int, int], Value], whole: Value, rows: NDArray[Any], part: Value, weights: NDArray[Any]
    ) -> list[list[Value]]:
        """For each output, the sum of the squares of P or Q times the magnitudes of A and times weights, rounded up.

        P or Q at a position is the norm from its square, plus `part` of the whole norm times the norms of the rows.
        """
        factors, rest = np.abs(self.outputs) * weights * SLACK, whole.root() * part

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

        down = []  # column by column, so that few registers are needed
        for j in range(self.read):
            norms = [square(i, j).root() * SLACK + rest * float(rows[i] * rows[j] * SLACK) for i in range(self.read)]
            down.append(summed([x * x for x in norms]))
        return [summed([column[i] for column in down]) for i in range(TILE)]

    def of_input(self, x: Sequence[Value]) -> list[Value]:
        """The product of B and x, with at most 1 + len(points) roundings of each term."""

        def along(factors: Sequence[float], first: int, scale: float = 1.0) -> Value:
            """The sum of every second x from the first one on, times factors and a scale."""
            made = x[first + 2 * len(factors) - 2] * scale if scale != 1 else x[first + 2 * len(factors) - 2]
            for n in range(len(factors) - 2, -1, -1):
                made = made.body.fused(x[first + 2 * n], factors[n] * scale, made)
            return made

        made = [along(self.all, 0)]
        for p, others in zip(self.points, self.others, strict=True):
            even, odd = along(others, 2), along(others, 1, p)
            made += [even + odd, even - odd]
        return [*made, along(self.all, 1)]

    def of_filter(self, x: Sequence[Value], row: int) -> list[Value]:
        """A row of the transformed filter x, whose elements are given line by line: G[row] x G^T, with at most 1 + taps
        roundings of each term in each dimension, including those of the coefficients."""

        def summed(xs: Sequence[Value], factors: Sequence[float]) -> Value:
            made = None
            for y, factor in zip(xs, factors, strict=True):
                if factor:
                    made = y.body.fused(y, factor, made) if made is not None else y if factor == 1 else y * factor
            assert made is not None
            return made

        d = [summed(x[q :: self.taps], self.filters[row].tolist()) for q in range(self.taps)]
        made = [d[0] * float(self.filters[0, 0])]
        for factors in self.filters[1:-1:2].tolist():
            even, odd = summed(d[::2], factors[::2]), summed(d[1::2], factors[1::2])
            made += [even + odd, even - odd]
        return [*made, d[-1]]

    def of_output(self, x: Sequence[Value]) -> list[Value]:
        """The product of A and x, with at most 4 roundings of each term."""
        fused = x[0].body.fused
        pairs = [(x[k], x[k + 1]) for k in range(1, len(x) - 1, 2)]
        sums, less = [y + z for y, z in pairs], [y - z for y, z in pairs]
        made = []
        for n in range(TILE):
            total = x[0] if n == 0 else x[-1] if n == TILE - 1 else None
            for p, y in zip(self.points, less if n % 2 else sums, strict=True):
                if n == 0 or p == 1:
                    total = y if total is None else total + y
                else:
                    total = y * p**n if total is None else fused(y, p**n, total)
            assert total is not None
            made.append(total)
        return made


def _even(squares: Sequence[float]) -> list[float]:
    """The coefficients of the product of (y - s) over all s, from the constant one on."""
    made = [1.0]
    for s in squares:
        made = [low - s * high for low, high in pairwise([0.0, *made, 0.0])]
    return made


def _placed(even: Sequence[float], first: int, count: int) -> NDArray[Any]:
    """A row with coefficients at every second place from the first one on."""
    made = np.zeros(count)
    made[first : first + 2 * len(even) : 2] = even
    return made


# 0, 1, -1, 2, -2 are usual, but with these the bound of an average output is half as large
TRANSFORMS = {taps: Transform(taps, points) for taps, points in {3: (0.625, 1.625), 5: (0.5, 1.0, 2.25)}.items()}
