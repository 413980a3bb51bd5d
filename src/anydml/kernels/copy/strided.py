"""Moves of elements as steps of machine code: a strided copy each, in pieces for threads."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import accumulate
from math import prod
from operator import mul

import numpy as np

from anydml.kernels.call.steps import At, Rounds, Step
from anydml.kernels.code.targets import Target
from anydml.kernels.copy.copies import copy
from anydml.kernels.kernel import Lowered
from anydml.kernels.match.moves import Move
from anydml.tensor import TensorDesc

CONSTANT = 16  # bytes that each constant takes


def strided(target: Target, moves: Sequence[Move], tensors: Mapping[str, TensorDesc], *, threads: int, short: bool) -> Lowered:
    """One phase of all moves, between tensors with explicit strides, in at most so many pieces."""
    amounts = [prod(move.sizes) for move in moves]
    whole = sum(amounts)
    steps: list[tuple[float, Step]] = []  # each with its share of the work
    scratch = 0
    constants = {bits: CONSTANT * i for i, bits in enumerate(dict.fromkeys(m.bits for m in moves if m.bits is not None))}
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
    words = np.array([[bits, 0] for bits in constants], np.uint64).view(np.uint8).ravel() if constants else None
    return Lowered(target, [Rounds([_shared(steps, threads)])], scratch, words, short=short)


def _strides(steps: Sequence[Sequence[int]], strides: Sequence[int]) -> list[int]:
    """The strides of a box's dimensions in a tensor, in elements."""
    return [sum(map(mul, step, strides)) for step in steps]


def _shared(steps: list[tuple[float, Step]], threads: int) -> list[list[Step]]:
    """The steps in order, in at most so many pieces of about the same share of the work."""
    if threads == 1:
        return [[step for _, step in steps]]
    if 1 < len(steps) <= threads:
        return [[step] for _, step in steps]
    pieces: list[list[Step]] = [[] for _ in range(threads)]
    for (share, step), end in zip(steps, accumulate(share for share, _ in steps), strict=True):
        pieces[min(threads - 1, int((end - share / 2) * threads))].append(step)
    return [piece for piece in pieces if piece]
