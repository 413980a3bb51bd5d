"""A folder that only its user can use: files are found by name, verified before use, and limited in total bytes.

The contents of these files are executed, so nobody else may write here. The folder is opened without following a link, and
the opened folder is checked: this user owns it, and nobody else may list or write it. Files are opened, renamed and removed
relative to it, whatever happens to its path and to the folders above, which others may be able to write.
Processes may write at the same time: each file is written under a unique name and renamed, so that readers get whole files.
"""

from __future__ import annotations

import hashlib
import os
import stat
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

SUFFIX, UNFINISHED = ".code", ".new"
_MAGIC = b"anydml:1"
_DIGEST = 32  # bytes
_BLOCK = 4096  # bytes of a block on disk; the smallest file takes one
_AGE = 3600  # seconds after which a use is recorded again, and an unfinished file is removed
_FLAGS = getattr(os, "O_BINARY", 0) | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_NOINHERIT", 0)
_PLAIN = _FLAGS | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)  # no link, and no waiting for a pipe's writer
_WITHIN = os.open in os.supports_dir_fd and os.scandir in os.supports_fd  # not on Windows, where a profile is its user's


class Unusable(OSError):
    """A folder that others can use too; the message is the reason."""


def name_of(key: bytes) -> str:
    """The name of a key's file."""
    return hashlib.blake2b(key, digest_size=_DIGEST).hexdigest() + SUFFIX


def read(folder: Path, name: str) -> bytes | None:
    """The content of a file, or None if it does not exist, is damaged or cannot be read."""
    found = content_of(folder, name, seen=True)
    return None if found is None else _verified(name, found)


def content_of(folder: Path, name: str, *, seen: bool = False) -> bytes | None:
    """The bytes of a file that only this user can write, not verified; None if it does not exist or cannot be read.

    seen: record the use, as the file's time.
    """
    try:
        with _opened(folder) as within:
            path = _path(folder, within, name)
            opened = os.open(path, os.O_RDONLY | _PLAIN, dir_fd=within)
            try:
                about = os.fstat(opened)
                if not stat.S_ISREG(about.st_mode) or _others(about, 0o022):
                    return None
                with os.fdopen(opened, "rb", closefd=False) as file:
                    content = file.read()
            finally:
                os.close(opened)
            if seen and time.time() - about.st_mtime > _AGE:
                with suppress(OSError):  # the file may be read-only
                    os.utime(path, dir_fd=within)
            return content
    except OSError:
        return None


def write(folder: Path, name: str, content: bytes, most: int) -> None:
    """Store a content if possible, in at most about `most` bytes for all files. A missing folder is created.

    One write in 64, chosen by the file's name, removes the files used longest ago until an eighth of the bytes is free.
    """
    if len(content) > most // 8:
        return
    with suppress(OSError):  # a folder that cannot be written, or a disk that is full
        place(folder, name, _signature(name, content) + content)
        if int(name[:2], 16) < 4:
            with _opened(folder) as within:
                _make_room(folder, within, most)


def place(folder: Path, name: str, content: bytes) -> None:
    """Write a file whole, under another name, and rename it. A missing folder is created. OSError if that is not possible."""
    _make(folder)
    with _opened(folder) as within:
        new = _path(folder, within, os.urandom(_DIGEST).hex() + UNFINISHED)
        try:
            with os.fdopen(os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL | _PLAIN, 0o600, dir_fd=within), "wb") as file:
                file.write(content)
            os.replace(new, _path(folder, within, name), src_dir_fd=within, dst_dir_fd=within)
        except BaseException:
            with suppress(OSError):
                os.unlink(new, dir_fd=within)
            raise


def held(folder: Path) -> tuple[int, int]:
    """The number of files and the bytes that they take. OSError if the folder cannot be read or others can use it."""
    try:
        with _opened(folder) as within:
            sizes = [_taken(about) for name, about in _files(folder, within) if name.endswith(SUFFIX)]
    except FileNotFoundError:
        return 0, 0
    return len(sizes), sum(sizes)


@contextmanager
def _opened(folder: Path) -> Iterator[int | None]:
    """The opened folder, to which names are relative; None if the system has no such calls. Unusable if others can use it."""
    about = os.lstat(folder)
    if not stat.S_ISDIR(about.st_mode) or getattr(about, "st_file_attributes", 0) & stat.FILE_ATTRIBUTE_REPARSE_POINT:
        raise Unusable("it is a link, or no folder")
    if not _WITHIN:
        yield None
        return
    within = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | _FLAGS)
    try:
        if reason := _others(os.fstat(within), 0o077):
            raise Unusable(reason)
        yield within
    finally:
        os.close(within)


def _others(about: os.stat_result, rights: int) -> str | None:
    """The reason why others can change something: they own it or have some of these rights. None if they cannot."""
    if not _WITHIN:
        return None
    if about.st_uid != os.geteuid():
        return "it is another user's"
    return f"others may use it: its mode is {about.st_mode & 0o777:o}, and must be 700" if about.st_mode & rights else None


def _path(folder: Path, within: int | None, name: str) -> str:
    return name if within is not None else str(folder / name)


def _make(folder: Path) -> None:
    for path in (*reversed(folder.parents), folder):
        if not path.exists():
            with suppress(FileExistsError):  # another process was faster
                path.mkdir(0o700)


def _signature(name: str, content: bytes) -> bytes:
    """The digest of name and content: a file is valid only under its own name."""
    return _MAGIC + hashlib.blake2b(name.encode() + content, digest_size=_DIGEST).digest()


def _verified(name: str, found: bytes) -> bytes | None:
    signed = len(_MAGIC) + _DIGEST
    content = found[signed:]
    return content if found[:signed] == _signature(name, content) else None


def _files(folder: Path, within: int | None) -> Iterator[tuple[str, os.stat_result]]:
    """The cache's own files; others are left alone."""
    with os.scandir(folder if within is None else within) as entries:
        for entry in entries:
            if entry.name.endswith((SUFFIX, UNFINISHED)) and entry.name.find(".") == 2 * _DIGEST:
                with suppress(OSError):  # another process removed it
                    if stat.S_ISREG((about := entry.stat(follow_symlinks=False)).st_mode):
                        yield entry.name, about


def _taken(about: os.stat_result) -> int:
    return -(-about.st_size // _BLOCK) * _BLOCK


def _make_room(folder: Path, within: int | None, most: int) -> None:
    now, whole = time.time(), []
    for name, about in _files(folder, within):
        if name.endswith(SUFFIX):
            whole.append((about.st_mtime, name, _taken(about)))
        elif now - about.st_mtime > _AGE:
            with suppress(OSError):
                os.unlink(_path(folder, within, name), dir_fd=within)
    total = sum(size for _, _, size in whole)
    if total <= most:
        return
    for _, name, size in sorted(whole):
        with suppress(OSError):
            os.unlink(_path(folder, within, name), dir_fd=within)
        total -= size
        if total <= most * 7 // 8:
            return
