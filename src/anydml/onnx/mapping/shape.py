"""Constants, shapes, reshaping, transposing and broadcasting: operators that compute no elements."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from anydml.functional import functions as dml
from anydml.onnx.errors import INVALID, NOT_IN_DIRECTML, Refused
from anydml.onnx.nodes import Node, array_of
from anydml.onnx.types import dtype_of
from anydml.onnx.values import Array, Value, axes_of, expand, fits, ints, is_float, number, reshape, transpose


def constant(n: Node) -> Array:
    for name, dtype in (("value_float", np.float32), ("value_int", np.int64)):
        if (value := n.get(name)) is not None:
            return np.array(value, dtype)
    for name, dtype in (("value_floats", np.float32), ("value_ints", np.int64)):
        if (values := n.get(name)) is not None:
            return np.array(values, dtype)
    if (tensor := n.get("value")) is not None:
        try:
            return array_of(tensor)
        except (ValueError, TypeError) as error:
            raise Refused(str(error), INVALID) from None
    raise Refused(f"it is a constant given by {', '.join(n.attributes) or 'no attribute'}", NOT_IN_DIRECTML)


def identity(n: Node, x: Value) -> Value:
    return x


def shape(n: Node, x: Value) -> Array:
    return np.array(x.shape[n.get("start", 0) : n.get("end")], np.int64)


def size(n: Node, x: Value) -> Array:
    return np.array(math.prod(x.shape), np.int64)


def reshaped(n: Node, x: Value, sizes: Value = None) -> Value:
    wanted = list(n.get("shape", ()) if sizes is None else ints(sizes))
    if not n.get("allowzero", 0):
        if any(s == 0 and i >= x.ndim for i, s in enumerate(wanted)):
            raise Refused(f"sizes {tuple(x.shape)} have no dimension to copy for {tuple(wanted)}", INVALID)
        wanted = [x.shape[i] if s == 0 else s for i, s in enumerate(wanted)]
    return reshape(x, completed(wanted, math.prod(x.shape)))


def completed(sizes: Sequence[int], elements: int) -> list[int]:
    """Sizes, in which -1 is replaced by the size that follows from the number of elements."""
    if min(sizes, default=0) < -1 or sum(s == -1 for s in sizes) > 1:
        raise Refused(f"{tuple(sizes)} are not sizes", INVALID)
    others = math.prod(s for s in sizes if s != -1)
    if -1 in sizes and (others == 0 or elements % others):
        raise Refused(f"{elements} elements do not fill sizes {tuple(sizes)}", INVALID)
    return [elements // others if s == -1 else s for s in sizes]


def flatten(n: Node, x: Value) -> Value:
    axis = n.get("axis", 1)
    axis = axis + x.ndim if axis < 0 else axis
    if not 0 <= axis <= x.ndim:
        raise Refused(f"axis {n.get('axis')} is outside of {x.ndim} dimensions", INVALID)
    return reshape(x, (math.prod(x.shape[:axis]), math.prod(x.shape[axis:])))


def squeeze(n: Node, x: Value, axes: Value = None) -> Value:
    given = n.get("axes") if axes is None else ints(axes)
    drop = [i for i, s in enumerate(x.shape) if s == 1] if given is None else axes_of(given, x.ndim)
    if any(x.shape[a] != 1 for a in drop):
        raise Refused(f"its sizes are {tuple(x.shape)}; those of the dimensions {sorted(drop)} must be 1", INVALID)
    return reshape(x, [s for i, s in enumerate(x.shape) if i not in drop])


def unsqueeze(n: Node, x: Value, axes: Value = None) -> Value:
    given = n.get("axes") if axes is None else ints(axes)
    rank = x.ndim + len(given)
    added = axes_of(given, rank)
    rest = iter(x.shape)
    return reshape(x, [1 if i in added else next(rest) for i in range(rank)])


def transposed(n: Node, x: Value) -> Value:
    axes = n.get("perm", range(x.ndim)[::-1])
    if sorted(axes) != [*range(x.ndim)]:
        raise Refused(f"{tuple(axes)} is not an order of {x.ndim} dimensions", INVALID)
    return transpose(x, axes)


def expanded(n: Node, x: Value, sizes: Value) -> Value:
    wanted = ints(sizes)
    try:
        both = np.broadcast_shapes(tuple(x.shape), wanted)
    except ValueError:
        raise Refused(f"sizes {tuple(x.shape)} do not broadcast with {wanted}", INVALID) from None
    return expand(x, both)


def constant_of_shape(n: Node, sizes: Value) -> Array:
    value = np.zeros(1, np.float32) if n.get("value") is None else array_of(n.get("value"))
    if value.size != 1:
        raise Refused(f"its value has {value.size} elements, and must have one", INVALID)
    wanted = ints(sizes)
    fits(wanted)
    return np.broadcast_to(value.reshape(()), wanted)


def numbered(n: Node, start: Value, limit: Value, delta: Value) -> Value:
    first, last, step = number(start), number(limit), number(delta)
    if step == 0:
        raise Refused("its step is 0", INVALID)
    if not all(map(math.isfinite, (first, last, step))):
        raise Refused(f"{first}, {last} and {step} are not all finite", INVALID)
    count = max(math.ceil((last - first) / step), 0) if is_float(start.dtype) else len(range(first, last, step))
    fits([count])
    if start.dtype.kind in "iu" or not count:
        return np.arange(count, dtype=start.dtype) * start.dtype.type(step) + start.dtype.type(first)
    return dml.fill_value_sequence(value_data_type=start.dtype, value_start=first, value_delta=step, output_sizes=[count])


def eye_like(n: Node, x: Value) -> Value:
    declared = n.get("dtype", n.types[0])
    if x.ndim != 2 or declared is None:
        raise Refused(f"it takes a matrix, not sizes {tuple(x.shape)}", INVALID)
    dtype = dtype_of(declared)
    return dml.diagonal_matrix(offset=n.get("k", 0), value=1, output_sizes=x.shape, output_data_type=dtype)


def dropout(n: Node, x: Value, ratio: Value = None, training: Value = None) -> Any:
    """The unchanged tensor, because nothing is dropped outside of training; the mask is true everywhere."""
    if n.opset < 7 and not n.get("is_test", 0):
        raise Refused("it drops elements at random, and ONNX does not define the random numbers")
    if training is not None and number(training) and (ratio is None or number(ratio)):
        raise Refused("it drops elements at random, and ONNX does not define the random numbers")
    return x, np.broadcast_to(np.uint8(1), tuple(x.shape)) if n.wants(1) else None


TABLE: dict[str, Callable[..., Any]] = {
    "Constant": constant,
    "ConstantOfShape": constant_of_shape,
    "Dropout": dropout,
    "Expand": expanded,
    "EyeLike": eye_like,
    "Flatten": flatten,
    "Identity": identity,
    "Range": numbered,
    "Reshape": reshaped,
    "Shape": shape,
    "Size": size,
    "Squeeze": squeeze,
    "Transpose": transposed,
    "Unsqueeze": unsqueeze,
}
