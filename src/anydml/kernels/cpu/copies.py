"""Strided copies, compiled: from sizes and strides to machine code and the arguments to call it with."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from anydml.kernels.cpu import copy_emit
from anydml.kernels.cpu.copy_plan import Dimension, Plan, canonical, plan
from anydml.kernels.cpu.jit import compile as jit
from anydml.kernels.cpu.jit.targets import Target

LONG_ROW = 1024  # bytes of a row that stores past the cache are used for


class Copy(NamedTuple):
    """A copy made ready for any two addresses: one piece or more, which may run side by side.

    kind: that of its plan. code: serves every address. streaming: the same with stores past the cache, where the target's
    address is a multiple of `boundary`; None where they do not serve. blocks: a row of `copy_emit.ARGUMENTS` numbers for each
    piece, its first two counted from the addresses of the first element of source and target.
    """

    kind: str
    code: jit.Code
    streaming: jit.Code | None
    boundary: int
    blocks: NDArray[np.int64]

    def at(self, source: int, target: int) -> tuple[jit.Code, NDArray[np.int64]]:
        """The code for two addresses, and its arguments: a row for each piece."""
        arguments = self.blocks.copy()
        arguments[:, :2] += np.array((source, target), np.int64)
        good = self.streaming is not None and int(arguments[0, 1]) % self.boundary == 0
        return self.streaming if self.streaming is not None and good else self.code, arguments


def copy(
    target: Target,
    sizes: Sequence[int],
    source_strides: Sequence[int],
    target_strides: Sequence[int],
    itemsize: int,
    threads: int = 1,
    stream: bool = False,
) -> Copy:
    """The copy of elements of `itemsize` bytes from one strided place to another.

    Strides are in bytes, and negative in the source alone. At most eight dimensions remain once those that run on are merged.
    threads: the most pieces to make. stream: whether stores should go past the cache where they can, which pays for what the
    caches cannot hold. Refused where nothing can be compiled.
    """
    p = plan(canonical(sizes, source_strides, target_strides), itemsize)
    code = _function(target, p, stream=False)
    streaming = _function(target, p, stream=True) if stream and _may_stream(p) else None
    blocks = np.array([(*part, _ahead(p)) for part in _split(p, threads)], np.int64)
    blocks[:, :2] += np.array(p.base, np.int64)
    return Copy(p.kind, code, streaming, len(p.pattern) if p.kind == "groups" else 1, blocks)


def _function(target: Target, p: Plan, *, stream: bool) -> jit.Code:
    """The code that a plan asks for; the same for all plans of a kind."""
    if p.kind == "rows":
        return jit.compiled(copy_emit.rows, target, stream)
    if p.kind == "groups":
        # the largest blocks that are no longer than the row; past the cache they are a line each
        width = target.vector_bytes
        blocks = [(width, copy_emit.LINE // width if stream else 2), (width, 1), (16, 1)]
        fitting = [b for b in blocks if copy_emit.groups_per_block(len(p.pattern), *b) <= p.row.size]
        return jit.compiled(copy_emit.groups, target, p.pattern, p.step, *(fitting or blocks[-1:])[0], stream)
    if p.kind == "tiles":
        return jit.compiled(copy_emit.tiles, target, len(p.pattern))
    return jit.compiled(copy_emit.elements, target, len(p.pattern))


def _ahead(p: Plan) -> int:
    """How far ahead in the input to prefetch, in bytes: a step of the innermost dimension that has a kilobyte within it."""
    span = p.row.size * abs(p.row.source)
    for d in p.outer:
        if span >= 1024 or d is p.outer[-1]:
            return d.source
        span *= d.size
    return 0


def _may_stream(p: Plan) -> bool:
    """Whether stores past the cache can serve: not for short rows, nor groups that do not make up cache lines."""
    if p.kind == "rows":
        return p.row.size >= LONG_ROW
    group = len(p.pattern)
    aligned = copy_emit.LINE % group == 0 and all(d.target % group == 0 for d in p.outer)
    return p.kind == "groups" and aligned and p.row.size * group >= LONG_ROW


def _split(p: Plan, threads: int) -> list[tuple[int, ...]]:
    """The plan cut along one dimension: (offset in the input, in the output, the row, the outer dimensions)."""
    dims = [p.row, *p.outer]
    # the outermost that has enough for everyone, else the longest
    at = max(range(len(dims)), key=lambda i: (True, i) if dims[i].size >= 8 * threads else (False, dims[i].size))
    whole = dims[at].size
    # what a kernel runs along by itself is cut at whole cache lines, and no end is left that is shorter than a tile
    grain = {"rows": 64, "tiles": 64}.get(p.kind, 1) if at < (2 if p.kind == "tiles" else 1) else 1
    step = max(grain, -(-whole // threads // grain) * grain)
    starts = list(range(0, whole, step))
    if len(starts) > 1 and whole - starts[-1] < grain:
        starts.pop()
    pieces = []
    for first, end in zip(starts, [*starts[1:], whole], strict=True):
        part = Dimension(end - first, dims[at].source, dims[at].target)
        cut = [*dims[:at], part, *dims[at + 1 :]]
        outer = [x for d in cut[1:] for x in d] + [1, 0, 0] * (copy_emit.DIMENSIONS - len(cut) + 1)
        pieces.append((first * part.source, first * part.target, *cut[0], *outer))
    return pieces
