"""Runs of steps, one after another in one scratch: what each leaves undecided is decided before the next one begins."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from anydml.kernels.call.steps import At, Phases, Repeat, Rounds, Step
from anydml.kernels.code.targets import Target
from anydml.kernels.kernel import Arrays, Lowered
from anydml.kernels.match.maps import Stream
from anydml.tensor import TensorDesc

LINE = 64  # bytes


class TensorStart(NamedTuple):
    """A tensor, and where it begins."""

    base: At
    tensor: TensorDesc

    def of(self, s: Stream) -> tuple[At, list[int]]:
        """Where a stream of it begins, and its strides in bytes along the dimensions."""
        strides, itemsize = self.tensor.explicit_strides, self.tensor.data_type.dtype.itemsize
        first, *steps = (sum(a * b for a, b in zip(x, strides, strict=True)) * itemsize for x in (s.start, *s.steps))
        return self.base + first, steps


class Undecided(Protocol):
    """Elements that a run's kernels leave undecided."""

    def begun(self, scratch: NDArray[np.int64]) -> bool:
        """Whether a piece has stopped in this call or in one that it takes up, so that their steps have been begun."""

    def decide(self, scratch: NDArray[np.int64], arrays: Arrays) -> None:
        """Decide what is on the lists of all pieces, when one has stopped, and empty them."""


class Run(NamedTuple):
    """Phases of steps, the bytes of scratch that they take, and the elements that they may leave undecided."""

    phases: Phases
    scratch: int = 0
    undecided: Undecided | None = None


def in_order(target: Target, runs: Sequence[Run], inner: Mapping[str, int], *, short: bool) -> Lowered:
    """Runs as one; inner: the bytes of each tensor that one leaves to another, by the name that addresses are from.

    A run may be begun again as long as none after it has ended: what it reads is no output of one after it.
    """
    own: dict[str, At] = {}
    size = 0
    for name, nbytes in inner.items():
        own[name] = At("scratch", size)
        size += lines(nbytes)
    phases: list[list[list[Step | Repeat]]] = []
    undecided: list[tuple[int, Undecided]] = []
    for run in runs:
        bases = {**own, "scratch": At("scratch", size)}
        phases += [[[_moved(step, bases) for step in piece] for piece in phase] for phase in run.phases]
        if run.undecided is not None:
            undecided.append((size // 8, run.undecided))
        size += lines(run.scratch)
    decide = partial(_decide, undecided) if undecided else None
    return Lowered(target, [Rounds(phases)], scratch=size, short=short, decide=decide)


def in_turns(target: Target, runs: Sequence[Run], *, short: bool) -> Lowered:
    """Runs of as many pieces, each of as many steps, whose steps take turns: those of the first, then of the second ones.

    No run reads what another one writes. Steps that left nothing undecided may be begun again.
    """
    pieces: list[list[Step | Repeat]] = [[] for _ in runs[0].phases[0]]
    undecided: list[tuple[int, Undecided]] = []
    moved: list[list[list[Step]]] = []
    size = 0
    for run in runs:
        bases = {"scratch": At("scratch", size)}
        (phase,) = run.phases
        moved.append([[_moved(step, bases) for step in piece] for piece in phase])
        if run.undecided is not None:
            undecided.append((size // 8, run.undecided))
        size += lines(run.scratch)
    for k, piece in enumerate(pieces):
        for turn in zip(*(phase[k] for phase in moved), strict=True):
            piece += turn
    return Lowered(target, [Rounds([pieces])], scratch=size, short=short, decide=partial(_decide_all, undecided))


def _decide_all(undecided: Sequence[tuple[int, Undecided]], scratch: NDArray[np.int64], arrays: Arrays) -> None:
    for first, elements in undecided:
        elements.decide(scratch[first:], arrays)


def lines(nbytes: int) -> int:
    """Bytes rounded up to whole cache lines."""
    return -(-nbytes // LINE) * LINE


def _moved(step: Step | Repeat, bases: Mapping[str, At]) -> Step:
    assert isinstance(step, Step)
    moved = (bases[x.base] + x.offset if isinstance(x, At) and x.base in bases else x for x in step.arguments)
    return step._replace(arguments=tuple(moved))


def _decide(undecided: Sequence[tuple[int, Undecided]], scratch: NDArray[np.int64], arrays: Arrays) -> None:
    """Decide what the run that stopped has left undecided; those before it have ended, and those after it have not begun."""
    stopped = max(k for k, (first, elements) in enumerate(undecided) if elements.begun(scratch[first:]))
    for first, elements in undecided[: stopped + 1]:
        elements.decide(scratch[first:], arrays)
