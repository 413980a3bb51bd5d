"""Scatters: elements are written at indices, or combined with the elements there."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from anydml.functional import functions as dml
from anydml.onnx.errors import INVALID, NOT_YET, Refused
from anydml.onnx.later import later
from anydml.onnx.nodes import Node
from anydml.onnx.values import Array, Value, axis_of, expand, gathered, known, padded, reshape

MOST_ROUNDS = 256  # updates of one element at most
REDUCTIONS: dict[str, Callable[..., Any]] = {
    "add": later.element_wise_add,
    "max": later.element_wise_max,
    "min": later.element_wise_min,
    "mul": later.element_wise_multiply,
}


def scatter_elements(n: Node, x: Value, indices: Value, updates: Value) -> Value:
    axis = axis_of(n.get("axis", 0), x.ndim)
    if 0 in indices.shape:
        return x
    if n.get("reduction", "none") == "none":
        return dml.scatter_elements(x, indices, updates, axis=axis)
    at = known(indices)
    grid = [*np.indices(at.shape)]
    grid[axis] = _counted(at, x.shape[axis])
    return _reduced(n, x, np.ravel_multi_index(grid, x.shape), updates)


def scatter_nd(n: Node, x: Value, indices: Value, updates: Value) -> Value:
    if 0 in indices.shape:
        return x
    if n.get("reduction", "none") == "none":
        rank = max(x.ndim, indices.ndim, updates.ndim)
        data, places, written = (padded(v, rank) for v in (x, indices, updates))
        found = dml.scatter_nd(data, places, written, input_dimension_count=x.ndim, indices_dimension_count=indices.ndim)
        return reshape(found, x.shape)
    at = known(indices)
    last = at.shape[-1]
    rows = np.ravel_multi_index([_counted(at[..., i], x.shape[i]) for i in range(last)], x.shape[:last])
    each = math.prod(x.shape[last:])
    return _reduced(n, x, rows[..., None] * each + np.arange(each), updates)


def _counted(at: Array, size: int) -> Array:
    """Indices; negative ones count from the end."""
    if not ((-size <= at) & (at < size)).all():
        raise Refused(f"an index is outside of {size} elements", INVALID)
    return np.where(at < 0, at + size, at).astype(np.int64)


def _reduced(n: Node, x: Value, places: Array, updates: Value) -> Value:
    """Elements at flat positions combined with updates. Several updates of one element are applied in order, one per round."""
    function = REDUCTIONS.get(n.get("reduction"))
    if function is None:
        raise Refused(f"there is no reduction {n.get('reduction')!r}", INVALID)
    flat = places.reshape(-1)
    order = np.argsort(flat, kind="stable")
    first = np.r_[True, flat[order][1:] != flat[order][:-1]]
    starts = np.maximum.accumulate(np.where(first, np.arange(len(flat)), 0))
    rounds = np.empty(len(flat), np.int64)
    rounds[order] = np.arange(len(flat)) - starts
    if (count := int(rounds.max()) + 1) > MOST_ROUNDS:
        raise Refused(f"one element has {count} updates; at most {MOST_ROUNDS} are supported", NOT_YET)
    whole, given = reshape(x, (math.prod(x.shape),)), reshape(updates, (len(flat),))
    for i in range(count):
        chosen = np.flatnonzero(rounds == i)
        at = flat[chosen]
        part = given if len(chosen) == len(flat) else gathered(given, chosen)
        whole = dml.scatter_elements(whole, at, function(gathered(whole, at), part), axis=0)
    return reshape(whole, x.shape)


def tensor_scatter(n: Node, past: Value, update: Value, at: Value = None) -> Value:
    """TensorScatter: SCATTER_ELEMENTS at the positions of each batch, which continue at 0 after the end if it is circular."""
    axis, batch = axis_of(n.get("axis", -2), past.ndim), past.shape[0]
    own = [1] * past.ndim
    own[axis] = update.shape[axis]
    places: Value = np.arange(own[axis], dtype=np.int64).reshape(own)
    if at is not None:
        places = dml.element_wise_add(reshape(at, (batch, *[1] * (past.ndim - 1))), places)
    if n.get("mode", "linear") == "circular":
        places = dml.element_wise_modulus_floor(places, np.array(past.shape[axis], np.int64))
    return dml.scatter_elements(past, expand(places, tuple(update.shape)), update, axis=axis)


TABLE: dict[str, Callable[..., Any]] = {
    "Scatter": scatter_elements,
    "ScatterElements": scatter_elements,
    "ScatterND": scatter_nd,
    "TensorScatter": tensor_scatter,
}
