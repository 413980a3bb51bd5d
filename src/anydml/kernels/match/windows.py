"""Statements that reduce the elements of windows, which slide over an input: largest elements, sums, means and lengths."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from anydml.kernels.match.affine import affine
from anydml.kernels.match.structure import operands, reads_input
from anydml.kernels.match.unmatched import Unmatched, pattern
from anydml.schema.expression import clamp, half_to_even, is_nan, row_major, select, unraveled
from anydml.schema.node import INDEX, Expr, Variable, is_integer, number
from anydml.schema.statement import Nest, Statement
from anydml.schema.traversal import bound_by, loops_in, walk
from anydml.schema.windows import inside
from anydml.tensor import DataType, limits

MAX, SUM, MEAN, LENGTH, QUANTIZED = "max", "sum", "mean", "length", "quantized"


class WindowAxis(NamedTuple):
    """A dimension of the input and of the output: output o takes the elements o * stride + k * dilation - start, k < window.

    size, output: the sizes. counted: a mean divides by the number of its elements before this index, those of the padding
    included if it is larger than the size.
    """

    size: int
    output: int
    stride: int = 1
    window: int = 1
    dilation: int = 1
    start: int = 0
    counted: int = 0


class Parameter(NamedTuple):
    """A scale or zero point: its tensor, and for each of its dimensions the output's dimension along which it varies."""

    name: str
    along: tuple[int | None, ...]


class WindowReduction(NamedTuple):
    """The reduction of every window. kind: MAX, SUM (of magnitudes), MEAN, LENGTH (root of a sum of squares) or QUANTIZED.

    indices: the output of positions, if there is one. padded: a mean divides by a number that includes elements of the padding.
    parameters: for a quantised mean, the input's scale and zero point, then the output's. ends: the limits of its type.
    """

    kind: str
    source: str
    output: str
    indices: str | None
    axes: tuple[WindowAxis, ...]
    padded: bool = False
    parameters: tuple[Parameter | None, ...] = ()
    ends: tuple[int, int] | None = None


@pattern
def windows(statement: Statement) -> WindowReduction:
    """The windows that a statement reduces, or the reason why it is not of this kind."""
    names = list(statement)
    found = _reduced(*statement.values())
    axes = _axes(found.key, found.bound, statement[names[0]], found.counted)
    indices = names[1] if len(names) > 1 else None
    source = found.key.data[0].name
    return WindowReduction(found.kind, source, names[0], indices, axes, found.padded, found.parameters, found.ends)


class _Reduced(NamedTuple):
    """The read that a window reduces, its variables, and fields of `WindowReduction`. counted: that of each axis."""

    key: Expr
    bound: tuple[Variable, ...]
    kind: str
    counted: Sequence[int] | None = None
    padded: bool = False
    parameters: tuple[Parameter | None, ...] = ()
    ends: tuple[int, int] | None = None


def _reduced(nest: Nest, indices: Nest | None = None, *others: Nest) -> _Reduced:
    if others or (indices is not None and not nest.moves):
        raise Unmatched("there are several outputs")
    if nest.moves:
        return _largest(nest, indices)
    body = nest.body
    if body.op == "sqrt":
        key, bound = _sum(body.args[0])
        if key.op == "mul" and key.args[0] is key.args[1]:
            return _Reduced(_read(key.args[0]), bound, LENGTH)
    if body.op == "reduce":
        key, bound = _sum(body)
        if key.op == "absolute":
            return _Reduced(_read(key.args[0]), bound, SUM)
    if body.op == "div":
        key, bound = _sum(body.args[0])
        counted, padded = _counted(body.args[1], _read(key), bound)
        return _Reduced(key, bound, MEAN, counted, padded)
    if body.op == "select" and body.args[0].op == "is_nan":
        return _quantized(nest, body.args[0].args[0])
    raise Unmatched("the elements are not sums, means, lengths or largest elements of windows")


def _read(e: Expr) -> Expr:
    if not reads_input(e, "skipped"):
        raise Unmatched("elements outside of the input are not left out of windows")
    return e


def _sum(e: Expr) -> tuple[Expr, tuple[Variable, ...]]:
    if e.op != "reduce" or e.data[0] != "sum" or len(e.args) > 1:
        raise Unmatched("the reduction is not a sum over windows")
    return e.args[0], bound_by(e)


def _largest(nest: Nest, indices: Nest | None) -> _Reduced:
    places = loops_in(nest.body)
    if len(places) != 1 or places[0].op != "first_largest" or places[0].data[1] or len(places[0].args) > 1:
        raise Unmatched("the elements that are moved are not the largest ones")
    (place,) = places
    key, bound = _read(place.args[0]), bound_by(place)
    tensor = key.data[0]
    at = [_put(e, dict(zip(bound, unraveled(place, [v.size for v in bound]), strict=True))) for e in key.args]
    body = nest.body
    lowest = body.args[-1]
    if (
        body.op != "read"
        or body.data != (tensor, "otherwise")
        or any(a is not b for a, b in zip(body.args[:-1], at, strict=True))
    ):
        raise Unmatched("the element that is moved is not the largest")
    least = -math.inf if tensor.data_type.is_float else limits(tensor.data_type)[0]
    if lowest.op != "constant" or lowest.data.value != least:
        raise Unmatched("the result without elements is not the least number")
    if indices is not None:
        if indices.moves or any(a is not b for a, b in zip(indices.index, nest.index, strict=True)):
            raise Unmatched("the second output does not hold positions")
        if indices.body is not number(select(inside(at[2:], tensor.sizes[2:]), row_major(at, tensor.sizes), 0)):
            raise Unmatched("the second output does not hold positions")
    return _Reduced(key, bound, MAX)


