"""Runs of steps that share a scratch: the elements that a run leaves undecided are decided before the next run begins."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from anydml.kernels.call.steps import At, Phases, Repeat, Rounds, Step
from anydml.kernels.code.targets import Target
from anydml.kernels.kernel import Lowered
from anydml.kernels.match.maps import Stream
from anydml.kernels.undecided.state import UndecidedLists, in_phases, interleaved
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


class Run(NamedTuple):
    """Phases of steps, the bytes of scratch that they take, and the elements that they may leave undecided."""

    phases: Phases
    scratch: int = 0
    undecided: UndecidedLists | None = None


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
    undecided: list[UndecidedLists] = []
    for run in runs:
        bases = {**own, "scratch": At("scratch", size)}
        phases += [[[_moved(step, bases) for step in piece] for piece in phase] for phase in run.phases]
        if run.undecided is not None:
            undecided.append(run.undecided.moved(size // 8))
        size += lines(run.scratch)
    return Lowered(target, [Rounds(phases)], scratch=size, short=short, decide=in_phases(undecided) if undecided else None)


def in_turns(target: Target, runs: Sequence[Run], *, short: bool) -> Lowered:
    """Runs with equal numbers of pieces and steps, interleaved: the first steps of all runs, then the second ones, and so on.

    No run reads another one's output. Steps that left nothing undecided may begin again.
    """
    pieces: list[list[Step | Repeat]] = [[] for _ in runs[0].phases[0]]
    undecided: list[UndecidedLists] = []
    moved: list[list[list[Step]]] = []
    size = 0
    for run in runs:
        bases = {"scratch": At("scratch", size)}
        (phase,) = run.phases
        moved.append([[_moved(step, bases) for step in piece] for piece in phase])
        if run.undecided is not None:
            undecided.append(run.undecided.moved(size // 8))
        size += lines(run.scratch)
    for k, piece in enumerate(pieces):
        for turn in zip(*(phase[k] for phase in moved), strict=True):
            piece += turn
    return Lowered(target, [Rounds([pieces])], scratch=size, short=short, decide=interleaved(undecided))


def lines(nbytes: int) -> int:
    """Bytes rounded up to whole cache lines."""
    return -(-nbytes // LINE) * LINE


def _moved(step: Step | Repeat, bases: Mapping[str, At]) -> Step:
    assert isinstance(step, Step)
    moved = (bases[x.base] + x.offset if isinstance(x, At) and x.base in bases else x for x in step.arguments)
    return step._replace(arguments=tuple(moved))
