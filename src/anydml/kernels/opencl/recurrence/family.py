"""The family of recurrences on OpenCL devices: RNN, LSTM and GRU, step by step, each state correctly rounded."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from anydml.kernels.code.engine import Uncompilable
from anydml.kernels.code.targets import Target
from anydml.kernels.evaluate.tally import Counted
from anydml.kernels.kernel import Built, DeviceCall, DeviceMemory, Machine, Refused
from anydml.kernels.match.recurrences import recurrence
from anydml.kernels.match.states import Recurrence
from anydml.kernels.matched import lowers
from anydml.kernels.opencl.calls import Workspace, unbound
from anydml.kernels.opencl.overlap import Copies
from anydml.kernels.opencl.recurrence import text
from anydml.kernels.opencl.recurrence.calls import RecurrenceCall
from anydml.kernels.opencl.recurrence.plan import DirectionPlan
from anydml.kernels.problem import Problem
from anydml.kernels.recurrence.family import unfit
from anydml.kernels.recurrence.undecided import StateDecisions

MOST = 1 << 31  # elements of a step, and steps with all stages, which kernels number in 32 bits


@lowers(recurrence)
def lower(found: Recurrence, host: Target, problem: Problem, machine: Machine) -> Built | Refused:
    """The statement of a recurrence: a call for each direction."""
    if (reason := unfit(found, problem)) is not None:
        return Refused(reason)
    steps, _, sequences, units = found.sizes
    try:
        plans = [DirectionPlan(found, direction, problem.tensors) for direction in range(len(found.directions))]
        for plan in plans:
            text.first(plan.key, machine.stage)
    except Uncompilable as error:
        return Refused(str(error))
    if max(sequences * units, *(2 * steps * len(plan.key.stages) for plan in plans)) >= MOST:
        return Refused(f"there are {MOST} steps, or elements of a step, or more")
    decisions = StateDecisions(found.tensors, found.data_type, host)

    def bound(workspace: Workspace, memory: Mapping[str, DeviceMemory]) -> Sequence[DeviceCall]:
        own = Copies(workspace.opened, memory, problem.tensors, [*problem.statement])
        calls: list[DeviceCall] = [own] if own else []
        return calls + [RecurrenceCall(workspace, plan, machine.stage, decisions, own) for plan in plans]

    return Built(unbound, counted=Counted(), on_device=bound)
