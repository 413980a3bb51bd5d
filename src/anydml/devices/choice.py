"""The choice of a kernel: the first family that takes a statement, whose code compiles and whose memory fits."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace
from functools import cache, partial
from typing import Any

from anydml.devices.compiled import CompiledOperator
from anydml.devices.families import Families
from anydml.devices.memory import memory_bytes
from anydml.devices.slow import InPython, left_undecided, not_compiled
from anydml.fork_safety import guard
from anydml.kernels.kernel import Built, Lowered, Machine, Refused
from anydml.kernels.lower import lowerings, tried
from anydml.kernels.problem import problem_of
from anydml.schema.check import Checked
from anydml.schema.operator import Desc

Refusals = list[dict[str, str]]


def chosen(families: Families, checked: Checked[Desc], machine: Machine) -> tuple[CompiledOperator, Refusals]:
    """The operator compiled by the first family that can, and the reasons why the families before it could not.

    MemoryError if every kernel would take more scratch and persistent memory than this machine has.
    """
    as_newest = checked.desc.as_newest()
    newest = checked if as_newest is checked.desc else replace(checked, desc=as_newest)
    problem, refused = problem_of(newest), list[dict[str, str]]()
    least: int | None = None
    for name, made in lowerings(families, problem, machine):
        what = type(as_newest).__name__
        built: Built | Refused
        if isinstance(made, Lowered):
            built = tried(name, partial(linked, made, left_undecided(what, name)))
        elif (
            isinstance(made, Built) and refused and not made.bare and made.on_device is None
        ):  # this fallback may compute in Python
            built = not_compiled(what, refused).watching(made)
        else:
            built = made
        if isinstance(built, Refused):
            reason = built.reason
        else:
            compiled = CompiledOperator(checked, name, built)
            if (needed := compiled.most_bytes) <= memory_bytes():
                if not isinstance(made, Refused) and (files := dumping()):
                    files.operator(newest.desc, problem, name, made, refused)
                return compiled, refused
            least = min(needed, least or needed)
            reason = f"{needed} bytes of scratch and persistent memory, and this machine has {memory_bytes()}"
        refused.append({"kernel": name, "reason": reason})
    raise MemoryError(
        f"{checked.desc.spec.name} takes at least {least} bytes of scratch and persistent memory for this desc, "
        f"and this machine has {memory_bytes()}"
    )


def dumping() -> Any:
    """The module that writes kernels to files, imported only if ANYDML_DUMP is set; otherwise None."""
    if not os.environ.get("ANYDML_DUMP"):
        return None
    with guard:
        from anydml.devices import dump
    return dump


def linked(lowered: Lowered, slow: InPython) -> Built:
    """The call of a lowered statement. Uncompilable if the code that runs the steps cannot be compiled."""
    return _link()(lowered, slow)


@cache
def _link() -> Callable[[Lowered, InPython], Built]:
    with guard:  # imported here, since kernels that use NumPy do not need it
        from anydml.devices.link import link
    return link
