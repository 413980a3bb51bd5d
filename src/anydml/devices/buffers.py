"""Buffers: arrays in an OpenCL device's memory, which are bound in place of arrays."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from weakref import WeakValueDictionary

import numpy as np
from numpy.typing import NDArray

from anydml import fork_safety
from anydml.errors import UnsupportedError
from anydml.kernels.call.address import address_of
from anydml.kernels.kernel import DeviceMemory

if TYPE_CHECKING:
    from anydml.kernels.opencl.platform import Opened

_held: WeakValueDictionary[int, Buffer] = WeakValueDictionary()  # by the address of their place


class Buffer:
    """An array in a device's memory, made by `Device.buffer`. The memory is freed with the last reference.

    shape, dtype, nbytes: of the array, which is contiguous. `bind` takes it in place of such an array; `numpy()` is a copy of
    its elements, and `write` replaces them.
    """

    def __init__(self, opened: Opened, shape: tuple[int, ...], dtype: np.dtype[Any]) -> None:
        self._opened = opened
        # addresses that stand for the device's bytes where arrays are checked and views are made of them; never written, so
        # that a system that gives memory at the first write gives none
        self.place: NDArray[Any] = np.empty(shape, dtype)
        self._data = opened.allocate(self.place.nbytes)
        if self.place.nbytes:
            _held[address_of(self.place)] = self

    @property
    def shape(self) -> tuple[int, ...]:
        return self.place.shape

    @property
    def dtype(self) -> np.dtype[Any]:
        return self.place.dtype

    @property
    def nbytes(self) -> int:
        return self.place.nbytes

    @property
    def opened(self) -> Opened:
        """The device. UnsupportedError in a child of a fork, where the parent's memory does not exist."""
        if self._opened.generation != fork_safety.generation():
            raise UnsupportedError(
                "the process that was forked had opened an OpenCL device, and its buffers do not exist in a child"
            )
        return self._opened

    @property
    def data(self) -> Any:
        """The memory as an object of pyopencl."""
        self.opened  # noqa: B018  # raises in a child
        return self._data

    def __repr__(self) -> str:
        return f"<Buffer of {self.dtype}, shape {self.shape}, on {self._opened.found.title}>"

    def __reduce__(self) -> str:
        raise TypeError("a buffer is in a device's memory: pickle `numpy()`")

    def numpy(self) -> NDArray[Any]:
        """A copy of the elements."""
        found = np.empty(self.shape, self.dtype)
        self.opened.read(self.data, found)
        return found

    def fetch(self) -> None:
        """Copy the elements to `place`, for code of this machine that reads them there."""
        self.opened.read(self.data, self.place)

    def write(self, array: NDArray[Any]) -> None:
        """Replace the elements by those of an array. ValueError if its shape or dtype differs."""
        if array.shape != self.shape or array.dtype != self.dtype:
            raise ValueError(
                f"the array is {array.dtype}, shape {array.shape}, and the buffer {self.dtype}, shape {self.shape}"
            )
        self.opened.write(self.data, np.ascontiguousarray(array))


def holding(array: NDArray[Any]) -> tuple[Buffer, DeviceMemory] | None:
    """The buffer whose place an array lies in, and its memory; None for an array of this machine's memory."""
    begin = address_of(array)
    for start, buffer in [*_held.items()]:
        if start <= begin < start + buffer.nbytes:
            return buffer, DeviceMemory(buffer.data, begin - start)
    return None
