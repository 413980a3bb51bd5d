"""Thresholds that were measured on this machine by `anydml tune`, in a text file beside the machine code on disk.

The file has the processor's name, its caches and anydml's version, a line for each threshold that is not the usual one, and a
digest of all lines. Thresholds choose algorithms and sizes of blocks: results never depend on them. A file of another processor
or version has another name. A damaged one is ignored, with a warning.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

from anydml.errors import PerformanceWarning, warn
from anydml.kernels.code import cache as on_disk
from anydml.kernels.code import processor, store
from anydml.version import __version__

T = TypeVar("T", bound=tuple[Any, ...])
MOST = 16  # a measured threshold is at most this many times the usual one, and at least as small a part of it
HEAD = "anydml tuning 1"


class Damaged(ValueError):
    """The text of a file is not what `text_of` makes; the message is the reason."""


def tuned(family: str, usual: T) -> T:
    """A family's thresholds: the usual ones, but for those that were measured on this machine."""
    own = {name.rpartition(".")[2]: n for name, n in measured().items() if name.rpartition(".")[0] == family}
    if not own:
        return usual
    if strange := [name for name, n in own.items() if not _sensible(getattr(usual, name, None), n)]:
        _ignored(f"{family} has no such threshold as {strange[0]} = {own[strange[0]]}")
        return usual
    return usual._replace(**own)  # type: ignore[attr-defined, no-any-return]  # all are named tuples


def _sensible(usual: Any, n: int) -> bool:
    return type(usual) is int and usual <= n * MOST and n <= usual * MOST


@cache
def measured() -> Mapping[str, int]:
    """The thresholds in this machine's file, by family and name; none if there is no file."""
    where = file()
    if where is None or (content := store.content_of(where.parent, where.name)) is None:
        return {}
    try:
        return read_text(content.decode("ascii", "replace"))
    except Damaged as error:
        _ignored(str(error))
        return {}


def _ignored(reason: str) -> None:
    warn(PerformanceWarning, f"{file()} is ignored: {reason}. `anydml tune` writes it again")


def file() -> Path | None:
    """This machine's file, which may not exist; None if nothing is kept on disk."""
    folder = on_disk.folder()
    if isinstance(folder, str):
        return None
    return folder / f"tuning-{hashlib.blake2b(_machine().encode(), digest_size=8).hexdigest()}.txt"


def _machine() -> str:
    second, last = processor.caches()
    return f"processor: {ascii(processor.name())[1:-1]}, caches of {second} and {last} bytes; anydml {__version__}"


def text_of(thresholds: Mapping[str, int]) -> str:
    """The text of a file."""
    lines = [HEAD, _machine(), *(f"{name} = {n}" for name, n in sorted(thresholds.items()))]
    return "\n".join([*lines, f"digest: {_digest(lines)}", ""])


def _digest(lines: list[str]) -> str:
    return hashlib.blake2b("\n".join(lines).encode(), digest_size=16).hexdigest()


def read_text(text: str) -> dict[str, int]:
    """The thresholds in a file's text; Damaged if it is not of this machine, or was changed."""
    head, *lines = text.split("\n")
    if head != HEAD or len(lines) < 3 or lines[-1]:
        raise Damaged("it is no whole file of thresholds")
    *lines, digest, _ = lines
    if digest != f"digest: {_digest([head, *lines])}":
        raise Damaged("its digest is another one")
    machine, *rest = lines
    if machine != _machine():
        raise Damaged("it is of another machine or version")
    found = {}
    for line in rest:
        name, _, n = line.partition(" = ")
        if "." not in name or not (n.isdecimal() and len(n) < 16):
            raise Damaged(f"{line!r} is no threshold")
        found[name] = int(n)
    return found


def keep(thresholds: Mapping[str, int]) -> Path:
    """Write this machine's file. OSError if that is not possible."""
    where = file()
    if where is None:
        raise OSError(f"nothing is kept on disk: {on_disk.folder()}")
    store.place(where.parent, where.name, text_of(thresholds).encode("ascii"))
    measured.cache_clear()
    return where


def facts() -> dict[str, Any]:
    """The file in use and its thresholds, or why there is none; JSON can hold it."""
    where = file()
    if where is None:
        return {"file": None, "why": str(on_disk.folder()), "thresholds": {}}
    if not (found := measured()):
        return {"file": None, "why": "`anydml tune` looks for better ones, which takes a minute", "thresholds": {}}
    return {"file": str(where), "why": "", "thresholds": dict(found)}
