"""The family of gathers, sorting and counting in NumPy: statements of integers and bits whose indices depend on data.

Every node is an array over all indices, so that NumPy's own functions can sort.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from anydml.kernels.kernel import Arrays, Built, Execute, Machine, Refused
from anydml.kernels.match.constants import stored_bits
from anydml.kernels.match.looked_up import looked_up
from anydml.kernels.match.pieces import ON_ARRAYS
from anydml.kernels.problem import Problem
from anydml.schema.node import Expr, Variable
from anydml.schema.statement import Nest, Statement
from anydml.schema.traversal import bound_by, free
from anydml.tensor import DataType, TensorDesc

Array = NDArray[Any]
MOST = np.iinfo(np.int64).max


def lower(problem: Problem, machine: Machine) -> Built | Refused:
    """The outputs in order, each computed in arrays of its size."""
    statement = problem.statement
    if (reason := looked_up(statement)) is not None:
        return Refused(reason)
    most = 0
    for name, nest in statement.items():
        if nest.moves and not _is_element(nest.body, problem.tensors[name].data_type):
            return Refused("an element is not one of an input")
        depends = free(nest.body)
        most = max(most, sum(16 * prod(v.size for v in (*variables, *bound_by(e))) for e, variables in depends.items()))

    def bind(arrays: Arrays) -> Execute:
        return partial(_computed, statement, problem.tensors, arrays)

    return Built(bind, most)


def _is_element(e: Expr, data_type: DataType) -> bool:
    """Whether the moved bits are those of elements, and of constants that the data type can hold."""
    if e.op == "select":
        return all(_is_element(a, data_type) for a in e.args[1:])
    if e.op == "constant":
        return stored_bits(e, data_type) is not None
    return e.op == "read" and (e.data[1] == "inside" or _is_element(e.args[-1], data_type))


def _computed(statement: Statement, tensors: Mapping[str, TensorDesc], arrays: Arrays) -> None:
    for name, nest in statement.items():
        output = arrays[name]
        found = _Grid(nest, arrays, tensors[name].data_type).output()
        if nest.moves:
            output = output.view(f"u{output.itemsize}")
        output[...] = found.astype(output.dtype)  # integers wrap; bits stay the same


class _Grid:
    """The values of nodes as arrays with a dimension for each variable, of size 1 if they do not depend on it."""

    def __init__(self, nest: Nest, arrays: Arrays, data_type: DataType) -> None:
        self.nest, self.arrays, self.data_type = nest, arrays, data_type
        self.variables: list[Variable] = list(nest.variables)
        self._known: dict[Expr, Any] = {}

    def output(self) -> Array:
        body = self.nest.body
        return np.broadcast_to(self._moved(body) if self.nest.moves else self.value(body), self.nest.sizes)

    def _moved(self, e: Expr) -> Any:
        """The bits of an element."""
        if e.op == "select":
            condition, a, b = e.args
            return np.where(self.value(condition), self._moved(a), self._moved(b))
        if e.op == "constant":
            return np.array(stored_bits(e, self.data_type), f"u{self.data_type.dtype.itemsize}")
        return self._read(e, lambda x: x.view(f"u{x.itemsize}"), self._moved)

    def _read(self, e: Expr, seen: Callable[[Array], Array], otherwise: Callable[[Expr], Any]) -> Any:
        x = seen(self.arrays[e.data[0].name])
        at = [self.value(a) for a in e.args[: x.ndim]]
        # an index that does not count may be out of range
        found = x[tuple([np.clip(i, 0, n - 1) for i, n in zip(at, x.shape, strict=True)])]
        if e.data[1] != "otherwise":
            return found
        inside = np.True_
        for i, n in zip(at, x.shape, strict=True):
            inside = inside & (i >= 0) & (i < n)
        return np.where(inside, found, otherwise(e.args[-1]))

    def value(self, e: Expr) -> Any:
        """The value of an index, an integer or a truth."""
        if e not in self._known:
            self._known[e] = self._value(e)
        return self._known[e]

    def _value(self, e: Expr) -> Any:
        if e.op == "variable":
            shape = [1] * len(self.variables)
            shape[self.variables.index(e.data)] = e.data.size
            return np.arange(e.data.size, dtype=np.int64).reshape(shape)
        if e.op == "constant":
            return np.int64(int(e.data.value))
        if e.op == "read":
            return self._read(e, _whole, self.value)
        if e.op in ("index", "position"):
            return self.value(e.args[0])
        if e.op == "equal" and e.args[0].op == "read" and e.args[0].data[0].data_type.is_float:
            return self._read(e.args[0], lambda x: x, self.value) == 0
        if e.op == "rank":
            return self._ranked(e)
        if e.op == "reduce":
            with _Bound(self, bound_by(e)):
                found = np.broadcast_to(self.value(e.args[0]), self._sizes(e))
            return found.sum(axis=tuple(range(len(self.variables), found.ndim)), dtype=np.int64)
        return ON_ARRAYS[e.op](*(self.value(a) for a in e.args))

    def _sizes(self, e: Expr) -> tuple[int, ...]:
        """The sizes of a value: the dimensions of variables that its reduction binds are whole, the others unchanged."""
        bound = bound_by(e)
        shape = np.shape(self.value(e.args[0])) or (1,) * len(self.variables)
        return (*shape[: len(shape) - len(bound)], *(v.size for v in bound))

    def _ranked(self, e: Expr) -> Any:
        """The position in the line of the element at a given place of the sorted line."""
        (line, decreasing), (key, place) = e.data, e.args
        at = self.value(place)
        with _Bound(self, line):
            if key.op == "read":
                keys = self._read(key, lambda x: x, self.value)
            else:
                keys = self.value(key)
            keys = np.broadcast_to(keys, (*np.shape(keys)[:-1], line[0].size))
        order = positions(keys, int(np.max(at)) + 1, decreasing=decreasing)
        shape = np.broadcast_shapes(order.shape[:-1], at.shape)
        order = np.broadcast_to(order, (*shape, order.shape[-1]))
        return np.take_along_axis(order, np.broadcast_to(at, shape)[..., None], -1)[..., 0]


class _Bound:
    """A context in which the variables of a reduction have dimensions after the others, while its body is evaluated."""

    def __init__(self, grid: _Grid, variables: tuple[Variable, ...]) -> None:
        self.grid, self.variables = grid, variables

    def __enter__(self) -> None:
        self.kept, self.grid._known = self.grid._known, {}
        self.grid.variables = [*self.grid.variables, *self.variables]

    def __exit__(self, *_: object) -> None:
        del self.grid.variables[len(self.grid.variables) - len(self.variables) :]
        self.grid._known = self.kept


def _whole(x: Array) -> Array:
    """Integers as int64. Those that exceed it are larger than any index."""
    return (np.minimum(x, np.uint64(MOST)) if x.dtype == np.uint64 else x).astype(np.int64)


def positions(keys: Array, count: int, *, decreasing: bool) -> Array:
    """The positions of the first elements of every sorted line. Equal keys keep their order; NaN is larger than +inf."""
    n = keys.shape[-1]
    unsigned = _ordered(keys)
    if decreasing:
        unsigned = ~unsigned
    if unsigned.itemsize == 8 or n > 1 << 32:
        order: Array = np.argsort(unsigned, axis=-1, kind="stable")[..., :count]
        return order
    # key and position as one number: no two are equal, so that any sort is stable
    both = unsigned.astype(np.uint64) << np.uint64(32) | np.arange(n, dtype=np.uint64)
    if count < n // 4:
        both.partition(count - 1, axis=-1)
        both = both[..., :count]
    both.sort(axis=-1)
    places: Array = both[..., :count] & np.uint64(0xFFFFFFFF)
    return places.astype(np.int64)


def _ordered(keys: Array) -> Array:
    """Unsigned integers in the order of numbers."""
    bits = keys.dtype.itemsize * 8
    sign = np.array(1 << bits - 1, f"u{keys.itemsize}")
    if keys.dtype.kind == "u":
        return keys
    if keys.dtype.kind == "i":
        moved: Array = keys.view(sign.dtype) ^ sign
        return moved
    with np.errstate(invalid="ignore"):  # signalling NaN
        plain = np.where(np.isnan(keys), np.array(np.nan, keys.dtype), keys + np.array(0, keys.dtype))  # -0 becomes +0
    found = np.ascontiguousarray(plain).view(sign.dtype)
    by_sign: Array = np.where(found & sign, ~found, found | sign)
    return by_sign
