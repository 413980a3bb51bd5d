"""DML_BUFFER_TENSOR_DESC: the description of a tensor, in unbounded integers. It converts values and checks no rules."""

from __future__ import annotations

import enum
import math
import operator
from collections.abc import Iterable
from dataclasses import KW_ONLY, dataclass
from typing import TYPE_CHECKING, Any, SupportsIndex, TypeVar

import numpy as np
from numpy.typing import DTypeLike, NDArray

from anydml.suggestions import MEMBERS

Enumeration = TypeVar("Enumeration", bound=enum.IntEnum)


class DataType(enum.IntEnum):
    """DML_TENSOR_DATA_TYPE with its wire values; those from 256 on are this project's (`FeatureLevel.EXTENDED`)."""

    UNKNOWN = 0
    FLOAT32 = 1
    FLOAT16 = 2
    UINT32 = 3
    UINT16 = 4
    UINT8 = 5
    INT32 = 6
    INT16 = 7
    INT8 = 8
    FLOAT64 = 9
    UINT64 = 10
    INT64 = 11
    UINT4 = 12
    INT4 = 13
    BFLOAT16 = 256
    FLOAT8_E4M3FN = 257
    FLOAT8_E5M2 = 258
    FLOAT8_E4M3FNUZ = 259
    FLOAT8_E5M2FNUZ = 260

    def __str__(self) -> str:
        return self.name

    @property
    def element_bits(self) -> int:
        """Bits of one element: 4 to 64; 0 for UNKNOWN."""
        return _ELEMENT_BITS[self]

    @property
    def dtype(self) -> np.dtype[Any]:
        """NumPy's dtype, for types of `EXTENSIONS` that of their bits; TypeError for UNKNOWN and the 4-bit types."""
        if (dtype := _DTYPES.get(self)) is None:
            raise TypeError(f"NumPy has no dtype for {self.name}")
        return dtype

    @property
    def unpacked_dtype(self) -> np.dtype[Any]:
        """NumPy's dtype of an array with one element in each item: `dtype`, and int8 or uint8 for the 4-bit types."""
        return _UNPACKED.get(self) or self.dtype

    @property
    def is_float(self) -> bool:
        return self in _FLOATS

    @property
    def is_integer(self) -> bool:
        """Whether the elements are integers of 8 bits or more."""
        return not self.is_float and self.element_bits >= 8

    @classmethod
    def of(cls, dtype: np.dtype[Any]) -> DataType:
        """The data type of NumPy's native dtypes, and of ml_dtypes' in `FOUR_BIT` and `EXTENSIONS`; TypeError for others."""
        if (data_type := DATA_TYPES.get(dtype) or of_ml_dtypes(dtype)) is None:
            raise TypeError(f"DirectML has no data type for {dtype!r} (native byte order is required)")
        return data_type


EIGHT_BIT_FLOATS = (DataType.FLOAT8_E4M3FN, DataType.FLOAT8_E5M2, DataType.FLOAT8_E4M3FNUZ, DataType.FLOAT8_E5M2FNUZ)
# types of floats that NumPy lacks, with the dtype of their bits
_BITS = {DataType.BFLOAT16: np.dtype(np.uint16)} | {t: np.dtype(np.uint8) for t in EIGHT_BIT_FLOATS}
_DTYPES: dict[DataType, np.dtype[Any]] = {
    t: np.dtype(t.name.lower()) for t in DataType if t not in (DataType.UNKNOWN, DataType.UINT4, DataType.INT4, *_BITS)
}
_FLOATS = {t for t, dtype in _DTYPES.items() if dtype.kind == "f"} | {*_BITS}
DATA_TYPES = {dtype: t for t, dtype in _DTYPES.items()}
_NUMPY_NAMES = {name: t for t, dtype in _DTYPES.items() for name in (dtype.name, dtype.str, dtype.str[1:])}  # int8, |i1, i1
_DTYPES |= _BITS
_UNPACKED = {DataType.UINT4: np.dtype(np.uint8), DataType.INT4: np.dtype(np.int8)}
FOUR_BIT = {t.name.lower(): t for t in _UNPACKED}  # names of ml_dtypes' types, with an element in each byte
EXTENSIONS = {t.name.lower(): t for t in _BITS}  # names of ml_dtypes' types
_NUMPY_NAMES |= FOUR_BIT | EXTENSIONS
_ELEMENT_BITS = {t: 8 * dtype.itemsize for t, dtype in _DTYPES.items()} | {
    DataType.UNKNOWN: 0,
    DataType.UINT4: 4,
    DataType.INT4: 4,
}


