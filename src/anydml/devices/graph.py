"""A graph, compiled: a kernel for each work, and memory for what lies between them."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

from anydml.computed import computed_once
from anydml.devices.binding import Slot
from anydml.devices.choice import chosen, linked
from anydml.devices.compiled import CompiledOperator
from anydml.devices.families import MEANS, REGIONS, Families
from anydml.devices.graph_call import GraphCall, Part
from anydml.devices.memory import memory_bytes
from anydml.devices.profile import Profile, profiled
from anydml.graphs.checked import CheckedGraph
from anydml.graphs.fusing import OUTPUT, fuse, read_at_index
from anydml.graphs.layouts import laid
from anydml.graphs.memory import laid_in_scratch
from anydml.graphs.plan import Pooling, Region, Selection, Work, fixed_buffers, spelled, split, works_of
from anydml.graphs.pooled import poolings
from anydml.graphs.quantised import regions, with_regions
from anydml.graphs.selected import selections
from anydml.graphs.show import called, summary
from anydml.kernels.code.engine import Uncompilable
from anydml.kernels.kernel import Built, Lowered, Machine, Refused
from anydml.kernels.lower import lowerings
from anydml.kernels.match.moves import Move, moves
from anydml.kernels.match.windows import MAX, windows
from anydml.schema.check import Checked
from anydml.schema.operator import Desc
from anydml.schema.statement import Nest, meaning
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
        return f"<CompiledGraph: {summary(self._checked, [part.work for part in self.call.parts])}>"

    def profile(self, times: int = 10, **arrays: Any) -> Profile:
        """The time that each call takes, the least of so many. arrays: what bind takes, by name."""
        if times < 1:
            raise ValueError(f"times is {times}, and a graph is executed once at least")
        return profiled(self.call.runs(self.bind(**arrays).arrays), times)

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
    kernels = _Kernels(families, fusing, checked, machine)
    summed = _regions(checked, works, kernels, machine) if fusing else {}
    works = with_regions(checked, works, [part.work for part in summed.values()])
    fixed = fixed_buffers(checked, works)
    first, every = split(works, fixed)
    once = [
        kernels.part(work, frozenset()) if work.region is None else _renamed(summed[work.node], work, checked) for work in first
    ]
    parts: list[Part] = []
    if fusing:
        every = moved(checked, every)
    alone = {work.node: work for work in every}
    for work in fuse(checked, every) if fusing else every:
        if work.region is not None:
            parts.append(_renamed(summed[work.node], work, checked))
        elif work.nest is not None and (part := kernels.fused(work, fixed)) is not None:
            parts.append(part)
        else:
            parts += [kernels.part(alone[node], fixed) for node in checked.order if node in work.nodes and node in alone]
    layout = laid_in_scratch(checked, [part.work for part in parts], [_may_lie_alike(part) for part in parts])
    made = CompiledGraph(checked, GraphCall(checked, once, parts, layout, fixed))
    if (needed := made.most_bytes) > memory_bytes():
        raise MemoryError(
            f"the graph takes {needed} bytes of scratch and persistent memory, and this machine has {memory_bytes()}"
        )
    made.begin()
    return made


class _Kernels:
    """The kernels of a graph's works, each made once for all works that are alike."""

    def __init__(self, families: Families, fusing: Families, checked: CheckedGraph, machine: Machine) -> None:
        self._families, self._fusing, self._checked, self._machine = families, fusing, checked, machine
        self._operators: dict[Desc, CompiledOperator] = {}
        self._statements: dict[Hashable, tuple[str, Built] | None] = {}

    def part(self, work: Work, fixed: frozenset[int]) -> Part:
        """A work of one node with its kernel. fixed: buffers that kernels may pack once."""
        operator = self._checked.nodes[work.node]
        assert operator is not None
        uses = {**work.reads, **work.writes}
        changed = {name: use.tensor for name, use in uses.items() if use.tensor is not operator.tensors[name]}
        changed |= {name: _owned(use.tensor) for name, use in work.reads.items() if use.buffer in fixed}
        asked = _with_tensors(operator, changed) if changed else operator
        if (compiled := self._operators.get(asked.desc)) is None:
            compiled, _ = chosen(self._families, asked, self._machine)
            self._operators[asked.desc] = compiled
        return Part(work, compiled.kernel_name, compiled.built, compiled, called(self._checked, work.node))

    def selected(self, work: Work) -> Part | None:
        """A work that picks the largest bytes of windows, with its kernel; None where something else is picked."""
        assert isinstance(work.region, Selection)
        operator = self._checked.nodes[work.region.node]
        assert operator is not None
        asked = _with_tensors(operator, {name: use.tensor for name, use in (*work.reads.items(), *work.writes.items())})
        of_floats, of_bytes = (windows(meaning(desc.as_newest())) for desc in (operator.desc, asked.desc))
        if isinstance(of_floats, str) or isinstance(of_bytes, str) or of_floats != of_bytes or of_bytes.kind != MAX:
            return None
        if (compiled := self._operators.get(asked.desc)) is None:
            compiled, _ = chosen(self._families, asked, self._machine)
        if not compiled.kernel_name.endswith(":compiled"):
            return None
        self._operators[asked.desc] = compiled
        return Part(work, compiled.kernel_name, compiled.built, compiled, _title(self._checked, work))

    def fused(self, work: Work, fixed: frozenset[int]) -> Part | None:
        """A fused work with its kernel; None where no family takes it."""
        assert work.nest is not None
        tensors = _tensors(work, fixed)
        key = (spelled(work.nest), *tensors.items())
        if key not in self._statements:
            self._statements[key] = self._linked(work.nest, tensors)
        if (found := self._statements[key]) is None:
            return None
        return Part(work, *found, None, _title(self._checked, work))

    def _linked(self, nest: Nest, tensors: Mapping[str, TensorDesc]) -> tuple[str, Built] | None:
        of_no_operator = cast(Checked[Any], SimpleNamespace(tensors=tensors))
        for name, answer in lowerings(self._fusing, {OUTPUT: nest}, of_no_operator, self._machine):
            if isinstance(answer, Lowered):
                try:
                    return name, linked(answer)
                except Uncompilable:
                    continue
        return None


