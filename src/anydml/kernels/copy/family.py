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
    size = sum([checked.tensors[name].element_bytes for name in statement])
    if size < SMALL:
        return Refused(f"an output of {size} bytes: below {SMALL}, NumPy's copy is as fast")
    found = moves(statement)
    if isinstance(found, str):
        return Refused(found)
    target = wanted(machine.isa)
    if isinstance(target, str):
        return Refused(target)
    with guard:
        from anydml.kernels.copy import copies  # with all that emits its kernels

    threads = machine.threads if size >= ALONE else 1
    whole = sum(prod(move.sizes) for move in found)
    steps: list[tuple[float, Step]] = []  # each with its share of the work
    scratch = 0
    for move in found:
        weight = prod(move.sizes) / whole
        source, into = checked.tensors[move.source], checked.tensors[move.target]
        itemsize, strides = into.data_type.dtype.itemsize, source.explicit_strides
        made = copies.copy(
            target,
            move.sizes,
            [sum(map(mul, step, strides)) * itemsize for step in move.steps],
            [stride * itemsize for stride in into.explicit_strides],
            itemsize,
            threads=max(1, round(threads * weight)),
            stream=True,
        )
        places = _first(move.source, source, move.start), _first(move.target, into, move.first)
        pieces = made.steps(*places, At("scratch", scratch))
        steps += [(weight / len(pieces), piece) for piece in pieces]
        scratch += made.scratch * len(pieces)
    return Lowered(target, [Rounds([_shared(steps, threads)])], scratch, short=size < SMALL * 8)


def _first(name: str, t: Any, index: tuple[int, ...]) -> At:
    return At(name, sum(map(mul, index, t.explicit_strides)) * t.data_type.dtype.itemsize)


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
