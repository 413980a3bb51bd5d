"""Buffers next to unmapped pages: a read or write outside of a buffer ends the process."""

from __future__ import annotations

import ctypes
import mmap
import sys
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

PAGE = mmap.PAGESIZE
AVAILABLE = sys.platform != "win32"


def guarded(nbytes: int, *, at_end: bool) -> NDArray[np.uint8]:
    """`nbytes` zeros with an inaccessible page directly after them (`at_end`), or directly before them."""
    pages = -(-nbytes // PAGE)
    memory = mmap.mmap(-1, (pages + 2) * PAGE)
    whole = np.frombuffer(memory, np.uint8)
    libc = ctypes.CDLL(None, use_errno=True)
    libc.mprotect.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
    for page in (0, pages + 1):
        if libc.mprotect(whole.ctypes.data + page * PAGE, PAGE, 0) != 0:
            raise OSError(ctypes.get_errno(), "mprotect")
    start = (pages + 1) * PAGE - nbytes if at_end else PAGE
    return whole[start : start + nbytes]


def place(
    sizes: Sequence[int], strides: Sequence[int], dtype: np.dtype[Any], *, at_end: bool, canary: int = 0
) -> tuple[NDArray[Any], NDArray[np.uint8]]:
    """An array with these strides (in elements, not negative) that fills a guarded buffer, and the buffer itself.

    Every byte of the buffer starts as `canary`.
    """
    span = 1 + sum((n - 1) * s for n, s in zip(sizes, strides, strict=True))
    buffer = guarded(span * dtype.itemsize, at_end=at_end)
    buffer[:] = canary
    steps = [s * dtype.itemsize for s in strides]
    return np.ndarray(tuple(sizes), dtype, buffer, strides=steps), buffer
