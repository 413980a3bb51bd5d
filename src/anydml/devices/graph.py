"""A graph, compiled: a kernel for each operator or fused statement, and memory for the tensors between them."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from anydml import optional, progress
from anydml.devices.binding import Slot
from anydml.devices.choice import Refusals, chosen, dumping, linked
from anydml.devices.compiled import CompiledOperator, Counters, counters_of
from anydml.devices.families import BETWEEN, IN_GRAPHS, WEIGHTS, Families
from anydml.devices.graph_call import GraphCall, Part
from anydml.devices.memory import memory_bytes
from anydml.devices.profile import Profile, profiled
from anydml.devices.slow import left_undecided
from anydml.graphs.between import between_bytes, with_regions
from anydml.graphs.checked import CheckedGraph
from anydml.graphs.fusing import fuse, read_at_index
from anydml.graphs.layouts import laid
from anydml.graphs.memory import laid_apart, laid_in_scratch
from anydml.graphs.plan import OUTPUT, Passed, Use, Work, fixed_buffers, lie_alike, operators_of, spelled, split, unread_outputs
from anydml.graphs.show import called, summary
from anydml.graphs.weights import products_of_weights, with_products
from anydml.int4_tensors import unpacked
from anydml.kernels.kernel import Built, Execute, Lowered, Machine, Refused
from anydml.kernels.lower import lowerings, tried
from anydml.kernels.match.moves import Move, moves
from anydml.kernels.problem import Problem, Promises
from anydml.lazy import computed_once
from anydml.schema.operator import Desc
from anydml.schema.statement import meaning
from anydml.tensor import TensorDesc, TensorFlags

SCATTERS = ("SCATTER_ND", "SCATTER_ELEMENTS", "SCATTER")  # whose elements are those of an input, or updates
SCATTERING = ("irregular:compiled", "irregular:numpy")  # the kernels that take them in place
Pass = Callable[[CheckedGraph, Sequence[Work]], Passed]
REGIONS, PRODUCTS = "Regions between bytes are", "Products of dequantised weights are"
MOVES, MAPS = "Moves that strides can say are", "Maps that are fused are"


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
        self._updated = _updated(checked, call.parts)
        self._data_rules = []
        owned = sum(bound.tensor.element_bytes for bound in checked.inputs if bound.tensor.flags)
        self._begin(owned)

    def begin(self) -> None:
        """Compute what depends on constants alone, unless the caller has to initialize the graph."""
        if self._persistent is not None:
            self._persistent = dict(self.call.initialize({}))

    def __repr__(self) -> str:
        return f"<CompiledGraph: {summary(self._checked, [part.work for part in self.call.parts])}>"

    def profile(self, times: int = 10, **arrays: Any) -> Profile:
        """The time of each call: the least of `times` executions. arrays: the arguments of `bind`."""
        if times < 1:
            raise ValueError(f"times is {times}, and a graph is executed once at least")
        bound = self.bind(**arrays).arrays
        return self.call.resident(bound).profile(times) if self.call.opencl else profiled(self.call.runs(bound), times)

    def counters(self) -> Counters:
        """The counters of an operator, summed over all calls of the graph. Elements of intermediate tensors count, too."""
        parts = self.call.parts
        writes = [use.tensor.sizes for part in parts for use in part.work.writes.values()]
        return counters_of(sum(map(prod, writes)), [part.built.counted for part in parts])

    def _bound(self, views: Mapping[str, NDArray[Any]]) -> Execute:
        return self.built.bind(views)

    def _in_place_of(self, output: str) -> frozenset[str]:
        return self._updated.get(output, frozenset())

    @computed_once
    def _optional(self) -> frozenset[str]:
        return frozenset()

    @computed_once
    def _arrays_of(self) -> frozenset[str]:
        return frozenset()

    def _slots_of(self, flags: TensorFlags) -> dict[str, Slot]:
        bound = [(b, False) for b in self._checked.inputs] + [(b, True) for b in self._checked.outputs]
        return {b.name: Slot(b.name, b.tensor, b.own_total, w) for b, w in bound if b.tensor.flags == flags}


def compiled_graph(
    families: Families, fusing: Families, checked: CheckedGraph, machine: Machine, refused: Refusals
) -> CompiledGraph:
    """The graph, where each call has the first kernel that takes it. fusing: the families that take fused statements.

    refused: the list to which kernels that refused a call are appended, with their reasons.
    MemoryError if the graph would take more scratch and persistent memory than this machine has.
    """
    operators = every_work = operators_of(checked)
    kernels = _Kernels(families, fusing, checked, machine, refused)
    at_first = _Kernels(IN_GRAPHS["cpu"], {}, checked, machine, refused) if machine.opencl else kernels
    summed: dict[int, Part] = {}
    if fusing and not machine.opencl:
        summed, operators = optional.attempted(
            REGIONS, lambda: _between(checked, every_work, kernels), lambda _: ({}, every_work)
        )
        after_regions = operators
        weighed, operators = optional.attempted(
            PRODUCTS, lambda: _of_weights(checked, after_regions, kernels), lambda _: ({}, after_regions)
        )
        summed |= weighed
    fixed = fixed_buffers(checked, operators)
    first, every = split(operators, fixed)
    once = [
        at_first.part(work, frozenset()) if work.nest is None else _renamed(summed[work.node], work, checked) for work in first
    ]
    parts: list[Part] = []
    if fusing:
        every = kernels.noted(MOVES, passed(MOVES, moved, checked, every))
    alone = {work.node: work for work in every}
    at = {node: k for k, node in enumerate(checked.order)}
    fused_work = kernels.noted(MAPS, passed(MAPS, fuse, checked, every)) if fusing else every
    with progress.shown() as report:
        for k, work in enumerate(fused_work):
            report("compiling", k, len(fused_work))
            if work.node in summed:
                parts.append(_renamed(summed[work.node], work, checked))
            elif work.nest is not None and (part := kernels.fused(work, fixed)) is not None:
                parts.append(part)
            else:
                parts += [kernels.part(alone[node], fixed) for node in sorted(work.nodes, key=at.__getitem__) if node in alone]
    layout = optional.attempted(
        "Places that tensors share are",
        lambda: laid_in_scratch(checked, [part.work for part in parts], [_may_share_memory(part) for part in parts]),
        lambda _: laid_apart(checked, [part.work for part in parts]),
    )
    made = CompiledGraph(checked, GraphCall(checked, once, parts, layout, fixed, machine.opencl))
    made.opencl = machine.opencl
    if (needed := made.most_bytes) > memory_bytes():
        raise MemoryError(
            f"the graph takes {needed} bytes of scratch and persistent memory, and this machine has {memory_bytes()}"
        )
    made.begin()
    if files := dumping():
        files.graph(repr(made), [(part.title, part.kernel_name) for part in parts], refused)
    return made


class _Kernels:
    """The kernels of a graph's calls. Equal calls share a kernel."""

    def __init__(
        self, families: Families, fusing: Families, checked: CheckedGraph, machine: Machine, refused: Refusals
    ) -> None:
        self._families, self._fusing, self._checked, self._machine = families, fusing, checked, machine
        self._refused = refused
        self._unread = unread_outputs(checked, operators_of(checked))
        self._operators: dict[Desc, CompiledOperator] = {}
        self._statements: dict[Hashable, tuple[str, Built] | None] = {}

    def noted(self, stage: str, made: Passed) -> tuple[Work, ...]:
        """The calls that a pass returned. Its reasons are appended to those of kernels."""
        name = stage.removesuffix(" are")
        self._refused += [{"nodes": called(self._checked, node), "pass": name, "reason": text} for node, text in made.reasons]
        return made.operators

    def part(self, work: Work, fixed: frozenset[int]) -> Part:
        """The call of one node with its kernel. fixed: buffers that kernels may pack once."""
        operator = self._checked.nodes[work.node]
        assert operator is not None
        uses = {**work.reads, **work.writes}
        changed: dict[str, Any] = {n: use.tensor for n, use in uses.items() if use.tensor is not operator.tensors[n]}
        if absent := self._unread.get(work.node):
            changed |= dict.fromkeys(absent)
            work = replace(work, writes={name: use for name, use in work.writes.items() if name not in absent})
        changed |= {name: _owned(use.tensor) for name, use in work.reads.items() if use.buffer in fixed}
        asked = replace(operator, desc=operator.desc.with_tensors(changed)) if changed else operator
        if (compiled := self._operators.get(asked.desc)) is None:
            compiled, refused = chosen(self._families, asked, self._machine)
            self._operators[asked.desc] = compiled
            self._refused += [{"nodes": called(self._checked, work.node), **one} for one in refused]
        return Part(work, compiled.kernel_name, compiled.built, compiled, called(self._checked, work.node))

    def between(self, work: Work, fixed: frozenset[int], families: Families = BETWEEN) -> Part | None:
        """The call of a region that reads constants, with its kernel; None if no family takes it."""
        found = self._linked(families, problem_between(self._checked, work, fixed), _title(self._checked, work))
        return None if found is None else Part(work, *found, None, _title(self._checked, work))

    def fused(self, work: Work, fixed: frozenset[int]) -> Part | None:
        """The call of a fused statement with its kernel; None if no family takes it."""
        assert work.nest is not None
        tensors = _tensors(work, fixed)
        key = (spelled(work.nest), *tensors.items())
        if key not in self._statements:
            self._statements[key] = self._linked(
                self._fusing, Problem({OUTPUT: work.nest}, tensors), _title(self._checked, work)
            )
        if (found := self._statements[key]) is None:
            return None
        return Part(work, *found, None, _title(self._checked, work))

    def _linked(self, families: Families, problem: Problem, title: str) -> tuple[str, Built] | None:
        for name, answer in lowerings(families, problem, self._machine):
            built = tried(name, partial(linked, answer, left_undecided(title, name))) if isinstance(answer, Lowered) else answer
            if not isinstance(built, Refused):
                if files := dumping():
                    files.fused(title, problem, name, answer)
                return name, built
            self._refused.append({"nodes": title, "kernel": name, "reason": built.reason})
        return None


