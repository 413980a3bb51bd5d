"""The family of attention on OpenCL devices: values weighted by exponentials of scores, correctly rounded."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from anydml.kernels.attention.family import numbered
from anydml.kernels.attention.key import AttentionKey, KeptKey
from anydml.kernels.attention.layout import count, kept, placed
from anydml.kernels.code.targets import Target
from anydml.kernels.evaluate.tally import Counted
from anydml.kernels.kernel import Built, DeviceCall, DeviceMemory, Machine, Refused
from anydml.kernels.match.attention import Attention, attention
from anydml.kernels.matched import lowers
from anydml.kernels.opencl.attention.calls import AttentionCall, KeptCall, Output, whole
from anydml.kernels.opencl.calls import Workspace, unbound
from anydml.kernels.opencl.overlap import Copies
from anydml.kernels.problem import Problem
from anydml.kernels.undecided.decision import Decision

MOST_ROWS = 1 << 30  # queries or keys, which kernels number in 32 bits


@lowers(attention)
def lower(found: Attention, host: Target, problem: Problem, machine: Machine) -> Built | Refused:
    """A statement of attention, in pieces of batches and queries."""
    tensors = problem.tensors
    made = placed(found, tensors)
    if isinstance(made, str):
        return Refused(made)
    key, numbers = made
    assert isinstance(key, AttentionKey)
    n = whole(numbers)
    if n["groups"] * n["queries"] > MOST_ROWS:
        return Refused(f"there are more than {MOST_ROWS} queries")
    others = []
    for k in found.kept:
        more = kept(k, tensors)
        if isinstance(more, str):
            return Refused(more)
        others.append(more)
    name = found.output.name
    row = -(-n["columns"] // 64) * 8
    decision = Decision(problem.statement[name], tensors[name].data_type, host)
    inputs = tuple(x for x in tensors if x not in problem.statement)
    output = Output(name, tensors[name], inputs, numbered(found, row), decision)
    batches = count(*found.variables[:2])

    def bound(workspace: Workspace, memory: Mapping[str, DeviceMemory]) -> Sequence[DeviceCall]:
        own = Copies(workspace.opened, memory, tensors, list(problem.statement))
        calls: list[DeviceCall] = [own] if own else []
        calls.append(AttentionCall(workspace, key, numbers, batches, machine.stage, output, own))
        for (other, values), several in others:
            assert isinstance(other, KeptKey)
            calls.append(KeptCall(workspace, other, values, several, own.memory))
        return calls

    return Built(unbound, counted=Counted(), on_device=bound)
