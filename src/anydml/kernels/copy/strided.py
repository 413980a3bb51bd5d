"""Moves of elements as steps of machine code: each is a strided copy, in pieces for threads."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import accumulate
from math import prod
from operator import mul

import numpy as np

from anydml.kernels.call.steps import At, Rounds, Step
from anydml.kernels.code.targets import Target
from anydml.kernels.copy import tuning
from anydml.kernels.copy.copies import copy
from anydml.kernels.copy.text import LINE
from anydml.kernels.kernel import Lowered
from anydml.kernels.match.moves import Move
from anydml.tensor import TensorDesc

CONSTANT = 16  # bytes that each constant takes


def strided(target: Target, moves: Sequence[Move], tensors: Mapping[str, TensorDesc], *, threads: int, short: bool) -> Lowered:
    """A single phase of all moves between tensors with explicit strides, in at most as many pieces as threads."""
    return layered(target, [moves], tensors, threads=threads, short=short)


def layered(
    target: Target, layers: Sequence[Sequence[Move]], tensors: Mapping[str, TensorDesc], *, threads: int, short: bool
) -> Lowered:
    """A phase for the moves of each layer, in order."""
    bits = dict.fromkeys(move.bits for moves in layers for move in moves if move.bits is not None)
    constants = {value: CONSTANT * i for i, value in enumerate(bits)}
    phases, scratch = [], 0
    for moves in layers:
        steps, needed = _phase(target, _part_by_part(moves, tensors), tensors, constants, threads)
        phases.append(_shared(steps, threads))
        scratch = max(scratch, needed)
    words = np.array([[value, 0] for value in constants], np.uint64).view(np.uint8).ravel() if constants else None
    return Lowered(target, [Rounds(phases)], scratch, constants=words, short=short)


def _phase(
    target: Target,
    moves: Sequence[Move],
    tensors: Mapping[str, TensorDesc],
    constants: Mapping[int, int],
    threads: int,
) -> tuple[list[tuple[float, Step]], int]:
    """The steps of moves, each with its share of the work, and their scratch. constants: the place of each constant."""
    amounts = [prod(move.sizes) for move in moves]
    whole = sum(amounts)
    steps: list[tuple[float, Step]] = []
    scratch = 0
    for move, amount in zip(moves, amounts, strict=True):
        weight = amount / whole
        into = tensors[move.target]
        itemsize, to = into.data_type.dtype.itemsize, into.explicit_strides
        if move.bits is None:
            strides = tensors[move.source].explicit_strides
            first = At(move.source, sum(map(mul, move.start, strides)) * itemsize)
            steps_in = [stride * itemsize for stride in _strides(move.steps, strides)]
        else:
            first, steps_in = At("constants", constants[move.bits]), [0] * len(move.sizes)
        made = copy(
            target,
            move.sizes,
            steps_in,
            [stride * itemsize for stride in (_strides(move.places, to) if move.places else to)],
            itemsize,
            threads=max(1, round(threads * weight)),
            stream=True,
        )
        pieces = made.steps(first, At(move.target, sum(map(mul, move.first, to)) * itemsize), At("scratch", scratch))
        steps += [(weight / len(pieces), piece) for piece in pieces]
        scratch += made.scratch * len(pieces)
    return steps, scratch


def _part_by_part(moves: Sequence[Move], tensors: Mapping[str, TensorDesc]) -> Sequence[Move]:
    """The moves in the order of the parts of the output that they write. Where several moves write to the same cache lines,
    the lines of a part are then still in a near cache."""
    t, itemsize = tensors[moves[0].target], tensors[moves[0].target].data_type.dtype.itemsize
    if len({move.target for move in moves}) > 1 or len(moves) == 1 or any(move.places for move in moves):
        return moves
    parts = min(-(-t.element_bytes // tuning.TUNING.near_output), tuning.TUNING.most_moves // len(moves))
    if parts < 2 or min(move.sizes[-1] for move in moves) * itemsize >= LINE:
        return moves
    whole = list(moves)
    for d, size in enumerate(t.sizes):
        if parts < 2 or any(move.sizes[d] != size for move in moves):
            break
        step = -(-size // parts)
        whole = [
            _part(move, d, a, min(a + step, size))
            for group in _grouped(whole, len(moves))
            for a in range(0, size, step)
            for move in group
        ]
        parts //= -(-size // step)
    return whole


def _grouped(moves: Sequence[Move], count: int) -> list[Sequence[Move]]:
    return [moves[i : i + count] for i in range(0, len(moves), count)]


def _part(move: Move, d: int, first: int, end: int) -> Move:
    """The elements of a move from `first` to `end` along a dimension."""
    start = move.start
    if move.bits is None:
        start = tuple([s + first * step for s, step in zip(start, move.steps[d], strict=True)])
    return move._replace(
        first=(*move.first[:d], first, *move.first[d + 1 :]),
        sizes=(*move.sizes[:d], end - first, *move.sizes[d + 1 :]),
        start=start,
    )


def _strides(steps: Sequence[Sequence[int]], strides: Sequence[int]) -> list[int]:
    """The strides of a box's dimensions in a tensor, in elements."""
    return [sum(map(mul, step, strides)) for step in steps]


def _shared(steps: list[tuple[float, Step]], threads: int) -> list[list[Step]]:
    """The steps in order, in at most as many pieces as threads, each with about the same share of the work."""
    if threads == 1:
        return [[step for _, step in steps]]
    if 1 < len(steps) <= threads:
        return [[step] for _, step in steps]
    pieces: list[list[Step]] = [[] for _ in range(threads)]
    for (share, step), end in zip(steps, accumulate(share for share, _ in steps), strict=True):
        pieces[min(threads - 1, int((end - share / 2) * threads))].append(step)
    return [piece for piece in pieces if piece]
