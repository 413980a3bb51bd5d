"""Statements in stages on OpenCL devices: extremes of whole inputs, tensors computed from these, and maps of both."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from anydml.kernels.evaluate.tally import Counted
from anydml.kernels.kernel import Built, DeviceCall, DeviceMemory, Machine, OnDevice, Refused
from anydml.kernels.match.staged import stages
from anydml.kernels.match.unmatched import pattern
from anydml.kernels.opencl import maps, rows
from anydml.kernels.opencl.calls import Workspace, unbound
from anydml.kernels.problem import Problem
from anydml.schema.expression import Tensor, each
from anydml.schema.statement import Nest
from anydml.tensor import TensorDesc

_matched = pattern(stages)


def lower(problem: Problem, machine: Machine) -> Built | Refused:
    """The stages in order, each by the kernels of rows or of maps."""
    found = _matched(problem.statement)
    if isinstance(found, str):
        return Refused(found)
    extremes = [Tensor(f"extreme {k}", (1,), found.data_type) for k in range(len(found.whole))]
    inner = {t.name: TensorDesc(t.data_type, t.sizes) for t in (*extremes, *found.kept.values())}
    tensors = {**problem.tensors, **inner}
    problems = [Problem({t.name: Nest(tuple(each((1,))), e)}, tensors) for t, e in zip(extremes, found.whole, strict=True)]
    made = found.in_terms({e: t[[0]] for t, e in zip(extremes, found.whole, strict=True)})
    parts: list[OnDevice] = []
    for k, one in enumerate([*problems, *(Problem({name: nest}, tensors) for name, nest in made.items())]):
        answer = (rows if k < len(problems) else maps).lower(one, machine)
        if isinstance(answer, Refused):
            return answer
        assert answer.on_device is not None
        parts.append(answer.on_device)

    def bound(workspace: Workspace, memory: Mapping[str, DeviceMemory]) -> Sequence[DeviceCall]:
        allocate = workspace.opened.allocate
        own = {name: DeviceMemory(allocate(t.element_bytes), 0) for name, t in inner.items()}
        return [call for part in parts for call in part(workspace, {**memory, **own})]

    return Built(unbound, counted=Counted(), on_device=bound)
