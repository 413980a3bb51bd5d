"""The family of compiled copies: elements moved at affine indices, where there are enough to pay for the call."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

from anydml.forks import guard
from anydml.kernels.code.targets import wanted
from anydml.kernels.kernel import Lowered, Machine, Refused
from anydml.kernels.match.moves import Move, computes, moves
from anydml.kernels.match.spread import spread
from anydml.schema.check import Checked
from anydml.schema.statement import Statement

SMALL = 1 << 15  # bytes of output below which NumPy's copy costs no more than the call into compiled code saves
ALONE = 3 << 20  # bytes of output below which a second thread costs more than it brings


def lower(statement: Statement, checked: Checked[Any], machine: Machine, least: int | None = None) -> Lowered | Refused:
    """Every move as a strided copy; all of them are one phase, but for those over others.

    least: the bytes of output that are not too few, else SMALL.
    """
    if (computed := computes(statement)) is not None:
        return Refused(computed)
    size = sum([checked.tensors[name].element_bytes for name in statement])
    enough = SMALL if least is None else least
    if size < enough:
        return Refused(f"an output of {size} bytes: below {enough}, NumPy's copy is as fast")
    found, over = moves(statement), list[Move]()
    if isinstance(found, str):
        in_order = spread(statement)
        if isinstance(in_order, str):
            return Refused(found)
        found, over = in_order[:1], in_order[1:]
    target = wanted(machine.isa)
    if isinstance(target, str):
        return Refused(target)
    threads, short = machine.threads if size >= ALONE else 1, size < SMALL * 8
    made: Lowered = _strided()(target, found, checked.tensors, threads=threads, short=short)
    if not over:
        return made
    later: Lowered = _strided()(target, over, checked.tensors, threads=threads, short=short)
    phases = [phase for lowered in (made, later) for phase in lowered.rounds[0].phases]
    return made._replace(rounds=[made.rounds[0]._replace(phases=phases)], scratch=max(made.scratch, later.scratch))


@cache
def _strided() -> Callable[..., Lowered]:
    with guard:  # here and not above: what NumPy copies needs none of it
        from anydml.kernels.copy.strided import strided
    return strided
