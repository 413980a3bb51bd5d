"""Convolutions of 8-bit integers, in groups, whose sums are stored, or requantised and rounded once."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

from anydml.kernels.match.affine import affine
from anydml.kernels.match.product import EIGHT_BIT, Operand, read_of, requantised
from anydml.kernels.match.structure import reads_input
from anydml.kernels.match.unmatched import only, pattern
from anydml.kernels.problem import Problem
from anydml.schema.node import Expr, Variable, is_integer, lift
from anydml.tensor import DataType, TensorFlags

NO_CONVOLUTION = "the elements are not a convolution of 8-bit integers minus their zero points"
INT32, FLOAT32 = DataType.INT32, DataType.FLOAT32


class Beside(NamedTuple):
    """A tensor with one element per output channel along `dimension`, or with a single element if that is None."""

    operand: Operand
    dimension: int | None


class Convolution(NamedTuple):
    """output[n, m, o] = the sum over c and k of (x[n, g + c, o * stride + k * dilation - start] - x_zero_point) *
    (filters[m, c, k] - filter_zero_point), where x is inside, modulo 2^32; or, with scales, (that sum + bias) * filter_scale
    * x_scale / output_scale, rounded half to even, plus output_zero_point, clamped.

    g: the first input channel of m's group. scales: those of filters, x and output. A `Beside` may have a value per channel.
    """

    x: Operand
    filters: Operand
    output: Operand
    groups: int
    strides: tuple[int, ...]
    dilations: tuple[int, ...]
    starts: tuple[int, ...]
    x_zero_point: Beside | None
    filter_zero_point: Beside | None
    scales: tuple[Beside, Beside, Beside] | None = None
    output_zero_point: Beside | None = None
    bias: Beside | None = None

    @property
    def terms(self) -> int:
        """The number of terms of each sum."""
        return math.prod(self.filters.desc.sizes[1:])

    @property
    def fixed(self) -> bool:
        """Whether all tensors that it reads, except x, are OWNED_BY_DML."""
        beside = (self.filter_zero_point, self.x_zero_point, self.output_zero_point, self.bias, *(self.scales or ()))
        read = [self.filters, *(b.operand for b in beside if b is not None)]
        return all(operand.desc.flags & TensorFlags.OWNED_BY_DML for operand in read)

    @property
    def scale_names(self) -> frozenset[str]:
        return frozenset(scale.operand.name for scale in self.scales or ())


@pattern
def convolution(problem: Problem) -> Convolution | str:
    """The convolution that a statement computes, or the reason why it is not of this kind."""
    name, nest = only(problem.statement)
    if nest.moves or not 3 <= len(nest.index) <= 5:
        return NO_CONVOLUTION
    output, i = Operand(name, problem.tensors[name]), nest.variables
    if output.desc.data_type is INT32:
        return _sums(nest.body, i, output, problem) or NO_CONVOLUTION
    if output.desc.data_type not in EIGHT_BIT:
        return NO_CONVOLUTION
    found = requantised(nest.body, output.desc.data_type)
    return NO_CONVOLUTION if found is None else _rounded(found, i, output, problem) or NO_CONVOLUTION


def _rounded(found: Any, i: Sequence[Variable], output: Operand, problem: Problem) -> Convolution | None:
    total, bias, m = found.total, None, i[1]
    if total.op == "add":
        total, added = total.args if total.args[0].op == "reduce" else total.args[::-1]
        bias = _beside(added, m, INT32, problem)
        if bias is None:
            return None
    sums = _sums(total, i, output, problem)
    zero_point = None
    if found.added is not None:
        zero_point = _beside(found.added, m, output.desc.data_type, problem)
        if zero_point is None:
            return None
    divisor = _beside(found.divisor, m, FLOAT32, problem)
    if sums is None or divisor is None:
        return None
    for f, x in (found.factors, found.factors[::-1]):
        of_filters, of_x = _beside(f, m, FLOAT32, problem), _beside(x, None, FLOAT32, problem)
        if of_filters is not None and of_x is not None:
            made = sums._replace(scales=(of_filters, of_x, divisor), output_zero_point=zero_point, bias=bias)
            return made if made.scale_names <= problem.promises.ruled else None
    return None


def _sums(e: Expr, i: Sequence[Variable], output: Operand, problem: Problem) -> Convolution | None:
    if e.op != "reduce" or e.data[0] != "sum" or len(e.args) != 1 or len(e.data[1]) != len(i) - 1 or e.args[0].op != "mul":
        return None
    for x, f in (e.args[0].args, e.args[0].args[::-1]):
        if (made := _factors(x, f, i, e.data[1], output, problem)) is not None:
            return made
    return None


def _factors(
    x: Expr, f: Expr, i: Sequence[Variable], terms: Sequence[Variable], output: Operand, problem: Problem
) -> Convolution | None:
    n, m, *o = i
    c, *k = terms
    (x, x_centre), (f, f_centre) = ((e.args if e.op == "sub" else (e, None)) for e in (x, f))
    filters = read_of(f)
    if filters is None or not reads_input(x, "inside", "skipped"):
        return None
    source = x.data[0]
    if source.data_type not in EIGHT_BIT or filters.data_type not in EIGHT_BIT or len(source.sizes) != len(i):
        return None
    if not all(index.data is v for index, v in zip(f.args, (m, *terms), strict=True)):
        return None
    if filters.sizes != (m.size, *(v.size for v in terms)) or x.args[0].data is not n or source.sizes[0] != n.size:
        return None
    groups = _groups(x.args[1], m, c, source.sizes[1])
    windows = [_window(index, p, u) for index, p, u in zip(x.args[2:], o, k, strict=True)]
    if groups is None or None in windows:
        return None
    x_zero_point = f_zero_point = None
    if x_centre is not None and (x_zero_point := _beside(x_centre, None, source.data_type, problem)) is None:
        return None
    if f_centre is not None and (f_zero_point := _beside(f_centre, m, filters.data_type, problem)) is None:
        return None
    strides, dilations, starts = zip(*(w for w in windows if w is not None), strict=True)
    x_, f_ = (Operand(t.name, problem.tensors[t.name]) for t in (source, filters))
    return Convolution(x_, f_, output, groups, strides, dilations, starts, x_zero_point, f_zero_point)


def _groups(index: Expr, m: Variable, c: Variable, channels: int) -> int | None:
    """The number of groups if an index is m // (output channels per group) * (channels per group) + c; else None."""
    if index.data is c:
        return 1 if c.size == channels else None
    if index.op != "add" or index.args[1].data is not c:
        return None
    e, per, of_group = index.args[0], 1, 1
    if e.op == "mul" and is_integer(e.args[1]):
        e, per = e.args[0], int(e.args[1].data.value)
    if e.op == "floordiv" and is_integer(e.args[1]):
        e, of_group = e.args[0], int(e.args[1].data.value)
    if e.data is not m or per != c.size or of_group < 1 or m.size % of_group or m.size // of_group * per != channels:
        return None
    groups: int = m.size // of_group
    return groups


def _window(index: Expr, o: Variable, u: Variable) -> tuple[int, int, int] | None:
    """Stride, dilation and start of o * stride + u * dilation - start."""
    found = affine(index)
    if found is None or not found.factors.keys() <= {o, u}:
        return None
    stride, dilation = found.factors.get(o, 0), found.factors.get(u, 0)
    return (stride, dilation, -found.constant) if stride >= 1 and dilation >= 1 else None


def _beside(e: Expr, m: Variable | None, data_type: DataType, problem: Problem) -> Beside | None:
    """A tensor that is read at the output channel along at most one dimension, and at 0 along all others."""
    tensor = read_of(e)
    if tensor is None or tensor.data_type is not data_type:
        return None
    along = [at for at, index in enumerate(e.args) if m is not None and index.data is m]
    if len(along) > 1 or any(index is not lift(0) for at, index in enumerate(e.args) if at not in along):
        return None
    return Beside(Operand(tensor.name, problem.tensors[tensor.name]), along[0] if along else None)
