"""The family of compiled copies: elements moved at affine indices, where there are enough to pay for the call."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

from anydml.forks import guard
from anydml.kernels.code.targets import wanted
from anydml.kernels.kernel import Lowered, Machine, Refused
from anydml.kernels.match.moves import computes, moves
from anydml.schema.check import Checked
from anydml.schema.statement import Statement

SMALL = 1 << 15  # bytes of output below which NumPy's copy costs no more than the call into compiled code saves
ALONE = 3 << 20  # bytes of output below which a second thread costs more than it brings


def lower(statement: Statement, checked: Checked[Any], machine: Machine, least: int | None = None) -> Lowered | Refused:
    """Every move as a strided copy; all of them are one phase. least: the bytes of output that are not too few, else SMALL."""
    if (computed := computes(statement)) is not None:
        return Refused(computed)
    size = sum([checked.tensors[name].element_bytes for name in statement])
    enough = SMALL if least is None else least
    if size < enough:
        return Refused(f"an output of {size} bytes: below {enough}, NumPy's copy is as fast")
    found = moves(statement)
    if isinstance(found, str):
        return Refused(found)
    target = wanted(machine.isa)
    if isinstance(target, str):
        return Refused(target)
    return _strided()(target, found, checked.tensors, threads=machine.threads if size >= ALONE else 1, short=size < SMALL * 8)


@cache
def _strided() -> Callable[..., Lowered]:
    with guard:  # here and not above: what NumPy copies needs none of it
        from anydml.kernels.copy.strided import strided
    return strided