def passed(stage: str, run: Pass, checked: CheckedGraph, operators: Sequence[Work]) -> Passed:
    """The result of a pass over calls. If the pass fails unexpectedly, the calls stay as they are."""
    return optional.attempted(stage, lambda: run(checked, operators), lambda _: Passed((*operators,)))


def fused(checked: CheckedGraph, operators: Sequence[Work]) -> tuple[Work, ...]:
    """The calls, with moves removed and maps fused."""
    return passed(MAPS, fuse, checked, passed(MOVES, moved, checked, operators).operators).operators


def moved(checked: CheckedGraph, operators: Sequence[Work]) -> Passed:
    """The calls, without moves of elements that other calls can read or write in place."""
    found = {}
    known: dict[Desc, list[Move] | str] = {}
    for work in operators:
        operator = checked.nodes[work.node]
        assert operator is not None
        if (made := known.get(operator.desc)) is None:
            made = known[operator.desc] = moves(meaning(operator.desc.as_newest()))
        if not isinstance(made, str):
            found[work.node] = made
    return laid(checked, operators, found)


def _between(checked: CheckedGraph, operators: Sequence[Work], kernels: _Kernels) -> tuple[dict[int, Part], tuple[Work, ...]]:
    """The regions between 8-bit tensors for which there is a kernel, by their last nodes, and the calls with these regions."""
    fixed = fixed_buffers(checked, operators)
    found = kernels.noted(REGIONS, between_bytes(checked, operators))
    taken = {work.node: part for work in found if (part := kernels.between(work, fixed)) is not None}
    return taken, with_regions(checked, operators, [part.work for part in taken.values()])


