"""What this machine can do at best, measured where and when the figures that are held against it are measured."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np
from numpy.typing import NDArray

from anydml.kernels.cpu import copy_emit
from anydml.kernels.cpu.jit import compile as jit
from anydml.kernels.cpu.jit.steps import prepared, table
from anydml.kernels.cpu.jit.targets import named


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
    best = named(None)
    assert best is not None
    step = -(-nbytes // threads // 64) * 64
    starts = range(0, nbytes, step)
    triples = [1, 0, 0] * copy_emit.DIMENSIONS
    for stream in (False, True):
        code = jit.compiled(copy_emit.rows, best, stream)
        blocks = [
            (source.ctypes.data + at, target.ctypes.data + at, min(step, nbytes - at), 1, 1, *triples, 0) for at in starts
        ]
        arguments = np.array(blocks, np.int64)
        call = prepared([table(code, arguments)], best, (source, target))
        calls[f"limit: {'streaming' if stream else 'plain'}"] = call
    return calls
