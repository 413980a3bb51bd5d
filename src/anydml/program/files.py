"""Files that a program names: where they may be, what they contain, and how they are written. Programs are untrusted.

Nothing is unpickled. A file is written in its target's folder and then renamed.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from anydml.devices.memory import memory_bytes
from anydml.tensor import DataType

IMAGES = (".png", ".jpg", ".jpeg")
MOST_DIMENSIONS = 64  # of NumPy's arrays
MOST_PIXELS = 2**26  # of an image that is read, resampled or written: a small file can hold a large image


class Refused(ValueError):
    """A file cannot be read or written; the message says why."""


@dataclass(frozen=True)
class Folders:
    """The folders from which a program's files are read and to which they are written. program: its own file, if it has one.

    Unless `allow_outside`, no file outside of the two folders is used, and the program and its inputs are not overwritten.
    """

    inputs: Path
    outputs: Path
    program: Path
    allow_outside: bool = False

    def source(self, name: str) -> Path:
        """A regular file to read. With `allow_outside`, the current directory is searched, too, as in DxDispatch."""
        path = _inside(self.inputs, name, "the program's folder", self.allow_outside)
        if self.allow_outside and not path.exists():
            path = _inside(Path(), name, "", allow_outside=True)
        if not path.is_file():
            raise Refused(f"{name!r} is not a regular file" if path.exists() else f"there is no file {name!r}")
        return path

    def target(self, name: str, program: set[object], sources: set[object]) -> Path:
        """A file to write; it and its folder need not exist. program, sources: `identities` of files that must not change."""
        path = _inside(self.outputs, name, "the output folder", self.allow_outside)
        if not name or path.is_dir():
            raise Refused(f"{name!r} is a folder")
        if self.allow_outside:
            return path
        if any(part.startswith(".") for part in path.relative_to(self.outputs.resolve()).parts):
            raise Refused(f"{name!r} has a part that begins with a dot, as names of settings do")
        known_by = identities([path])
        if known_by & program:
            raise Refused(f"{name!r} is the program itself")
        if known_by & sources:
            raise Refused(f"{name!r} is a file that the program reads")
        return path


def identities(paths: Iterable[Path]) -> set[object]:
    """The identities of files: their absolute names, and for existing files the numbers that the system gives them."""
    known: set[object] = set()
    for path in paths:
        with suppress(OSError, ValueError, RuntimeError):  # a name that no file system can have is not a file
            known.add(path.resolve())
            status = path.stat()
            known.add((status.st_dev, status.st_ino))
    return known


def from_here(path: Path) -> Path:
    """An absolute path, relative to the current directory if it is inside."""
    with suppress(OSError, ValueError):  # the current directory is gone, or elsewhere
        return path.relative_to(Path.cwd())
    return path


def _inside(folder: Path, name: str, words: str, allow_outside: bool) -> Path:
    try:
        root, path = folder.resolve(), (folder / name).resolve()
        path.exists()  # ValueError for a name that no file system can have
    except (OSError, ValueError, RuntimeError) as error:
        raise Refused(f"{name[:99]!r} names no file ({getattr(error, 'strerror', None) or error})") from None
    if not allow_outside and not path.is_relative_to(root):
        raise Refused(f"{name!r} is outside {words}")
    return path


@dataclass(frozen=True)
class Npy:
    """The header of a .npy file. begin: where its elements begin. swapped: whether they are in foreign byte order."""

    data_type: DataType
    swapped: bool
    fortran_order: bool
    shape: tuple[int, ...]
    begin: int

    @property
    def bytes(self) -> int:
        return math.prod(self.shape) * self.data_type.element_bits // 8


def npy(file: BinaryIO) -> Npy:
    """The header of a .npy file; Refused for other files, and for elements of types that DirectML lacks."""
    try:
        version = np.lib.format.read_magic(file)
        read = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
        shape, fortran_order, dtype = read(file)
    except Exception as error:  # NumPy parses a literal, which can fail in many ways
        raise Refused(f"is not a .npy file that NumPy can read ({str(error)[:200]})") from None
    try:
        data_type = DataType.UINT8 if dtype == np.bool_ else DataType.of(dtype.newbyteorder("="))
    except TypeError:
        pickled = "pickled objects, which could run code" if dtype.hasobject else f"{dtype}, which DirectML lacks"
        raise Refused(f"holds {pickled}") from None
    if len(shape) > MOST_DIMENSIONS:
        raise Refused(f"has {len(shape)} dimensions, more than the {MOST_DIMENSIONS} of an array")
    found = Npy(data_type, not dtype.isnative, fortran_order and len(shape) > 1, shape, file.tell())
    present = os.fstat(file.fileno()).st_size - found.begin
    if any(size < 0 for size in shape) or present < found.bytes:
        raise Refused(f"holds {present} bytes of elements, too few for the shape {shape} in its header")
    return found


def read_npy(path: Path, memory: NDArray[np.uint8]) -> None:
    """Read the elements of a .npy file directly into memory of their size; Refused if the file has changed."""
    with path.open("rb") as file:
        header = npy(file)
        if header.bytes != memory.nbytes:
            raise Refused("has changed meanwhile")
        _read_into(file, memory)
    if header.swapped:
        memory.view(header.data_type.dtype).byteswap(inplace=True)
    if header.fortran_order:
        columns = memory.view(header.data_type.dtype).reshape(header.shape[::-1])
        memory[...] = np.ascontiguousarray(columns.T).reshape(-1).view(np.uint8)


def array(path: Path) -> NDArray[Any]:
    """The array in a .npy file, in native byte order; Refused or OSError if it cannot be read."""
    if not path.is_file():
        raise Refused("is not a regular file" if path.exists() else "there is no such file")
    with path.open("rb") as file:
        header = npy(file)
    if not 0 < header.bytes <= memory_bytes():
        raise Refused(f"holds {header.bytes} bytes, and this machine has {memory_bytes()}" if header.bytes else "holds nothing")
    memory = np.zeros(header.bytes, np.uint8)
    read_npy(path, memory)
    return memory.view(header.data_type.dtype).reshape(header.shape)


def read_raw(path: Path, memory: NDArray[np.uint8]) -> None:
    with path.open("rb") as file:
        _read_into(file, memory)


def _read_into(file: BinaryIO, memory: NDArray[np.uint8]) -> None:
    rest = memoryview(memory)  # type: ignore[arg-type]  # as NumPy 2.4 declares from Python 3.12 on
    while rest:
        read = file.readinto(rest)  # type: ignore[attr-defined]  # every file opened in binary mode has it
        if not read:
            raise Refused("has changed meanwhile")
        rest = rest[read:]


def _pillow() -> Any:
    try:
        from PIL import Image
    except ImportError:
        raise Refused("is an image, which needs Pillow: pip install 'anydml[images]'") from None
    return Image


def read_image(path: Path, sizes: tuple[int, ...], memory: NDArray[Any]) -> None:
    """Read an image, resampled to {1, C, H, W} and scaled to 0..1, into float memory; three channels are RGB, four RGBA."""
    image_module = _pillow()
    _, channels, height, width = sizes
    try:
        with image_module.open(path, formats=("PNG", "JPEG")) as image:
            within_pixels((image.height, image.width))
            pixels = image.convert("RGB" if channels == 3 else "RGBA")
    except Refused:
        raise
    except Exception as error:  # decoders raise many types of errors for bytes that are not an image
        raise Refused(f"is not an image that Pillow can read ({error})") from None
    if pixels.size != (width, height):
        pixels = pixels.resize((width, height), image_module.Resampling.BICUBIC)
    planes = np.asarray(pixels).transpose(2, 0, 1).astype(np.float32)
    planes /= np.float32(255)
    memory.reshape(channels, height, width)[...] = planes


def image_dimensions(name: str, dimensions: tuple[int, ...] | None, data_type: DataType) -> tuple[int, int, int]:
    """Channels, height and width of an image to write; Refused if the dimensions are not those of an image."""
    _pillow()
    if Path(name).suffix.lower() != ".png":
        raise Refused("JPEG is lossy, and results are exact: write a .png")
    if data_type not in (DataType.FLOAT32, DataType.FLOAT16):
        raise Refused(f"an image is made of FLOAT32 or FLOAT16 values from 0 to 1, not of {data_type}")
    if (
        dimensions is None
        or len(dimensions) not in (3, 4)
        or dimensions[-3] not in (1, 3, 4)
        or dimensions[:-3] not in ((), (1,))
    ):
        raise Refused("an image takes 'dimensions' [1, C, H, W] with C 1, 3 or 4")
    within_pixels(dimensions)
    return dimensions[-3], dimensions[-2], dimensions[-1]


def within_pixels(sizes: tuple[int, ...]) -> None:
    """Raise Refused if sizes {.., H, W} are those of too large an image."""
    if sizes[-2] * sizes[-1] > MOST_PIXELS:
        raise Refused(f"is an image of {sizes[-1]} x {sizes[-2]} pixels, more than {MOST_PIXELS}")


def write(path: Path, values: NDArray[Any], dimensions: tuple[int, ...] | None) -> None:
    """Write values to a .npy file, a .png image or raw bytes, whole or not at all; OSError if the system refuses."""
    suffix = path.suffix.lower()
    if suffix == ".npy":
        shape = values.shape if dimensions is None else dimensions
        whole_or_nothing(path, lambda file: np.save(file, values.reshape(shape), allow_pickle=False))
    elif suffix == ".png":
        channels, height, width = image_dimensions(path.name, dimensions, DataType.of(values.dtype))
        with np.errstate(invalid="ignore"):  # NaN becomes 0
            first = values.reshape(-1)[: channels * height * width].astype(np.float32)
            scaled = np.rint(np.nan_to_num(np.clip(first, 0, 1)) * np.float32(255))
        pixels = scaled.astype(np.uint8).reshape(channels, height, width).transpose(1, 2, 0)
        image = _pillow().fromarray(np.ascontiguousarray(pixels[:, :, 0] if channels == 1 else pixels))
        whole_or_nothing(path, lambda file: image.save(file, "PNG"))
    else:
        whole_or_nothing(path, lambda file: file.write(values.data))


def whole_or_nothing(path: Path, write_to: Callable[[BinaryIO], object]) -> None:
    """Write a file under a temporary name in its folder and rename it, so that no incomplete file is ever visible."""
    path.parent.mkdir(parents=True, exist_ok=True)
    beside = path.with_name(f".{os.urandom(8).hex()}.part")
    try:
        with beside.open("xb") as file:
            write_to(file)
        os.replace(beside, path)
    except BaseException:
        beside.unlink(missing_ok=True)
        raise
