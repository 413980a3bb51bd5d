"""A program as plain data. It knows no device and opens no file; `pointer` is always a place in the JSON."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from numpy.typing import NDArray

from anydml.schema.operator import Desc
from anydml.tensor import DataType


@dataclass(frozen=True, eq=False)
class Given:
    """Values that are there: one-dimensional, of the resource's type; uint8 where it has none."""

    data: NDArray[Any]


@dataclass(frozen=True, eq=False)
class Constant:
    """`count` times the one element of `value`."""

    value: NDArray[Any]
    count: int


@dataclass(frozen=True, eq=False)
class Sequence:
    """`start`, and `delta` added again and again in the element type; both have one element."""

    start: NDArray[Any]
    delta: NDArray[Any]
    count: int


@dataclass(frozen=True)
class FromFile:
    """A .npy file, an image brought to `resample_size` {1, C, H, W}, or raw bytes."""

    source: str
    resample_size: tuple[int, ...]


Values = Given | Constant | Sequence | FromFile


@dataclass(frozen=True)
class Resource:
    """A buffer. data_type: UNKNOWN where the file or nobody says. size, offset: bytes; size None where it is left out."""

    name: str
    pointer: str
    data_type: DataType
    values: Values
    size: int | None
    offset: int


@dataclass(frozen=True)
class Binding:
    """A resource from an element on; element_size None stands for that of the resource's type."""

    pointer: str
    resource: str
    element_offset: int = 0
    element_size: int | None = None


@dataclass(frozen=True)
class Dispatchable:
    """An operator. bindings: what initialize takes. places: wire path of each field that is written -> its pointer."""

    name: str
    pointer: str
    desc: Desc
    bindings: Mapping[str, tuple[Binding, ...]]
    places: Mapping[str, str]


@dataclass(frozen=True)
class Dispatch:
    pointer: str
    dispatchable: str
    bindings: Mapping[str, tuple[Binding, ...]]


@dataclass(frozen=True)
class Print:
    pointer: str
    resource: str
    verbose: bool


@dataclass(frozen=True)
class WriteFile:
    """dimensions: the shape of a .npy file or of an image; None where it is left out."""

    pointer: str
    resource: str
    target: str
    dimensions: tuple[int, ...] | None


Command = Dispatch | Print | WriteFile
