"""The family of compiled products of integer matrices: packed B, dot products of bytes, exact rounding in the tile."""

from __future__ import annotations

from typing import Any

from anydml.forks import guard
from anydml.kernels.code.targets import wanted
from anydml.kernels.kernel import Lowered, Machine, Refused
from anydml.kernels.match.product import product, ruled
from anydml.schema.check import Checked
from anydml.schema.statement import Statement

MOST_K = 1 << 24
# bytes to work in: these, and so many for each byte of the tensors; more is asked for where zero strides make one huge
WORKSPACE, WORKSPACE_PER_BYTE = 256 << 20, 4
SHORT = 1 << 20  # products so few that other threads can wait for them


def lower(statement: Statement, checked: Checked[Any], machine: Machine) -> Lowered | Refused:
    """The steps of a product; its scales are looked at before anything is written."""
    found = product(statement, checked)
    if isinstance(found, str):
        return Refused(found)
    target = wanted(machine.isa)
    if isinstance(target, str):
        return Refused(target)
    if (k := found.a.desc.sizes[-1]) > MOST_K:
        return Refused(f"K = {k}: panels of more than {MOST_K} rows of B take too much memory")
    with guard:
        from anydml.kernels.contract.plan import CONSTANTS, Plan  # with all that emits its kernels

    plan = Plan(found, target, machine.threads)
    tensors = sum(t.element_bytes for t in checked.tensors.values())
    if (needed := plan.scratch.size + plan.packed.size + plan.spare.size) > WORKSPACE + WORKSPACE_PER_BYTE * tensors:
        return Refused(f"{needed} bytes to work in: too many for tensors of {tensors} bytes")
    return Lowered(
        target,
        plan.rounds,
        plan.scratch.size,
        constants=CONSTANTS,
        packing=plan.packing if plan.owned else (),
        packed=plan.packed.size,
        spare=plan.spare.size,
        fails=True,
        judges=ruled(checked) == found.scale_names,
        short=plan.m * plan.k * plan.n * plan.batches < SHORT,
    )
