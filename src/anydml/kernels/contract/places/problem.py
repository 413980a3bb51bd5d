"""A convolution as a product whose rows are places of the output and whose columns are filters."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple, TypeVar

from anydml.kernels.call.steps import At
from anydml.kernels.code.targets import Target
from anydml.kernels.contract import tuning
from anydml.kernels.contract.geometry import Matrix, StridedColumns
from anydml.kernels.contract.images.image import NOT_THERE, ImageAxis
from anydml.kernels.contract.images.windows import PaddedWindows
from anydml.kernels.contract.places import tile as places
from anydml.kernels.contract.places.filters import Filters
from anydml.kernels.contract.problem import (
    NOTHING,
    OUTPUTS,
    WRAPS,
    Estimated,
    IntegerProblem,
    axes_of,
    in_bytes,
    merged,
    numbers_of,
    of_rows,
    transposed,
)
from anydml.kernels.match.convolution import Beside, Convolution
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
    of_output = (p.output_zero_point, *(p.scales or ())[2:])
    if z.outputs * z.taps > 1 or (x_.outputs > 1 and place != y.data_type.dtype.itemsize):
        return None
    if any(b is not None and b.dimension is not None for b in of_output):
        return None
    source = Matrix(At(p.x.name), xs[0], channels * xs[1], xs[1], 0)
    still = all(a.taps == a.stride == 1 and a.start == 0 and a.outputs == a.size for a in axes)
    inside = merged([(a.size, a.step) for a in windowed])
    across = [_of_columns(b, filters) for b in (p.filter_zero_point, p.bias, *(p.scales or ())[:1])]
    single = [_of_columns(b, 0) for b in (p.x_zero_point, p.output_zero_point, *(p.scales or ())[1:])]
    problem = IntegerProblem(
        *(y_.outputs * x_.outputs, math.prod(f.sizes[1:]), filters, (x.sizes[0], p.groups)),
        a=source,
        terms=(),
        b=StridedColumns(NOTHING, False),
        c=Matrix(At(p.output.name), ys[0], filters * ys[1], line, ys[1]),
        places=(),
        a_signed=False,
        b_signed=f.data_type is DataType.INT8,
        output=OUTPUTS[y.data_type],
        a_zero_point=single[0],
        b_zero_point=across[0],
        y_zero_point=single[1],
        scales=(single[2], across[2], single[3]) if p.scales else None,
        bias=across[1] if p.bias else None,
        estimated=estimated,
        numbers=transposed(numbers_of(estimated, filters)),
    )
    return Convolved(
        problem,
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


def _of_columns(b: Beside | None, filters: int) -> Matrix:
    """A tensor whose columns are filters."""
    return transposed(of_rows(b, filters))
