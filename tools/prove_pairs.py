"""Proves the functions in pairs of float32 on all 2^32 arguments: `make prove_pairs`, or with a step and names of functions.

What kernels that begin with pairs store is compared with what those in float64 alone do, whose bounds are proven; both go
through lists and finer stages as in any call. Where float64 leaves a result open, pairs may have decided it: these few are
compared with the exact result. A step of 64 takes every 64th block of arguments.
"""

from __future__ import annotations

import ctypes
import sys
import time
from collections.abc import Iterable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from anydml.kernels.code import engine
from anydml.kernels.code.targets import Target, targets
from anydml.kernels.code.values import Body
from anydml.kernels.elementwise import emit, paired
from anydml.kernels.elementwise.undecided import exactly
from anydml.kernels.match import maps
from anydml.kernels.match.maps import Formula, Node
from anydml.tensor import DataType

BLOCK = 1 << 20
TYPES = (DataType.FLOAT32, DataType.FLOAT32)
Words = NDArray[np.uint32]


class Found(NamedTuple):
    """Arguments that were tried, results that float64 leaves open, those of them that pairs decide, and what is wrong."""

    tried: int
    open: int
    decided: int
    wrong: list[int]


def formula(name: str) -> Formula:
    return maps.formula((Node("stream", (), (0, DataType.FLOAT32)), Node(name, (0,), None)))


class Compiled:
    """A kernel of one function with some levels."""

    def __init__(self, target: Target, name: str, levels: tuple[str, ...]) -> None:
        lanes = emit.lanes_in_pairs(target) if levels[0] == "paired" else target.vector_bytes // 4
        lies = (emit.CONTIGUOUS, emit.CONTIGUOUS)
        shape = emit.Shape(formula(name), False, False, TYPES, lies, 0, lanes, False, levels, True)
        self.code = engine.compiled(emit.emitted, target, shape)
        self.state = np.zeros(8, np.int64)
        self.list = np.empty(2 * (BLOCK + lanes), np.int64)
        self.out = np.empty(BLOCK, np.uint32)
        self.room = BLOCK

    def __call__(self, x: Words) -> tuple[Words, NDArray[np.int64]]:
        """What is stored, and the places that are left open."""
        self.state[:] = 0
        pointers = (self.state, self.list)
        arguments = [a.ctypes.data for a in pointers] + [self.room, 0, 1, x.size, x.ctypes.data, self.out.ctypes.data, 4, 4]
        numbers = np.array(arguments, np.int64)
        ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_void_p)(self.code.address)(numbers.ctypes.data)
        count = int(self.state[2])
        return self.out[: x.size], (self.list[: 2 * count : 2] - self.out.ctypes.data) // 4


def proved(name: str, target: Target, arguments: Iterable[Words]) -> Found:
    """What comparing finds for blocks of arguments, given by their bits."""
    first, second = Compiled(target, name, ("paired", "wide")), Compiled(target, name, ("wide",))
    tried = left = decided = 0
    wrong: list[int] = []
    for x in arguments:
        (mine, open_), (sure, unsure) = first(x), second(x)
        tried, left = tried + x.size, left + unsure.size
        other = np.setdiff1d(np.flatnonzero(mine != sure), open_)
        wrong += x[np.setdiff1d(other, unsure)].tolist()
        wrong += x[np.setdiff1d(open_, unsure)].tolist()
        early = np.setdiff1d(unsure, open_)
        if early.size:
            decided += early.size
            exact = exactly(formula(name), TYPES, x[early].astype(np.int64)[:, None])
            wrong += x[early][exact.view(np.uint32) != mine[early]].tolist()
    return Found(tried, left, decided, wrong)


def blocks(step: int) -> Iterable[Words]:
    return (np.arange(i * BLOCK, (i + 1) * BLOCK, dtype=np.uint32) for i in range(0, (1 << 32) // BLOCK, step))


def main(step: str = "1", *names: str) -> int:
    target = next(t for t in reversed(targets()) if paired.serves(Body(t)))
    failed = False
    for name in names or paired.FUNCTIONS:
        start = time.perf_counter()
        found = proved(name, target, blocks(int(step)))
        seconds = time.perf_counter() - start
        print(
            f"{name}: {found.tried} arguments, {found.open} open in float64, {found.decided} of them decided by pairs, "
            f"{len(found.wrong)} wrong {[hex(x) for x in found.wrong[:8]]} ({seconds:.0f} s)",
            flush=True,
        )
        failed = failed or bool(found.wrong)
    return failed


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
