"""The family of compiled copies: elements moved at affine indices, where there are enough to pay for the call."""

from __future__ import annotations

from itertools import accumulate
from math import prod
from operator import mul
from typing import Any

from anydml.forks import guard
from anydml.kernels.call.steps import At, Rounds, Step
from anydml.kernels.code.targets import wanted
from anydml.kernels.kernel import Lowered, Machine, Refused
from anydml.kernels.match.moves import computes, moves
from anydml.schema.check import Checked
from anydml.schema.statement import Statement

SMALL = 1 << 15  # bytes of output below which NumPy's copy costs no more than the call into compiled code saves
ALONE = 3 << 20  # bytes of output below which a second thread costs more than it brings


def lower(statement: Statement, checked: Checked[Any], machine: Machine) -> Lowered | Refused:
    """Every move as a strided copy; all of them are one phase."""
    if (computed := computes(statement)) is not None:
        return Refused(computed)
    tensors = checked.tensors
    size = sum([tensors[name].element_bytes for name in statement])
    if size < SMALL:
        return Refused(f"an output of {size} bytes: below {SMALL}, NumPy's copy is as fast")
    found = moves(statement)
    if isinstance(found, str):
        return Refused(found)
    target = wanted(machine.isa)
    if isinstance(target, str):
        return Refused(target)
    with guard:
        from anydml.kernels.copy.copies import copy  # with all that emits its kernels

    threads = machine.threads if size >= ALONE else 1
    amounts = [prod(move.sizes) for move in found]
    whole = sum(amounts)
    steps: list[tuple[float, Step]] = []  # each with its share of the work
    scratch = 0
    for move, amount in zip(found, amounts, strict=True):
        weight = amount / whole
        source, into = tensors[move.source], tensors[move.target]
        itemsize, strides, to = into.data_type.dtype.itemsize, source.explicit_strides, into.explicit_strides
        made = copy(
            target,
            move.sizes,
            [sum(map(mul, step, strides)) * itemsize for step in move.steps],
            [stride * itemsize for stride in to],
            itemsize,
            threads=max(1, round(threads * weight)),
            stream=True,
        )
        first = At(move.source, sum(map(mul, move.start, strides)) * itemsize)
        pieces = made.steps(first, At(move.target, sum(map(mul, move.first, to)) * itemsize), At("scratch", scratch))
        steps += [(weight / len(pieces), piece) for piece in pieces]
        scratch += made.scratch * len(pieces)
    return Lowered(target, [Rounds([_shared(steps, threads)])], scratch, short=size < SMALL * 8)


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
