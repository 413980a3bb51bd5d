"""Compiled strided copies: from sizes and strides to machine code and its arguments."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

from anydml.kernels.call.signature import Arguments
from anydml.kernels.call.steps import Aligned, At, Step
from anydml.kernels.code import engine, llvm
from anydml.kernels.code.targets import Target
from anydml.kernels.copy import emit, gather, groups, interleaved, plain, tiles, tuning
from anydml.kernels.copy.plan import CopyDimension, CopyPlan, canonical, plan
from anydml.kernels.copy.text import LINE, Prefetch


class CopyPiece(NamedTuple):
    """A piece of a copy. source, target: its first elements, in bytes from the copy's. dims: the row, then the others."""

    source: int
    target: int
    dims: list[CopyDimension]

    def moved(self, source: int, target: int) -> CopyPiece:
        return self._replace(source=self.source + source, target=self.target + target)


class Copy(NamedTuple):
    """A compiled copy for any two addresses: one piece or more, which may run in parallel.

    kind: the plan's. code: correct for every address. streaming: code with non-temporal stores, for target addresses that are
    multiples of `boundary`; None if there is none. ahead: the number of rows ahead to prefetch. scratch: bytes of scratch that
    each piece of the streaming code needs.
    """

    kind: str
    code: engine.Code
    streaming: engine.Code | None
    boundary: int
    pieces: list[CopyPiece]
    ahead: int
    scratch: int

    def steps(self, source: At, target: At, scratch: At) -> list[Step]:
        """A step for each piece. source, target: their first elements. scratch: that of all pieces."""
        made = []
        aligned = None
        if self.streaming is not None and self.boundary > 1:
            aligned = Aligned(self.streaming, 1, self.boundary)
        code = self.code if aligned is not None or self.streaming is None else self.streaming
        for i, piece in enumerate(self.pieces):
            numbers = [x for d in piece.dims for x in d] + [1, 0, 0] * (emit.DIMENSIONS + 1 - len(piece.dims))
            loops = Arguments(zip(emit.LOOPS.names, numbers, strict=True))
            places = Arguments(source=source + piece.source, target=target + piece.target, ahead=self.ahead)
            step = emit.ARGUMENTS.step(code, **places, **loops, scratch=scratch + i * self.scratch if self.scratch else 0)
            made.append(step._replace(aligned=aligned))
        return made


def copy(
    target: Target,
    sizes: Sequence[int],
    source_strides: Sequence[int],
    target_strides: Sequence[int],
    itemsize: int,
    threads: int = 1,
    stream: bool = False,
) -> Copy:
    """The copy of elements of `itemsize` bytes from one strided layout to another.

    Strides are in bytes; only the source's may be negative. Contiguous dimensions are merged. If more than the eight remain
    that a kernel loops over, the shortest of them are unrolled into pieces.
    threads: the most pieces to make. stream: whether stores may be non-temporal where that is faster; not for outputs that are
    read again soon. Raises Uncompilable where nothing can be compiled.
    """
    dims, apart = _within_a_kernel(canonical(sizes, source_strides, target_strides))
    p = plan(dims, itemsize)
    written, read = _traffic(p)
    exceeds = _exceeds_caches(p, written, read)
    ahead = _ahead(p, exceeds, False)
    rows = _rows_ahead(p, written + read, ahead)
    pieces = [piece.moved(*p.base) for piece in _split(p, threads)]
    for d in apart:
        pieces = [piece.moved(d.source * i, d.target * i) for piece in pieces for i in range(d.size)]
    code, streaming, scratch = _function(target, p, ahead), None, 0
    if stream and exceeds and not apart:
        ahead = _ahead(p, exceeds, True)
        if p.kind == "tiles" and _has_blocks(p, pieces):
            streaming, scratch = _function(target, p, ahead, "blocks"), tiles.scratch_bytes(itemsize)
        elif _has_lines(p):
            streaming = _function(target, p, ahead, "lines")
        elif _is_dense(p, pieces):
            streaming, scratch = _function(target, p, ahead, "dense"), gather.scratch_bytes()
    boundary = len(p.pattern) if p.kind == "tiles" or (p.kind == "groups" and not scratch) else 1
    return Copy(p.kind, code, streaming, boundary, pieces, rows, scratch)


