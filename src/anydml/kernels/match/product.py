"""Matrix products of 8-bit integers, whose sums are stored, or requantised by scales and rounded once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from anydml.kernels.match.structure import is_whole, reads_input
from anydml.kernels.match.unmatched import only, pattern
from anydml.kernels.problem import Problem
from anydml.schema.expression import Tensor
from anydml.schema.node import Expr, Variable
from anydml.tensor import DataType, TensorDesc, limits

EIGHT_BIT = (DataType.INT8, DataType.UINT8)
NO_PRODUCT = "the elements are not sums of products of 8-bit integers minus their zero points"
NOT_RULED = "no data rule says that scales are finite and not 0"
NOT_REQUANTISED = "the sums are not requantised by three scales, rounded half to even and clamped"


class Operand(NamedTuple):
    """A tensor of a product, and the dimensions along which it is read."""

    name: str
    desc: TensorDesc


class MatrixProduct(NamedTuple):
    """output[.., m, n] = the sum over k of (a[.., m, k] - a_zero_point) * (b[.., k, n] - b_zero_point), modulo 2^32;
    or, with scales, that sum * a_scale * b_scale / output_scale, rounded half to even, plus output_zero_point, clamped.

    The parameters of A and of the output may differ by row, those of B by column, and all by batch. Zero points that are absent
    are 0.
    """

    a: Operand
    b: Operand
    output: Operand
    a_zero_point: Operand | None
    b_zero_point: Operand | None
    scales: tuple[Operand, Operand, Operand] | None = None  # of A, B and the output
    output_zero_point: Operand | None = None

    @property
    def terms(self) -> int:
        """K."""
        return int(self.a.desc.sizes[-1])

    @property
    def scale_names(self) -> frozenset[str]:
        return frozenset(scale.name for scale in self.scales or ())


@pattern
def product(problem: Problem) -> MatrixProduct | str:
    """The product that a statement computes, or the reason why it is not of this kind."""
    name, nest = only(problem.statement)
    if nest.moves or not 2 <= len(nest.index) <= 4:
        return NO_PRODUCT
    output, i = Operand(name, problem.tensors[name]), nest.variables
    if output.desc.data_type is DataType.INT32:
        return sums_of(nest.body, i, output, problem) or NO_PRODUCT
    if output.desc.data_type not in EIGHT_BIT:
        return NO_PRODUCT
    return _requantised(nest.body, i, output, problem)


def _requantised(e: Expr, i: Sequence[Variable], output: Operand, problem: Problem) -> MatrixProduct | str:
    found = requantised(e, output.desc.data_type)
    if found is None:
        return NOT_REQUANTISED
    total, factors, divisor, added = found
    zero_point = None
    if added is not None:
        zero_point = _beside(added, (*i[:-1], None), output.desc.data_type, problem)
        if zero_point is None:
            return NOT_REQUANTISED
    if total.op != "reduce":
        return NOT_REQUANTISED
    sums = sums_of(total, i, output, problem)
    if sums is None:
        return NO_PRODUCT
    row, column = (*i[:-1], None), (*i[:-2], None, i[-1])
    for a, b in (factors, factors[::-1]):
        of_a, of_b = _beside(a, row, DataType.FLOAT32, problem), _beside(b, column, DataType.FLOAT32, problem)
        of_output = _beside(divisor, row, DataType.FLOAT32, problem)
        if of_a is not None and of_b is not None and of_output is not None:
            made = sums._replace(scales=(of_a, of_b, of_output), output_zero_point=zero_point)
            return made if made.scale_names <= problem.promises.ruled else NOT_RULED
    return NOT_REQUANTISED


class Requantised(NamedTuple):
    """clamp(half_to_even(total * factors[0] * factors[1] / divisor) + added), where `added` may be None."""

    total: Expr
    factors: tuple[Expr, Expr]
    divisor: Expr
    added: Expr | None


def requantised(e: Expr, data_type: DataType) -> Requantised | None:
    """The requantisation of sums to a data type that a formula is, or None; factors and divisor are elements."""
    low, high = limits(data_type)
    for op, limit in (("min", high), ("max", low)):
        if e.op != op:
            return None
        x, y = e.args
        if is_whole(x, limit) == is_whole(y, limit):
            return None
        e = y if is_whole(x, limit) else x
    added = None
    if e.op == "add":
        e, other = e.args if e.args[0].op == "half_to_even" else e.args[::-1]
        added = None if is_whole(other, 0) else other
    if e.op != "half_to_even":
        return None
    above, under = _quotient(e.args[0])
    totals = [x for x in above if x.op != "read"]
    factors = [x for x in above if x.op == "read"]
    if (len(totals), len(factors), len(under)) != (1, 2, 1):
        return None
    return Requantised(totals[0], (factors[0], factors[1]), under[0], added)


def sums_of(e: Expr, i: Sequence[Variable], output: Operand, problem: Problem) -> MatrixProduct | None:
    """The product of 8-bit matrices whose element at the indices i an expression is."""
    if e.op != "reduce" or e.data[0] != "sum" or len(e.args) != 1 or len(e.data[1]) != 1 or e.args[0].op != "mul":
        return None
    (k,) = e.data[1]
    *batch, m, n = i
    for x, y in (e.args[0].args, e.args[0].args[::-1]):
        a = _centred(x, (*batch, m, k), (*batch, m, None), problem)
        b = _centred(y, (*batch, k, n), (*batch, None, n), problem)
        if a is not None and b is not None:
            return MatrixProduct(a[0], b[0], output, a[1], b[1])
    return None


def _centred(
    e: Expr, whole: Sequence[Variable], beside: Sequence[Variable | None], problem: Problem
) -> tuple[Operand, Operand | None] | None:
    """A factor, and the zero point that is subtracted from it."""
    factor, zero_point = e.args if e.op == "sub" else (e, None)
    tensor = read_of(factor)
    if tensor is None or tensor.data_type not in EIGHT_BIT or len(tensor.sizes) != len(whole):
        return None
    for x, v in zip(factor.args, whole, strict=True):
        if not _along(x, v):
            return None
    operand = Operand(tensor.name, problem.tensors[tensor.name])
    if zero_point is None:
        return operand, None
    taken = _beside(zero_point, beside, tensor.data_type, problem)
    return None if taken is None else (operand, taken)


def _beside(e: Expr, along: Sequence[Variable | None], data_type: DataType, problem: Problem) -> Operand | None:
    """A tensor that is read at right-aligned indices, each of them one of these variables or 0."""
    tensor = read_of(e)
    if tensor is None or tensor.data_type is not data_type:
        return None
    sizes, surplus = tensor.sizes, len(tensor.sizes) - len(along)
    for at, index in enumerate(e.args):
        v = along[at - surplus] if at >= surplus else None
        if not (_along(index, v) or (sizes[at] == 1 and is_whole(index, 0))):
            return None
    return Operand(tensor.name, problem.tensors[tensor.name])


def read_of(e: Expr) -> Tensor | None:
    """The input whose element an expression is."""
    return e.data[0] if reads_input(e, "inside") else None


def _along(index: Expr, v: Variable | None) -> bool:
    """Whether an index is a variable, or is 0 and the variable has no other value."""
    return v is not None and (index.data is v or (v.size == 1 and is_whole(index, 0)))


def _quotient(e: Expr) -> tuple[list[Expr], list[Expr]]:
    """The factors of products and quotients: those of the numerator, and those of the denominator."""
    if e.op not in ("mul", "div"):
        return [e], []
    (a, b), (c, d) = map(_quotient, e.args)
    return (a + c, b + d) if e.op == "mul" else (a + d, b + c)
