"""ANYDML_DUMP: a folder to which the LLVM text and the assembly of each kernel are written, under the name that `perf` shows.

A name consists of the emitter, the instruction set and a digest of the text, such as
`contract.floats.packed.tile.sums.avx2.1f0c9ad2e4`.
Operators share kernels: the files of operators (`devices/dump.py`) say which kernels they call. This module is imported only
if the variable is set.
"""

from __future__ import annotations

import hashlib
import os
import struct
import sys
from collections.abc import Callable
from contextlib import suppress
from functools import lru_cache
from pathlib import Path

from anydml.errors import UnsupportedError
from anydml.kernels.code.sources import Made
from anydml.kernels.code.targets import Target

VARIABLE = "ANYDML_DUMP"
_folders: dict[str, Path | None] = {}  # by the variable's value; None after an error that nothing can be written there


def folder() -> Path | None:
    """The folder, created if it is missing. UnsupportedError, once, if nothing can be written there."""
    asked = os.environ.get(VARIABLE, "")
    if not asked:
        return None
    if asked not in _folders:
        try:
            path = _folders[asked] = Path(asked).expanduser().absolute()
            for part in ("kernels", "operators", "graphs"):
                (path / part).mkdir(parents=True, exist_ok=True)
        except (OSError, RuntimeError) as error:  # there is no home folder
            _failed(error)
    return _folders[asked]


def write(name: str, text: str) -> None:
    """Write a file of the folder. UnsupportedError if that fails; no other file is tried then."""
    if (within := folder()) is not None:
        try:
            path = within / name
            new = path.with_name(f"{path.name}.{os.getpid()}.new")  # other processes may write the same file
            new.write_text(text, encoding="utf-8")
            os.replace(new, path)
        except OSError as error:
            _failed(error)


def _failed(error: Exception) -> None:
    asked = os.environ[VARIABLE]
    _folders[asked] = None
    reason = getattr(error, "strerror", None) or str(error)
    raise UnsupportedError(f"{VARIABLE} is {asked!r}, and nothing can be written there: {reason}") from error


@lru_cache(maxsize=4096)
def _text(made: Made) -> str:
    return made.emit(made.target, *made.arguments)


def name_of(made: Made | None) -> str:
    """The name of a kernel in files and in `perf`."""
    if made is None:
        return "unknown"
    module = made.emit.__module__.removeprefix("anydml.kernels.")
    digest = hashlib.blake2b(_text(made).encode(), digest_size=5).hexdigest()
    return f"{module}.{getattr(made.emit, '__name__', 'emitted')}.{made.target.name}.{digest}"


def kernel(made: Made | None, address: int, binary: bytes, assembly: Callable[[str, Target], str]) -> None:
    """Write a kernel's text and assembly, and its name for `perf`."""
    if folder() is None or made is None:
        return
    name, text = name_of(made), _text(made)
    write(f"kernels/{name}.ll", text)
    write(f"kernels/{name}.s", assembly(text, made.target))
    if sys.platform == "linux":
        with suppress(OSError):
            _tell_perf(name, address, binary)


def _tell_perf(name: str, address: int, binary: bytes) -> None:
    """Write a line for each function to the file in which `perf report` looks for this process's functions."""
    functions = _functions(binary)
    start = address - functions.get("kernel", (0, 0))[0]
    lines = [
        f"{start + at:x} {size:x} {name}{'' if inner == 'kernel' else '.' + inner}\n" for inner, (at, size) in functions.items()
    ]
    flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC
    file = os.open(f"/tmp/perf-{os.getpid()}.map", flags, 0o600)
    try:
        if os.fstat(file).st_uid == os.geteuid():  # others may create files in this folder
            os.write(file, "".join(lines).encode())
    finally:
        os.close(file)


def _functions(binary: bytes) -> dict[str, tuple[int, int]]:
    """The functions of an ELF object: the offset of each in its section, and its size in bytes."""
    if binary[:5] != b"\x7fELF\x02":
        return {}
    (sections,) = struct.unpack_from("<Q", binary, 40)
    size, count = struct.unpack_from("<HH", binary, 58)
    headers = [struct.unpack_from("<IIQQQQIIQQ", binary, sections + i * size) for i in range(count)]
    found = {}
    for _, kind, _, _, at, nbytes, link, *_ in headers:
        if kind != 2:  # no table of symbols
            continue
        names = headers[link][4]
        for i in range(0, nbytes, 24):
            name, info, _, _, value, length = struct.unpack_from("<IBBHQQ", binary, at + i)
            if info & 15 == 2:  # a function
                end = binary.index(b"\0", names + name)
                found[binary[names + name : end].decode()] = (value, length)
    return found
