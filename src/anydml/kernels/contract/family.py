"""The family of compiled products and convolutions of integers: packed B, dot products of bytes, exact rounding in the tile."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from anydml.fork_safety import guard
from anydml.kernels.call.steps import Rounds
from anydml.kernels.code.targets import Target, wanted
from anydml.kernels.contract import tuning
from anydml.kernels.kernel import Decide, Lowered, Machine, Refused
from anydml.kernels.match.convolution import Convolution, convolution
from anydml.kernels.match.product import MatrixProduct, product
from anydml.kernels.match.summed import Summed, summed
from anydml.kernels.problem import Problem
from anydml.tensor import TensorDesc

if TYPE_CHECKING:
    from anydml.kernels.contract.plan import IntegerPlan
    from anydml.kernels.contract.problem import Estimated

MOST_K = 1 << 24
# most bytes of scratch: this, plus this many for each byte of the tensors; with strides of 0, a plan may need much more
WORKSPACE, WORKSPACE_PER_BYTE = 256 << 20, 4
APART = "outputs are not rounded where they belong"


def contraction(problem: Problem) -> MatrixProduct | Convolution | Summed | str:
    """The product or convolution that the statement matches, or the reason that it is none."""
    found = product(problem)
    if not isinstance(found, str):
        return found
    for match in (convolution, summed):
        other = match(problem)
        if not isinstance(other, str):
            return other
    return found


def lower(problem: Problem, machine: Machine) -> Lowered | Refused:
    """The steps of a contraction; all scales are checked before anything is written."""
    found = contraction(problem)
    if isinstance(found, str):
        return Refused(found)
    target = wanted(machine.isa, machine.stage)
    if isinstance(target, str):
        return Refused(target)
    if (k := found.terms) > MOST_K:
        return Refused(f"K = {k}: panels of more than {MOST_K} rows of B take too much memory")
    with guard:  # these import all modules that emit its kernels
        from anydml.kernels.contract.panels.mapped import mapped
        from anydml.kernels.contract.plan import CONSTANTS

    after: list[Rounds] = []
    decide: Decide | None = None
    plan: IntegerPlan | Refused
    if isinstance(found, Summed):
        made = mapped(found, problem, machine, target)
        if isinstance(made, Refused):
            return made
        plan, last, decide = made
        plan, after = _fitting(plan, problem.tensors), [last]
    else:
        plan = planned(found, problem.tensors, target, machine.threads)
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
        judges=problem.promises.ruled == found.scale_names,
        short=plan.at.problem.products < tuning.TUNING.short,
        decide=decide,
    )


def planned(
    found: MatrixProduct | Convolution,
    tensors: Mapping[str, TensorDesc],
    target: Target,
    threads: int,
    estimated: Estimated | None = None,
) -> IntegerPlan | Refused:
    """The plan of a product or convolution; Refused if it takes too much memory compared to the tensors.

    estimated: the numbers by which outputs are estimated; Refused if tiles cannot do that.
    """
    with guard:
        from anydml.kernels.contract.panels.plan import PanelPlan
        from anydml.kernels.contract.problem import of_convolution, of_one_place, of_product

    if isinstance(found, MatrixProduct):
        problem = of_product(found, estimated)
    else:
        plan = _of_windows(found, target, threads, estimated)
        if isinstance(plan, Refused) or (plan is not None and not isinstance(_fitting(plan, tensors), Refused)):
            return plan
        problem = of_one_place(found, estimated) or of_convolution(found, estimated)
    whole = _fitting(PanelPlan(problem, target, threads), tensors)
    return Refused(APART) if isinstance(whole, PanelPlan) and estimated is not None and not whole.estimates else whole


def _of_windows(found: Convolution, target: Target, threads: int, estimated: Estimated | None) -> IntegerPlan | Refused | None:
    """The plan of a convolution by an algorithm of its own; None if it is a product of panels."""
    with guard:
        from anydml.kernels.contract.channels.plan import ChannelPlan, by_channel
        from anydml.kernels.contract.channels.taps_plan import TapsPlan, serves
        from anydml.kernels.contract.places.plan import PlacePlan
        from anydml.kernels.contract.places.problem import convolved
        from anydml.kernels.contract.winograd.plan import IntegerWinogradPlan, squared

    channels = by_channel(found, estimated)
    if channels is not None and channels.serves(target):
        return ChannelPlan(channels, target, threads)
    if channels is not None and serves(channels, target):
        return TapsPlan(channels, target, threads) if estimated is None else Refused(APART)
    if (square := squared(found)) is not None and square.serves(target):
        return IntegerWinogradPlan(square, target, threads) if estimated is None else Refused(APART)
    if (places := convolved(found, estimated)) is not None and places.serves(target):
        return PlacePlan(places, target, threads)
    return None


def _fitting(plan: IntegerPlan, tensors: Mapping[str, TensorDesc]) -> IntegerPlan | Refused:
    """A plan, unless it takes too much memory compared to the tensors."""
    size = sum(t.element_bytes for t in tensors.values())
    if plan.memory > WORKSPACE + WORKSPACE_PER_BYTE * size:
        return Refused(f"{plan.memory} bytes to work in: too many for tensors of {size} bytes")
    return plan
