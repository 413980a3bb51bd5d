"""The choice of a kernel: the first family that takes a statement, and whose code and memory are to be had."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cache

from anydml.devices.compiled import CompiledOperator
from anydml.devices.families import Families
from anydml.devices.memory import memory_bytes
from anydml.forks import guard
from anydml.kernels.code.engine import Uncompilable
from anydml.kernels.kernel import Built, Lowered, Machine, Refused
from anydml.kernels.lower import lowerings
from anydml.schema.check import Checked
from anydml.schema.operator import Desc
from anydml.schema.statement import meaning

Refusals = list[dict[str, str]]


def chosen(families: Families, checked: Checked[Desc], machine: Machine) -> tuple[CompiledOperator, Refusals]:
    """The operator as the first family that can compiles it, and why those before it did not.

    MemoryError where every kernel would take more scratch and persistent memory than this machine has.
    """
    as_newest = checked.desc.as_newest()
    newest = checked if as_newest is checked.desc else replace(checked, desc=as_newest)
    refused: Refusals = []
    least: int | None = None
    for name, made in lowerings(families, meaning(as_newest), newest, machine):
        if isinstance(made, Refused):
            reason = made.reason
        else:
            try:
                compiled = CompiledOperator(checked, name, linked(made) if isinstance(made, Lowered) else made)
            except Uncompilable as error:
                reason = str(error)
            else:
                if (needed := compiled.most_bytes) <= memory_bytes():
                    return compiled, refused
                least = min(needed, least or needed)
                reason = f"{needed} bytes of scratch and persistent memory, and this machine has {memory_bytes()}"
        refused.append({"kernel": name, "reason": reason})
    raise MemoryError(
        f"{checked.desc.spec.name} takes at least {least} bytes of scratch and persistent memory for this desc, "
        f"and this machine has {memory_bytes()}"
    )


def linked(lowered: Lowered) -> Built:
    """The call of a lowered statement. Uncompilable where the code that runs the steps cannot be made."""
    return _link()(lowered)


@cache
def _link() -> Callable[[Lowered], Built]:
    with guard:  # here and not above: what NumPy computes needs none of it
        from anydml.devices.link import link
    return link
