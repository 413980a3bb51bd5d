"""The memory of eager calls: layouts that descs can express, copies of others, and new outputs."""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from anydml import operators
from anydml.devices.binding import WRAP, as_array, refused_by_name
from anydml.devices.memory import memory_bytes
from anydml.errors import BindingError, Fault
from anydml.int4_tensors import array_dtype
from anydml.schema.operator import Desc
from anydml.tensor import TensorDesc, packed_strides

Signature = tuple[tuple[int, ...], tuple[int, ...], np.dtype[Any]]
HUGE = 2 << 20  # bytes of a huge page, which NumPy requests for arrays of 4 MB or more


def fail(name: str, message: str) -> BindingError:
    """The error about an argument: its name followed by `message`."""
    return BindingError([Fault(name, f"{name} {message}")])


def tensor(name: str, value: Any, takes: str = "an array") -> NDArray[Any]:
    """An argument as an array of at least one element and one dimension; BindingError for other values."""
    if not (isinstance(value, np.ndarray) or hasattr(value, "__dlpack__")) or isinstance(value, np.generic):
        wrap = f": {WRAP}" if isinstance(value, (list, tuple)) else ""
        raise fail(name, f"takes {takes}, not {type(value).__name__}{wrap}")
    array = as_array(value)
    if isinstance(array, str):
        raise fail(name, array)
    if (reason := refused_by_name(array)) is not None:
        raise fail(name, reason)
    if array.ndim == 0:
        raise fail(name, "has no dimensions, and a tensor has 1 to 8")
    if array.size == 0:
        raise fail(name, f"has shape {array.shape}, and no dimension of a tensor is empty")
    return array


def signature(array: NDArray[Any]) -> Signature:
    return array.shape, array.strides, array.dtype


def unspellable(array: NDArray[Any]) -> bool:
    """Whether no desc can express the array's layout: a stride is negative, or not a multiple of the element size."""
    return not array.flags.c_contiguous and unspellable_layout(signature(array))


def unspellable_layout(layout: Signature) -> bool:
    """`unspellable` of an array with this layout."""
    shape, strides, dtype = layout
    return any(n > 1 and (s < 0 or s % dtype.itemsize) for n, s in zip(shape, strides, strict=True))


def packed(layout: Signature) -> Signature:
    """The layout of a packed copy."""
    shape, _, dtype = layout
    return shape, tuple(stride * dtype.itemsize for stride in packed_strides(shape)), dtype


def output_desc(packed: TensorDesc, out: Signature | None) -> TensorDesc:
    """The desc of the output, with the layout of `out` if it has the result's shape and type, else packed."""
    if out is None or out[1] is None or out[0] != packed.sizes or out[2] != array_dtype(packed.data_type):
        return packed
    return TensorDesc.of_layout(*out)


def contiguous(array: NDArray[Any]) -> NDArray[Any]:
    """A packed copy of an array whose layout no desc can express; MemoryError if it does not fit in memory."""
    if array.nbytes > memory_bytes():
        raise MemoryError(f"a copy of shape {array.shape} takes {array.nbytes} bytes, and this machine has {memory_bytes()}")
    return np.ascontiguousarray(array)


@lru_cache(maxsize=1024)
def operator_of(name: str) -> type[Desc]:
    """The desc class of an operator, by its name without DML_OPERATOR_."""
    found = operators.find(name)
    assert found is not None, name
    return found


def allocate(sizes: tuple[int, ...], dtype: np.dtype[Any], scratch: int) -> NDArray[Any]:
    """A new output; MemoryError if the machine has no memory for it and for `scratch` bytes of scratch."""
    needed = math.prod(sizes, start=dtype.itemsize)
    if needed + scratch > memory_bytes():
        beside = f" beside {scratch} bytes of scratch" if scratch else ""
        raise MemoryError(f"an output of sizes {sizes} takes {needed} bytes{beside}, and this machine has {memory_bytes()}")
    result = np.empty(sizes, dtype)
    if needed >= 2 * HUGE:
        _take_pages(result)
    return result


def _take_pages(array: NDArray[Any]) -> None:
    """Write the last byte of each huge page of new memory.

    Linux fills a page with zeros at the first write, and begins with the bytes farthest from the byte written. A copy writes
    the first byte first, so that huge pages would be filled backwards, which takes more than twice as long as forwards. With
    this, a copy of 64 MB is 1.5 times as fast. On other systems it costs nothing.
    """
    memory = array.reshape(-1).view(np.uint8)
    memory[(-1 - memory.ctypes.data) % HUGE :: HUGE] = 0
