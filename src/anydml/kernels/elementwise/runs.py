"""Runs of steps that share a scratch: the elements that a run leaves undecided are decided before the next run begins."""

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
        """The offset at which a stream begins, and its strides in bytes along the dimensions."""
        strides, itemsize = self.tensor.explicit_strides, self.tensor.data_type.dtype.itemsize
        first, *steps = (sum(a * b for a, b in zip(x, strides, strict=True)) * itemsize for x in (s.start, *s.steps))
        return self.base + first, steps


class Undecided(Protocol):
    """Elements that a run's kernels leave undecided."""

    def begun(self, scratch: NDArray[np.int64]) -> bool:
        """Whether a piece has stopped, in this call or in one that it resumes: then the run's steps have begun."""

    def decide(self, scratch: NDArray[np.int64], arrays: Arrays) -> None:
        """Decide the elements on the lists of all pieces, after one has stopped, and empty the lists."""


class Run(NamedTuple):
    """Phases of steps, the bytes of scratch that they take, and the elements that they may leave undecided."""

    phases: Phases
    scratch: int = 0
    undecided: Undecided | None = None


def in_order(target: Target, runs: Sequence[Run], inner: Mapping[str, int], *, short: bool) -> Lowered:
    """Runs as one; inner: the bytes of each tensor that one run writes for another, by the base name of its addresses.

    A run may begin again until a later one has ended: it reads no output of a later run.
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
    """Runs with equal numbers of pieces and steps, interleaved: the first steps of all runs, then the second ones, and so on.

    No run reads another one's output. Steps that left nothing undecided may begin again.
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
    """Decide the elements that the stopped run left undecided; runs before it have ended, and runs after it have not begun."""
    stopped = max(k for k, (first, elements) in enumerate(undecided) if elements.begun(scratch[first:]))
    for first, elements in undecided[: stopped + 1]:
        elements.decide(scratch[first:], arrays)
