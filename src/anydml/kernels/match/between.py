"""Statements between bytes: elements that are dequantised, selected, averaged or summed, and quantised again.

Scales and zero points are constants, which the problem promises. Every step is rounded to FLOAT32, as a tensor of floats is.

Selected elements. Let s > 0 be the scale, z the zero point, and d = byte - z. The byte is dequantised to fl(s d), which does
not decrease if d grows. The selected element is quantised to the integer nearest to fl(fl(s d) / s), plus z. The product and
the quotient are rounded once each, so the quotient is within 2^-22 |d| < 1/2 of d, and the result is d + z, unless fl(s d) is
infinite. So the bytes themselves may be selected. The least number, which an empty window gives, saturates to the least byte.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from anydml.exact.float32 import products_in_float32
from anydml.kernels.match.unmatched import Unmatched, only, pattern
from anydml.kernels.problem import Problem
from anydml.schema.expression import Tensor
from anydml.schema.node import Expr, is_integer, lift, make
from anydml.schema.statement import Nest
from anydml.schema.traversal import loops_in, reads_in, rebuilt
from anydml.schema.types import EIGHT_BIT, SIXTEEN_BIT
from anydml.schema.windows import inside
from anydml.tensor import DataType, limits

FLOAT32 = DataType.FLOAT32
FAR = float(1 << 17)  # twice what 16 bits hold
REACH = 255  # the largest magnitude of a centred integer of 8 bits
UNCLAMPED = (-math.inf, math.inf)
Constants = Mapping[str, NDArray[Any]]


class Dequantised(NamedTuple):
    """An element (source - zero) * scale. source: the read of the integer. scale, zero: arrays that broadcast to its tensor."""

    source: Expr
    scale: NDArray[np.float32]
    zero: NDArray[np.int64]

    @property
    def tensor(self) -> Tensor:
        found: Tensor = self.source.data[0]
        return found

    @property
    def parameters(self) -> tuple[float, int]:
        """The scale and the zero point of all elements; Unmatched if there are several."""
        return float(one(self.scale)), int(one(self.zero))


class QuantisedChain(NamedTuple):
    """An output that is quantised. body: the number that is quantised, without its clamps and the added tensor.

    added: a dequantised tensor that is added to the rounded body, if any. bounds: the limits of the clamps. rounding: scale and
    zero point of the output.
    """

    body: Expr
    added: Expr | None
    bounds: tuple[float, float]
    rounding: tuple[float, int]


class QuantisedMeans(NamedTuple):
    """Means of a dequantised tensor that are quantised.

    means: their statement, on floats. source: the tensor. x: its scale and zero point. bounds, rounding: as in QuantisedChain.
    """

    means: Nest
    source: str
    x: tuple[float, int]
    bounds: tuple[float, float]
    rounding: tuple[float, int]


@pattern
def selected(problem: Problem) -> Problem:
    """The problem of selecting bytes that equals a selection of dequantised elements, or the reason why there is none."""
    name, nest, data_type = _quantised_output(problem)
    inner, scale, zero = quantised(nest.body, data_type)
    constants = problem.promises.constants
    rounding = _parameters(scale, zero, nest, constants)
    if inner.op != "select" or inner.args[1].op != "round" or inner.args[2] is not lift(-math.inf):
        raise Unmatched("the elements that are quantised are not selected")
    condition, element, _ = inner.args
    given = dequantised(element, constants)
    read = given.source
    if read.data[1] != "otherwise" or condition is not inside(read.args[:-1], given.tensor.sizes):
        raise Unmatched("the elements that are quantised are not selected")
    if given.tensor.data_type is not data_type or given.parameters != rounding:
        raise Unmatched("elements are selected between different scales or zero points")
    if not 0 < rounding[0] * REACH <= float(np.finfo(np.float32).max):
        raise Unmatched("the scale is not positive, or extreme")
    made: dict[Expr, Expr] = {}

    def of_bytes(e: Expr, _: tuple[Expr, ...]) -> Expr | None:
        if e.op != "round" or e.data is not FLOAT32:
            return None
        key = dequantised(e, constants)
        if key.tensor is not given.tensor or key.parameters != rounding:
            raise Unmatched("elements are selected by other elements")
        return make("read", tuple([made[a] for a in key.source.args]), key.source.data)

    found = rebuilt(read, of_bytes, made)
    body = make("read", (*found.args[:-1], lift(limits(data_type)[0])), found.data)
    return problem._replace(statement={name: Nest(nest.index, body, moves=True)})


@pattern
def quantised_means(problem: Problem) -> QuantisedMeans:
    """The means that a statement quantises, or the reason why it is not of this kind."""
    chain = quantised_chain(problem)
    nest = next(iter(problem.statement.values()))
    body = chain.body
    if chain.added is not None or body.op != "div" or body.args[0].op != "reduce" or body.args[0].data[0] != "sum":
        raise Unmatched("the elements are not means")
    total, number = body.args
    if len(total.args) != 1 or reads_in(number):
        raise Unmatched("the elements are not means of elements")
    given = dequantised(total.args[0], problem.promises.constants)
    t, read = given.tensor, given.source
    floats = make("read", read.args, (Tensor(t.name, t.sizes, FLOAT32), read.data[1]))
    means = Nest(nest.index, make("div", (make("reduce", (floats,), total.data), number)))
    return QuantisedMeans(means, t.name, given.parameters, chain.bounds, chain.rounding)


def quantised_chain(problem: Problem, types: Sequence[DataType] = EIGHT_BIT) -> QuantisedChain:
    """The quantised chain of an output of one of these types. Unmatched if it is no such chain."""
    _, nest, data_type = _quantised_output(problem, types)
    inner, scale, zero = quantised(nest.body, data_type)
    constants = problem.promises.constants
    rounding = _parameters(scale, zero, nest, constants)
    (low, high), added = UNCLAMPED, None
    while inner.op == "round" and inner.data is FLOAT32:
        body, bounds = clamped(inner.args[0])
        if added is not None and bounds != UNCLAMPED:
            raise Unmatched("the sum is clamped before another tensor is added")
        low, high = (min(high, max(low, bound)) for bound in bounds)  # the operators after this one clamp these bounds too
        if body.op == "add" and added is None and all(e.op == "round" for e in body.args):
            inner, added = _terms(body)
        elif body.op == "round":
            inner = body
        else:
            if body.op == "div" and bounds != UNCLAMPED:
                raise Unmatched("means are clamped before they are rounded")
            return QuantisedChain(body, added, (low, high), rounding)
    raise Unmatched("the elements that are quantised are not rounded to FLOAT32")


def _terms(body: Expr) -> tuple[Expr, Expr]:
    """The two tensors that are added: first the one that is not dequantised, then the other."""

    x, y = body.args
    of_bytes = [e.args[0].op == "mul" and not loops_in(e) for e in (x, y)]
    if of_bytes[0] == of_bytes[1]:
        raise Unmatched("of two tensors that are added, not one is dequantised")
    return (y, x) if of_bytes[0] else (x, y)


def _quantised_output(problem: Problem, types: Sequence[DataType] = EIGHT_BIT) -> tuple[str, Nest, DataType]:
    name, nest = only(problem.statement)
    data_type = problem.tensors[name].data_type
    if nest.moves or data_type not in types:
        raise Unmatched("the output is not quantised")
    return name, nest, data_type


def _parameters(scale: Expr, zero: Expr, nest: Nest, constants: Constants) -> tuple[float, int]:
    at, sizes = nest.index, [int(n) for n in nest.sizes]
    return float(one(_scales(scale, at, sizes, constants))), int(one(_integers(zero, at, sizes, constants)))


def quantised(e: Expr, data_type: DataType) -> tuple[Expr, Expr, Expr]:
    """The dividend, the divisor and the zero point of a quantised element. The quotient must be rounded to FLOAT32."""
    low, high = limits(data_type)
    if data_type in SIXTEEN_BIT:
        return _quantised_to_16(e, low, high)
    if e.op != "select" or e.args[0].op != "is_nan" or e.args[1] is not lift(low):
        raise Unmatched("the elements are not quantised")
    quotient = e.args[0].args[0]
    total, bounds = clamped(e.args[2])
    zero = lift(0)
    if total.op == "add" and total.args[0].op == "half_to_even":
        total, zero = total.args
    if bounds != (low, high) or total.op != "half_to_even" or total.args[0] is not quotient:
        raise Unmatched("the elements are not quantised")
    if quotient.op != "round" or quotient.data is not FLOAT32 or quotient.args[0].op != "div":
        raise Unmatched("the elements are not quantised")
    divided, divisor = quotient.args[0].args
    return divided, divisor, zero


def _quantised_to_16(e: Expr, low: int, high: int) -> tuple[Expr, Expr, Expr]:
    """The same of 16 bits: a quotient is rounded, clamped to what INT32 holds with any zero point, and then to the limits.

    The quotient is no NaN if the dividend is a sum of finite numbers, and the divisor is not 0.
    """
    total, bounds = clamped(_whole(e))
    total, zero = _whole(total), lift(0)
    if total.op == "add":
        total, zero = (_whole(a) for a in total.args)
    if bounds != (low, high) or total.op != "round" or total.data is not FLOAT32:
        raise Unmatched("the elements are not quantised to 16 bits")
    near, reach = clamped(total.args[0])
    if near.op == "round" and near.data is FLOAT32 and near.args[0].op == "half_to_even" and reach == (-FAR, FAR):
        quotient = near.args[0].args[0]
        if quotient.op == "round" and quotient.data is FLOAT32 and quotient.args[0].op == "div":
            divided, divisor = quotient.args[0].args
            return divided, divisor, zero
    raise Unmatched("the elements are not quantised to 16 bits")


def _whole(e: Expr) -> Expr:
    """An integer without its storage as INT32."""
    return e.args[0] if e.op == "held" and e.data is DataType.INT32 else e


def clamped(e: Expr) -> tuple[Expr, tuple[float, float]]:
    """An expression without its clamps, and the bounds that it is clamped to, which must be float32 numbers."""
    steps = []
    while e.op in ("max", "min"):
        constants = [a for a in e.args if a.op == "constant"]
        others = [a for a in e.args if a.op != "constant"]
        if len(constants) != 1:
            raise Unmatched("elements are clamped to what is no constant")
        bound = float(constants[0].data.value)
        if bound != bound or float(np.float32(bound)) != bound:
            raise Unmatched("elements are clamped to what is no FLOAT32")
        steps.append((max if e.op == "max" else min, bound))
        e = others[0]
    low, high = UNCLAMPED
    for function, bound in reversed(steps):
        low, high = function(low, bound), function(high, bound)
    return e, (low, high)


def dequantised(e: Expr, constants: Constants, types: Sequence[DataType] = EIGHT_BIT) -> Dequantised:
    """The integer, of one of these types, from which an element is dequantised; its scale and zero point are constants."""
    source, zero, scale = _dequantising(e)
    source = _whole(source)
    if source.op != "read" or source.data[0].data_type not in types:
        raise Unmatched("elements are not dequantised from bytes")
    at, sizes = _index(source), source.data[0].sizes
    return Dequantised(source, _scales(scale, at, sizes, constants), _integers(zero, at, sizes, constants))


def _dequantising(e: Expr) -> tuple[Expr, Expr, Expr]:
    """The integer, the zero point and the scale of a dequantised element."""
    if e.op != "round" or e.data is not FLOAT32 or e.args[0].op != "mul":
        raise Unmatched("elements are not dequantised")
    centred, scale = e.args[0].args
    element, zero = centred.args if centred.op == "sub" else (centred, lift(0))
    return element, zero, scale


def numbers(e: Expr, at: Sequence[Expr], sizes: Sequence[int], constants: Constants) -> NDArray[Any]:
    """The numbers that an expression has for each index `at`: constants, also dequantised ones. Dimensions may have size 1."""
    if e.op == "round":
        element, zero, scale = _dequantising(e)
        integers = np.subtract(_integers(element, at, sizes, constants), _integers(zero, at, sizes, constants))
        return products_in_float32(*np.broadcast_arrays(integers, _scales(scale, at, sizes, constants)))
    if e.op != "read" or len(_index(e)) != len(at) or (data := constants.get(e.data[0].name)) is None:
        raise Unmatched("scales, zero points or biases are not constants")
    if data.size == 1:
        return data
    there = [places(a, i, n, size) for a, i, n, size in zip(_index(e), at, data.shape, sizes, strict=True)]
    found: NDArray[Any] = data[np.ix_(*there)]
    return found


def _integers(e: Expr, at: Sequence[Expr], sizes: Sequence[int], constants: Constants) -> NDArray[np.int64]:
    if is_integer(e):
        return np.full((1,) * len(at), int(e.data.value), np.int64)
    found = numbers(e, at, sizes, constants)
    if found.dtype.kind not in "iu" or found.dtype.itemsize > 4:
        raise Unmatched("zero points are not integers of at most 32 bits")
    return found.astype(np.int64)


def _scales(e: Expr, at: Sequence[Expr], sizes: Sequence[int], constants: Constants) -> NDArray[np.float32]:
    found = numbers(e, at, sizes, constants)
    if found.dtype != np.float32 or not np.isfinite(found).all():
        raise Unmatched("scales are not finite FLOAT32")
    return found


def _index(read: Expr) -> tuple[Expr, ...]:
    return read.args[:-1] if read.data[1] == "otherwise" else read.args


def places(index: Expr, i: Expr, size: int, count: int) -> NDArray[np.intp]:
    """The values of an index for each value of i below `count`, in a dimension of `size` elements: i or i // constant."""
    if size == 1 or count == 1 or index is lift(0):
        return np.zeros(1, np.intp)
    if index is i:
        return np.arange(count)
    if index.op == "floordiv" and index.args[0] is i and is_integer(index.args[1]):
        return np.arange(count) // int(index.args[1].data.value)
    raise Unmatched("constants are read at other indices than the elements")


def one(values: NDArray[Any]) -> Any:
    """The one element of an array."""
    if values.size != 1:
        raise Unmatched("scales or zero points differ between elements")
    return values.flat[0].item()
