"""Views, joins, splits, padding, and tensors that are made of numbers."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

from anydml.functional import functions as dml
from anydml.onnx.errors import INVALID, NOT_YET, Refused
from anydml.onnx.values import Value, expand, fits, gathered, is_float, known, part, reshape, transpose
from anydml.torch.mapping.common import Mapping, cast, dim_of, dims_of, typed
from anydml.torch.read import Node


def same(n: Node, x: Value, *_: Any, **__: Any) -> Value:
    return x


def nothing(n: Node, *_: Any, **__: Any) -> None:
    """An assertion about sizes, which torch has checked; there is no result."""


def view(n: Node, x: Value, sizes: Sequence[int]) -> Value:
    wanted = list(sizes)
    if wanted.count(-1) == 1:
        rest = -math.prod(wanted)
        wanted[wanted.index(-1)] = math.prod(x.shape) // rest if rest else 0
    return reshape(x, wanted)


def unsqueeze(n: Node, x: Value, dim: int) -> Value:
    d = dim_of(dim, x.ndim + 1)
    return reshape(x, (*x.shape[:d], 1, *x.shape[d:]))


def squeeze(n: Node, x: Value, dims: Any = None) -> Value:
    over = dims_of(dims, x.ndim)
    return reshape(x, [size for i, size in enumerate(x.shape) if size != 1 or i not in over])


def permute(n: Node, x: Value, dims: Sequence[int]) -> Value:
    return transpose(x, [dim_of(d, x.ndim) for d in dims])


def swapped(n: Node, x: Value, one: int = 0, other: int = 1) -> Value:
    order = [*range(x.ndim)]
    if order:
        a, b = dim_of(one, x.ndim), dim_of(other, x.ndim)
        order[a], order[b] = b, a
    return transpose(x, order) if x.ndim > 1 else x


def expanded(n: Node, x: Value, sizes: Sequence[int], **_: Any) -> Value:
    more = len(sizes) - x.ndim
    return expand(x, [x.shape[i - more] if size == -1 else size for i, size in enumerate(sizes)])


def sliced(n: Node, x: Value, dim: int = 0, start: Any = None, end: Any = None, step: int = 1) -> Value:
    d = dim_of(dim, x.ndim)
    return part(x, [*[slice(None)] * d, slice(start, end, step)])


def selected(n: Node, x: Value, dim: int, index: int) -> Value:
    d = dim_of(dim, x.ndim)
    at = index % x.shape[d]
    return reshape(part(x, [*[slice(None)] * d, slice(at, at + 1)]), (*x.shape[:d], *x.shape[d + 1 :]))


def split_sizes(n: Node, x: Value, sizes: Sequence[int], dim: int = 0) -> list[Value]:
    """SPLIT, or the parts of an array."""
    d = dim_of(dim, x.ndim)
    if isinstance(x, np.ndarray):
        return np.split(x, np.cumsum(sizes)[:-1], d)
    parts = [(*x.shape[:d], size, *x.shape[d + 1 :]) for size in sizes]
    if len(parts) == 1:
        return [x]
    made = iter(dml.split(x, axis=d, output_sizes=[one for one in parts if 0 not in one]))
    return [np.empty(one, x.dtype) if 0 in one else next(made) for one in parts]


def split(n: Node, x: Value, size: int, dim: int = 0) -> list[Value]:
    whole = x.shape[dim_of(dim, x.ndim)]
    return split_sizes(n, x, [min(size, whole - at) for at in range(0, whole, size)] or [0], dim)


def unbind(n: Node, x: Value, dim: int = 0) -> list[Value]:
    return [selected(n, x, dim, i) for i in range(x.shape[dim_of(dim, x.ndim)])]


def joined(values: Sequence[Value], d: int, dtype: np.dtype[Any]) -> Value:
    """JOIN of the tensors that have elements."""
    if all(isinstance(x, np.ndarray) for x in values):
        return np.concatenate([x.astype(dtype) for x in values], d)
    filled = [typed(x, dtype) for x in values if 0 not in x.shape]
    return filled[0] if len(filled) == 1 else dml.join(filled, axis=d)


def cat(n: Node, values: Sequence[Value], dim: int = 0) -> Value:
    given = [x for x in values if x.ndim > 1 or x.shape != (0,)] or [*values]  # torch takes an empty tensor of any rank
    return joined(given, dim_of(dim, given[0].ndim), n.dtype)


def stack(n: Node, values: Sequence[Value], dim: int = 0) -> Value:
    d = dim_of(dim, values[0].ndim + 1)
    return joined([reshape(x, (*x.shape[:d], 1, *x.shape[d:])) for x in values], d, n.dtype)


def repeated(n: Node, x: Value, times: Sequence[int]) -> Value:
    wide = reshape(x, (1,) * (len(times) - x.ndim) + tuple(x.shape))
    sizes = [size * t for size, t in zip(wide.shape, times, strict=True)]
    fits(sizes)
    if isinstance(wide, np.ndarray):
        return np.tile(wide, tuple(times))
    if 0 in sizes:
        return np.empty(sizes, x.dtype)
    return wide if all(t == 1 for t in times) else dml.tile(wide, repeats=[*times])


def flipped(n: Node, x: Value, dims: Sequence[int]) -> Value:
    over = dims_of(dims, x.ndim) if dims else []
    return part(x, [slice(None, None, -1) if i in over else slice(None) for i in range(x.ndim)])


def rolled(n: Node, x: Value, shifts: Any, dims: Any = ()) -> Value:
    """The parts before and after the place where the tensor begins, joined the other way round."""
    along = [dims] if isinstance(dims, int) else [*dims]
    by = [shifts] if isinstance(shifts, int) else [*shifts]
    if not along:
        return reshape(rolled(n, reshape(x, (x.size,)), by, [0]), x.shape)
    for shift, dim in zip(by, along, strict=True):
        d = dim_of(dim, x.ndim)
        at = -shift % max(x.shape[d], 1)
        if at:
            before = [slice(None)] * d
            x = joined([part(x, [*before, slice(at, None)]), part(x, [*before, slice(0, at)])], d, x.dtype)
    return x


def diagonal(n: Node, x: Value, offset: int = 0, dim1: int = 0, dim2: int = 1) -> Value:
    """Two dimensions merged, and a slice with a stride of one row and one element."""
    a, b = dim_of(dim1, x.ndim), dim_of(dim2, x.ndim)
    rest = [i for i in range(x.ndim) if i not in (a, b)]
    rows, columns = x.shape[a], x.shape[b]
    count = max(min(rows + min(offset, 0), columns - max(offset, 0)), 0)
    sizes = [x.shape[i] for i in rest]
    flat = reshape(transpose(x, [*rest, a, b]), [*sizes, rows * columns])
    begin = max(offset, 0) + max(-offset, 0) * columns
    return part(flat, [*[slice(None)] * len(rest), slice(begin, begin + count * (columns + 1), columns + 1)][: len(rest) + 1])


def padded(mode: str) -> Mapping:
    """The mapping of a padding, whose numbers begin with the last dimension. Negative numbers remove elements."""

    def mapping(n: Node, x: Value, pads: Sequence[int], value: Any = 0) -> Value:
        start, end = [0] * x.ndim, [0] * x.ndim
        for i in range(len(pads) // 2):
            start[x.ndim - 1 - i], end[x.ndim - 1 - i] = pads[2 * i], pads[2 * i + 1]
        fits([max(size + a + b, 0) for size, a, b in zip(x.shape, start, end, strict=True)])
        x = part(x, [slice(max(-a, 0), size - max(-b, 0)) for size, a, b in zip(x.shape, start, end, strict=True)])
        start, end = [max(a, 0) for a in start], [max(b, 0) for b in end]
        if not any(start) and not any(end):
            return x
        if 0 in x.shape:
            return np.full([size + a + b for size, a, b in zip(x.shape, start, end, strict=True)], value, x.dtype)
        return dml.padding1(x, mode, padding_value_data_type=x.dtype, padding_value=value, start_padding=start, end_padding=end)

    return mapping


def full(n: Node, sizes: Sequence[int], value: Any, **_: Any) -> Value:
    fits(sizes)
    return np.full(tuple(sizes), value, n.dtype)


def full_like(value: Any) -> Mapping:
    """The mapping of a tensor with the sizes of another, and one number."""

    def mapping(n: Node, x: Value, *given: Any, **_: Any) -> Value:
        return np.full(tuple(x.shape), given[0] if value is None else value, n.dtype)

    return mapping


def new_full(value: Any) -> Mapping:
    """The mapping of a tensor of given sizes and one number, with the type of another."""

    def mapping(n: Node, x: Value, sizes: Sequence[int], *given: Any, **_: Any) -> Value:
        return full(n, sizes, given[0] if value is None else value)

    return mapping


def of_number(n: Node, value: Any, **_: Any) -> Value:
    return np.full((), value, n.dtype)


def numbered(n: Node, *given: Any, **_: Any) -> Value:
    """arange: start, end and step, of which the end alone may be given. FILL_VALUE_SEQUENCE of floats."""
    start, end, step = (0, given[0], 1) if len(given) == 1 else (*given, 1)[:3]
    count = max(math.ceil((end - start) / step), 0)
    fits([count])
    if not is_float(n.dtype) or not count:
        return np.arange(count, dtype=n.dtype) * n.dtype.type(step) + n.dtype.type(start)
    return dml.fill_value_sequence(value_data_type=n.dtype, value_start=start, value_delta=step, output_sizes=[count])


def eye(n: Node, rows: int, columns: Any = None, **_: Any) -> Value:
    return np.eye(rows, rows if isinstance(columns, dict) or columns is None else columns, dtype=n.dtype)


def triangle(upper: bool) -> Mapping:
    """The mapping of the elements above or below a diagonal, by DIAGONAL_MATRIX1."""

    def mapping(n: Node, x: Value, offset: int = 0) -> Value:
        reach = max(x.shape[-2:])
        at = min(max(offset, -reach - 1), reach + 1)
        begin, end = (-reach - 2, at) if upper else (at + 1, reach + 2)
        if isinstance(x, np.ndarray):
            return np.triu(x, at) if upper else np.tril(x, at)
        return dml.diagonal_matrix1(x, value_data_type=x.dtype, value=0, diagonal_fill_begin=begin, diagonal_fill_end=end)

    return mapping


def size_of(n: Node, x: Value, dim: int) -> int:
    return int(x.shape[dim])


def count_of(n: Node, x: Value) -> int:
    return int(math.prod(x.shape))


def put_part(n: Node, x: Value, source: Value, dim: int = 0, start: Any = None, end: Any = None, step: int = 1) -> Value:
    """slice_scatter: the parts around a slice, joined with the source; with a step, SCATTER_ELEMENTS."""
    d = dim_of(dim, x.ndim)
    places = range(*slice(start, end, step).indices(x.shape[d]))
    if step != 1:
        at = np.array(places, np.int64).reshape([-1 if i == d else 1 for i in range(x.ndim)])
        return dml.scatter_elements(x, expand(at, source.shape), source, axis=d)
    before = [slice(None)] * d
    parts = [part(x, [*before, slice(0, places.start)]), source, part(x, [*before, slice(places.stop, None)])]
    return joined([one for one in parts if one.shape[d]], d, n.dtype)


def put_one(n: Node, x: Value, source: Value, dim: int, index: int) -> Value:
    d = dim_of(dim, x.ndim)
    at = index % x.shape[d]
    return put_part(n, x, reshape(source, (*x.shape[:d], 1, *x.shape[d + 1 :])), d, at, at + 1)


def pixel_shuffle(n: Node, x: Value, factor: int) -> Value:
    """DEPTH_TO_SPACE1 in the order of columns, rows, depth."""
    images = reshape(x, (math.prod(x.shape[:-3]), *x.shape[-3:]))
    made = dml.depth_to_space1(images, block_size=factor, order="COLUMN_ROW_DEPTH")
    return reshape(made, (*x.shape[:-3], *made.shape[-3:]))


def pixel_unshuffle(n: Node, x: Value, factor: int) -> Value:
    images = reshape(x, (math.prod(x.shape[:-3]), *x.shape[-3:]))
    made = dml.space_to_depth1(images, block_size=factor, order="COLUMN_ROW_DEPTH")
    return reshape(made, (*x.shape[:-3], *made.shape[-3:]))


def repeat_interleave(n: Node, x: Value, times: Any, dim: Any = None, output_size: Any = None) -> Value:
    """Each element several times, by a dimension of stride 0."""
    if not isinstance(times, int):
        raise Refused("it has a number of repeats for each element", NOT_YET)
    if dim is None:
        x, dim = reshape(x, (math.prod(x.shape),)), 0
    d = dim_of(dim, x.ndim)
    wide = expand(reshape(x, (*x.shape[: d + 1], 1, *x.shape[d + 1 :])), (*x.shape[: d + 1], times, *x.shape[d + 1 :]))
    return reshape(wide, (*x.shape[:d], x.shape[d] * times, *x.shape[d + 1 :]))


def strided(n: Node, x: Value, sizes: Sequence[int], strides: Sequence[int], offset: Any = None) -> Value:
    """as_strided of a packed tensor: GATHER of its elements at the places."""
    at = np.full((), offset or 0, np.int64)
    for size, stride in zip(sizes, strides, strict=True):
        at = at[..., None] + np.arange(size) * stride
    if at.size and not 0 <= at.min() <= at.max() < x.size:
        raise Refused("it reads memory outside of its tensor", INVALID)
    return gathered(reshape(x, (x.size,)), at)


def item(n: Node, x: Value) -> Any:
    """The number of a tensor of one element, if it is known."""
    value = known(x).reshape(-1)[0]
    return bool(value) if n.types["self"] is torch.bool else value.item()


TABLE: dict[str, Mapping] = {
    "aten._assert_async.msg": nothing,
    "aten._assert_scalar.default": nothing,
    "aten._assert_tensor_metadata.default": nothing,
    "aten._local_scalar_dense.default": item,
    "aten._reshape_copy.default": view,
    "aten._unsafe_view.default": view,
    "aten.alias.default": same,
    "aten.arange.default": numbered,
    "aten.arange.start": numbered,
    "aten.arange.start_step": numbered,
    "aten.as_strided.default": strided,
    "aten.cat.default": cat,
    "aten.clone.default": same,
    "aten.constant_pad_nd.default": padded("CONSTANT"),
    "aten.copy.default": lambda n, x, source, *_: expand(cast(source, n.types["src"], n.result), x.shape),
    "aten.detach.default": same,
    "aten.diagonal.default": diagonal,
    "aten.empty.memory_format": lambda n, sizes, **_: full(n, sizes, 0),
    "aten.empty_like.default": full_like(0),
    "aten.expand.default": expanded,
    "aten.eye.default": eye,
    "aten.eye.m": eye,
    "aten.flip.default": flipped,
    "aten.full.default": full,
    "aten.full_like.default": full_like(None),
    "aten.new_empty.default": new_full(0),
    "aten.new_full.default": new_full(None),
    "aten.new_ones.default": new_full(1),
    "aten.new_zeros.default": new_full(0),
    "aten.ones.default": lambda n, sizes, **_: full(n, sizes, 1),
    "aten.ones_like.default": full_like(1),
    "aten.permute.default": permute,
    "aten.pixel_shuffle.default": pixel_shuffle,
    "aten.pixel_unshuffle.default": pixel_unshuffle,
    "aten.reflection_pad1d.default": padded("REFLECTION"),
    "aten.reflection_pad2d.default": padded("REFLECTION"),
    "aten.reflection_pad3d.default": padded("REFLECTION"),
    "aten.repeat.default": repeated,
    "aten.repeat_interleave.self_int": repeat_interleave,
    "aten.replication_pad1d.default": padded("EDGE"),
    "aten.replication_pad2d.default": padded("EDGE"),
    "aten.replication_pad3d.default": padded("EDGE"),
    "aten.roll.default": rolled,
    "aten.scalar_tensor.default": of_number,
    "aten.select.int": selected,
    "aten.select_scatter.default": put_one,
    "aten.slice.Tensor": sliced,
    "aten.slice_scatter.default": put_part,
    "aten.split.Tensor": split,
    "aten.split_with_sizes.default": split_sizes,
    "aten.squeeze.default": squeeze,
    "aten.squeeze.dim": squeeze,
    "aten.squeeze.dims": squeeze,
    "aten.stack.default": stack,
    "aten.sym_constrain_range_for_size.default": nothing,
    "aten.sym_numel.default": count_of,
    "aten.sym_size.int": size_of,
    "aten.t.default": swapped,
    "aten.transpose.int": swapped,
    "aten.tril.default": triangle(False),
    "aten.triu.default": triangle(True),
    "aten.unbind.int": unbind,
    "aten.unsqueeze.default": unsqueeze,
    "aten.view.default": view,
    "aten.view.dtype": lambda n, x, to: x.view(n.dtype),
    "aten.zeros.default": lambda n, sizes, **_: full(n, sizes, 0),
    "aten.zeros_like.default": full_like(0),
}