def _of_weights(
    checked: CheckedGraph, operators: Sequence[Work], kernels: _Kernels
) -> tuple[dict[int, Part], tuple[Work, ...]]:
    """The products of dequantised weights for which there is a kernel, by their last nodes, and the calls with these."""
    fixed = fixed_buffers(checked, operators)
    found = kernels.noted(PRODUCTS, products_of_weights(checked, operators))
    taken = {work.node: part for work in found if (part := kernels.between(work, fixed, WEIGHTS)) is not None}
    return taken, with_products(checked, operators, [part.work for part in taken.values()])


def problem_between(checked: CheckedGraph, work: Work, fixed: frozenset[int]) -> Problem:
    """The problem of a region between 8-bit tensors."""
    assert work.nest is not None
    constants = {name: made for name, use in work.reads.items() if (made := _known(checked, use)) is not None}
    return Problem({OUTPUT: work.nest}, _tensors(work, fixed), Promises(constants=constants))


def _known(checked: CheckedGraph, use: Use) -> NDArray[Any] | None:
    """The elements of a constant, with size 1 for a dimension of stride 0; None for other tensors."""
    t = use.tensor
    if (constant := checked.constant(use.buffer)) is None:
        return None
    if t.data_type.element_bits < 8:
        return unpacked(constant.data, t) if not use.offset and 0 not in t.explicit_strides else None
    sizes = [1 if stride == 0 else n for n, stride in zip(t.sizes, t.explicit_strides, strict=True)]
    strides = [stride * t.data_type.dtype.itemsize for stride in t.explicit_strides]
    elements: NDArray[Any] = np.ndarray(sizes, t.data_type.dtype, constant.data, use.offset, strides)
    return elements


