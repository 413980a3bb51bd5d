"""A convolution as a product whose rows are places of the output and whose columns are filters."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple, TypeVar

from anydml.kernels.call.steps import At
from anydml.kernels.code.targets import Target
from anydml.kernels.contract import tuning
from anydml.kernels.contract.dot import dot_of
from anydml.kernels.contract.geometry import Matrix, StridedColumns
from anydml.kernels.contract.images.image import NOT_THERE, ImageAxis
from anydml.kernels.contract.images.windows import PaddedWindows
from anydml.kernels.contract.places import tile as places
from anydml.kernels.contract.places.filters import Filters
from anydml.kernels.contract.problem import (
    NOTHING,
    WRAPS,
    Estimated,
    IntegerProblem,
    axes_of,
    by_filter_columns,
    in_bytes,
    merged,
    rounded_by_filter,
)
from anydml.kernels.contract.tile import panel_columns
from anydml.kernels.match.convolution import Convolution
from anydml.tensor import DataType, TensorFlags

T = TypeVar("T")
LONGEST = 1 << 13  # the most places of a line, which is never cut


class Convolved(NamedTuple):
    """A convolution by places: the rows of its problem are places, the columns filters; a row of C is a line of the output.

    windows: those of the image. one: the input as a single axis, if it can be read as one line. flipped: the image has INT8 as
    UINT8, with 128 added. lines, line: the output's lines, and the places of one. fixed: everything except the image is owned,
    so that records are made once.
    """

    problem: IntegerProblem
    windows: PaddedWindows
    filters: Filters
    one: ImageAxis | None
    flipped: bool
    lines: int
    line: int
    fixed: bool

    def serves(self, target: Target) -> bool:
        """Whether tiles of filters compute few columns in vain, and packing filters costs little."""
        p = self.problem
        return (
            places.serves(target)
            and self.windows.channels % 4 == 0
            and p.k <= WRAPS
            and p.n >= 32
            and -(-p.n // 32) * 32 * 5 <= p.n * 6
            and self.line <= LONGEST
            and (self.filters.owned or p.m >= tuning.TUNING.many_places)
            # AMX multiplies whole panels, except where the records of filters take longer than the products
            and (not dot_of(target).amx or p.m < panel_columns(target) or p.n > tuning.TUNING.filters_of_term * p.k)
        )


def convolved(p: Convolution, estimated: Estimated | None = None) -> Convolved | None:
    """The convolution by places and filters; None if the output's layout forbids it, or outputs are rounded by filter."""
    x, f, y = p.x.desc, p.filters.desc, p.output.desc
    xs, fs, ys = in_bytes(x), in_bytes(f), in_bytes(y)
    filters, channels = f.sizes[0] // p.groups, f.sizes[1]
    axes = axes_of(p)
    # dimensions of size 1 come first, if this does not change the order of elements
    order = sorted(range(len(axes)), key=lambda i: axes[i].outputs * axes[i].taps > 1)
    z, y_, x_ = windowed = triple([NOT_THERE, NOT_THERE, *(axes[i] for i in order)])
    line, place = triple([0, 0, *(ys[2 + i] for i in order)])[1:]
    taps_y, taps_x = triple([0, 0, *(fs[2 + i] for i in order)])[1:]
    if z.outputs * z.taps > 1 or (x_.outputs > 1 and place != y.data_type.dtype.itemsize) or rounded_by_filter(p):
        return None
    source = Matrix(At(p.x.name), xs[0], channels * xs[1], xs[1], 0)
    still = all(a.taps == a.stride == 1 and a.start == 0 and a.outputs == a.size for a in axes)
    inside = merged([(a.size, a.step) for a in windowed])
    sizes = y_.outputs * x_.outputs, math.prod(f.sizes[1:]), filters, (x.sizes[0], p.groups)
    output = Matrix(At(p.output.name), ys[0], filters * ys[1], line, ys[1])
    problem = by_filter_columns(p, sizes, source, StridedColumns(NOTHING, False), output, estimated)
    return Convolved(
        problem._replace(a_signed=False),  # places are packed as UINT8
        PaddedWindows(source, x.element_bytes, channels, source.row, windowed),
        Filters(
            Matrix(At(p.filters.name), 0, filters * fs[0], 0, fs[0]),
            bool(f.flags & TensorFlags.OWNED_BY_DML),
            (channels, fs[1]),
            ((y_.taps, taps_y), (x_.taps, taps_x)),
        ),
        ImageAxis(*inside[0], 0, 1, 1, 1, 0) if still and len(inside) == 1 else None,
        x.data_type is DataType.INT8,
        y_.outputs,
        x_.outputs,
        p.fixed,
    )


def triple(items: Sequence[T]) -> tuple[T, T, T]:
    """The last three items."""
    x, y, z = items[-3:]
    return x, y, z
