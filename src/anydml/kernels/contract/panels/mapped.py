"""Products whose sums are mapped: the sums are stored in scratch, and the map reads them there as a tensor."""

from __future__ import annotations

from anydml.fork_safety import guard
from anydml.kernels.call.steps import At, Rounds
from anydml.kernels.code.targets import Target
from anydml.kernels.contract.panels.plan import PanelPlan
from anydml.kernels.contract.problem import of_product
from anydml.kernels.contract.rounds import based
from anydml.kernels.kernel import Decide, Machine, Refused
from anydml.kernels.match.maps import maps
from anydml.kernels.match.summed import SUMS, Summed
from anydml.kernels.problem import Problem


def mapped(
    found: Summed, problem: Problem, machine: Machine, target: Target
) -> tuple[PanelPlan, Rounds, Decide | None] | Refused:
    """The plan of the sums, the rounds of the map that follows, and the function that decides the map's undecided elements.

    Sums and map share scratch; the map's own part is at the beginning.
    """
    with guard:
        from anydml.kernels.elementwise.family import mapped as steps_of
        from anydml.kernels.elementwise.runs import TensorStart

    after = maps(found.statement)
    if isinstance(after, str):
        return Refused(after)
    desc = found.product.output.desc
    places = {name: TensorStart(At(name), t) for name, t in {**problem.tensors, SUMS: desc}.items()}
    run = steps_of(after[0], places, target, machine.threads)
    if isinstance(run, Refused):
        return run
    sums = At("scratch", -(-run.scratch // 64) * 64)
    product = of_product(found.product)
    product = product._replace(c=product.c._replace(at=sums))
    plan = PanelPlan(product, target, machine.threads, reserved=sums.offset + desc.element_bytes)
    return plan, based(Rounds(run.phases), lambda _: {SUMS: sums}), None if run.undecided is None else run.undecided.decide
