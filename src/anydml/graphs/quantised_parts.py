"""Patterns of quantised regions: what quantises, clamps and sums, and constants by the indices that they are read at."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

import numpy as np
from numpy.typing import NDArray

from anydml.exact.float32 import round_to_float32, widened
from anydml.graphs.plan import Use, Work
from anydml.schema.expression import Tensor
from anydml.schema.node import Expr, Variable, is_integer, lift
from anydml.schema.statement import Nest
from anydml.schema.traversal import walk
from anydml.tensor import DataType, TensorDesc, limits

FLOAT32 = DataType.FLOAT32
REACH = 255  # of a centred integer of 8 bits
AT_ONCE = 1 << 15  # weights that are looked at at once: their float64 stay in a cache
MARGIN = 1 + 2.0**-20  # by which sums in float64 are made larger, for what their roundings lose


class Unmatched(Exception):
    """A work that is not of the kind."""


def regions_of(works: Sequence[Work], region: Callable[[Work], Work]) -> tuple[Work, ...]:
    """The regions that end with works, by a function that raises Unmatched for a work that ends none."""
    found = []
    for work in works:
        with suppress(Unmatched):
            found.append(region(work))
    return tuple(found)


def quantised(e: Expr, data_type: DataType) -> tuple[Expr, Expr, Expr]:
    """The dividend, the divisor and the zero point of a quantised element, whose quotient is rounded to FLOAT32."""
    low, high = limits(data_type)
    if e.op != "select" or e.args[0].op != "is_nan" or e.args[1] is not lift(low):
        raise Unmatched
    quotient = e.args[0].args[0]
    total, bounds = clamped(e.args[2])
    zero = lift(0)
    if total.op == "add" and total.args[0].op == "half_to_even":
        total, zero = total.args
    if bounds != (low, high) or total.op != "half_to_even" or total.args[0] is not quotient:
        raise Unmatched
    if quotient.op != "round" or quotient.data is not FLOAT32 or quotient.args[0].op != "div":
        raise Unmatched
    divided, divisor = quotient.args[0].args
    return divided, divisor, zero


def clamped(e: Expr) -> tuple[Expr, tuple[float, float]]:
    """An expression without the bounds that it is clamped to, which are numbers of float32."""
    steps = []
    while e.op in ("max", "min"):
        constants = [a for a in e.args if a.op == "constant"]
        others = [a for a in e.args if a.op != "constant"]
        if len(constants) != 1:
            raise Unmatched
        bound = float(constants[0].data.value)
        if bound != bound or float(np.float32(bound)) != bound:
            raise Unmatched
        steps.append((max if e.op == "max" else min, bound))
        e = others[0]
    low, high = -math.inf, math.inf
    for function, bound in reversed(steps):
        low, high = function(low, bound), function(high, bound)
    return e, (low, high)


def parts(e: Expr) -> tuple[Expr, Expr | None]:
    """A sum of products, and what is added to it."""
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


def read_at(e: Expr, nest: Nest) -> str:
    """The tensor that is read at the index of a nest."""
    if e.op != "read" or e.data[1] != "inside" or e.args != tuple(nest.index):
        raise Unmatched
    name: str = e.data[0].name
    return name


def variables(e: Expr) -> set[Variable]:
    """The variables that an index depends on."""
    return {a.data for a in walk(e) if a.op == "variable"}


def places(index: Expr, i: Expr, size: int) -> NDArray[np.intp]:
    """The values of an index for each of a variable, that itself or blocks of it, in a dimension of so many elements."""
    count = int(i.data.size)
    if size == 1 or count == 1 or index is lift(0):
        return np.zeros(1, np.intp)
    if index is i:
        return np.arange(count)
    if index.op == "floordiv" and index.args[0] is i and is_integer(index.args[1]):
        return np.arange(count) // int(index.args[1].data.value)
    raise Unmatched


def order_of(w: Expr, i: Sequence[Variable], terms: Sequence[Variable]) -> tuple[int, ...]:
    """The dimensions of weights in the order in which sums read them: matrices by term and column, filters as they are."""
    if len(terms) != 1 or len(w.args) < 2:
        return tuple(range(len(w.args)))
    *rest, a, b = range(len(w.args))
    column = w.args[a].data is i[-1] and w.args[b].data is terms[0] and len(i) == len(w.args)
    return (*rest, b, a) if column else (*rest, a, b)


def view(t: TensorDesc, order: Sequence[int]) -> TensorDesc:
    """A tensor with its dimensions in another order."""
    return TensorDesc(t.data_type, [t.sizes[d] for d in order], strides=[t.explicit_strides[d] for d in order]).spelled_out()


def zero_points(use: Use | None, order: Sequence[int]) -> Use:
    """Zero points with their dimensions in another order; one of equal elements, of stride 0, has size 1."""
    if use is None:
        raise Unmatched
    t = view(use.tensor, order)
    sizes = [1 if stride == 0 else n for n, stride in zip(t.sizes, t.explicit_strides, strict=True)]
    return use._replace(tensor=TensorDesc(t.data_type, sizes, strides=t.explicit_strides).spelled_out())


def single(use: Use | None) -> Use:
    """The first element of a tensor."""
    if use is None:
        raise Unmatched
    return use._replace(tensor=TensorDesc(use.tensor.data_type, (1,) * len(use.tensor.sizes)).spelled_out())


def one(values: NDArray[Any]) -> Any:
    """The one element of an array."""
    if values.size != 1:
        raise Unmatched
    return values.flat[0].item()


def tensor(name: str, use: Use) -> Tensor:
    """A symbol for a tensor."""
    return Tensor(name, use.tensor.sizes, use.tensor.data_type)


def by_index(values: NDArray[Any], axis: int | None, count: int | None = None) -> NDArray[Any]:
    """The values along one axis, in which alone they differ."""
    found = values.reshape(-1) if axis is None else np.moveaxis(values, axis, 0).reshape(values.shape[axis], -1)[:, :1].ravel()
    if found.size != values.size:
        raise Unmatched
    return found if count is None else np.broadcast_to(found, (count,)).copy()


def norms(
    integers: NDArray[np.integer[Any]], scale: NDArray[np.float32], axis: int | None
) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any]]:
    """For each channel, no less than the sums of |weight| and of |weight - scale * integer|; and the sum of these differences.

    That is off by less than what the norm is above theirs. integers: at most REACH.
    """
    rows = integers.reshape(1, -1) if axis is None else np.moveaxis(integers, axis, 0).reshape(integers.shape[axis], -1)
    magnitudes, errors, lean = (np.empty(len(rows)) for _ in range(3))
    some = max(1, AT_ONCE // max(1, rows.shape[1]))
    for first in range(0, len(rows), some):
        part = slice(first, first + some)
        exact = widened(scale[part])[:, None] * rows[part]  # 24 bits and 8
        rounded = widened(round_to_float32(exact))
        off = rounded - exact
        magnitudes[part], errors[part], lean[part] = np.abs(rounded).sum(1), np.abs(off).sum(1), off.sum(1)
    return magnitudes * MARGIN, errors * MARGIN, lean


def most_norms(
    data_type: DataType, zero: NDArray[np.int64], scale: NDArray[np.float32], terms: int
) -> tuple[NDArray[Any], NDArray[Any]]:
    """The same of any integers of a type; terms: of a channel."""
    low, high = limits(data_type)
    integers = np.arange(-REACH, REACH + 1)
    there = (integers >= (low - zero)[:, None]) & (integers <= (high - zero)[:, None])
    exact = widened(scale)[:, None] * integers
    rounded = widened(round_to_float32(exact))
    found = [np.where(there, np.abs(table), 0).max(1) * (terms * MARGIN) for table in (rounded, rounded - exact)]
    return found[0], found[1]
