"""The family of compiled products and convolutions of integers: packed B, dot products of bytes, exact rounding in the tile."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TypeVar

from anydml.fork_safety import guard
from anydml.kernels.call.steps import Rounds
from anydml.kernels.code.targets import Target, wanted
from anydml.kernels.kernel import Decide, Lowered, Machine, Refused
from anydml.kernels.match.convolution import Convolution, convolution
from anydml.kernels.match.product import MatrixProduct, product, ruled
from anydml.kernels.match.summed import Summed, summed
from anydml.schema.check import Checked
from anydml.schema.statement import Statement
from anydml.tensor import TensorDesc

if TYPE_CHECKING:
    from anydml.kernels.contract.channels.plan import Channels
    from anydml.kernels.contract.channels.taps_plan import Taps
    from anydml.kernels.contract.panels.plan import IntegerPlan
    from anydml.kernels.contract.places.plan import Direct
    from anydml.kernels.contract.problem import Estimated
    from anydml.kernels.contract.winograd.plan import Squares

P = TypeVar("P", bound="IntegerPlan | Direct | Channels | Taps | Squares")
MOST_K = 1 << 24
# bytes to work in: these, and so many for each byte of the tensors; more is asked for where zero strides make one huge
WORKSPACE, WORKSPACE_PER_BYTE = 256 << 20, 4
APART = "outputs are not rounded where they belong"
SHORT = 1 << 20  # products so few that other threads can wait for them


def contraction(statement: Statement, checked: Checked[Any]) -> MatrixProduct | Convolution | Summed | str:
    """The product or convolution that the statement comes to, or why it is none."""
    found = product(statement, checked)
    if not isinstance(found, str):
        return found
    for match in (convolution, summed):
        other = match(statement, checked)
        if not isinstance(other, str):
            return other
    return found


def lower(statement: Statement, checked: Checked[Any], machine: Machine) -> Lowered | Refused:
    """The steps of a contraction; its scales are looked at before anything is written."""
    found = contraction(statement, checked)
    if isinstance(found, str):
        return Refused(found)
    target = wanted(machine.isa, machine.stage)
    if isinstance(target, str):
        return Refused(target)
    if (k := found.terms) > MOST_K:
        return Refused(f"K = {k}: panels of more than {MOST_K} rows of B take too much memory")
    with guard:  # with all that emits its kernels
        from anydml.kernels.contract.panels.mapped import mapped
        from anydml.kernels.contract.panels.plan import CONSTANTS

    after: list[Rounds] = []
    decide: Decide | None = None
    plan: IntegerPlan | Direct | Channels | Taps | Squares | Refused
    if isinstance(found, Summed):
        made = mapped(found, checked, machine, target)
        if isinstance(made, Refused):
            return made
        plan, last, decide = made
        plan, after = _fitting(plan, checked.tensors), [last]
    else:
        plan = planned(found, checked.tensors, target, machine.threads)
    if isinstance(plan, Refused):
        return plan
    return Lowered(
        target,
        [*plan.rounds, *after],
        plan.scratch.size,
        plan.passing.size,
        constants=CONSTANTS,
        packing=plan.packing if plan.owned else (),
        packed=plan.packed.size,
        spare=plan.spare.size,
        fails=not after,
        judges=ruled(checked) == found.scale_names,
        short=plan.at.problem.products < SHORT,
        decide=decide,
    )


def planned(
    found: MatrixProduct | Convolution,
    tensors: Mapping[str, TensorDesc],
    target: Target,
    threads: int,
    estimated: Estimated | None = None,
) -> IntegerPlan | Direct | Channels | Taps | Squares | Refused:
    """The plan of a product or convolution; Refused where it would take too much memory beside the tensors.

    estimated: the numbers that its outputs are estimated by; Refused where tiles cannot do that.
    """
    with guard:
        from anydml.kernels.contract.channels import taps_plan as by_taps
        from anydml.kernels.contract.channels.plan import Channels, by_channel
        from anydml.kernels.contract.panels.plan import IntegerPlan
        from anydml.kernels.contract.places.plan import Direct
        from anydml.kernels.contract.places.problem import convolved
        from anydml.kernels.contract.problem import of_convolution, of_product
        from anydml.kernels.contract.winograd.plan import Squares, squared

    whole: IntegerPlan | Refused
    if isinstance(found, MatrixProduct):
        whole = _fitting(IntegerPlan(of_product(found, estimated), target, threads), tensors)
        return whole if estimated is None else _estimating(whole)
    plan: Direct | Channels | Taps | Squares | None = None
    if (channels := by_channel(found, estimated)) is not None and channels.serves(target):
        plan = Channels(channels, target, threads)
    elif channels is not None and by_taps.serves(channels, target):
        if estimated is not None:
            return Refused(APART)
        plan = by_taps.Taps(channels, target, threads)
    elif (square := squared(found)) is not None and square.serves(target):
        if estimated is not None:
            return Refused(APART)
        plan = Squares(square, target, threads)
    elif (places := convolved(found, estimated)) is not None and places.serves(target):
        plan = Direct(places, target, threads)
    if plan is None or isinstance(_fitting(plan, tensors), Refused):
        whole = _fitting(IntegerPlan(of_convolution(found, estimated), target, threads), tensors)
        return whole if estimated is None else _estimating(whole)
    return plan


def _estimating(plan: IntegerPlan | Refused) -> IntegerPlan | Refused:
    """A plan whose tiles estimate outputs."""
    return plan if isinstance(plan, Refused) or plan.estimates else Refused(APART)


def _fitting(plan: P, tensors: Mapping[str, TensorDesc]) -> P | Refused:
    """A plan, unless it takes too much memory beside the tensors."""
    size, needed = sum(t.element_bytes for t in tensors.values()), _needed(plan)
    if needed > WORKSPACE + WORKSPACE_PER_BYTE * size:
        return Refused(f"{needed} bytes to work in: too many for tensors of {size} bytes")
    return plan


def _needed(plan: IntegerPlan | Direct | Channels | Taps | Squares) -> int:
    """Bytes to work in."""
    return plan.scratch.size + plan.passing.size + plan.packed.size + plan.spare.size
