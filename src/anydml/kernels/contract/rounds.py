"""Rounds of a convolution's parts, behind what comes before all of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from anydml.kernels.call.steps import At, Repeat, Rounds, Step
from anydml.kernels.contract import partition
from anydml.kernels.contract.geometry import OutputPart, Scratch
from anydml.kernels.contract.layout import IntegerLayout


def rounds(
    at: IntegerLayout,
    scratch: Scratch,
    before: Sequence[Step | Repeat],
    pieces: Callable[[OutputPart], list[OutputPart]],
    steps: Callable[[OutputPart], list[Step | Repeat]],
) -> list[Rounds]:
    """The rounds: `before`, if there is anything, and then every part, the pieces of which may run side by side."""
    mark = top = scratch.size

    def phase(part: OutputPart) -> list[list[Step | Repeat]]:
        nonlocal top
        scratch.size = mark  # rounds work in the same memory
        made = [steps(piece) for piece in pieces(part)]
        top = max(top, scratch.size)
        return made

    grid = list(partition.grid(at))
    begun = [[list(before)]] if before else []
    found = [Rounds(begun)] if before else []
    if len(grid) == 1 and not grid[0][1]:
        last = phase(grid[0][0])
        found = [Rounds([*begun, last] if len(last) > 1 else [[[*before, *last[0]]]])]
    else:
        for part, moves in grid:
            found.append(Rounds([phase(part)], tuple(n for n, _ in moves), tuple([phase(moved)] for _, moved in moves)))
    scratch.size = top
    return found


def based(rounds: Rounds, bases: Callable[[int], Mapping[str, At]]) -> Rounds:
    """Rounds with other bases of addresses, which are found by the number of a piece in its phase."""

    def of(phases: Any) -> Any:
        return [[[_step(step, bases(i)) for step in piece] for i, piece in enumerate(phase)] for phase in phases]

    return Rounds(of(rounds.phases), rounds.times, tuple(of(phases) for phases in rounds.moved))


def _step(step: Step | Repeat, bases: Mapping[str, At]) -> Step | Repeat:
    if isinstance(step, Repeat):
        return step._replace(first=[_step(x, bases) for x in step.first], second=[_step(x, bases) for x in step.second])
    arguments = (bases[x.base] + x.offset if isinstance(x, At) and x.base in bases else x for x in step.arguments)
    return step._replace(arguments=tuple(arguments))
