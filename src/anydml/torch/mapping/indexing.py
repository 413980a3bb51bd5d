"""Elements that are read or written at indices."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

from anydml.functional import functions as dml
from anydml.onnx.errors import NOT_YET, NeedsValue, Refused
from anydml.onnx.values import Value, expand, gathered, known, padded, reshape, symbolic, transpose
from anydml.torch.mapping.common import Mapping, dim_of, typed
from anydml.torch.read import Node


def embedding(n: Node, weight: Value, indices: Value, *_: Any, **__: Any) -> Value:
    return gathered(weight, indices)


def index_select(n: Node, x: Value, dim: int, indices: Value) -> Value:
    made = gathered(x, reshape(indices, (indices.size,)), dim_of(dim, x.ndim))
    return made if x.ndim else reshape(made, ())


def gather(n: Node, x: Value, dim: int, indices: Value, **_: Any) -> Value:
    """GATHER_ELEMENTS of as many elements in the other dimensions as there are indices."""
    if not x.ndim:
        return expand(x, indices.shape)
    d = dim_of(dim, x.ndim)
    first = _first(x, [x.shape[i] if i == d else size for i, size in enumerate(indices.shape)])
    return dml.gather_elements(first, indices, axis=d)


def _first(x: Value, sizes: Sequence[int]) -> Value:
    """The first elements in each dimension."""
    if tuple(sizes) == tuple(x.shape):
        return x
    if isinstance(x, np.ndarray):
        return x[tuple(slice(0, size) for size in sizes)]
    return dml.slice1(x, [0] * x.ndim, [*sizes], [1] * x.ndim)


def index(n: Node, x: Value, indices: Sequence[Value | None]) -> Value:
    """x[indices] by GATHER of one, or GATHER_ND of several tensors, as NumPy defines it."""
    at, indices = _wholes(n, indices)
    order = [*at, *(i for i in range(x.ndim) if i not in at)]
    adjacent = at == [*range(at[0], at[0] + len(at))]
    if len(at) == 1:
        return gathered(x, indices[at[0]], at[0])
    sizes = np.broadcast_shapes(*(tuple(indices[i].shape) for i in at))
    places = _together([expand(indices[i], sizes) for i in at], sizes)
    first = transpose(x, order)
    rank = max(first.ndim, places.ndim, len(sizes) + x.ndim - len(at))
    found = dml.gather_nd1(
        padded(first, rank), padded(places, rank), input_dimension_count=x.ndim, indices_dimension_count=places.ndim
    )
    rest = [x.shape[i] for i in order[len(at) :]]
    made = reshape(found, (*sizes, *rest))
    before = at[0] if adjacent else 0
    count = len(sizes)
    return transpose(made, [*range(count, count + before), *range(count), *range(count + before, made.ndim)])


def _wholes(n: Node, indices: Sequence[Value | None]) -> tuple[list[int], list[Any]]:
    """The dimensions that have indices, and these as numbers; of truth values, the places of those that are true."""
    found: list[Any] = []
    types = n.types["indices"]
    for one, kind in zip(indices, types, strict=True):
        if one is not None and kind in (torch.bool, torch.uint8):
            found += [np.ascontiguousarray(x) for x in np.nonzero(known(one))]
        else:
            found.append(one)
    return [i for i, one in enumerate(found) if one is not None], found


def _together(parts: Sequence[Value], sizes: Sequence[int]) -> Value:
    """Indices of several dimensions, side by side in a last dimension."""
    wide = [reshape(one, (*sizes, 1)) for one in parts]
    if not any(map(symbolic, wide)):
        return np.concatenate(wide, -1)
    dtype = next(one.dtype for one in wide if symbolic(one))
    return dml.join([typed(one, dtype) for one in wide], axis=len(sizes))


def put(n: Node, x: Value, indices: Sequence[Any], values: Value, accumulate: bool = False) -> Value:
    """x with x[indices] = values, by SCATTER_ND; where a mask has as many dimensions, by IF."""
    if accumulate:
        raise Refused("it adds values at indices that may be equal", NOT_YET)
    given = [one for one in indices if one is not None]
    if len(given) == 1 and n.types["indices"][0] is torch.bool and values.size == 1 and given[0] is indices[0]:
        mask = reshape(given[0], (*given[0].shape, *[1] * (x.ndim - given[0].ndim)))
        return dml.element_wise_if(mask, reshape(values, ()), x)
    at, whole = _wholes(n, indices)
    order = [*at, *(i for i in range(x.ndim) if i not in at)]
    sizes = np.broadcast_shapes(*(tuple(whole[i].shape) for i in at))
    places = _together([expand(whole[i], sizes) for i in at], sizes)
    first = transpose(x, order)
    rest = first.shape[len(at) :]
    if at != [*range(at[0], at[0] + len(at))] or at[0]:
        if values.ndim > len(sizes):
            raise Refused("it writes along dimensions that are not the first ones", NOT_YET)
        values = reshape(values, (*values.shape, *[1] * len(rest)))
    updates = expand(values, (*sizes, *rest))
    rank = max(first.ndim, places.ndim, updates.ndim)
    made = dml.scatter_nd(
        padded(first, rank), padded(places, rank), padded(updates, rank),
        input_dimension_count=x.ndim, indices_dimension_count=places.ndim,
    )  # fmt: skip
    back = [order.index(i) for i in range(x.ndim)]
    return transpose(reshape(made, first.shape), back)


def scatter(n: Node, x: Value, dim: int, indices: Value, source: Any, **_: Any) -> Value:
    """SCATTER_ELEMENTS. Where indices are equal, the last element is kept."""
    if 0 in indices.shape:
        return x
    values = (
        expand(typed(source, x.dtype), indices.shape) if isinstance(source, (int, float)) else _first(source, indices.shape)
    )
    return dml.scatter_elements(x, indices, values, axis=dim_of(dim, x.ndim))


def nonzero(n: Node, x: Value) -> Value:
    """The coordinates, whose number is a size: the elements must be known."""
    return np.ascontiguousarray(np.argwhere(known(x)).astype(np.int64))


def one_hot(n: Node, x: Value, count: int = -1) -> Value:
    """ONE_HOT of 0 and 1 in a new last dimension."""
    if count < 0:
        raise NeedsValue(x)
    sizes = (*x.shape, count)
    pair = reshape(np.array([0, 1], np.int64), (1,) * (len(sizes) - 1) + (2,))
    return dml.one_hot(reshape(x, (*x.shape, 1)), pair, axis=len(sizes) - 1, output_sizes=sizes)


def take(n: Node, x: Value, indices: Value) -> Value:
    return gathered(reshape(x, (math.prod(x.shape),)), indices)


TABLE: dict[str, Mapping] = {
    "aten.embedding.default": embedding,
    "aten.gather.default": gather,
    "aten.index.Tensor": index,
    "aten.index_put.default": put,
    "aten.index_select.default": index_select,
    "aten.nonzero.default": nonzero,
    "aten.one_hot.default": one_hot,
    "aten.scatter.src": scatter,
    "aten.scatter.value": scatter,
    "aten.take.default": take,
}
