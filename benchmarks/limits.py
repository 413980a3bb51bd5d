"""What this machine can do at best, measured where and when the figures that are held against it are measured."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from anydml.kernels.cpu import copy_emit
from anydml.kernels.cpu.jit import compile as jit
from anydml.kernels.cpu.jit import pool
from anydml.kernels.cpu.jit.targets import named

SIGNATURE: tuple[Any, ...] = (
    None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64, ctypes.c_int64, ctypes.c_void_p,
)  # fmt: skip


def aligned(nbytes: int) -> NDArray[np.uint8]:
    """Touched memory that begins at a page."""
    memory = np.ones(nbytes + 4096, np.uint8)
    start = -memory.ctypes.data % 4096
    return memory[start : start + nbytes]


def copies(nbytes: int, threads: int = 1) -> dict[str, Callable[[], object]]:
    """Contiguous copies of so many bytes, to be timed: NumPy's, and ours with plain and with streaming stores."""
    source, target = aligned(nbytes), aligned(nbytes)
    calls: dict[str, Callable[[], object]] = {}
    if threads == 1:
        calls["limit: numpy"] = partial(np.copyto, target, source)
    dims = (ctypes.c_int64 * (3 * copy_emit.DIMENSIONS + 1))(*([1, 0, 0] * copy_emit.DIMENSIONS), 0)
    best = named(None)
    assert best is not None
    for stream in (False, True):
        code = jit.compiled(copy_emit.rows, best, stream)
        function = ctypes.CFUNCTYPE(*SIGNATURE)(code.address)
        step = -(-nbytes // threads // 64) * 64
        parts = []
        for at in range(0, nbytes, step):
            n = min(step, nbytes - at)
            part = partial(function, source.ctypes.data + at, target.ctypes.data + at, n, 1, 1, ctypes.addressof(dims))
            part.keep = (code, source, target, dims)  # type: ignore[attr-defined]  # lives as long as the call
            parts.append(part)
        calls[f"limit: {'streaming' if stream else 'plain'}"] = parts[0] if len(parts) == 1 else partial(pool.run, parts)
    return calls
