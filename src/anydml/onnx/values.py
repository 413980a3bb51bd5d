"""Tensors while a model is mapped: arrays, whose elements are known, or tensors of a graph. Mappings treat both alike."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from anydml.functional import functions as dml
from anydml.functional.functions import slice1
from anydml.functional.tracing import GraphTensor
from anydml.onnx.errors import INVALID, NeedsValue, Refused
from anydml.tensor import EXTENSIONS

Array = NDArray[Any]
MOST = 2**31  # elements at most of a constant that an operator makes
Value = Any  # an array or a GraphTensor: the eager functions take both and are typed for arrays


def is_float(dtype: np.dtype[Any]) -> bool:
    """Whether a dtype has floating-point numbers; most types of ml_dtypes are of no kind of NumPy's."""
    return dtype.kind == "f" or dtype.name in EXTENSIONS


def symbolic(x: Value) -> bool:
    """Whether a tensor is a graph's, whose elements are known only when the graph runs."""
    return isinstance(x, GraphTensor)


def known(x: Value) -> Array:
    """The elements of a tensor; NeedsValue if they are not known before the run."""
    if isinstance(x, GraphTensor):
        raise NeedsValue(x)
    array: Array = x
    return array


def ints(x: Value) -> tuple[int, ...]:
    """The integers of a tensor."""
    return tuple(int(i) for i in known(x).reshape(-1))


def number(x: Value) -> Any:
    """The one element of a tensor, as a Python number."""
    array = known(x)
    if array.size != 1:
        raise Refused(f"it takes one value, and the tensor has sizes {array.shape}", INVALID)
    return array.reshape(-1)[0].item()


def reshape(x: Value, sizes: Sequence[int]) -> Value:
    """The same elements in order with other sizes."""
    if math.prod(sizes) != math.prod(x.shape):
        raise Refused(f"sizes {tuple(x.shape)} cannot become {tuple(sizes)}", INVALID)
    return x if tuple(sizes) == tuple(x.shape) else x.reshape(tuple(sizes))


def transpose(x: Value, axes: Sequence[int]) -> Value:
    """The dimensions in another order."""
    return x.transpose(tuple(axes))


def expand(x: Value, sizes: Sequence[int]) -> Value:
    """The tensor broadcast to sizes, as NumPy does."""
    try:
        return x.broadcast_to(tuple(sizes)) if isinstance(x, GraphTensor) else np.broadcast_to(x, tuple(sizes))
    except ValueError:
        raise Refused(f"sizes {tuple(x.shape)} do not broadcast to {tuple(sizes)}", INVALID) from None


def axis_of(axis: int, rank: int) -> int:
    """An axis counted from the first one; Refused outside of the dimensions."""
    if not -rank <= axis < max(rank, 1):
        raise Refused(f"axis {axis} is outside of {rank} dimensions", INVALID)
    return axis % rank if rank else 0


def axes_of(axes: Sequence[int], rank: int) -> list[int]:
    """Axes counted from the first one; Refused outside of the dimensions, and if one is named twice."""
    found = [axis_of(a, rank) for a in axes]
    if len({*found}) < len(found):
        raise Refused(f"axes {tuple(axes)} name a dimension twice", INVALID)
    return found


def padded(x: Value, rank: int) -> Value:
    """The tensor with leading sizes of 1, up to a rank."""
    return reshape(x, (1,) * (rank - x.ndim) + tuple(x.shape)) if x.ndim < rank else x


def fits(sizes: Sequence[int]) -> None:
    """Raise Refused for sizes that a constant cannot have."""
    if min(sizes, default=0) < 0:
        raise Refused(f"{tuple(sizes)} are not sizes", INVALID)
    if math.prod(sizes) > MOST:
        raise Refused(f"it makes {math.prod(sizes)} elements, and at most {MOST} are supported", INVALID)


def converted(x: Value, dtype: np.dtype[Any]) -> Value:
    """The tensor with elements of another type; itself if it has that type."""
    return x if x.dtype == dtype else dml.cast(x, output_data_type=dtype)


def part(x: Value, slices: Sequence[slice]) -> Value:
    """The elements of x[slices], which may be fewer than the dimensions."""
    slices = [*slices, *[slice(None)] * (x.ndim - len(slices))]
    if isinstance(x, np.ndarray):
        return x[tuple(slices)]
    ranges = [range(*s.indices(size)) for s, size in zip(slices, x.shape, strict=True)]
    if any(len(r) == 0 for r in ranges):
        return np.empty([len(r) for r in ranges], x.dtype)
    if all(r == range(size) for r, size in zip(ranges, x.shape, strict=True)):
        return x
    lowest, highest = [min(r[0], r[-1]) for r in ranges], [max(r[0], r[-1]) for r in ranges]
    sizes = [high - low + 1 for low, high in zip(lowest, highest, strict=True)]
    return slice1(x, lowest, sizes, [r.step if len(r) > 1 else 1 for r in ranges])


def gathered(x: Value, indices: Value, axis: int = 0) -> Value:
    """The parts of a tensor along an axis, at indices of any sizes."""
    sizes = (*x.shape[:axis], *indices.shape, *x.shape[axis + 1 :])
    if isinstance(x, np.ndarray) and isinstance(indices, np.ndarray):
        return np.take(x, within(indices, x.shape[axis]), axis)
    rank = max(x.ndim, len(sizes), 1)
    data, places = padded(x, rank), padded(indices, rank)
    found = dml.gather(data, places, axis=axis + rank - x.ndim, index_dimensions=indices.ndim)
    return reshape(found, sizes)


def within(indices: Any, size: int) -> Any:
    """The indices; Refused if one is outside of the elements."""
    if indices.size and not (-size <= indices.min() and indices.max() < size):
        raise Refused(f"an index is outside of {size} elements", INVALID)
    return indices


def by_name(given: Any, what: str = "a model takes inputs") -> Mapping[str, Any]:
    """The given arrays by name; TypeError for a single array or a list."""
    if not isinstance(given, Mapping):
        raise TypeError(f"{what} by name, a dict such as {{'x': array}}, not {type(given).__name__}")
    return given
