"""A graph, compiled: a kernel for each work, and memory for what lies between them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

from anydml.computed import computed_once
from anydml.devices.binding import Slot
from anydml.devices.choice import chosen, linked
from anydml.devices.compiled import CompiledOperator
from anydml.devices.families import Families
from anydml.devices.graph_call import GraphCall, Part
from anydml.devices.memory import memory_bytes
from anydml.graphs.checked import CheckedGraph
from anydml.graphs.fusing import OUTPUT, fuse
from anydml.graphs.memory import Layout, laid_out, lives
from anydml.graphs.plan import Work, fixed_buffers, read_beyond, split, works_of
from anydml.kernels.code.engine import Uncompilable
from anydml.kernels.kernel import Lowered, Machine
from anydml.kernels.lower import lowerings
from anydml.schema.check import Checked
from anydml.schema.operator import Desc
from anydml.tensor import TensorDesc, TensorFlags


class CompiledGraph(CompiledOperator):
    """A graph, compiled: `initialize` where an input is OWNED_BY_DML, then `bind`, by the names of its edges."""

    def __init__(self, checked: CheckedGraph, call: GraphCall) -> None:
        self.desc = checked.desc
        self.wire_name = "DML_GRAPH"
        self.kernel_name = "graph"
        self.call = call
        self.built = call.built()
        self._checked = checked
        self._outputs = [bound.name for bound in checked.outputs]
        self._in_place = set()
        self._data_rules = []
        owned = sum(bound.tensor.element_bytes for bound in checked.inputs if bound.tensor.flags)
        self._begin(owned)

    def begin(self) -> None:
        """Compute what follows from constants, where the caller has nothing to initialize."""
        if self._persistent is not None:
            self._persistent = dict(self.call.initialize({}))

    def __repr__(self) -> str:
        return f"<CompiledGraph of {len(self.desc.nodes)} nodes>"

    @computed_once
    def _optional(self) -> frozenset[str]:
        return frozenset()

    @computed_once
    def _arrays_of(self) -> frozenset[str]:
        return frozenset()

    def _slots_of(self, flags: TensorFlags) -> dict[str, Slot]:
        bound = [(b, False) for b in self._checked.inputs] + [(b, True) for b in self._checked.outputs]
        return {b.name: Slot(b.name, b.tensor, b.own_total, w) for b, w in bound if b.tensor.flags == flags}


def compiled_graph(families: Families, fusing: Families, checked: CheckedGraph, machine: Machine) -> CompiledGraph:
    """The graph with the first kernel of each work that takes it; fusing: the families that take fused statements.

    MemoryError where it would take more scratch and persistent memory than this machine has.
    """
    works = works_of(checked)
    fixed = fixed_buffers(checked, works)
    first, every = split(works, fixed)
    once = [_part(families, checked, work, frozenset(), machine) for work in first]
    parts = []
    for work in fuse(checked, every) if fusing else every:
        if work.nest is not None and (part := _fused(fusing, checked, work, fixed, machine)) is not None:
            parts.append(part)
        else:
            parts += [_part(families, checked, one, fixed, machine) for one in every if one.node in work.nodes]
    made = CompiledGraph(checked, GraphCall(checked, once, parts, _layout(checked, [part.work for part in parts]), fixed))
    if (needed := made.most_bytes) > memory_bytes():
        raise MemoryError(
            f"the graph takes {needed} bytes of scratch and persistent memory, and this machine has {memory_bytes()}"
        )
    made.begin()
    return made


def _layout(checked: CheckedGraph, works: Sequence[Work]) -> Layout:
    """The scratch: everything that is written and is not bound, and what is bound and read beyond its elements."""
    outputs = {b.buffer for b in checked.outputs}
    bound = outputs - read_beyond(checked, works)
    between = [use.buffer for work in works for use in work.writes.values() if use.buffer not in bound]
    found = lives(works, {b: checked.buffers[b].bytes for b in between})
    # what is copied at the end is alive until then
    return laid_out({b: life._replace(last=len(works)) if b in outputs else life for b, life in found.items()})


def _part(families: Families, checked: CheckedGraph, work: Work, fixed: frozenset[int], machine: Machine) -> Part:
    operator = checked.nodes[work.node]
    assert operator is not None
    owned = [name for name, use in work.reads.items() if use.buffer in fixed]
    compiled, _ = chosen(families, _owning(operator, owned), machine)
    return Part(work, compiled.kernel_name, compiled.built, compiled, title(checked, work.node))


def _fused(families: Families, checked: CheckedGraph, work: Work, fixed: frozenset[int], machine: Machine) -> Part | None:
    """A fused work with its kernel; None where no family takes it."""
    assert work.nest is not None
    tensors = {name: _owned(use.tensor) if use.buffer in fixed else use.tensor for name, use in work.reads.items()}
    tensors |= {name: use.tensor for name, use in work.writes.items()}
    of_no_operator = cast(Checked[Any], SimpleNamespace(tensors=tensors))
    for name, answer in lowerings(families, {OUTPUT: work.nest}, of_no_operator, machine):
        if isinstance(answer, Lowered):
            try:
                built = linked(answer)
            except Uncompilable:
                continue
            return Part(work, name, built, None, " + ".join(title(checked, node) for node in work.nodes))
    return None


def title(checked: CheckedGraph, node: int) -> str:
    """A node as messages name it: by its name, else by its operator and number."""
    made: Any = checked.desc.nodes[node]
    return made.name or f"nodes[{node}] {type(made.desc).__name__}"


def _owning(checked: Checked[Desc], names: Sequence[str]) -> Checked[Desc]:
    """The desc with OWNED_BY_DML on inputs that do not change, so that kernels pack them once."""
    changed: dict[str, Any] = {}
    for f in checked.desc.spec.inputs:
        value = getattr(checked.desc, f.name)
        if f.sized_by and any(name.startswith(f"{f.name}[") for name in names):
            changed[f.name] = tuple(_owned(t) if f"{f.name}[{i}]" in names else t for i, t in enumerate(value))
        elif f.name in names:
            changed[f.name] = _owned(value)
    return replace(checked, desc=replace(checked.desc, **changed)) if changed else checked


def _owned(t: TensorDesc) -> TensorDesc:
    return replace(t, flags=TensorFlags.OWNED_BY_DML)