def _renamed(part: Part, work: Work, checked: CheckedGraph) -> Part:
    """The part for a call of more nodes, with their title."""
    return part._replace(work=work, title=_title(checked, work))


def _title(checked: CheckedGraph, work: Work) -> str:
    return " + ".join(called(checked, node) for node in work.nodes)


def _tensors(work: Work, fixed: frozenset[int]) -> dict[str, TensorDesc]:
    """The tensors of a call; those that never change are OWNED_BY_DML."""
    tensors = {name: _owned(use.tensor) if use.buffer in fixed else use.tensor for name, use in work.reads.items()}
    return tensors | {name: use.tensor for name, use in work.writes.items()}


def _may_share_memory(part: Part) -> list[str]:
    """The inputs whose memory the output may reuse, element by element."""
    if part.compiled is None:
        return read_at_index(part.work) if part.kernel_name.startswith("elementwise:") else []
    if part.built.on_device is not None and not part.kernel_name.startswith("elementwise:"):
        return []
    in_place = part.compiled.desc.spec.in_place
    fields = {found.name: found.field.wire for found in part.compiled.desc.tensors()}
    return [name for name in part.work.reads if fields[name] in in_place]


def _updated(checked: CheckedGraph, parts: Sequence[Part]) -> dict[str, frozenset[str]]:
    """For each output that is an input with a few elements replaced, this input: both may be the same memory.

    The call that replaces them must be the last one that reads the input, and the only one that writes the output.
    """
    readers: dict[int, list[int]] = {}
    writers: dict[int, list[int]] = {}
    for k, part in enumerate(parts):
        for uses, found in ((part.work.reads, readers), (part.work.writes, writers)):
            for use in uses.values():
                found.setdefault(use.buffer, []).append(k)
    inputs = {b.buffer: b for b in checked.inputs if not b.tensor.flags}
    made = {}
    for bound in checked.outputs:
        if len(at := writers.get(bound.buffer, [])) != 1 or (part := parts[at[0]]).kernel_name not in SCATTERING:
            continue
        (written,) = part.work.writes.values()
        if part.compiled is None or part.compiled.desc.spec.name not in SCATTERS:
            continue
        use = part.work.reads["input_tensor"]
        if use.buffer not in inputs:
            continue
        whole = lie_alike(use, written) and lie_alike(use, Use(use.buffer, inputs[use.buffer].tensor))
        if whole and lie_alike(written, Use(bound.buffer, bound.tensor)) and readers[use.buffer][-1] == at[0]:
            made[bound.name] = frozenset([inputs[use.buffer].name])
    return made


def _owned(t: TensorDesc) -> TensorDesc:
    return replace(t, flags=TensorFlags.OWNED_BY_DML)
