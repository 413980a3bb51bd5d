"""The binding's tensors: descs whose layouts follow from a policy, and data that is always float32."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from anydml import tensor
from anydml.tensor import DataType, TensorFlags, integers, packed_strides

if TYPE_CHECKING:
    from anydml.pydirectml.expressions import Expression


class Dimensions(list[int]):
    """Sizes or strides, in elements."""


class TensorProperties(NamedTuple):
    """The layout that a policy gives a tensor: strides in elements, None if packed, and the total size in bytes."""

    strides: Sequence[int] | None
    total_tensor_size_in_bytes: int
    guaranteed_base_offset_alignment: int = 0


Layout = Callable[[DataType, TensorFlags, Sequence[int]], TensorProperties]


def _packed(data_type: DataType, flags: TensorFlags, sizes: Sequence[int]) -> TensorProperties:
    return TensorProperties(None, tensor.TensorDesc(data_type, sizes).total)


def _interleaved(data_type: DataType, flags: TensorFlags, sizes: Sequence[int]) -> TensorProperties:
    """Channels last: an NCHW tensor is stored as NHWC."""
    strides = list(sizes)
    if len(sizes) > 1:
        order = (0, *range(2, len(sizes)), 1)
        for dimension, stride in zip(order, packed_strides(tuple(sizes[d] for d in order)), strict=True):
            strides[dimension] = stride
    else:
        strides = [1] * len(sizes)
    return TensorProperties(strides, tensor.TensorDesc(data_type, sizes, strides=strides).total)


class TensorPolicy:
    """The layout of operators' outputs, as a function of data type, flags and sizes.

    default: packed. interleaved_channel: channels last.
    """

    default: ClassVar[TensorPolicy]
    interleaved_channel: ClassVar[TensorPolicy]

    def __init__(self, layout: Layout = _packed) -> None:
        self.get = layout


TensorPolicy.default = TensorPolicy()
TensorPolicy.interleaved_channel = TensorPolicy(_interleaved)


class TensorDesc:
    """The data type, flags, sizes and layout of a tensor.

    The arguments are (data_type, sizes), optionally followed by a TensorPolicy or strides; or (data_type, flags, sizes),
    optionally followed by a TensorPolicy, or by strides, the total size in bytes and the alignment. Strides are in elements;
    None means packed. TypeError for other arguments.
    """

    def __init__(self, data_type: Any, *args: Any, **named: Any) -> None:
        flagged = "flags" in named or (bool(args) and isinstance(args[0], TensorFlags))
        names = ["flags", "sizes"] if flagged else ["sizes"]
        policy = "tensor_policy" in named or (len(args) > len(names) and isinstance(args[len(names)], TensorPolicy))
        if policy:
            names += ["tensor_policy"]
        elif flagged:
            names += ["strides", "total_tensor_size_in_bytes", "guaranteed_base_offset_alignment"]
        else:
            names += ["strides"]
        given = dict(zip(names, args, strict=False)) | named
        if len(args) > len(names) or set(named) - set(names) or len(given) < len(args) + len(named) or "sizes" not in given:
            raise TypeError(
                "TensorDesc takes (data_type, sizes[, tensor_policy or strides]) or (data_type, flags, sizes[, tensor_policy]) "
                "or (data_type, flags, sizes, strides, total_tensor_size_in_bytes, guaranteed_base_offset_alignment)"
            )
        self.data_type = DataType(data_type)
        self.flags = TensorFlags(given.get("flags", TensorFlags.NONE))
        self.sizes = Dimensions(integers(given["sizes"], "sizes"))
        if policy:
            layout = given["tensor_policy"].get(self.data_type, self.flags, self.sizes)
        else:
            strides = given.get("strides")
            layout = TensorProperties(
                strides,
                given.get("total_tensor_size_in_bytes", 0)
                or tensor.TensorDesc(self.data_type, self.sizes, strides=strides).total,
                given.get("guaranteed_base_offset_alignment", 0),
            )
        self.strides = None if layout.strides is None else Dimensions(integers(layout.strides, "strides"))
        self.total_tensor_size_in_bytes = layout.total_tensor_size_in_bytes
        self.guaranteed_base_offset_alignment = layout.guaranteed_base_offset_alignment

    def __repr__(self) -> str:
        sizes = ",".join(map(str, self.sizes))
        return f"dml.TensorDesc of type {int(self.data_type)} and shape [{sizes}] with flags {int(self.flags)}"

    @property
    def desc(self) -> tensor.TensorDesc:
        """The same tensor as a desc of anydml."""
        return tensor.TensorDesc(
            self.data_type,
            self.sizes,
            strides=self.strides,
            flags=self.flags,
            total_tensor_size_in_bytes=self.total_tensor_size_in_bytes,
            guaranteed_base_offset_alignment=self.guaranteed_base_offset_alignment,
        )


class TensorData(np.ndarray[Any, np.dtype[Any]]):
    """The data of a tensor: an array; other data are copied as float32."""

    def __new__(cls, data: ArrayLike) -> TensorData:
        return np.array(data, np.float32, order="C").view(cls)


class Binding:
    """Data for an input, cast to float32 and copied. The shape is ignored: the bytes are those of the tensor in its layout.

    A tensor of another data type reads the bytes of the float32 numbers: give it `array.view(numpy.float32)`.
    ValueError if the tensor has another number of bytes, or if the expression is not an input.
    """

    def __init__(self, expr: Expression, data: ArrayLike) -> None:
        self.index = expr.input_index
        self.desc = expr.get_output_desc()
        self.data = TensorData(data)
        wanted = self.desc.total_tensor_size_in_bytes
        if self.data.nbytes != wanted:
            raise ValueError(
                f"the data has {self.data.size} elements, {self.data.nbytes} bytes of float32, and the tensor of sizes "
                f"{list(self.desc.sizes)} and type {self.desc.data_type} has {wanted} bytes"
            )

    @property
    def bytes(self) -> NDArray[np.uint8]:
        """The data as `bind` takes it: one-dimensional, in bytes."""
        return np.asarray(self.data).reshape(-1).view(np.uint8)


def read_back(desc: TensorDesc, data: NDArray[np.uint8]) -> TensorData:
    """The elements of an output, as float32 for any data type of 4 bytes, as in the binding; other widths keep their type."""
    dtype = np.dtype(np.float32) if desc.data_type.element_bits == 32 else desc.data_type.dtype
    strides = desc.desc.explicit_strides
    elements = np.ndarray(tuple(desc.sizes), dtype, data, strides=tuple(s * dtype.itemsize for s in strides))
    found: TensorData = elements.view(TensorData)
    return found
