"""The call of a graph: its kernels in order, on arrays, constants and parts of one scratch."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from anydml.devices.compiled import CompiledOperator
from anydml.devices.graph_table import Entry, Table
from anydml.devices.views import bytes_of, laid_over
from anydml.errors import DataError
from anydml.fork_safety import guard
from anydml.graphs.checked import Bound, CheckedGraph
from anydml.graphs.memory import LINE, Layout
from anydml.graphs.plan import Use, Work
from anydml.kernels.call.address import address_of
from anydml.kernels.kernel import Arrays, Built, Execute
from anydml.tensor import TensorDesc

if TYPE_CHECKING:
    from anydml.devices.resident import Call

BUFFER, PACKED = "\0buffer ", "\0packed "  # prefixes that tell arrays made here from arrays named by edges


class Part(NamedTuple):
    """A call with its kernel. compiled: the operator, None for a fused statement. title: the nodes as messages name them."""

    work: Work
    kernel_name: str
    built: Built
    compiled: CompiledOperator | None
    title: str

    def prepared(self, views: Arrays) -> Execute:
        """The call on arrays. Its DataErrors name the node."""
        if self.compiled is None or not self.compiled.judges:
            return self.built.bind(views)
        return partial(_naming, self.compiled.prepare(views), self.title)

    def judged(self, views: Arrays, names: Iterable[str]) -> list[Execute]:
        """The checks of the rules about data of some tensors. Their DataErrors name the node."""
        if self.compiled is None or not self.compiled.judges:
            return []
        own = {name: views[name] for name in names if name in views}
        return [partial(_naming, judge, self.title) for judge in self.compiled.data_checks(own)]

    def packed(self, views: Arrays) -> Arrays:
        return self.built.initialize(views) if self.built.initialize else {}


class BoundPart(NamedTuple):
    """A part with its arrays: its tensors, its packed arrays, and its scratch."""

    part: Part
    views: Arrays


class Run(NamedTuple):
    """One step of a graph's call: a part, or a copy of an output. changing: the tensors it reads that are not fixed."""

    part: Part | None
    execute: Execute
    changing: Arrays


def _naming(run: Execute, title: str) -> None:
    try:
        run()
    except DataError as error:
        raise DataError(f"{title}.{error.tensor}", error.index, error.value, error.rule) from None


