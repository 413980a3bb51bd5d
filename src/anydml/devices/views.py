"""Views of arrays as the bytes of tensors, and of bytes as tensors."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from anydml.tensor import TensorDesc


def bytes_of(array: NDArray[Any], tensor: TensorDesc) -> NDArray[Any]:
    """The bytes of an array in tensor form, from its first element to its last."""
    if tensor.data_type.element_bits == 4:
        return array
    span = np.lib.stride_tricks.as_strided(array, (tensor.span,), (array.itemsize,), writeable=array.flags.writeable)
    return span.view(np.uint8)


def laid_over(memory: NDArray[Any], tensor: TensorDesc) -> NDArray[Any]:
    """Memory as an array with a tensor's type and layout; for elements of 4 bits, the bytes themselves."""
    if tensor.data_type.element_bits == 4:
        return memory[: tensor.element_bytes]
    dtype = tensor.data_type.dtype
    strides = [stride * dtype.itemsize for stride in tensor.explicit_strides]
    try:
        view: NDArray[Any] = np.ndarray(tensor.sizes, dtype, memory, strides=strides)
    except ValueError as error:  # with zero strides, there can be more elements than addresses
        raise MemoryError(f"sizes {tensor.sizes} are too large for an array ({error})") from None
    return view
