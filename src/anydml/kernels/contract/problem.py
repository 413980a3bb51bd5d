"""A contraction in the form that plans take: matrices by batch, with their zero points, scales and bias."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

from anydml.kernels.call.steps import At
from anydml.kernels.contract.geometry import Batch, Matrix, StridedColumns, evened, matrix
from anydml.kernels.contract.images.image import NOT_THERE, ImageAxis
from anydml.kernels.contract.images.windows import PaddedWindows
from anydml.kernels.match.convolution import Beside, Convolution
from anydml.kernels.match.product import MatrixProduct
from anydml.tensor import DataType, TensorDesc, TensorFlags

WRAPS = 33_025  # elements of K up to which a sum of full-range products fits int32
OUTPUTS = {DataType.INT8: "i8", DataType.UINT8: "u8", DataType.INT32: "i32"}
Dimensions = tuple[tuple[int, int], ...]
NOTHING = Matrix(At("constants"), 0, 0, 0, 0)


class Estimated(NamedTuple):
    """The numbers by which outputs are estimated: their table, the bytes between its rows, and those from row to row and from
    column to column of a product.

    ends: the limits of outputs, and their zero point. clamped: whether estimates may exceed int32, or the limits are not those
    of the type. Uncertain outputs are listed by the state at `OPEN`.
    """

    table: At
    pitch: int
    row: int
    column: int
    ends: At
    clamped: bool


OPEN = At("open")  # the address of a state, a different one for every piece of a phase


class IntegerProblem(NamedTuple):
    """c[m, n] = the sum over k of (a[m, k] - a_zero_point[m]) * (b[k, n] - b_zero_point[n]), in every batch, modulo 2^32; or,
    with scales, (that sum, exact, + bias[m]) * a_scale[m] * b_scale[n] / y_scale[m], rounded half to even, plus
    y_zero_point[m], clamped.

    terms, places: the dimensions that k and n run over, sizes with strides in bytes, outermost first, in a row of A and of C.
    output: "i32", "u8" or "i8". scales: a_scale, b_scale and y_scale. estimated: the numbers by which sums become bytes.
    column_biased: the bias is bias[n]. fixed: all tensors but B are OWNED_BY_DML.
    """

    m: int
    k: int
    n: int
    batches: Batch
    a: Matrix
    terms: Dimensions
    b: StridedColumns | PaddedWindows
    c: Matrix
    places: Dimensions
    a_signed: bool
    b_signed: bool
    output: str
    a_zero_point: Matrix
    b_zero_point: Matrix
    y_zero_point: Matrix = NOTHING
    scales: tuple[Matrix, Matrix, Matrix] | None = None
    bias: Matrix | None = None
    estimated: Estimated | None = None
    numbers: Matrix = NOTHING
    column_biased: bool = False
    fixed: bool = False

    @property
    def products(self) -> int:
        return self.m * self.k * self.n * math.prod(self.batches)


def of_product(p: MatrixProduct, estimated: Estimated | None = None) -> IntegerProblem:
    """The problem of a product of matrices."""
    a, b = p.a.desc, p.b.desc
    operands = (p.a, p.b, p.output, p.a_zero_point, p.b_zero_point, p.output_zero_point, *(p.scales or ()))
    found, batches = evened([NOTHING if x is None else matrix(x.name, x.desc) for x in operands], (1, 1, *a.sizes[:-2])[-2:])
    left, right, output, a_zero_point, b_zero_point, y_zero_point, *scales = found
    k, n = int(a.sizes[-1]), int(b.sizes[-1])
    return IntegerProblem(
        *(int(a.sizes[-2]), k, n, batches),
        a=left,
        terms=((k, left.column),),
        b=StridedColumns(right, bool(b.flags & TensorFlags.OWNED_BY_DML)),
        c=output,
        places=((n, output.column),),
        a_signed=a.data_type is DataType.INT8,
        b_signed=b.data_type is DataType.INT8,
        output=OUTPUTS[p.output.desc.data_type],
        a_zero_point=a_zero_point,
        b_zero_point=b_zero_point,
        y_zero_point=y_zero_point,
        scales=three(scales),
        estimated=estimated,
        numbers=Matrix(estimated.table, 0, 0, estimated.row, estimated.column) if estimated else NOTHING,
    )


def three(scales: Sequence[Matrix]) -> tuple[Matrix, Matrix, Matrix] | None:
    """The scales of A, B and the output, if there are any."""
    if not scales:
        return None
    a, b, output = scales
    return a, b, output


def merged(dimensions: Sequence[tuple[int, int]]) -> Dimensions:
    """The dimensions without sizes of 1, with two merged into one if they are contiguous."""
    found: list[tuple[int, int]] = []
    for size, stride in dimensions:
        if size == 1:
            continue
        if found and found[-1][1] == size * stride:
            found[-1] = found[-1][0] * size, stride
        else:
            found.append((size, stride))
    return tuple(found) or ((1, 0),)


def of_convolution(p: Convolution, estimated: Estimated | None = None) -> IntegerProblem:
    """The problem of a convolution: filters by places of the output, in batches of groups.

    B is the input itself if each output reads one element, and consecutive outputs read consecutive ones.
    """
    x, f, y = p.x.desc, p.filters.desc, p.output.desc
    xs, fs, ys = in_bytes(x), in_bytes(f), in_bytes(y)
    rows, channels = f.sizes[0] // p.groups, f.sizes[1]
    axes = axes_of(p)
    still = all(a.taps == a.stride == 1 and a.start == 0 and a.outputs == a.size for a in axes)
    inside = merged([(a.size, a.step) for a in axes])
    places = merged(list(zip(y.sizes[2:], ys[2:], strict=True)))
    source = Matrix(At(p.x.name), xs[0], channels * xs[1], xs[1], inside[0][1] if still and len(inside) == 1 else 0)
    output = Matrix(At(p.output.name), ys[0], rows * ys[1], ys[1], places[0][1])
    filters = Matrix(At(p.filters.name), 0, rows * fs[0], fs[0], 0)
    layouts = [source, output, filters, numbers_of(estimated, rows), *_beside(p, rows)]
    (source, output, filters, numbers, *beside), batches = evened(layouts, (x.sizes[0], p.groups))
    # dimensions of size 1 come first, if this does not change the order of elements
    z, y_, x_ = (NOT_THERE, NOT_THERE, *sorted(axes, key=lambda a: a.outputs * a.taps > 1))[-3:]
    windows = PaddedWindows(source, x.element_bytes, channels, source.row, (z, y_, x_))
    sizes = rows, math.prod(f.sizes[1:]), math.prod(y.sizes[2:]), batches
    b = StridedColumns(source, False) if still and len(inside) == 1 else windows
    problem = _convolved(p, sizes, filters, b, output, beside, estimated, numbers)
    terms = merged(list(zip(f.sizes[1:], fs[1:], strict=True)))
    return problem._replace(terms=terms, places=places, fixed=p.fixed)


def of_one_place(p: Convolution, estimated: Estimated | None = None) -> IntegerProblem | None:
    """The problem of a convolution with one output of each filter and image: images by filters, in batches of groups.

    None if there are several outputs, windows reach into the padding, filters are not packed beforehand, or outputs are rounded
    by filter.
    """
    x, f, y = p.x.desc, p.filters.desc, p.output.desc
    xs, fs, ys = in_bytes(x), in_bytes(f), in_bytes(y)
    filters, channels = f.sizes[0] // p.groups, f.sizes[1]
    axes, k = axes_of(p), math.prod(f.sizes[1:])
    inside = all(a.outputs == 1 and a.start == 0 and (a.taps - 1) * a.dilation < a.size for a in axes)
    terms = merged(list(zip(f.sizes[1:], fs[1:], strict=True)))
    if (
        not inside
        or len(terms) > 1
        or filters < 2
        or k > WRAPS
        or not f.flags & TensorFlags.OWNED_BY_DML
        or rounded_by_filter(p)
    ):
        return None
    a = Matrix(At(p.x.name), 0, channels * xs[1], xs[0], 0)
    b = StridedColumns(Matrix(At(p.filters.name), 0, filters * fs[0], terms[0][1], fs[0]), True)
    c = Matrix(At(p.output.name), 0, filters * ys[1], ys[0], ys[1])
    return by_filter_columns(p, (x.sizes[0], k, filters, (1, p.groups)), a, b, c, estimated)._replace(
        terms=merged([(channels, xs[1]), *((a.taps, a.dilation * a.step) for a in axes)]),
        places=((filters, ys[1]),),
        column_biased=p.bias is not None,
    )


def rounded_by_filter(p: Convolution) -> bool:
    """Whether the outputs' zero point or scale differs between filters."""
    return any(b is not None and b.dimension is not None for b in (p.output_zero_point, *(p.scales or ())[2:]))


