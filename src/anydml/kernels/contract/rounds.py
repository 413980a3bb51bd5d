"""The replacement of base addresses in rounds."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from anydml.kernels.call.steps import At, Repeat, Rounds, Step


def based(rounds: Rounds, bases: Callable[[int], Mapping[str, At]]) -> Rounds:
    """The rounds with other base addresses; bases: is given the number of a piece in its phase."""

    def of(phases: Any) -> Any:
        return [[[_step(step, bases(i)) for step in piece] for i, piece in enumerate(phase)] for phase in phases]

    return Rounds(of(rounds.phases), rounds.times, tuple(of(phases) for phases in rounds.moved))


def _step(step: Step | Repeat, bases: Mapping[str, At]) -> Step | Repeat:
    if isinstance(step, Repeat):
        return step._replace(first=[_step(x, bases) for x in step.first], second=[_step(x, bases) for x in step.second])
    arguments = (bases[x.base] + x.offset if isinstance(x, At) and x.base in bases else x for x in step.arguments)
    return step._replace(arguments=tuple(arguments))
