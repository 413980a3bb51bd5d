"""Identities of kernels' texts: the emitter, its arguments, and the package's own files.

If all of these are unchanged, the text is unchanged, and the code that was compiled from it can be found without making the
text. Making it takes a tenth of the time that LLVM takes, which is most of the time that remains without LLVM.
"""

from __future__ import annotations

import hashlib
import os
import sys
from collections.abc import Callable, Iterator
from enum import Enum
from fractions import Fraction
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from anydml.fork_safety import BEGAN
from anydml.kernels.code import processor, tuned
from anydml.kernels.code.targets import Target

_FOLDERS = ("", "exact", "schema", "kernels")  # emitters import nothing else of the package
_SOON = 2.0  # seconds: the resolution of times in file systems


class Made(NamedTuple):
    """The function and the arguments that make a text: `emit(target, *arguments)`."""

    emit: Callable[..., str]
    target: Target
    arguments: tuple[Any, ...]


class _Unknown(Exception):
    """Raised for a value that has no description."""


def identity(emit: Callable[..., str], arguments: tuple[Any, ...]) -> str | None:
    """A key that identifies a text in all processes; None if the text itself has to be made."""
    where = sys.modules.get(emit.__module__)
    if not emit.__module__.startswith("anydml.kernels.") or getattr(where, getattr(emit, "__name__", ""), None) is not emit:
        return None  # a function that tests or a caller made
    files = _files()
    if files is None:
        return None
    try:
        # plans, and emitters too, may depend on the processor and on thresholds
        known = f"{processor.name()} {processor.caches()} {sorted(tuned.measured().items())}"
        return f"{files} {known} {emit.__module__}.{emit.__name__}({_described(arguments)})"
    except _Unknown:
        return None


def _described(value: Any) -> str:
    """A text that identifies a value and its type, since 1 == True and 0.0 == -0.0."""
    kind = type(value)
    if kind is int or kind is str or kind is bool or value is None:
        return repr(value)
    if kind is float:
        return f"float {value.hex()}" if value == value else _unknown(kind)
    if kind is Fraction:
        return repr(value)
    if isinstance(value, tuple):
        return f"{kind.__module__}.{kind.__qualname__}({','.join(map(_described, value))})"
    if kind is frozenset:
        return f"frozenset({','.join(sorted(map(_described, value)))})"
    if isinstance(value, Enum):
        return f"{kind.__module__}.{kind.__qualname__}.{value.name}"
    return _unknown(kind)


def _unknown(kind: type) -> str:
    raise _Unknown(kind)


@cache
def _files() -> str | None:
    """A digest of the sizes and times of the emitters' source files, by which Python, too, detects changes.

    None if they are not files, or if one has or may have changed since this process read it.
    """
    root = Path(__file__).parents[2]
    found: list[tuple[str, int, int]] = []
    try:
        for folder in _FOLDERS:
            found.extend(_listed(os.path.join(root, folder), folder != ""))
    except OSError:  # the package is in an archive
        return None
    if not found or max(changed for _, _, changed in found) > (BEGAN - _SOON) * 1e9:
        return None
    return hashlib.blake2b(repr(sorted(found)).encode(), digest_size=32).hexdigest()


def _listed(folder: str, deep: bool) -> Iterator[tuple[str, int, int]]:
    with os.scandir(folder) as entries:
        for entry in entries:
            if entry.name.endswith(".py"):
                about = entry.stat()
                yield entry.path, about.st_size, about.st_mtime_ns
            elif deep and entry.is_dir() and entry.name != "__pycache__":
                yield from _listed(entry.path, deep)