def of_ml_dtypes(dtype: np.dtype[Any]) -> DataType | None:
    """The data type of a dtype of ml_dtypes that `FOUR_BIT` or `EXTENSIONS` names; None for any other dtype."""
    return FOUR_BIT.get(dtype.name) or EXTENSIONS.get(dtype.name) if dtype.kind in "Vf" else None


def four_bit(dtype: np.dtype[Any]) -> DataType | None:
    """The data type of ml_dtypes' int4 or uint4; None for any other dtype."""
    return FOUR_BIT.get(dtype.name) if dtype.kind == "V" else None


class TensorFlags(enum.IntFlag):
    """DML_TENSOR_FLAGS. OWNED_BY_DML: bound once, at initialize, and copied then."""

    NONE = 0
    OWNED_BY_DML = 1


def integer(value: Any, name: str) -> int:
    """`value` as an unbounded int; TypeError naming the field if it is not an integer."""
    try:
        return operator.index(value)
    except TypeError:
        raise TypeError(f"{name} takes an integer, not {value!r}") from None


def integers(values: Any, name: str) -> tuple[int, ...]:
    """`values` as a tuple of unbounded ints; TypeError naming the field if it is not a sequence of integers."""
    try:
        return tuple(map(operator.index, values))
    except TypeError:
        raise TypeError(f"{name} takes a sequence of integers, not {values!r}") from None


def member(enumeration: type[Enumeration], value: Any, prefix: str) -> Enumeration:
    """A member of an enumeration from itself, its wire value, its wire name or that name's suffix, in lower case too."""
    if isinstance(value, str):
        try:
            return enumeration[value.removeprefix(prefix)]
        except KeyError:
            name, names = value.removeprefix(prefix), enumeration.__members__
            if name.islower() and name.upper() in names:
                return enumeration[name.upper()]
            near = MEMBERS.get(name.upper())
            meant = f"did you mean {near}? The names" if near in names else "the names"
            raise ValueError(f"there is no {prefix}{name}; {meant} are {', '.join(names)}") from None
    return enumeration(integer(value, enumeration.__name__))


def limits(data_type: DataType) -> tuple[int, int]:
    """The smallest and the largest number of an integer type."""
    bits, signed = data_type.element_bits, data_type.name.startswith("INT")
    return (-(1 << bits - 1), (1 << bits - 1) - 1) if signed else (0, (1 << bits) - 1)


def as_data_type(value: Any) -> DataType:
    """A data type from itself, its wire value or name, or NumPy's name, type or dtype; TypeError or ValueError otherwise."""
    if isinstance(value, str):
        return _NUMPY_NAMES.get(value) or member(DataType, value, "DML_TENSOR_DATA_TYPE_")
    if isinstance(value, (type, np.dtype)):
        return DataType.of(np.dtype(value))
    return member(DataType, value, "")


def packed_strides(sizes: tuple[int, ...]) -> tuple[int, ...]:
    """Row-major strides in elements: the last dimension's is 1."""
    strides, step = [], 1
    for size in reversed(sizes):
        strides.append(step)
        step *= size
    return tuple(reversed(strides))


def _flags(value: Any) -> TensorFlags:
    names = [value] if isinstance(value, str) else value
    if isinstance(names, Iterable):
        bits = 0
        for name in names:
            try:
                bits |= TensorFlags[name.removeprefix("DML_TENSOR_FLAG_")]
            except (KeyError, AttributeError):
                raise ValueError(f"there is no tensor flag {name!r}; the flags are NONE, OWNED_BY_DML") from None
        return TensorFlags(bits)
    bits = integer(value, "flags")
    if bits & ~1:
        raise ValueError(f"there are no tensor flags {bits:#x}; the flags are NONE (0), OWNED_BY_DML (1)")
    return TensorFlags(bits)