def _put(e: Expr, instead: Mapping[Variable, Expr]) -> Expr:
    """An index with its variables replaced by other indices."""
    if e.op == "variable":
        return instead.get(e.data, e)
    if e.op not in ("add", "sub", "mul"):
        return e
    a, b = (_put(x, instead) for x in e.args)
    return a + b if e.op == "add" else a - b if e.op == "sub" else a * b


def _counted(e: Expr, key: Expr, bound: tuple[Variable, ...]) -> tuple[list[int], bool]:
    """For each spatial dimension, the index below which a mean counts elements; and whether it counts those of the padding."""
    if e.op != "max" or e.args[1] is not number(1) or e.args[0].op != "reduce" or len(e.args[0].args) != 2:
        raise Unmatched("a sum is not divided by the number of its elements")
    one, where = e.args[0].args
    if e.args[0].data != ("sum", bound) or one is not number(1):
        raise Unmatched("a sum is not divided by the number of its elements")
    sizes, at = key.data[0].sizes[2:], key.args[2:]
    if where is inside(at, sizes):
        return list(sizes), False
    conditions = list(operands(where, "both"))
    if len(conditions) != len(at):
        raise Unmatched("elements are counted under another condition")
    found = []
    for condition, p in zip(conditions, at, strict=True):
        if condition.op != "less" or condition.args[0] is not p or not is_integer(condition.args[1]):
            raise Unmatched("elements are counted under another condition")
        found.append(int(condition.args[1].data.value))
    return found, True


def _quantized(nest: Nest, quotient: Expr) -> _Reduced:
    if quotient.op != "div" or quotient.args[0].op != "div":
        raise Unmatched("the elements are not a quantised mean")
    mean, y_scale = quotient.args
    term, bound = _sum(mean.args[0])
    if term.op != "mul":
        raise Unmatched("the mean is not of dequantised elements")
    centred, x_scale = term.args
    element, x_zero = centred.args if centred.op == "sub" else (centred, None)
    key = _read(element)
    counted, padded = _counted(mean.args[1], key, bound)
    added = [e for e in walk(nest.body) if e.op == "add" and e.args[0].op == "half_to_even" and e.args[0].args[0] is quotient]
    if len(added) != 1:
        raise Unmatched("the mean is not rounded half to even")
    y_zero = added[0].args[1]
    for low, high in map(limits, (DataType.INT8, DataType.UINT8)):
        if nest.body is number(select(is_nan(quotient), low, clamp(half_to_even(quotient) + y_zero, low, high))):
            break
    else:
        raise Unmatched("the mean is not quantised by a scale and a zero point")
    zero = None if is_integer(y_zero) and y_zero.data.value == 0 else y_zero
    if zero is not None and zero.op == "constant":
        raise Unmatched("the mean is not quantised by a scale and a zero point")
    made = tuple(None if e is None else _parameter(e, nest) for e in (x_scale, x_zero, y_scale, zero))
    return _Reduced(key, bound, QUANTIZED, counted, padded, made, (low, high))


def _parameter(e: Expr, nest: Nest) -> Parameter:
    if e.op != "read" or e.data[1] != "inside":
        raise Unmatched("a scale or zero point is not read from a tensor")
    dims = {v: at for at, v in enumerate(nest.variables)}
    along: list[int | None] = []
    for index in e.args:
        if index.op == "variable" and index.data in dims:
            along.append(dims[index.data])
        elif is_integer(index) and index.data.value == 0:
            along.append(None)
        else:
            raise Unmatched("a scale or zero point is not read at the output's index")
    return Parameter(e.data[0].name, tuple(along))


def _axes(key: Expr, bound: tuple[Variable, ...], nest: Nest, counted: Sequence[int] | None) -> tuple[WindowAxis, ...]:
    tensor = key.data[0]
    if len(key.args) != len(nest.variables) or any(e.sort is not INDEX for e in key.args):
        raise Unmatched("windows have other dimensions than the output")
    found: list[WindowAxis] = []
    inner = list(bound)
    for d, (e, v, size) in enumerate(zip(key.args, nest.variables, tensor.sizes, strict=True)):
        index = affine(e)
        if index is None:
            raise Unmatched("an index is not affine")
        factors = dict(index.factors)
        stride = factors.pop(v, 0)
        if e.op == "variable" and e.data is v and v.size == size:
            found.append(WindowAxis(size, size, counted=size))
            continue
        u = inner.pop(0) if inner else None
        if u is None:
            raise Unmatched("a window has no extent along a dimension that it moves in")
        dilation = factors.pop(u, 0)
        if factors or stride < 1 or dilation < 1 or index.constant > 0 or d < 2:
            raise Unmatched("an index is not a position of a window")
        limit = counted[d - 2] if counted is not None else size
        found.append(WindowAxis(size, v.size, stride, u.size, dilation, -index.constant, limit))
    if inner:
        raise Unmatched("a reduction runs over other variables than the window's")
    return tuple(found)
