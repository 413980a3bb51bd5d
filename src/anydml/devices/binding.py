"""Binding of arrays to tensor descs: whether an array fits, and the view of it that kernels use."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable
from itertools import accumulate
from typing import Any

import numpy as np
from numpy.typing import NDArray

from anydml.errors import Fault
from anydml.tensor import DATA_TYPES, TensorDesc, four_bit, of_ml_dtypes, packed_strides

WRAP = "wrap it in np.array(...)"
SHARING_WORK = 1_000_000  # the most steps of the search for an element that two overlapping arrays share


class Slot:
    """One tensor that arrays are bound to.

    name: the field in snake_case. tensor: its desc with explicit strides and total size. own_total: the total size that the
    caller's desc gives, or 0. writable: whether it is an output.
    """

    def __init__(self, name: str, tensor: TensorDesc, own_total: int, writable: bool) -> None:
        self.name, self.tensor, self.own_total, self.writable = name, tensor, own_total, writable
        self.four_bit = tensor.data_type.element_bits == 4  # bound as bytes, with two elements in each
        self.dtype = np.dtype(np.uint8) if self.four_bit else tensor.data_type.dtype
        self.byte_strides = tuple(stride * self.dtype.itemsize for stride in tensor.explicit_strides)
        self.packed = packed_strides(tensor.sizes) == tensor.explicit_strides

    def view(self, value: Any) -> NDArray[Any] | Fault:
        """The array with the desc's sizes and strides, or the reason why it cannot be bound.

        Elements of 4 bits are given as bytes with two elements in each, the first in the low half. BFLOAT16 are arrays of
        ml_dtypes', or uint16 with their bits.
        """
        array = as_array(value)
        if isinstance(array, str):
            return self._fault(array)
        if (named := refused_by_name(array)) is not None:
            return self._fault(named)
        if array.dtype not in DATA_TYPES and of_ml_dtypes(array.dtype) == self.tensor.data_type:
            array = array.view(self.dtype)  # NumPy reads and writes the bits
        view = array if self._is_tensor_form(array) else self._buffer_form(array)
        if isinstance(view, Fault):
            return view
        if self.writable and not view.flags.writeable:
            return self._fault("is not writable")
        alignment = self.tensor.guaranteed_base_offset_alignment
        if alignment and view.ctypes.data % alignment:
            return self._fault(f"does not begin at a multiple of the {alignment} bytes that the desc guarantees")
        return view

    def _is_tensor_form(self, array: NDArray[Any]) -> bool:
        if array.dtype != self.dtype or array.shape != self.tensor.sizes or self.four_bit:
            return False
        if self.packed and array.flags.c_contiguous:
            return True
        along = zip(self.tensor.sizes, array.strides, self.byte_strides, strict=True)
        return all(have == want for size, have, want in along if size > 1)

    def _buffer_form(self, array: NDArray[Any]) -> NDArray[Any] | Fault:
        if array.ndim != 1 or not array.flags.c_contiguous or array.dtype not in (self.dtype, np.uint8):
            return self._fault(self._neither(array))
        needed = max(self.tensor.element_bytes, self.own_total)
        if array.nbytes < needed:
            return self._fault(f"holds {array.nbytes} bytes where the desc needs {needed}")
        if self.four_bit:
            return array.view(np.uint8)[: self.tensor.element_bytes]
        try:
            view: NDArray[Any] = np.ndarray(self.tensor.sizes, self.dtype, array.view(np.uint8), strides=self.byte_strides)
        except ValueError as error:  # with zero strides, there can be more elements than addresses
            raise MemoryError(f"{self.name}: sizes {self.tensor.sizes} are too large for an array ({error})") from None
        return view

    def _neither(self, array: NDArray[Any]) -> str:
        if self.four_bit:
            return (
                f"is {array.dtype}, shape {array.shape}, where a tensor of {self.tensor.data_type} is bound as a contiguous "
                f"one-dimensional array of uint8, two elements in each byte"
            )
        strides = "a size of" if array.size == 0 else ", ".join(f"{s / array.itemsize:g}" for s in array.strides)
        odd = any(n > 1 and s % array.itemsize for n, s in zip(array.shape, array.strides, strict=True))
        negative = any(n > 1 and s < 0 for n, s in zip(array.shape, array.strides, strict=True))
        hint = ""
        if odd:
            hint = "; a byte stride that is no multiple of the element size cannot be bound"
        elif negative:
            hint = "; a desc has no negative strides"
        return (
            f"is {array.dtype}, shape {array.shape}, strides ({strides}) elements, where the desc has "
            f"{self.tensor.data_type}, sizes {self.tensor.sizes}, strides {self.tensor.explicit_strides}{hint}"
        )

    def _fault(self, message: str) -> Fault:
        return Fault(self.name, message)


def as_array(value: Any) -> NDArray[Any] | str:
    """A plain NumPy array over the memory of an array, a DLPack exporter or a bytes-like object; else the reason why not.

    An instance of a subclass becomes a plain array, so its own arithmetic and indexing are not used.
    """
    if type(value) is np.ndarray:
        return value
    if isinstance(value, np.ndarray):
        return "is a masked array, and a tensor has no mask" if isinstance(value, np.ma.MaskedArray) else np.asarray(value)
    wanted = f"takes an array or a bytes-like object, not {type(value).__name__}"
    if isinstance(value, (list, tuple)):
        return f"{wanted}: {WRAP}"
    if isinstance(value, (np.generic, str)):
        return wanted
    if hasattr(value, "__dlpack__"):
        try:
            return np.from_dlpack(value)
        except Exception as error:  # another library's code may raise any exception
            return f"cannot be had through DLPack: {type(error).__name__}: {error}"
    try:
        buffer = memoryview(value)
    except TypeError:
        return wanted
    return (
        np.frombuffer(buffer, np.uint8)
        if buffer.c_contiguous and buffer.nbytes
        else f"is a {type(value).__name__} without contiguous bytes"
    )


def refused_by_name(array: NDArray[Any]) -> str | None:
    """The reason why an array fits no desc; None if there is none."""
    return refused_dtype(array.dtype)


def refused_dtype(dtype: np.dtype[Any]) -> str | None:
    """The reason why arrays of this dtype fit no desc; None if there is none."""
    if dtype in DATA_TYPES:
        return None
    if four_bit(dtype) is not None:
        return f"is {dtype} with an element in each byte, and a tensor of them is bound as uint8 with two in each"
    if of_ml_dtypes(dtype) is not None:
        return None
    kind = dtype.kind
    if kind in "iuf" and not dtype.isnative:
        return f"is {dtype}, in foreign byte order: give x.astype(np.{dtype.newbyteorder('=')})"
    if kind == "b":
        return "is bool, which DirectML has no data type for: use x.view(np.uint8)"
    if kind in "iufc":
        return f"is {dtype}, which DirectML has no data type for"
    if kind == "V":
        return "is a structured array, and a tensor has elements of one number"
    return f"is {dtype}, and a tensor has numbers"


def share_memory(output: NDArray[Any], input: NDArray[Any]) -> str | None:
    """The words of a message if an output shares memory with an input, or may; None if it does not.

    An output "may share memory with" an input if SHARING_WORK steps did not suffice to find out.
    """
    if not np.may_share_memory(output, input):
        return None
    try:
        shares = np.shares_memory(output, input, max_work=SHARING_WORK)  # type: ignore[arg-type]  # NumPy documents any int here
    except np.exceptions.TooHardError:
        return "may share memory with"
    return "shares memory with" if shares else None


class Near:
    """Arrays sorted by address, to find those that may share memory with one of them without testing all pairs."""

    def __init__(self, arrays: Iterable[NDArray[Any]]) -> None:
        bounds = [np.lib.array_utils.byte_bounds(array) for array in arrays]
        self._bounds = bounds
        self._order = sorted(range(len(bounds)), key=bounds.__getitem__)
        self._begins = [bounds[i][0] for i in self._order]
        self._reach = [*accumulate((bounds[i][1] for i in self._order), max)]  # the highest end up to and including each array

    def to(self, index: int) -> list[int]:
        """The indices of the other arrays whose range of addresses overlaps that of this one."""
        begin, end = self._bounds[index]
        found = []
        for k in range(bisect_left(self._begins, end) - 1, -1, -1):
            if self._reach[k] <= begin:
                break
            if (other := self._order[k]) != index and self._bounds[other][1] > begin:
                found.append(other)
        return sorted(found)


def identical(a: NDArray[Any], b: NDArray[Any]) -> bool:
    """Whether two views are the same elements in the same layout, as in-place execution requires."""
    memory = (a.__array_interface__["data"][0], a.shape, a.dtype)
    strides = zip(a.shape, a.strides, b.strides, strict=False)
    return memory == (b.__array_interface__["data"][0], b.shape, b.dtype) and all(s == t for n, s, t in strides if n > 1)


def owned_copy(view: NDArray[Any]) -> NDArray[Any]:
    """A private copy of a tensor with the original's strides, gaps included: kernels are compiled for the desc's strides."""
    span = 1 + sum((n - 1) * stride for n, stride in zip(view.shape, view.strides, strict=True) if n > 1) // view.itemsize
    memory = np.lib.stride_tricks.as_strided(view, (span,), (view.itemsize,)).copy()
    copy: NDArray[Any] = np.ndarray(view.shape, view.dtype, memory, strides=view.strides)
    return copy