@dataclass(frozen=True)
class TensorDesc:
    """DML_BUFFER_TENSOR_DESC. Strides are in elements; None means packed, row-major; a stride of 0 broadcasts.

    A total of 0 stands for the smallest legal one. Construction converts (sequences, NumPy integers, enumeration names,
    NumPy's dtypes and their names) and raises TypeError or ValueError for other values; `check` applies the rules.
    Source: ns-directml-dml_buffer_tensor_desc.
    """

    data_type: DataType
    sizes: tuple[int, ...]
    _: KW_ONLY
    strides: tuple[int, ...] | None = None
    flags: TensorFlags = TensorFlags.NONE
    total_tensor_size_in_bytes: int = 0
    guaranteed_base_offset_alignment: int = 0

    if TYPE_CHECKING:  # the types that construction converts; at run time the dataclass makes this method

        def __init__(
            self,
            data_type: DataType | DTypeLike | int,
            sizes: Iterable[SupportsIndex],
            *,
            strides: Iterable[SupportsIndex] | None = None,
            flags: TensorFlags | str | int | Iterable[str] = TensorFlags.NONE,
            total_tensor_size_in_bytes: SupportsIndex = 0,
            guaranteed_base_offset_alignment: SupportsIndex = 0,
        ) -> None: ...

    def __post_init__(self) -> None:
        def put(name: str, value: Any) -> None:  # the class is frozen, and conversion is part of construction
            object.__setattr__(self, name, value)

        if type(self.data_type) is not DataType:
            put("data_type", as_data_type(self.data_type))
        put("sizes", integers(self.sizes, "sizes"))
        if self.strides is not None:
            put("strides", integers(self.strides, "strides"))
        if type(self.flags) is not TensorFlags:
            put("flags", _flags(self.flags))
        for name in ("total_tensor_size_in_bytes", "guaranteed_base_offset_alignment"):
            if type(getattr(self, name)) is not int:
                put(name, integer(getattr(self, name), name))

    def __repr__(self) -> str:
        """The call that makes this desc, without default arguments: `TensorDesc('FLOAT32', (2, 3), strides=(4, 1))`."""
        said = [repr(self.data_type.name), repr(self.sizes)]
        if self.strides is not None:
            said.append(f"strides={self.strides}")
        if self.flags:
            said.append(f"flags={self.flags.name!r}")
        rest = {name: getattr(self, name) for name in ("total_tensor_size_in_bytes", "guaranteed_base_offset_alignment")}
        said += [f"{name}={value}" for name, value in rest.items() if value]
        return f"TensorDesc({', '.join(said)})"

    @property
    def dimension_count(self) -> int:
        """The number of sizes."""
        return len(self.sizes)

    @property
    def explicit_strides(self) -> tuple[int, ...]:
        """The strides as given, or the packed ones."""
        return packed_strides(self.sizes) if self.strides is None else self.strides

    def spelled_out(self) -> TensorDesc:
        """The same desc with explicit strides and total."""
        made = object.__new__(TensorDesc)  # there is nothing to convert
        strides, total = self.explicit_strides, self.total
        made.__dict__.update(self.__dict__, strides=strides, total_tensor_size_in_bytes=total)
        return made

    @property
    def span(self) -> int:
        """The number of elements from the first to the last in memory: 1 + sum((size - 1) * stride)."""
        if self.strides is None:
            return math.prod(self.sizes)
        return 1 + sum([(n - 1) * s for n, s in zip(self.sizes, self.strides, strict=True)])

    @property
    def element_bytes(self) -> int:
        """The bytes from the first element to the last, without padding."""
        return (self.span * self.data_type.element_bits + 7) // 8

    @property
    def smallest_total(self) -> int:
        """The smallest legal TotalTensorSizeInBytes: `element_bytes` rounded up to 4."""
        return (self.element_bytes + 3) // 4 * 4

    @property
    def total(self) -> int:
        """TotalTensorSizeInBytes as given, or the smallest legal one."""
        return self.total_tensor_size_in_bytes or self.smallest_total

    @classmethod
    def of(cls, array: NDArray[Any], *, flags: TensorFlags = TensorFlags.NONE) -> TensorDesc:
        """The desc of an array's layout: its shape, and its strides where they are not packed.

        TypeError for a dtype that DirectML lacks; ValueError for a byte stride that is negative or not a multiple of the
        element size, which a desc cannot express. The stride of a dimension of size 1 has no effect and becomes the packed one.
        """
        return cls.of_layout(array.shape, array.strides, array.dtype, flags=flags)

    @classmethod
    def of_layout(
        cls,
        shape: tuple[int, ...],
        byte_strides: tuple[int, ...],
        dtype: np.dtype[Any],
        *,
        flags: TensorFlags = TensorFlags.NONE,
    ) -> TensorDesc:
        """The desc of an array of this shape, byte strides and dtype: `of`, without the array."""
        data_type, itemsize = DataType.of(dtype), dtype.itemsize
        strides = []
        packed = packed_strides(shape)
        for size, stride, otherwise in zip(shape, byte_strides, packed, strict=True):
            if size > 1 and (stride < 0 or stride % itemsize):
                raise ValueError(f"a desc cannot express a stride of {stride} bytes between elements of {itemsize} bytes")
            strides.append(otherwise if size <= 1 else stride // itemsize)
        return cls(data_type, shape, strides=None if tuple(strides) == packed else tuple(strides), flags=flags)