class GraphCall:
    """The parts of a graph as one kernel.

    once: the parts that initialize runs. parts: those that each call runs. fixed: the buffers that do not change after
    initialize. opencl: the OpenCL device whose memory each call uses; "" for none.
    """

    def __init__(
        self,
        checked: CheckedGraph,
        once: Sequence[Part],
        parts: Sequence[Part],
        layout: Layout,
        fixed: frozenset[int],
        opencl: str = "",
    ) -> None:
        self.opencl = opencl
        self.constants: dict[Any, Any] = {}  # on an OpenCL device, see `resident`
        self.checked, self._once, self.parts, self.layout, self.fixed = checked, once, parts, layout, fixed
        self._shared = _taking_turns(parts)
        self._written = {
            buffer: node.tensors[name]
            for node, writes in zip(checked.nodes, checked.writes, strict=True)
            if node is not None
            for name, buffer in writes.items()
        }

    def built(self) -> Built:
        """The graph as a kernel."""
        sharing = {self._shared[k]: part.built.temporary_resource_size + LINE for k, part in enumerate(self.parts)}
        temporary = self.layout.bytes + sum(size for size in sharing.values() if size > LINE) + self._passing()
        kept = sum(self.checked.buffers[use.buffer].bytes for part in self._once for use in part.work.writes.values())
        kept += sum(part.built.persistent_resource_size for part in self.parts)
        kept += sum(self.checked.buffers[i].bytes for i in self.fixed if self.checked.constant(i))
        once = [
            part.built.initialize_resource_size
            + part.built.temporary_resource_size
            + part.built.passing
            + part.built.persistent_resource_size
            for part in self._once
        ]
        once += [part.built.initialize_resource_size for part in self.parts]
        return Built(self.bind, temporary, self.initialize, kept, max(once, default=0))

    def initialize(self, owned: Arrays) -> Arrays:
        """The persistent memory, computed from constants and owned inputs: fixed buffers, and the packed arrays of parts."""
        memory = self._bound(self.checked.inputs, owned)
        found: dict[str, NDArray[Any]] = {}
        for part in self._once:
            for use in part.work.writes.values():
                zeros = np.zeros(self.checked.buffers[use.buffer].bytes, np.uint8)
                found[f"{BUFFER}{use.buffer}"] = memory[use.buffer] = zeros
            views = self._views(part, memory)
            part.prepared({**views, **part.packed(views)})()
        for k, part in enumerate(self.parts):
            views = self._views(part, memory)
            for judge in part.judged(views, self._of(part, self.fixed)):
                judge()
            found |= {f"{PACKED}{k}/{name}": array for name, array in part.packed(views).items()}
        return found

    def _passing(self) -> int:
        """The bytes of memory that all kernels use in turn. Its contents are undefined when a kernel begins."""
        most = max((part.built.passing for part in self.parts), default=0)
        return most + LINE if most else 0

    def bind(self, arrays: Arrays) -> Execute:
        """The call that computes the outputs, with its own scratch.

        The rules about data of the graph's inputs are checked before anything is computed.
        """
        if self.opencl:
            return self.resident(arrays).execute
        sights, copies = self._in_memory(arrays)
        given = {b.buffer for b in self.checked.inputs}
        changing, computed = given - self.fixed, self._written.keys() - self.fixed
        entries: list[Execute | Entry] = []
        for part, views in sights:
            entries += part.judged(views, self._of(part, changing))
        for part, views in sights:
            if not part.built.judges:
                entries += part.judged(views, self._of(part, computed))
            if part.built.place is None:
                entries.append(part.prepared(views))
            else:
                entries.append(Entry(part.built.place(views), part.judged(views, views)))
        return Table([*entries, *copies]).execute

    def runs(self, arrays: Arrays) -> list[Run]:
        """The call as a list of its parts, and of the copies of outputs that no part writes."""
        sights, copies = self._in_memory(arrays)
        changing = {b.buffer for b in self.checked.inputs} | self._written.keys()
        changing -= self.fixed
        return [
            *(Run(part, part.prepared(views), {n: views[n] for n in self._of(part, changing)}) for part, views in sights),
            *(Run(None, run, {}) for run in copies),
        ]

    def resident(self, arrays: Arrays) -> Call:
        """The call on an OpenCL device: what it computes there stays there until this machine's processor needs it."""
        with guard:  # imported here, since other devices do not need it
            from anydml.devices.resident import graph_call
        memory, later = self._memory(arrays)
        sights = [BoundPart(part, {**self._views(part, memory), **packed}) for part, packed in self._packed(arrays)]
        return graph_call(self, arrays, memory, later, sights)

    def written(self, buffer: int) -> TensorDesc:
        """The tensor that a node writes to a buffer."""
        return self._written[buffer]

    def _of(self, part: Part, buffers: Collection[int]) -> list[str]:
        """The names of the tensors that a part reads from some buffers."""
        return [name for name, use in part.work.reads.items() if use.buffer in buffers]

    def _memory(self, arrays: Arrays) -> tuple[dict[int, NDArray[Any]], list[Bound]]:
        """The bytes of each buffer, and the outputs that no part writes, which are copied."""
        memory: dict[int, NDArray[Any]] = {}
        later: list[Bound] = []
        for bound in self.checked.outputs:
            if bound.buffer in self.layout.offsets or bound.buffer in memory or bound.buffer in self.fixed:
                later.append(bound)
            else:
                memory[bound.buffer] = bytes_of(arrays[bound.name], bound.tensor)
        memory |= self._bound(self.checked.inputs, arrays)
        memory |= {int(name[len(BUFFER) :]): array for name, array in arrays.items() if name.startswith(BUFFER)}
        memory |= scratch(self.layout, {b: self.checked.buffers[b].bytes for b in self.layout.offsets})
        return memory, later

    def _packed(self, arrays: Arrays) -> list[tuple[Part, dict[str, NDArray[Any]]]]:
        """The parts, each with its packed arrays, and with scratch."""
        spare: dict[int, NDArray[Any]] = {}
        turns = passing(self._passing())
        packed_by: list[dict[str, NDArray[Any]]] = [{} for _ in self.parts]
        for name, array in arrays.items():
            if name.startswith(PACKED):
                number, _, own = name[len(PACKED) :].partition("/")
                packed_by[int(number)][own] = array
        for k, (part, packed) in enumerate(zip(self.parts, packed_by, strict=True)):
            if part.built.rounds is not None and (size := part.built.temporary_resource_size):
                first = self._shared[k]
                if first not in spare:
                    spare[first] = np.zeros(size + LINE, np.uint8)
                packed["scratch"] = spare[first]
            if part.built.passing:
                packed["passing"] = turns
        return [*zip(self.parts, packed_by, strict=True)]

    def _in_memory(self, arrays: Arrays) -> tuple[list[BoundPart], list[Execute]]:
        """The parts with their memory, and the copies of outputs that no part writes."""
        memory, later = self._memory(arrays)
        made = [BoundPart(part, {**self._views(part, memory), **packed}) for part, packed in self._packed(arrays)]
        return made, [self._copy(bound, memory, arrays) for bound in later]

    def _copy(self, bound: Bound, memory: Mapping[int, NDArray[Any]], arrays: Arrays) -> Execute:
        tensor = self._written[bound.buffer]
        source, target = memory[bound.buffer], bytes_of(arrays[bound.name], bound.tensor)
        return partial(np.copyto, laid_over(target, tensor), laid_over(source, tensor))

    def _bound(self, inputs: Sequence[Bound], arrays: Arrays) -> dict[int, NDArray[Any]]:
        memory = {b.buffer: bytes_of(arrays[b.name], b.tensor) for b in inputs if b.name in arrays}
        for i in self.fixed:
            if (constant := self.checked.constant(i)) is not None:
                memory[i] = constant.data
        return memory

    def _views(self, part: Part, memory: Mapping[int, NDArray[Any]]) -> dict[str, NDArray[Any]]:
        """The arrays of those tensors of a part whose buffers have memory."""
        uses: dict[str, Use] = {**part.work.reads, **part.work.writes}
        return {
            name: laid_over(memory[use.buffer][use.offset :], use.tensor) for name, use in uses.items() if use.buffer in memory
        }