def moved(checked: CheckedGraph, works: Sequence[Work]) -> tuple[Work, ...]:
    """The works without those that only move elements which others can read or write at their places."""
    found = {}
    known: dict[Desc, list[Move] | str] = {}
    for work in works:
        operator = checked.nodes[work.node]
        assert operator is not None
        if (made := known.get(operator.desc)) is None:
            made = known[operator.desc] = moves(meaning(operator.desc.as_newest()))
        if not isinstance(made, str):
            found[work.node] = made
    return laid(checked, works, found)


def _regions(checked: CheckedGraph, works: Sequence[Work], kernels: _Kernels, machine: Machine) -> dict[int, Part]:
    """The regions that a kernel takes as one, by their last nodes."""
    fixed = fixed_buffers(checked, works)
    parts = [kernels.selected(work) for work in selections(checked, works)]
    parts += [_pooled(checked, work, machine) for work in poolings(checked, works)]
    parts += [_summed(checked, work, fixed, machine) for work in regions(checked, works)]
    return {part.work.node: part for part in parts if part is not None}


def _summed(checked: CheckedGraph, work: Work, fixed: frozenset[int], machine: Machine) -> Part | None:
    """A region of sums with its kernel; None where no family takes it."""
    assert isinstance(work.region, Region)
    for name, family in REGIONS.items():
        try:
            answer = family()(work.region, _tensors(work, fixed), machine)
            if not isinstance(answer, Refused):
                return Part(work, name, linked(answer), None, _title(checked, work))
        except Uncompilable:
            continue
    return None


def _pooled(checked: CheckedGraph, work: Work, machine: Machine) -> Part | None:
    """A region of means with its kernel; None where no family takes it."""
    assert isinstance(work.region, Pooling)
    for name, family in MEANS.items():
        try:
            answer = family()(work.region, _tensors(work, frozenset()), machine)
            if not isinstance(answer, Refused):
                return Part(work, name, linked(answer), None, _title(checked, work))
        except Uncompilable:
            continue
    return None


def _renamed(part: Part, work: Work, checked: CheckedGraph) -> Part:
    """The part of a work of more nodes."""
    return part._replace(work=work, title=_title(checked, work))


def _title(checked: CheckedGraph, work: Work) -> str:
    return " + ".join(called(checked, node) for node in work.nodes)


def _tensors(work: Work, fixed: frozenset[int]) -> dict[str, TensorDesc]:
    """The tensors of a work, those that do not change OWNED_BY_DML."""
    tensors = {name: _owned(use.tensor) if use.buffer in fixed else use.tensor for name, use in work.reads.items()}
    tensors |= {name: _owned(TensorDesc.of(x)) for name, x in work.arrays.items()}
    return tensors | {name: use.tensor for name, use in work.writes.items()}


def _may_lie_alike(part: Part) -> list[str]:
    """The inputs that the output may be identical to, element by element."""
    if part.compiled is None:
        return read_at_index(part.work) if part.kernel_name.startswith("elementwise:") else []
    in_place = part.compiled.desc.spec.in_place
    fields = {found.name: found.field.wire for found in part.compiled.desc.tensors()}
    return [name for name in part.work.reads if fields[name] in in_place]


def _with_tensors(checked: Checked[Desc], changed: Mapping[str, TensorDesc]) -> Checked[Desc]:
    """The desc with other tensors, by name."""
    fields: dict[str, Any] = {}
    for f in checked.desc.spec.tensors:
        value = getattr(checked.desc, f.name)
        if f.sized_by:
            fields[f.name] = value and tuple(changed.get(f"{f.name}[{i}]", t) for i, t in enumerate(value))
        elif f.name in changed:
            fields[f.name] = changed[f.name]
    return replace(checked, desc=replace(checked.desc, **fields))


def _owned(t: TensorDesc) -> TensorDesc:
    return replace(t, flags=TensorFlags.OWNED_BY_DML)
