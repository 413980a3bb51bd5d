"""Operators that move elements: joins, slices, gathers, padding and others."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from anydml.functional import functions as dml
from anydml.onnx.errors import INVALID, Refused
from anydml.onnx.nodes import Node
from anydml.onnx.values import (
    Value,
    axes_of,
    axis_of,
    expand,
    fits,
    gathered,
    ints,
    is_float,
    known,
    number,
    padded,
    part,
    reshape,
)

PADDING_MODES = {"constant": "CONSTANT", "edge": "EDGE", "reflect": "REFLECTION", "wrap": "WRAP"}


def concat(n: Node, *values: Value) -> Value:
    """JOIN of the inputs that have elements."""
    axis = axis_of(n.get("axis", 1), values[0].ndim)
    filled = [x for x in values if 0 not in x.shape]
    if len(filled) == 1:
        return filled[0]
    if not filled or all(isinstance(x, np.ndarray) for x in values):
        return np.concatenate(values, axis)
    return dml.join(filled, axis=axis)


def split(n: Node, x: Value, sizes: Value = None) -> list[Value]:
    axis = axis_of(n.get("axis", 0), x.ndim)
    whole, given = x.shape[axis], n.get("split") if sizes is None else ints(sizes)
    if given is None:
        count = n.get("num_outputs", len(n.outputs))
        if count != len(n.outputs):
            raise Refused(f"it has {len(n.outputs)} outputs, and its num_outputs is {count}", INVALID)
        step = -(-whole // count) if n.opset >= 18 else whole // count
        given = [max(min(step, whole - i * step), 0) for i in range(count)]
    if sum(given) != whole or min(given, default=0) < 0:
        raise Refused(f"sizes {tuple(given)} do not add up to {whole}", INVALID)
    if isinstance(x, np.ndarray):
        return np.split(x, np.cumsum(given)[:-1], axis)
    parts = [(*x.shape[:axis], size, *x.shape[axis + 1 :]) for size in given]
    if len(parts) == 1:
        return [x]
    made = iter(dml.split(x, axis=axis, output_sizes=[part for part in parts if 0 not in part]))
    return [np.empty(part, x.dtype) if 0 in part else next(made) for part in parts]


def sliced(n: Node, x: Value, starts: Value = None, ends: Value = None, axes: Value = None, steps: Value = None) -> Value:
    begin, end = (n.get("starts"), n.get("ends")) if starts is None else (ints(starts), ints(ends))
    along = n.get("axes") if axes is None else ints(axes)
    along = axes_of(range(len(begin)) if along is None else along, x.ndim)
    by = [1] * len(begin) if steps is None else ints(steps)
    if not len(begin) == len(end) == len(along) == len(by) or 0 in by:
        raise Refused("its starts, ends, axes and steps differ in length, or a step is 0", INVALID)
    whole = [slice(None)] * x.ndim
    for a, first, last, step in zip(along, begin, end, by, strict=True):
        whole[a] = slice(first, last, step)
    return part(x, whole)


def gather(n: Node, x: Value, indices: Value) -> Value:
    return gathered(x, indices, axis_of(n.get("axis", 0), x.ndim))


def gather_nd(n: Node, x: Value, indices: Value) -> Value:
    batch, last = n.get("batch_dims", 0), indices.shape[-1]
    sizes = (*indices.shape[:-1], *x.shape[batch + last :])
    rank = max(x.ndim, indices.ndim, len(sizes))
    data, places = padded(x, rank), padded(indices, rank)
    found = dml.gather_nd1(
        data, places, input_dimension_count=x.ndim, indices_dimension_count=indices.ndim, batch_dimension_count=batch
    )
    return reshape(found, sizes)


def gather_elements(n: Node, x: Value, indices: Value) -> Value:
    return dml.gather_elements(x, indices, axis=axis_of(n.get("axis", 0), x.ndim))


def crop(n: Node, x: Value) -> Value:
    """Crop of operator sets before 10: borders are removed, or `scale` gives the sizes after the first two borders."""
    left, top, right, bottom = n.get("border", (0, 0, 0, 0))
    height, width = x.shape[-2:]
    down, across = n.get("scale") or (height - top - bottom, width - left - right)
    if min(left, top) < 0 or not 0 < down <= height - top or not 0 < across <= width - left:
        raise Refused(f"borders {(left, top, right, bottom)} do not fit sizes {tuple(x.shape)}", INVALID)
    return part(x, [slice(None)] * (x.ndim - 2) + [slice(top, top + down), slice(left, left + across)])


def tile(n: Node, x: Value, repeats: Value) -> Value:
    times = ints(repeats)
    if len(times) != x.ndim:
        raise Refused(f"it has {len(times)} repeats, and {x.ndim} dimensions", INVALID)
    fits([a * b for a, b in zip(x.shape, times, strict=True)])
    if 0 in times:
        return np.empty([a * b for a, b in zip(x.shape, times, strict=True)], x.dtype)
    return x if all(t == 1 for t in times) else dml.tile(x, repeats=times)


def pad(n: Node, x: Value, pads: Value = None, value: Value = None, axes: Value = None) -> Value:
    """PADDING1. Elements that negative pads remove are cut off before it, or after it if the mode reads them."""
    given = n.get("pads", n.get("paddings")) if pads is None else ints(pads)
    along = axes_of(range(x.ndim) if axes is None else ints(axes), x.ndim)
    filling = n.get("value", 0.0) if value is None else number(value)
    count = len(along)
    if len(given) != 2 * count:
        raise Refused(f"it has {len(given)} pads, and {count} dimensions", INVALID)
    mode = n.get("mode", "constant")
    if mode not in PADDING_MODES:
        raise Refused(f"there is no padding mode {mode!r}", INVALID)
    start, end = [0] * x.ndim, [0] * x.ndim
    for i, a in enumerate(along):
        start[a], end[a] = given[i], given[i + count]
    fits([max(size + a + b, 0) for size, a, b in zip(x.shape, start, end, strict=True)])
    x = part(x, [slice(max(-a, 0), size - max(-b, 0)) for size, a, b in zip(x.shape, start, end, strict=True)])
    start, end = [max(a, 0) for a in start], [max(b, 0) for b in end]
    if not any(start) and not any(end):
        return x
    if 0 in x.shape:
        if mode != "constant":
            raise Refused("an empty tensor has no elements to repeat", INVALID)
        sizes = [size + a + b for size, a, b in zip(x.shape, start, end, strict=True)]
        return np.broadcast_to(np.array(filling, x.dtype), sizes)
    return dml.padding1(
        x,
        PADDING_MODES[mode],
        padding_value_data_type=x.dtype,
        padding_value=filling,
        start_padding=start,
        end_padding=end,
    )


def one_hot(n: Node, indices: Value, depth: Value, values: Value) -> Value:
    wanted = number(depth)
    if not math.isfinite(wanted):
        raise Refused(f"its depth is {wanted}, and must be finite", INVALID)
    size = int(wanted)
    axis = axis_of(n.get("axis", -1), indices.ndim + 1)
    if is_float(indices.dtype):
        indices = dml.cast(indices, output_data_type="INT64")
    sizes = [*indices.shape[:axis], size, *indices.shape[axis:]]
    fits(sizes)
    places = reshape(indices, [*indices.shape[:axis], 1, *indices.shape[axis:]])
    pair = reshape(values, (1,) * (len(sizes) - 1) + (2,))
    return dml.one_hot(places, pair, axis=axis, output_sizes=sizes)


def reverse_sequence(n: Node, x: Value, lengths: Value) -> Value:
    batch, time = axis_of(n.get("batch_axis", 1), x.ndim), axis_of(n.get("time_axis", 0), x.ndim)
    sizes = [1 if i == time else size for i, size in enumerate(x.shape)]
    by_batch = reshape(lengths, [size if i == batch else 1 for i, size in enumerate(x.shape)])
    return dml.reverse_subsequences(x, expand(by_batch.view(np.uint64), sizes), axis=time)


def nonzero(n: Node, x: Value) -> Value:
    """The coordinates, a row for each dimension. Their number is a size, so the elements must be known."""
    elements = known(x)
    if elements.dtype.itemsize == 8:  # the operator does not take 64 bits; a comparison with 0 has the same nonzero elements
        zeros = dml.element_wise_logical_equals(elements, np.zeros((), elements.dtype))
        elements = dml.element_wise_logical_not(zeros)
    found = dml.nonzero_coordinates(elements)
    count = int(found.output_count.reshape(-1)[0])
    rows = found.output_coordinates.reshape(-1, found.output_coordinates.shape[-1])[:count, -x.ndim :]
    return np.ascontiguousarray(rows.T).astype(np.int64) if x.ndim else np.zeros((0, count), np.int64)


def compress(n: Node, x: Value, condition: Value) -> Value:
    axis = n.get("axis")
    if axis is None:
        x, axis = reshape(x, (math.prod(x.shape),)), 0
    axis = axis_of(axis, x.ndim)
    places = np.flatnonzero(known(condition)[: x.shape[axis]])
    if not len(places):
        return np.empty([0 if i == axis else size for i, size in enumerate(x.shape)], x.dtype)
    return _taken(x, places, axis)


def _taken(x: Value, places: Any, axis: int) -> Value:
    rank = x.ndim
    found = dml.gather(x, places.astype(np.int64).reshape((1,) * (rank - 1) + (-1,)), axis=axis, index_dimensions=1)
    return reshape(found, [len(places) if i == axis else size for i, size in enumerate(x.shape)])


def triangle(n: Node, x: Value, k: Value = None) -> Value:
    diagonal, reach = 0 if k is None else number(k), max(x.shape[-2:], default=1)
    diagonal = min(max(diagonal, -reach - 1), reach + 1)
    begin, end = (-reach - 2, diagonal) if n.get("upper", 1) else (diagonal + 1, reach + 2)
    if begin >= end:
        return x
    return dml.diagonal_matrix1(x, value_data_type=x.dtype, value=0, diagonal_fill_begin=begin, diagonal_fill_end=end)


def cumulative_sum(n: Node, x: Value, axis: Value) -> Value:
    direction = "DECREASING" if n.get("reverse", 0) else "INCREASING"
    return dml.cumulative_summation(x, axis_of(int(number(axis)), x.ndim), direction, bool(n.get("exclusive", 0)))


def cumulative_product(n: Node, x: Value, axis: Value) -> Value:
    direction = "DECREASING" if n.get("reverse", 0) else "INCREASING"
    return dml.cumulative_product(x, axis_of(int(number(axis)), x.ndim), direction, bool(n.get("exclusive", 0)))


def top_k(n: Node, x: Value, k: Value = None) -> tuple[Value, Value]:
    count, axis = n.get("k") if k is None else int(number(k)), axis_of(n.get("axis", -1), x.ndim)
    if count == 0:
        sizes = [0 if i == axis else size for i, size in enumerate(x.shape)]
        return np.empty(sizes, x.dtype), np.empty(sizes, np.int64)
    direction = "DECREASING" if n.get("largest", 1) else "INCREASING"
    found = dml.top_k1(x, axis, count, direction)
    return found.output_value, dml.cast(found.output_index, output_data_type="INT64")


def depth_to_space(n: Node, x: Value) -> Value:
    order = "COLUMN_ROW_DEPTH" if n.get("mode", "DCR") == "CRD" else "DEPTH_COLUMN_ROW"
    return dml.depth_to_space1(x, n.get("blocksize"), order)


def space_to_depth(n: Node, x: Value) -> Value:
    order = "COLUMN_ROW_DEPTH" if n.get("mode", "DCR") == "CRD" else "DEPTH_COLUMN_ROW"
    return dml.space_to_depth1(x, n.get("blocksize"), order)


TABLE: dict[str, Callable[..., Any]] = {
    "Compress": compress,
    "Concat": concat,
    "Crop": crop,
    "CumProd": cumulative_product,
    "CumSum": cumulative_sum,
    "DepthToSpace": depth_to_space,
    "Gather": gather,
    "GatherElements": gather_elements,
    "GatherND": gather_nd,
    "NonZero": nonzero,
    "OneHot": one_hot,
    "Pad": pad,
    "ReverseSequence": reverse_sequence,
    "Slice": sliced,
    "SpaceToDepth": space_to_depth,
    "Split": split,
    "Tile": tile,
    "TopK": top_k,
    "Trilu": triangle,
}
