"""Outputs that lie in an input's place: inputs are copied first, so that undecided elements can still be computed from them."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from anydml.kernels.kernel import DeviceMemory
from anydml.kernels.opencl.platform import Opened
from anydml.tensor import TensorDesc

Span = tuple[DeviceMemory, int]  # with the bytes that a tensor takes
Arrays = Callable[[str], NDArray[Any]]


def overlap(a: Span, b: Span) -> bool:
    """Whether two tensors have bytes in common."""
    (one, n), (two, m) = a, b
    return one.data is two.data and one.offset < two.offset + m and two.offset < one.offset + n


class Copies:
    """Copies of the inputs that outputs overlap, made anew in each call. memory: of all tensors, with the copies instead."""

    number = -1

    def __init__(
        self,
        opened: Opened,
        memory: Mapping[str, DeviceMemory],
        tensors: Mapping[str, TensorDesc],
        outputs: Collection[str],
    ) -> None:
        self._opened, self._tensors = opened, tensors
        self._copied: dict[str, tuple[DeviceMemory, Any]] = {}
        self.memory = dict(memory)
        for name, own in memory.items():
            nbytes = tensors[name].element_bytes
            if name not in outputs and any(overlap((memory[o], tensors[o].element_bytes), (own, nbytes)) for o in outputs):
                copy = opened.allocate(nbytes)
                self._copied[name] = own, copy
                self.memory[name] = DeviceMemory(copy, 0)

    def __bool__(self) -> bool:
        return bool(self._copied)

    def launch(self) -> None:
        for name, (own, copy) in self._copied.items():
            size = self._tensors[name].element_bytes
            self._opened.use.enqueue_copy(self._opened.queue, copy, own.data, byte_count=size, src_offset=own.offset)

    def is_open(self, counts: object) -> bool:
        return False

    def settle(self, arrays: Arrays) -> tuple[int, int]:
        return 0, 0

    def arrays(self, others: Arrays) -> Arrays:
        """The arrays of tensors, those of copied ones from the copies."""

        def found(name: str) -> NDArray[Any]:
            if name not in self._copied:
                return others(name)
            t = self._tensors[name]
            memory = np.empty(t.element_bytes, np.uint8)
            self._opened.read(self._copied[name][1], memory)
            strides = [s * t.data_type.dtype.itemsize for s in t.explicit_strides]
            array: NDArray[Any] = np.ndarray(t.sizes, t.data_type.dtype, memory, strides=strides)
            return array

        return found
