"""Reductions, running sums, and the order of elements."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

from anydml.functional import functions as dml
from anydml.onnx.errors import INVALID, NOT_YET, Refused
from anydml.onnx.values import Value, converted, part, reshape
from anydml.torch.mapping.common import INT64, Mapping, cast, dim_of, dims_of, truth
from anydml.torch.read import Node

EMPTY = {"SUM": 0, "MULTIPLY": 1, "AVERAGE": math.nan, "L1": 0, "L2": 0, "LOG_SUM_EXP": -math.inf}


def kept(sizes: Sequence[int], dims: Sequence[int], keep: bool) -> list[int]:
    """The sizes of a reduction's result."""
    return [1 if i in dims else size for i, size in enumerate(sizes) if keep or i not in dims]


def reduced(x: Value, function: str, dims: Sequence[int], keep: bool) -> Value:
    """REDUCE along dimensions."""
    sizes = kept(x.shape, dims, keep)
    if 0 in x.shape and all(sizes):
        if function not in EMPTY:
            raise Refused(f"{function} of no elements has no value", INVALID)
        return np.full(sizes, EMPTY[function], x.dtype)
    if not x.ndim:
        return reshape(dml.reduce(reshape(x, (1,)), function, [0]), ())
    return reshape(dml.reduce(x, function, [*dims]), sizes)


def reduction(function: str) -> Mapping:
    """The mapping of a reduction to the result's type: integers are converted first."""

    def mapping(n: Node, x: Value, dims: Any = None, keepdim: bool = False, **_: Any) -> Value:
        over = dims_of(dims, x.ndim)
        return reduced(cast(x, n.types["self"], n.result), function, over, keepdim)

    return mapping


def extreme(function: str) -> Mapping:
    """The mapping of the largest or smallest elements, without their places."""

    def mapping(n: Node, x: Value, dims: Any = None, keepdim: bool = False) -> Value:
        return reduced(x, function, dims_of(dims, x.ndim), keepdim)

    return mapping


def placed(function: str, place: str) -> Mapping:
    """The mapping of the largest or smallest elements along a dimension, with their places."""

    def mapping(n: Node, x: Value, dim: int, keepdim: bool = False) -> Any:
        d = dim_of(dim, x.ndim)
        return reduced(x, function, [d] if x.ndim else [], keepdim), _place(place, x, d, keepdim)

    return mapping


def _place(function: str, x: Value, d: int, keep: bool) -> Value:
    wide = x if x.ndim else reshape(x, (1,))
    found = converted(getattr(dml, function)(wide, [d], "INCREASING"), INT64)
    return reshape(found, kept(x.shape, [d], keep) if x.ndim else ())


def place(function: str) -> Mapping:
    """The mapping of argmax or argmin, along a dimension or over all elements. Of equal elements, the first one counts."""

    def mapping(n: Node, x: Value, dim: Any = None, keepdim: bool = False) -> Value:
        if dim is None:
            found = _place(function, reshape(x, (math.prod(x.shape),)), 0, False)
            return reshape(found, (1,) * x.ndim) if keepdim else found
        return _place(function, x, dim_of(dim, x.ndim), keepdim)

    return mapping


def any_of(every: bool) -> Mapping:
    """The mapping of whether any element is not 0, or whether all are not."""

    def mapping(n: Node, x: Value, dims: Any = None, keepdim: bool = False) -> Value:
        over = dims_of(dims, x.ndim)
        held = x if n.types["self"] is torch.bool else truth(x)
        if 0 in x.shape:
            return np.full(kept(x.shape, over, keepdim), int(every), np.uint8)
        found = reduced(converted(held, np.dtype(np.int32)), "MIN" if every else "MAX", over, keepdim)
        return converted(found, np.dtype(np.uint8))

    return mapping


def _correction(given: Any) -> float:
    return 1.0 if given is None else float(given)


def variance(n: Node, x: Value, dims: Any = None, *, correction: Any = None, keepdim: bool = False) -> Value:
    """BATCH_NORMALIZATION_TRAINING's variance, rounded once, for a correction of 0.

    Another correction multiplies it by count / (count - correction), which is rounded.
    """
    over = dims_of(dims, x.ndim)
    count, less = math.prod(x.shape[d] for d in over), _correction(correction)
    wide = x if x.ndim else reshape(x, (1,))
    ones = np.ones([1 if i in (over or [0]) else size for i, size in enumerate(wide.shape)], x.dtype)
    found = dml.batch_normalization_training(wide, ones, np.zeros_like(ones), epsilon=0.0).output_variance
    made = reshape(found, kept(x.shape, over, keepdim))
    if not less:
        return made
    factor = count / (count - less) if count > less else math.nan if count == less else math.inf
    return dml.element_wise_multiply(made, np.array(factor, x.dtype))


