"""The family of compiled copies: elements moved at affine indices, if there are enough to pay for the call."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

from anydml.fork_safety import guard
from anydml.kernels.code.targets import wanted
from anydml.kernels.copy import tuning
from anydml.kernels.kernel import Lowered, Machine, Refused
from anydml.kernels.match.layers import layers
from anydml.kernels.match.moves import computes, moves
from anydml.kernels.problem import Problem


def lower(problem: Problem, machine: Machine, least: int | None = None) -> Lowered | Refused:
    """Every move as a strided copy. Moves over other moves begin a new phase.

    least: the fewest bytes of output to take, else SMALL.
    """
    statement = problem.statement
    if (computed := computes(statement)) is not None:
        return Refused(computed)
    size = sum([problem.tensors[name].element_bytes for name in statement])
    enough = tuning.TUNING.small if least is None else least
    if size < enough:
        return Refused(f"an output of {size} bytes: below {enough}, NumPy's copy is as fast")
    found = moves(statement)
    if not isinstance(found, str):
        phases = [found]
    else:
        in_order = layers(statement, problem.tensors[next(iter(statement))].data_type)
        if isinstance(in_order, str):
            return Refused(found)
        phases = [in_order[:1], in_order[1:]] if in_order[1:] else [in_order]
    target = wanted(machine.isa, machine.stage)
    if isinstance(target, str):
        return Refused(target)
    threads = machine.threads if size >= tuning.TUNING.alone else 1
    return _layered()(target, phases, problem.tensors, threads=threads, short=size < tuning.TUNING.small * 8)


@cache
def _layered() -> Callable[..., Lowered]:
    with guard:  # here and not above: copies by NumPy do not need it
        from anydml.kernels.copy.strided import layered
    return layered