def _within_a_kernel(dims: list[CopyDimension]) -> tuple[list[CopyDimension], list[CopyDimension]]:
    """The dimensions that a kernel loops over, and the shortest ones, which exceed their number.

    Raises Uncompilable where the latter would take too many calls.
    """
    excess = len(dims) - emit.DIMENSIONS - 1
    if excess <= 0:
        return dims, []
    apart = sorted(range(len(dims) - 1), key=lambda i: dims[i].size)[:excess]
    if (places := math.prod(dims[i].size for i in apart)) > tuning.TUNING.places:
        raise engine.Uncompilable(f"a copy of {len(dims)} dimensions would take {places} calls of a kernel")
    return [d for i, d in enumerate(dims) if i not in apart], [dims[i] for i in apart]


def _function(target: Target, p: CopyPlan, ahead: Prefetch | None, past_cache: str = "") -> engine.Code:
    """The code of a plan, shared by all plans of a kind. past_cache: the way in which stores are non-temporal, or ""."""
    lines, dense = past_cache == "lines", past_cache == "dense"
    if p.kind == "rows":
        return engine.compiled(plain.contiguous, target, lines, dense, ahead)
    if p.kind == "groups":
        # the largest blocks that are no longer than the row; with non-temporal stores, a block is a cache line
        width = target.vector_bytes
        sizes = [(width, LINE // width), *((w, 1) for w in (64, 32, 16) if w <= width)]
        fitting = next((size for size in sizes if groups.groups_per_block(len(p.pattern), *size) <= p.row.size), sizes[-1])
        return engine.compiled(groups.groups, target, p.pattern, p.step, *fitting, lines, dense, ahead)
    if p.kind == "tiles":
        itemsize, wide, tall = len(p.pattern), p.outer[0].size, p.row.size
        sizes = tiles.spans(target, itemsize)
        width, span = next(x for x in sizes if x[0] <= tall * itemsize and x[1] <= wide * itemsize)
        if past_cache:  # with a narrow span, fewer output rows come between two lines of the same row
            narrow = span if itemsize == 8 else tiles.LANE
            return engine.compiled(tiles.blocks, target, itemsize, width, narrow, *_tiles_ahead())
        return engine.compiled(tiles.tiles, target, itemsize, width, span)
    if p.kind == "interleaved":
        return engine.compiled(interleaved.interleaved, target, len(p.pattern), p.step)
    return engine.compiled(plain.elements, target, len(p.pattern), ahead)


def _traffic(p: CopyPlan) -> tuple[int, int]:
    """Bytes written, and bytes read, approximately: whole cache lines where elements are farther apart."""
    rows = math.prod(d.size for d in p.outer)
    return p.row.size * max(1, len(p.pattern)) * rows, (p.row.size * min(abs(p.row.source), LINE) + len(p.pattern)) * rows


def _ahead(p: CopyPlan, exceeds: bool, past_cache: bool) -> Prefetch | None:
    """The prefetch of the input, if any, as measured on two processors that differ. exceeds: more bytes than the caches hold.

    On a Zen 5, prefetching always paid, and no other hint or distance was faster. Processors that were not measured are
    treated like it. A Zen 4 has the same caches and instructions, so it is recognised by its name. It prefetches contiguous
    rows by itself: for these, our prefetches cost up to a sixth in the caches, and from memory pay only for long rows of which
    about as much is written as read. Rows that are apart are read from memory up to twice as fast if they are prefetched into
    the second cache, which waits for more lines at once than the first; contiguous rows are 30 % slower with it.
    """
    usual = Prefetch(1, 6144 if past_cache or p.kind == "elements" else 4096, 8192)
    if not _is_zen4():
        return usual
    if _runs_on(p):
        thin = abs(p.row.source) > 2 * max(1, len(p.pattern))
        return usual if exceeds and not thin and _row(p) > emit.FETCHED else None
    if not exceeds:
        return Prefetch(1, 3072, 3072)
    return Prefetch(2, 3072 if p.kind == "rows" else 6144, 16384)


def _tiles_ahead() -> tuple[int, int]:
    """The cache into which transpositions prefetch, and the number of rows ahead; measured as above."""
    return (2, 32) if _is_zen4() else (1, 16)


def _is_zen4() -> bool:
    return llvm.host_name() == "znver4"


def _row(p: CopyPlan) -> int:
    """The bytes of input that a row spans, approximately."""
    pattern = p.pattern or (0,)
    return p.row.size * min(abs(p.row.source), LINE) + max(pattern) - min(pattern) + 1


def _runs_on(p: CopyPlan) -> bool:
    """Whether every row of the input begins where the row before ended, or at most a small gap later."""
    span = (p.row.size - 1) * abs(p.row.source) + max(p.pattern or (0,)) - min(p.pattern or (0,)) + 1
    for d in p.outer:
        if not 0 <= d.source - span <= min(span // 4, tuning.TUNING.follows):
            return False
        span += (d.size - 1) * d.source
    return p.row.source >= 0


def _rows_ahead(p: CopyPlan, traffic: int, ahead: Prefetch | None) -> int:
    """The number of rows ahead in the input to prefetch, a few kilobytes; 0 if the nearest caches hold the input."""
    if ahead is None or p.kind == "tiles" or not p.outer or traffic < tuning.TUNING.near:
        return 0
    return max(1, ahead.rows // _row(p))


def _exceeds_caches(p: CopyPlan, written: int, read: int) -> bool:
    return written >= tuning.TUNING.stream_tiles if p.kind == "tiles" else written + read >= tuning.TUNING.stream


def _has_blocks(p: CopyPlan, pieces: Sequence[CopyPiece]) -> bool:
    """Whether all output rows of a transposition begin at the same offset in a cache line, and each piece holds a block."""
    itemsize = len(p.pattern)
    down, across = (min(piece.dims[i].size for piece in pieces) for i in (0, 1))
    room = down >= tiles.block_rows(itemsize) and across * itemsize >= tiles.BLOCK
    return room and all(d.target % LINE == 0 for d in p.outer)


def _has_lines(p: CopyPlan) -> bool:
    """Whether rows are long enough for whole cache lines of their own, and a cache line is a whole number of groups."""
    group = len(p.pattern) or 1
    aligned = LINE % group == 0 and all(d.target % group == 0 for d in p.outer)
    return p.kind in ("rows", "groups") and aligned and p.row.size * group >= tuning.TUNING.long_row


def _is_dense(p: CopyPlan, pieces: Sequence[CopyPiece]) -> bool:
    """Whether rows are contiguous in the output, within every piece too: only the outermost dimension may be cut."""
    if any(piece.dims[i].size != d.size for i, d in enumerate([p.row, *p.outer][:-1]) for piece in pieces):
        return False
    size = p.row.size * max(1, len(p.pattern))
    if p.kind not in ("rows", "groups") or size > gather.LONGEST:
        return False
    for d in p.outer:
        if d.target != size:
            return False
        size *= d.size
    return True


def _split(p: CopyPlan, threads: int) -> list[CopyPiece]:
    """The plan cut along one dimension."""
    dims = [p.row, *p.outer]
    if threads == 1 or (p.kind == "interleaved" and not p.outer):
        return [CopyPiece(0, 0, dims)]
    # the outermost dimension that gives all threads about as much, else the longest; interleaved rows are not cut
    even = [
        i for i, d in enumerate(dims) if (i or p.kind != "interleaved") and 10 * -(-d.size // threads) * threads <= 11 * d.size
    ]
    at = even[-1] if even else max(range(p.kind == "interleaved", len(dims)), key=lambda i: dims[i].size)
    whole = dims[at].size
    # the row of a kernel is cut at whole cache lines, and no piece is shorter than a tile
    grain = {"rows": 64, "tiles": 64}.get(p.kind, 1) if at < (2 if p.kind == "tiles" else 1) else 1
    step = max(grain, -(-whole // threads // grain) * grain)
    starts = list(range(0, whole, step))
    if len(starts) > 1 and whole - starts[-1] < grain:
        starts.pop()
    pieces = []
    for first, end in zip(starts, [*starts[1:], whole], strict=True):
        part = CopyDimension(end - first, dims[at].source, dims[at].target)
        pieces.append(CopyPiece(first * part.source, first * part.target, [*dims[:at], part, *dims[at + 1 :]]))
    return pieces
