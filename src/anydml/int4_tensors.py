"""Tensors of 4-bit elements, two in each byte, the first in the low half: converted to one element per item, and back."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from anydml.fork_safety import guard
from anydml.tensor import EXTENSIONS, FOUR_BIT, DataType

if TYPE_CHECKING:
    from anydml.tensor import TensorDesc

Bytes = NDArray[np.uint8]
_OF_ML_DTYPES = {*FOUR_BIT.values(), *EXTENSIONS.values()}


def unpacked(memory: Bytes, t: TensorDesc) -> NDArray[Any]:
    """The elements in a tensor's bytes, as an int8 or uint8 array of its sizes."""
    halves = np.empty(2 * memory.size, np.uint8)
    halves[::2], halves[1::2] = memory & 15, memory >> 4
    if t.data_type == DataType.INT4:
        halves[halves > 7] |= 0xF0
    strides = [s if n > 1 else 0 for n, s in zip(t.sizes, t.explicit_strides, strict=True)]
    elements: NDArray[Any] = np.ndarray(t.sizes, t.data_type.unpacked_dtype, halves.data, strides=strides)
    return elements


def pack(elements: NDArray[Any]) -> Bytes:
    """The bytes of a packed tensor of these elements, integers of any type; an unused last half byte is 0."""
    halves = np.zeros(-(-elements.size // 2) * 2, np.uint8)
    halves[: elements.size] = elements.astype(np.int8, copy=False).reshape(-1).view(np.uint8) & 15
    packed: Bytes = halves[::2] | halves[1::2] << np.uint8(4)
    return packed


def array_dtype(data_type: DataType) -> np.dtype[Any]:
    """The dtype of arrays of a data type: NumPy's, or ml_dtypes', in which INT4 and UINT4 have an element in each byte.

    ModuleNotFoundError if ml_dtypes is needed and not installed.
    """
    if data_type not in _OF_ML_DTYPES:
        return data_type.dtype
    with guard:
        import ml_dtypes
    dtype: np.dtype[Any] = np.dtype(getattr(ml_dtypes, data_type.name.lower()))
    return dtype