def deviation(n: Node, x: Value, dims: Any = None, *, correction: Any = None, keepdim: bool = False) -> Value:
    return dml.element_wise_sqrt(variance(n, x, dims, correction=correction, keepdim=keepdim))


def variance_mean(n: Node, x: Value, dims: Any = None, *, correction: Any = None, keepdim: bool = False) -> Any:
    over = dims_of(dims, x.ndim)
    return variance(n, x, dims, correction=correction, keepdim=keepdim), reduced(x, "AVERAGE", over, keepdim)


def vector_norm(n: Node, x: Value, order: Any = 2, dims: Any = None, keepdim: bool = False, **_: Any) -> Value:
    """REDUCE by L1 or L2, or the largest or smallest magnitude."""
    over = dims_of(dims, x.ndim)
    given = cast(x, n.types["self"], n.result)
    if order in (1, 2):
        return reduced(given, f"L{int(order)}", over, keepdim)
    if order in (math.inf, -math.inf):
        return reduced(dml.element_wise_abs(given), "MAX" if order > 0 else "MIN", over, keepdim)
    raise Refused(f"its order is {order}", NOT_YET)


def running(function: str) -> Mapping:
    """The mapping of sums or products so far, each of them exact and rounded once."""

    def mapping(n: Node, x: Value, dim: int, **_: Any) -> Value:
        given = cast(x, n.types["self"], n.result)
        if not x.ndim:
            return given
        return getattr(dml, function)(given, dim_of(dim, x.ndim))

    return mapping


def largest(n: Node, x: Value, k: int, dim: int = -1, largest: bool = True, is_sorted: bool = True) -> Any:
    """TOP_K1. Of equal elements, the first ones are taken."""
    if not x.ndim:
        return x, np.zeros((), np.int64)
    d = dim_of(dim, x.ndim)
    values, places = dml.top_k1(x, axis=d, k=k, axis_direction="DECREASING" if largest else "INCREASING")
    return values, converted(places, INT64)


def ordered(n: Node, x: Value, *given: Any, **named: Any) -> Any:
    """sort, by TOP_K1 of all elements. Equal elements keep their order, as a stable sort does."""
    if n.operator == "aten.sort.stable":
        given = given[1:]
    options = dict(zip(("dim", "descending"), given, strict=False)) | named
    dim, descending = options.get("dim", -1), options.get("descending", False)
    return largest(n, x, x.shape[dim_of(dim, x.ndim)] if x.ndim else 1, dim, descending)


def places_in_order(n: Node, x: Value, dim: int = -1, descending: bool = False) -> Value:
    return largest(n, x, x.shape[dim_of(dim, x.ndim)] if x.ndim else 1, dim, descending)[1]


def median(n: Node, x: Value, dim: int = -1, keepdim: bool = False) -> Any:
    """The lower one of the middle elements, and its place: the last of the smaller half in order."""
    d = dim_of(dim, x.ndim)
    values, places = largest(n, x, (x.shape[d] + 1) // 2, d, False)
    last = [*[slice(None)] * d, slice(values.shape[d] - 1, None)]
    sizes = kept(x.shape, [d], keepdim)
    return reshape(part(values, last), sizes), reshape(part(places, last), sizes)


TABLE: dict[str, Mapping] = {
    "aten.all.default": any_of(True),
    "aten.all.dim": any_of(True),
    "aten.all.dims": any_of(True),
    "aten.amax.default": extreme("MAX"),
    "aten.amin.default": extreme("MIN"),
    "aten.any.default": any_of(False),
    "aten.any.dim": any_of(False),
    "aten.any.dims": any_of(False),
    "aten.argmax.default": place("argmax"),
    "aten.argmin.default": place("argmin"),
    "aten.argsort.default": places_in_order,
    "aten.cumprod.default": running("cumulative_product"),
    "aten.cumsum.default": running("cumulative_summation"),
    "aten.linalg_vector_norm.default": vector_norm,
    "aten.logsumexp.default": reduction("LOG_SUM_EXP"),
    "aten.max.default": extreme("MAX"),
    "aten.max.dim": placed("MAX", "argmax"),
    "aten.mean.default": reduction("AVERAGE"),
    "aten.mean.dim": reduction("AVERAGE"),
    "aten.median.dim": median,
    "aten.min.default": extreme("MIN"),
    "aten.min.dim": placed("MIN", "argmin"),
    "aten.prod.default": reduction("MULTIPLY"),
    "aten.prod.dim_int": reduction("MULTIPLY"),
    "aten.sort.default": ordered,
    "aten.sort.stable": ordered,
    "aten.std.correction": deviation,
    "aten.sum.default": reduction("SUM"),
    "aten.sum.dim_IntList": reduction("SUM"),
    "aten.topk.default": largest,
    "aten.var.correction": variance,
    "aten.var_mean.correction": variance_mean,
}
