"""A program as plain data, independent of devices and files; `pointer` is always a JSON pointer into the program."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from numpy.typing import NDArray

from anydml.schema.operator import Desc
from anydml.tensor import DataType


@dataclass(frozen=True, eq=False)
class Given:
    """Values given in the program: one-dimensional, of the resource's type; uint8 if it has none."""

    data: NDArray[Any]


@dataclass(frozen=True, eq=False)
class Constant:
    """The one element of `value`, repeated `count` times."""

    value: NDArray[Any]
    count: int


@dataclass(frozen=True, eq=False)
class Sequence:
    """A sequence from `start`, to which `delta` is added repeatedly in the element type; both have one element."""

    start: NDArray[Any]
    delta: NDArray[Any]
    count: int


@dataclass(frozen=True)
class FromFile:
    """A .npy file, an image resampled to `resample_size` {1, C, H, W}, or raw bytes."""

    source: str
    resample_size: tuple[int, ...]


Values = Given | Constant | Sequence | FromFile


@dataclass(frozen=True)
class Resource:
    """A buffer. data_type: UNKNOWN if the program does not give it. size, offset: in bytes; size None if left out."""

    name: str
    pointer: str
    data_type: DataType
    values: Values
    size: int | None
    offset: int


@dataclass(frozen=True)
class Binding:
    """A resource from an element on; element_size None means that of the resource's type."""

    pointer: str
    resource: str
    element_offset: int = 0
    element_size: int | None = None


@dataclass(frozen=True)
class Dispatchable:
    """An operator. bindings: the arguments of initialize. places: wire path of each given field -> its pointer."""

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
    """A command that writes a file. dimensions: the shape of a .npy file or of an image; None if left out."""

    pointer: str
    resource: str
    target: str
    dimensions: tuple[int, ...] | None


Command = Dispatch | Print | WriteFile