def by_filter_columns(
    p: Convolution,
    sizes: tuple[int, int, int, Batch],
    a: Matrix,
    b: StridedColumns,
    c: Matrix,
    estimated: Estimated | None,
) -> IntegerProblem:
    """The problem of a convolution whose columns are the filters of a group, rounded alike by all filters."""
    filters = sizes[2]
    across = [transposed(of_rows(b, filters)) for b in (p.filter_zero_point, p.bias, *(p.scales or ())[:1])]
    single = [of_rows(b, 0) for b in (p.x_zero_point, p.output_zero_point, *(p.scales or ())[1:])]
    return IntegerProblem(
        *sizes,
        a=a,
        terms=(),
        b=b,
        c=c,
        places=(),
        a_signed=p.x.desc.data_type is DataType.INT8,
        b_signed=p.filters.desc.data_type is DataType.INT8,
        output=OUTPUTS[p.output.desc.data_type],
        a_zero_point=single[0],
        b_zero_point=across[0],
        y_zero_point=single[1],
        scales=(single[2], across[2], single[3]) if p.scales else None,
        bias=across[1] if p.bias else None,
        estimated=estimated,
        numbers=transposed(numbers_of(estimated, filters)),
    )


def of_filters(
    p: Convolution, places: int, a: Matrix, b: StridedColumns, c: Matrix, estimated: Estimated | None = None
) -> IntegerProblem:
    """The problem of a convolution whose rows are the filters of all groups, in batches of images."""
    x, f = p.x.desc, p.filters.desc
    sizes = f.sizes[0], math.prod(f.sizes[1:]), places, (x.sizes[0], 1)
    return _convolved(p, sizes, a, b, c, _beside(p, 1), estimated, numbers_of(estimated, 1))