def _taking_turns(parts: Sequence[Part]) -> list[int]:
    """For each part, the first part whose scratch it uses. Parts with equal steps share scratch: each leaves it unchanged."""
    found: list[int] = []
    first: dict[Any, int] = {}
    by_built: dict[int, int] = {}
    for k, (_, name, built, *_) in enumerate(parts):
        size = built.temporary_resource_size
        if built.rounds is None or not size:
            found.append(k)
            continue
        if (same := by_built.get(id(built))) is None:
            same = by_built[id(built)] = first.setdefault((name, size, _as_key(built.rounds)), k)
        found.append(same)
    return found


def _as_key(steps: Any) -> Any:
    """Steps, which are nested lists, as nested tuples that can be hashed."""
    try:
        hash(steps)
    except TypeError:
        return tuple(map(_as_key, steps))
    return steps


def scratch(layout: Layout, sizes: Mapping[int, int]) -> dict[int, NDArray[Any]]:
    """The memory of each buffer, within one allocation."""
    memory = np.empty(layout.bytes + LINE, np.uint8)
    start = -address_of(memory) % LINE
    return {b: memory[start + at : start + at + sizes[b]] for b, at in layout.offsets.items()}


def passing(nbytes: int) -> NDArray[np.uint8]:
    """The memory that all kernels use in turn. Its contents are undefined when a kernel begins."""
    return np.empty(nbytes, np.uint8)
