"""The family of running sums and products in machine code, exact and rounded once."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from math import prod
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from anydml.exact.formats import FORMATS
from anydml.kernels.call.signature import Arguments
from anydml.kernels.call.steps import At, Rounds, Step
from anydml.kernels.code import engine
from anydml.kernels.code.targets import Target
from anydml.kernels.evaluate.tally import TALLY
from anydml.kernels.irregular.loops import Loop, described, parts
from anydml.kernels.kernel import Arrays, Lowered, Machine, Refused
from anydml.kernels.match.scans import Scan, scan
from anydml.kernels.matched import lowers
from anydml.kernels.problem import Problem
from anydml.kernels.scan import columns, emit, exact, lines, tuning, vectors
from anydml.kernels.scan.group import ScanKey
from anydml.kernels.undecided.state import STATE_WORDS, UndecidedLists
from anydml.tensor import DataType

CACHE_LINE = 64


class ScanLayout(NamedTuple):
    """Strides in bytes of source and target. lane: the dimension whose lines are computed together, None for single lines.

    others: the dimensions around them. kept: the number of lines whose elements are all kept in scratch in case one is
    undecided.
    """

    strides: Sequence[tuple[int, int]]
    lane: int | None
    others: Sequence[int]
    kept: int


class ScanPiece(NamedTuple):
    """The lines of a thread.

    loops: those around the lines; the outermost begins at turn `first`. turn: the number of turns of the threads before. line,
    width: the first of neighbouring lines, and their number. words: the offset of its state.
    """

    loops: Sequence[Loop]
    first: int
    turn: int
    line: int
    width: int
    words: int


@lowers(scan)
def lower(found: Scan, target: Target, problem: Problem, machine: Machine) -> Lowered | Refused:
    """A step for each thread, which loops over lines."""
    if found.data_type == DataType.FLOAT64:
        return Refused("elements have type FLOAT64")
    source, into = problem.tensors[found.source], problem.tensors[found.target]
    itemsize = found.data_type.dtype.itemsize
    strides = [(a * itemsize, b * itemsize) for a, b in zip(source.explicit_strides, into.explicit_strides, strict=True)]
    layout, key = _laid_out(found, strides, target)
    along, n = strides[found.axis], found.sizes[found.axis]
    last = [(n - 1) * step if found.backward else 0 for step in along]
    along = (-along[0], -along[1]) if found.backward else along
    count, beside = (1, (itemsize, itemsize)) if layout.lane is None else (found.sizes[layout.lane], strides[layout.lane])
    # in scratch: the state, the sums at which a group begins, the elements that are kept, and the kernel's own
    lanes = emit.lanes_of(target)
    kept = 8 * (STATE_WORDS + 2 * lanes)
    free = kept + _rounded_up(n * layout.kept * itemsize)
    sums = staged = 0
    if key is None:
        key = ScanKey(found.data_type, found.product, found.exclusive, beside == (itemsize, itemsize))
        code, signature = engine.compiled(emit.emitted, target, key), emit.STRIDED
    elif layout.lane is None:
        code, signature = engine.compiled(lines.emitted, target, key, found.backward), lines.CONTIGUOUS
        staged = 2 * vectors.block(target, key) * itemsize
    else:
        code, signature = engine.compiled(columns.emitted, target, key), columns.SIDE_BY_SIDE
        sums, staged = columns.columns_bytes(target, key, count)
    size = _rounded_up(free + sums + staged)
    pieces = _pieces(found, layout, count, size // 8, machine.threads if prod(found.sizes) >= tuning.TUNING.alone else 1)
    steps: list[Sequence[Step]] = []
    for piece in pieces:
        state, moved = At("scratch", 8 * piece.words), piece.loops[0].strides
        begins = [at + piece.first * a + piece.line * b for at, a, b in zip(last, moved, beside, strict=True)]
        memory = Arguments(state=state, begun=state + 8 * STATE_WORDS, kept=state + kept)
        source_, target_ = (At(name, at) for name, at in zip((found.source, found.target), begins, strict=True))
        values = Arguments(source=source_, target=target_, n=n, source_step=along[0], target_step=along[1])
        if sums:
            more = Arguments(lines=piece.width, columns=state + free, staged=state + (free + sums))
        elif staged:
            more = Arguments(staged=state + free)
        else:
            more = Arguments(lines=piece.width, source_line=beside[0], target_line=beside[1])
        steps.append([signature.step(code, *described(piece.loops, 2), **memory, **values, **more)])
    lists = UndecidedLists([piece.words for piece in pieces], 0, partial(_resolve, found, layout, pieces, lanes))
    return Lowered(
        target,
        [Rounds([steps])],
        scratch=size * len(pieces),
        short=prod(found.sizes) < tuning.TUNING.short,
        decide=lists.decide if found.data_type in FORMATS else None,
    )


def _pieces(found: Scan, layout: ScanLayout, count: int, words: int, threads: int) -> list[ScanPiece]:
    """The lines in as many pieces as threads: by turns of the outermost loop, else by neighbouring lines."""
    loops = [*(Loop(found.sizes[d], layout.strides[d]) for d in layout.others), Loop(1, (0, 0))]
    inner = prod(loop.turns for loop in loops[1:])
    if loops[0].turns > 1:
        shared = parts(loops, threads)
        return [ScanPiece(part, first, first * inner, 0, count, k * words) for k, (part, first) in enumerate(shared)]
    share = max(-(-count // (threads * tuning.TUNING.apart)) * tuning.TUNING.apart, 1)
    return [ScanPiece(loops, 0, 0, line, min(share, count - line), k * words) for k, line in enumerate(range(0, count, share))]


def _laid_out(found: Scan, strides: Sequence[tuple[int, int]], target: Target) -> tuple[ScanLayout, ScanKey | None]:
    """The layout of the lines, and the key of the kernel for contiguous or neighbouring lines; None if they are neither."""
    itemsize = found.data_type.dtype.itemsize
    contiguous, lanes = (itemsize, itemsize), emit.lanes_of(target)
    floating = found.data_type in FORMATS
    key = None if floating and found.product else ScanKey(found.data_type, found.product, found.exclusive, True)
    others = [d for d in range(len(found.sizes)) if d != found.axis]
    if key is not None and strides[found.axis] == contiguous and found.sizes[found.axis] >= lines.LEAST:
        return ScanLayout(strides, None, others, int(floating)), key
    longest = max(
        (d for d in others if found.sizes[d] > 1), key=lambda d: (strides[d] == contiguous, found.sizes[d]), default=None
    )
    if longest is None:
        return ScanLayout(strides, None, others, 1), None
    others.remove(longest)
    if key is not None and strides[longest] == contiguous:
        return ScanLayout(strides, longest, others, min(lanes, found.sizes[longest]) * floating), key
    return ScanLayout(strides, longest, others, lanes if found.sizes[longest] >= lanes else 1), None


def _rounded_up(nbytes: int) -> int:
    return -(-nbytes // CACHE_LINE) * CACHE_LINE


def _resolve(
    found: Scan,
    layout: ScanLayout,
    pieces: Sequence[ScanPiece],
    lanes: int,
    k: int,
    _: object,
    scratch: NDArray[np.int64],
    arrays: Arrays,
) -> None:
    """Compute the undecided lines of the group at which a piece stopped exactly, and store them from its first row on."""
    form = FORMATS[found.data_type]
    piece = pieces[k]
    state = scratch[piece.words :]
    _, _, count, mask, turn, line, row, _ = state[:STATE_WORDS].tolist()
    outer = np.unravel_index(piece.turn + turn, [found.sizes[d] for d in layout.others]) if layout.others else ()
    bits = f"u{found.data_type.dtype.itemsize}"
    n = found.sizes[found.axis] - row
    begun = state[STATE_WORDS:].view(np.float64)
    kept = state[STATE_WORDS + 2 * lanes :].view(np.uint8).view(bits)[: n * count].reshape(n, count)
    output = arrays[found.target].view(bits)
    for i in range(count):
        if mask >> i & 1:
            index: list[Any] = [0] * len(found.sizes)
            for d, at in zip(layout.others, outer, strict=True):
                index[d] = at
            if layout.lane is not None:
                index[layout.lane] = piece.line + line + i
            index[found.axis] = slice(n - 1, None, -1) if found.backward else slice(row, None)
            elements = kept[:, i].tolist()
            if found.product:
                made = exact.products(elements, form, exclusive=found.exclusive)
            else:
                made = exact.sums(
                    elements, form, exclusive=found.exclusive, begun=(float(begun[i]), float(begun[lanes + i])) if row else ()
                )
            TALLY.note(n)
            output[tuple(index)] = list(made)