def _beside(p: Convolution, rows: int) -> list[Matrix]:
    """The zero points, bias and scales of a convolution, by output channel; rows: the channels of a group."""
    found = (p.filter_zero_point, p.x_zero_point, p.output_zero_point, p.bias, *(p.scales or ()))
    return [of_rows(b, rows) for b in found]


def _convolved(
    p: Convolution,
    sizes: tuple[int, int, int, Batch],
    a: Matrix,
    b: StridedColumns | PaddedWindows,
    c: Matrix,
    beside: Sequence[Matrix],
    estimated: Estimated | None,
    numbers: Matrix,
) -> IntegerProblem:
    """The problem of a convolution whose rows are filters. beside: the result of `_beside`."""
    a_zero_point, b_zero_point, y_zero_point, bias, *scales = beside
    return IntegerProblem(
        *sizes,
        a=a,
        terms=(),
        b=b,
        c=c,
        places=(),
        a_signed=p.filters.desc.data_type is DataType.INT8,
        b_signed=p.x.desc.data_type is DataType.INT8,
        output=OUTPUTS[p.output.desc.data_type],
        a_zero_point=a_zero_point,
        b_zero_point=b_zero_point,
        y_zero_point=y_zero_point,
        scales=three(scales),
        bias=bias if p.bias else None,
        estimated=estimated,
        numbers=numbers,
    )


def axes_of(p: Convolution) -> list[ImageAxis]:
    """The axes of a convolution's windows, outermost first."""
    x, f, y = p.x.desc, p.filters.desc, p.output.desc
    return list(map(ImageAxis, x.sizes[2:], in_bytes(x)[2:], y.sizes[2:], f.sizes[2:], p.strides, p.dilations, p.starts))


def numbers_of(estimated: Estimated | None, rows: int) -> Matrix:
    """The table of a convolution's numbers, by output channel; rows: the channels of a group."""
    return Matrix(estimated.table, 0, 4 * rows, 4, 0) if estimated else NOTHING


def in_bytes(t: TensorDesc) -> list[int]:
    """The strides in bytes; 0 in dimensions of size 1."""
    size = t.data_type.dtype.itemsize
    return [stride * size if n > 1 else 0 for n, stride in zip(t.sizes, t.explicit_strides, strict=True)]


def transposed(m: Matrix) -> Matrix:
    """A matrix with one row, whose columns are another's rows."""
    return m._replace(row=0, column=m.row)


def of_rows(b: Beside | None, rows: int) -> Matrix:
    """A tensor by output channel, as a matrix; rows: the channels of a group."""
    if b is None:
        return NOTHING
    step = 0 if b.dimension is None else in_bytes(b.operand.desc)[b.dimension]
    return Matrix(At(b.operand.name), 0, rows * step, step, 0)
