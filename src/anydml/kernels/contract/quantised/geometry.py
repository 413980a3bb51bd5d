"""The elements that each output sums: strides through x, weights and channels for each dimension of the output."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from anydml.kernels.contract.problem import in_bytes
from anydml.kernels.match.convolution import Convolution
from anydml.kernels.match.product import MatrixProduct


class Geometry(NamedTuple):
    """The elements that an output sums, as `refine` reads them, for the output's number in row-major order.

    dimensions: the output's, six, each with its size, its strides in bytes in x and weights, and its stride in channels.
    windows: for the last three: taps, dilation, stride, start, size of x, and the strides in x and weights. inner: the count of
    the terms at one tap, and their strides.
    """

    dimensions: tuple[tuple[int, int, int, int], ...]
    windows: tuple[tuple[int, int, int, int, int, int, int], ...]
    inner: tuple[int, int, int]

    def words(self) -> NDArray[np.int64]:
        return np.array([n for row in (*self.dimensions, *self.windows, self.inner) for n in row], np.int64)


ONE, STILL = (1, 0, 0, 0), (1, 0, 0, 0, 1, 0, 0)


def of_convolution(p: Convolution) -> Geometry:
    """The geometry of a convolution: batches, groups, filters of a group, places."""
    x, f, y = p.x.desc, p.filters.desc, p.output.desc
    xs, fs = in_bytes(x), in_bytes(f)
    channels, filters = f.sizes[1], f.sizes[0] // p.groups
    outer = (
        (y.sizes[0], xs[0], 0, 0),
        (p.groups, channels * xs[1], filters * fs[0], filters),
        (filters, 0, fs[0], 1),
    )
    missing = 3 - len(p.strides)
    places = (*[ONE] * missing, *((n, 0, 0, 0) for n in y.sizes[2:]))
    each = zip(f.sizes[2:], p.dilations, p.strides, p.starts, x.sizes[2:], xs[2:], fs[2:], strict=True)
    return Geometry((*outer, *places), (*[STILL] * missing, *each), (channels, xs[1], fs[1]))


def of_product(p: MatrixProduct, left: bool) -> Geometry | None:
    """The geometry of a product: batches, rows, columns. left: whether A has the weights. None if these differ between
    batches."""
    a, b, sizes = p.a.desc, p.b.desc, p.output.desc.sizes
    (at, bt), weights = (in_bytes(a), in_bytes(b)), a if left else b
    if len(sizes) > 6 or math.prod(weights.sizes[:-2]) != 1:
        return None
    outer = ((n, s, 0, 0) for n, s in zip(sizes[:-2], (bt if left else at)[:-2], strict=True))
    of_rows = (0, at[-2], 1) if left else (at[-2], 0, 0)
    of_columns = (bt[-1], 0, 0) if left else (0, bt[-1], 1)
    inner = (bt[-2], at[-1]) if left else (at[-1], bt[-2])
    dimensions = (*[ONE] * (6 - len(sizes)), *outer, (sizes[-2], *of_rows), (sizes[-1], *of_columns))
    return Geometry(dimensions, (STILL,) * 3, (a.sizes[-1], *inner))
