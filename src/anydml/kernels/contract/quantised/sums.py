"""Sums of products of two dequantised tensors that are quantised, in the form in which `contract` sums their integers.

One of the factors is constant or owned: the weights. They are dequantised, or floats from which integers are recovered.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from anydml.kernels.contract.quantised.lattice import integers_of
from anydml.kernels.contract.quantised.norms import most_norms, norms
from anydml.kernels.match.between import Dequantised, dequantised, numbers, one, quantised_chain
from anydml.kernels.match.unmatched import Unmatched, pattern
from anydml.kernels.problem import Problem
from anydml.schema.expression import Tensor
from anydml.schema.node import Expr, Variable, lift, make
from anydml.schema.statement import Nest
from anydml.schema.traversal import walk
from anydml.schema.types import EIGHT_BIT, SIXTEEN_BIT
from anydml.tensor import DataType, TensorDesc, TensorFlags

# tensors that the kernel brings along, and the sums
WEIGHTS, X_ZERO, WEIGHTS_ZERO, SUMS = "weights", "x zero point", "weights zero point", "sums"


class QuantisedSums(NamedTuple):
    """Sums of products of two dequantised tensors, x and weights, that are quantised.

    sums: the statement of the sums of centred integers (integer - zero point). tensors: by name, those of the statement, and
    SUMS in INT32; the weights in the order in which sums read them. names: of x, weights, the output, and the tensor that is
    added, if any. channel: the output's dimension along which the weights differ. x: its scale and zero point. weights: scales
    and zero points by channel. norms: upper bounds, by channel, of the sums of |weight| and of |weight - scale * integer|.
    lean: the sums of weight - scale * integer by channel, if they are known. bias: by channel, added to a sum before it is
    rounded. other: scale and zero point of a dequantised tensor that is added to the rounded sum, if any. bounds: what the
    result is clamped to. rounding: scale and zero point of the output. own: arrays that the kernel brings, by name.
    integers: the weights, in the order in which sums read them, if they are known.
    """

    sums: Nest
    tensors: Mapping[str, TensorDesc]
    names: tuple[str, str, str, str | None]
    channel: int | None
    x: tuple[float, int]
    weights: tuple[NDArray[np.float32], NDArray[np.int32]]
    norms: tuple[NDArray[np.float64], NDArray[np.float64]]
    lean: NDArray[np.float64] | None
    bias: NDArray[np.float32]
    other: tuple[float, int] | None
    bounds: tuple[float, float]
    rounding: tuple[float, int]
    own: Mapping[str, NDArray[Any]]
    integers: NDArray[Any] | None = None


class _Weights(NamedTuple):
    """Integers, scales and zero points, with sizes that broadcast. known: the integers are constants, not owned inputs."""

    integers: NDArray[Any]
    scale: NDArray[np.float32]
    zero: NDArray[np.int64]
    known: bool = True

    def norms(
        self, scales: NDArray[np.float32], axis: int | None
    ) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64] | None]:
        """Upper bounds, for each channel, of the sums of |weight| and of |weight - scale * integer|.

        Third, the sum of weight - scale * integer, or None if the integers are not known.
        """
        if self.known:
            centred = np.subtract(self.integers, self.zero, dtype=np.int16) if self.zero.any() else self.integers
            return norms(centred, scales, axis)
        zeros = np.broadcast_to(by_index(self.zero, axis), scales.shape)
        most = most_norms(DataType.of(self.integers.dtype), zeros, scales, self.integers.size // scales.size)
        return *most, None


@pattern
def quantised_sums(problem: Problem) -> QuantisedSums:
    """The sums that a statement quantises, or the reason why it is not of this kind."""
    return _Finding(problem).found()


@pattern
def sums_of_planes(problem: Problem) -> QuantisedSums:
    """The same for x of 16 bits, quantised to 8 or 16: the sums of one plane of bytes, a UINT8 tensor in place of x."""
    return _Finding(problem, SIXTEEN_BIT, (*EIGHT_BIT, *SIXTEEN_BIT)).found()


class _Finding:
    def __init__(self, problem: Problem, of_x: Sequence[DataType] = EIGHT_BIT, outputs: Sequence[DataType] = EIGHT_BIT) -> None:
        self.problem, self.constants, self.of_x, self.outputs = problem, problem.promises.constants, of_x, outputs
        self.tensors: dict[str, TensorDesc] = {}
        self.own: dict[str, NDArray[Any]] = {}

    def found(self) -> QuantisedSums:
        chain = quantised_chain(self.problem, self.outputs)
        ((output, nest),) = self.problem.statement.items()
        total, bias = _parts(chain.body)
        if total.op != "reduce" or total.data[0] != "sum" or total.args[0].op != "mul":
            raise Unmatched("the sums are not of products")
        for x, w in (total.args[0].args, total.args[0].args[::-1]):
            if (of_w := self._fixed(w)) is not None:
                of_x = dequantised(x, self.constants, self.of_x)
                break
        else:
            raise Unmatched("neither factor of the products is a constant or owned")
        read_w = of_w.source if isinstance(of_w, Dequantised) else of_w
        at_w, name = read_w.args, read_w.data[0].name
        along = [v for v in nest.variables if v.size > 1 and any(v in _variables(a) for a in at_w)]
        if len(along) > 1 or of_x.tensor.name == name or read_w.data[1] != "inside":
            raise Unmatched("the weights differ along several dimensions of the output")
        at = nest.variables.index(along[0]) if along else None
        count = int(along[0].size) if along else 1
        # matrices of weights have the dimensions (term, column), filters keep theirs, whatever the order in memory
        order = _order_of(at_w, nest.variables, total.data[1])
        axis = next((k for k, d in enumerate(order) if along and along[0] in _variables(at_w[d])), None)
        made = self._integers(of_w, order, axis)
        weights = WEIGHTS if WEIGHTS in self.own else name
        factors = self._factor(of_x), self._weights_factor(weights, made, [at_w[d] for d in order], axis)
        scales = by_index(made.scale, axis, count)
        magnitudes, errors, lean = made.norms(scales, axis)
        self.tensors |= {n: self.problem.tensors[n] for n in (of_x.tensor.name, output)}
        if self.of_x is SIXTEEN_BIT:
            self.tensors[of_x.tensor.name] = TensorDesc(DataType.UINT8, of_x.tensor.sizes).spelled_out()
        other: str | None = None
        added: tuple[float, int] | None = None
        if chain.added is not None:
            of_other = dequantised(chain.added, self.constants)
            other, added = of_other.tensor.name, of_other.parameters
            if of_other.source.args != nest.index or other == weights:
                raise Unmatched("what is added is read at other indices than the output's")
            self.tensors[other] = self.problem.tensors[other]
        self.tensors[SUMS] = TensorDesc(DataType.INT32, [int(v.size) for v in nest.variables]).spelled_out()
        return QuantisedSums(
            Nest(nest.index, make("reduce", (factors[0] * factors[1], *total.args[1:]), total.data)),
            self.tensors,
            (of_x.tensor.name, weights, output, other),
            at,
            of_x.parameters,
            (scales, by_index(made.zero, axis, count).astype(np.int32)),
            (magnitudes, errors),
            lean,
            self._bias(bias, nest, at, count),
            added,
            chain.bounds,
            chain.rounding,
            self.own,
            made.integers if made.known else None,
        )

    def _fixed(self, e: Expr) -> Dequantised | Expr | None:
        """A factor, if it is a constant, or dequantised from a tensor that is constant or owned; else None."""
        if e.op == "read":
            return e if e.data[0].name in self.constants else None
        try:
            found = dequantised(e, self.constants)
        except Unmatched:
            return None
        owned = self.problem.tensors[found.tensor.name].flags & TensorFlags.OWNED_BY_DML
        return found if found.tensor.name in self.constants or owned else None

    def _brought(self, name: str, array: NDArray[Any]) -> Tensor:
        """A tensor that the kernel brings."""
        self.own[name] = np.ascontiguousarray(array)
        self.tensors[name] = replace(TensorDesc.of(self.own[name]).spelled_out(), flags=TensorFlags.OWNED_BY_DML)
        return Tensor(name, array.shape, DataType.of(array.dtype))

    def _factor(self, x: Dequantised) -> Expr:
        """The centred integer that stands for an element of x."""
        if self.of_x is SIXTEEN_BIT:
            return Tensor(x.tensor.name, x.tensor.sizes, DataType.UINT8)[x.source.args]
        zero, rank = one(x.zero), len(x.tensor.sizes)
        if not zero:
            return x.source
        array = np.full((1,) * rank, zero, x.tensor.data_type.dtype)
        return x.source - self._brought(X_ZERO, array)[[0] * rank]

    def _weights_factor(self, name: str, made: _Weights, index: Sequence[Expr], axis: int | None) -> Expr:
        """The centred integer that stands for a weight."""
        weights = Tensor(name, made.integers.shape, DataType.of(made.integers.dtype))[index]
        if not made.zero.any():
            return weights
        zero = self._brought(WEIGHTS_ZERO, made.zero.astype(made.integers.dtype))
        return weights - zero[[index[k] if k == axis and n > 1 else lift(0) for k, n in enumerate(made.zero.shape)]]

    def _integers(self, w: Dequantised | Expr, order: Sequence[int], axis: int | None) -> _Weights:
        """The weights, transposed to an order, with channels along an axis."""
        if isinstance(w, Expr):
            t = w.data[0]
            floats = np.transpose(np.broadcast_to(self.constants[t.name], t.sizes), order)
            sizes = [n if k == axis else 1 for k, n in enumerate(floats.shape)]
            rows = floats.reshape(1, -1) if axis is None else np.moveaxis(floats, axis, 0).reshape(sizes[axis], -1)
            if floats.dtype != np.float32 or (found := integers_of(rows)) is None:
                raise Unmatched("the weights are no products of 8-bit integers and a scale for each channel")
            integers, scales = found
            first = [floats.shape[axis or 0] if axis is not None else 1, *(n for k, n in enumerate(floats.shape) if k != axis)]
            back = integers.reshape(floats.shape if axis is None else first)
            back = back if axis is None else np.moveaxis(back, 0, axis)
            self._brought(WEIGHTS, back)
            return _Weights(back, scales.reshape(sizes), np.zeros(sizes, np.int64))
        t, name = self.problem.tensors[w.tensor.name], w.tensor.name
        self.tensors[name] = replace(_view(t, order), flags=t.flags)
        data = np.broadcast_to(self.constants.get(name, np.zeros((), t.data_type.dtype)), t.sizes)
        integers, scale, zero = (np.transpose(values, order) for values in (data, w.scale, w.zero))
        return _Weights(integers, scale, zero, name in self.constants)

    def _bias(self, bias: Expr | None, nest: Nest, at: int | None, count: int) -> NDArray[np.float32]:
        found = np.zeros(count, np.float32)
        if bias is not None:
            values = numbers(bias, nest.index, [int(v.size) for v in nest.variables], self.constants)
            if values.dtype != np.float32:
                raise Unmatched("the bias is not FLOAT32")
            found[...] = by_index(values, at)
        return found


def _parts(e: Expr) -> tuple[Expr, Expr | None]:
    """A sum of products, and the term that is added to it, if any."""
    if e.op == "add":
        first, second = map(_once, e.args)
        return (first, second) if first.op == "reduce" else (second, first)
    return _once(e), None


def _once(e: Expr) -> Expr:
    """An expression without a factor of 1."""
    if e.op == "mul":
        for x, y in (e.args, e.args[::-1]):
            if x.op == "constant" and x.data.value == 1:
                return y
    return e


def _variables(e: Expr) -> set[Variable]:
    """The variables that an index depends on."""
    return {a.data for a in walk(e) if a.op == "variable"}


def _order_of(at: Sequence[Expr], i: Sequence[Variable], terms: Sequence[Variable]) -> tuple[int, ...]:
    """The dimensions of weights in the order in which sums read them: (term, column) for matrices, their own for filters."""
    if len(terms) != 1 or len(at) < 2:
        return tuple(range(len(at)))
    *rest, a, b = range(len(at))
    column = at[a].data is i[-1] and at[b].data is terms[0] and len(i) == len(at)
    return (*rest, b, a) if column else (*rest, a, b)


def _view(t: TensorDesc, order: Sequence[int]) -> TensorDesc:
    """A tensor with its dimensions in another order."""
    return TensorDesc(t.data_type, [t.sizes[d] for d in order], strides=[t.explicit_strides[d] for d in order]).spelled_out()


def by_index(values: NDArray[Any], axis: int | None, count: int | None = None) -> NDArray[Any]:
    """The values along one axis; Unmatched if they differ along another one."""
    found = values.reshape(-1) if axis is None else np.moveaxis(values, axis, 0).reshape(values.shape[axis], -1)[:, :1].ravel()
    if found.size != values.size:
        raise Unmatched("scales, zero points or biases differ along several dimensions")
    return found if count is None else np.broadcast_to(found, (count,)).copy()
