"""Calls of an OpenCL device: kernels there, calls of this machine's processor, and the copies between their memories."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Hashable, Mapping, MutableMapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from anydml.devices import verbose
from anydml.devices.buffers import Buffer, holding
from anydml.devices.profile import Profile, Spent
from anydml.devices.views import bytes_of, laid_over
from anydml.graphs.checked import Bound
from anydml.graphs.plan import Use
from anydml.kernels.call.address import address_of
from anydml.kernels.evaluate.tally import Counted
from anydml.kernels.kernel import Arrays, Built, DeviceCall, DeviceMemory, Execute
from anydml.kernels.opencl.calls import Workspace
from anydml.kernels.opencl.platform import Opened, opened

if TYPE_CHECKING:
    from anydml.devices.compiled import CompiledOperator
    from anydml.devices.graph_call import BoundPart, GraphCall

HOST, DEVICE = "host", "device"


class Region:
    """The bytes of a tensor, or of several, on both sides.

    host: this machine's memory, or the place of a buffer. memory: the device's, None before it is needed. begin: the sides
    that hold the content when the call begins. end: the side that has to hold it when the call ends; None if none has to.
    """

    def __init__(self, host: NDArray[np.uint8], begin: frozenset[str], end: str | None, buffer: Buffer | None) -> None:
        self.host, self.begin, self.end, self.buffer = host, begin, end, buffer
        self.memory: DeviceMemory | None = None
        self.nbytes = host.nbytes


class Part(NamedTuple):
    """A tensor of a step: its region, its array on this machine, and whether it covers all bytes of the region."""

    region: Region
    array: NDArray[Any]
    offset: int = 0


class Step(NamedTuple):
    """Calls of the device, or one of this machine. title, kernel: for a profile."""

    calls: Sequence[DeviceCall]
    run: Execute | None
    reads: Mapping[str, Part]
    writes: Mapping[str, Part]
    counted: Counted | None
    title: str
    kernel: str


class Action(NamedTuple):
    """A step of a call, or a copy of a region to a side."""

    step: Step | None
    region: Region | None = None
    to: str = ""


class Call:
    """A call on an OpenCL device, made of steps, which copies only what the other side needs."""

    def __init__(self, opened: Opened) -> None:
        self.opened, self.workspace = opened, Workspace(opened)
        self.steps: list[Step] = []
        self.regions: list[Region] = []
        self._actions: list[Action] | None = None
        self._carefully: set[int] = set()  # the numbers of calls that had open elements before
        self._reports = verbose.level() > 1

    # --- regions ---

    def given(self, array: NDArray[Any], *, written: bool, constant: DeviceMemory | None = None) -> Region:
        """The region of a bound array: its bytes from the first element to the last. constant: a copy on the device."""
        buffer = holding(array)
        memory = None if buffer is None else buffer[1]
        side = HOST if memory is None else DEVICE
        begin = frozenset((HOST, DEVICE)) if constant is not None else frozenset((side,))
        region = Region(array, begin, side if written else None, None if buffer is None else buffer[0])
        region.memory = memory or constant
        self.regions.append(region)
        return region

    def uploaded(
        self, known: MutableMapping[Hashable, tuple[Any, Opened, DeviceMemory]], name: Hashable, host: NDArray[np.uint8]
    ) -> DeviceMemory:
        """A constant's copy on the device, made once for all calls of an operator. known: those that were made before."""
        found = known.get(name)
        if found is None or found[0] is not host or found[1] is not self.opened:
            memory = DeviceMemory(self.opened.allocate(host.nbytes), 0)
            self.opened.write(memory.data, host)
            known[name] = found = host, self.opened, memory
        return found[2]

    def between(self, host: NDArray[np.uint8], memory: DeviceMemory | None = None) -> Region:
        """The region of a tensor between steps."""
        region = Region(host, frozenset(), None, None)
        region.memory = memory
        self.regions.append(region)
        return region

    def on_device(self, region: Region) -> DeviceMemory:
        """The memory of a region on the device, allocated when it is first needed."""
        if region.memory is None:
            region.memory = DeviceMemory(self.opened.allocate(region.nbytes), 0)
        return region.memory

    # --- steps ---

    def add(
        self,
        built: Built,
        reads: Mapping[str, Part],
        writes: Mapping[str, Part],
        host: Callable[[], Execute],
        title: str = "",
        kernel: str = "",
    ) -> None:
        """Add the call of a kernel. host: makes the call if it is one of this machine."""
        if built.on_device is None:
            self.steps.append(Step((), host(), reads, writes, None, title, kernel))
            return
        memory = {}
        for name, part in {**reads, **writes}.items():
            whole = self.on_device(part.region)
            memory[name] = whole._replace(offset=whole.offset + part.offset)
        calls = built.on_device(self.workspace, memory)
        self.steps.append(Step(calls, None, reads, writes, built.counted, title, kernel))

    def judge(self, run: Execute, reads: Mapping[str, Part]) -> None:
        """Add a check of this machine, which reads tensors."""
        self.steps.append(Step((), run, reads, {}, None, "", ""))

    def copy(self, source: Part, target: Part) -> None:
        """Add a copy of a tensor from this machine's memory to this machine's memory."""
        run = partial(np.copyto, target.array, source.array)
        self.steps.append(Step((), run, {"source": source}, {"target": target}, None, "copy of an output", "copy"))

    # --- the call ---

    @property
    def actions(self) -> list[Action]:
        if self._actions is None:
            self._actions = _planned(self.steps, self.regions)
        return self._actions

    def execute(self) -> None:
        """Run all steps in order, and wait for the end."""
        use = self.opened.use
        try:
            if not self._attempt(frozenset(self._carefully)):
                every = frozenset(call.number for step in self.steps for call in step.calls)
                self._attempt(every)
        except use.Error as error:
            raise self.opened.failed(error, sum(r.nbytes for r in self.regions if r.memory is not None)) from None
        if self._reports:
            verbose.write("steps", device=self.opened.found.title, steps=[_said(a) for a in self.actions if _shown(a)])

    def _attempt(self, checked: frozenset[int]) -> bool:
        """Run all steps. checked: the calls after which undecided elements are decided before the next call.

        False if other calls left elements undecided when later ones had read them.
        """
        workspace = self.workspace
        workspace.clear()
        waiting: list[tuple[Step, DeviceCall]] = []
        downloads: list[tuple[Region, NDArray[np.uint8]]] = []
        last: DeviceCall | None = None
        for action in self.actions:
            if action.step is None:
                region = action.region
                assert region is not None
                assert region.memory is not None
                if action.to == DEVICE:
                    self.opened.write(region.memory.data, region.host, region.memory.offset)
                    continue
                if not self._closed(waiting, last):
                    return False
                waiting = []
                spare = np.empty(region.nbytes, np.uint8) if region.end == HOST else region.host
                self.opened.read(region.memory.data, spare, region.memory.offset)
                if region.end == HOST:
                    downloads.append((region, spare))
                continue
            step = action.step
            if step.run is not None:
                for region, spare in downloads:
                    region.host[...] = spare
                downloads = []
                step.run()
                continue
            for call in step.calls:
                call.launch()
                last = call
                if call.number >= 0:  # it may leave elements undecided
                    waiting.append((step, call))
                    if call.number in checked:
                        if not self._closed(waiting, last):
                            return False
                        waiting = []
        if not self._closed(waiting, last):
            return False
        if last is not None and not workspace.calls:
            self.opened.wait()
        for region, spare in downloads:  # all copies have succeeded: no output is written by half
            region.host[...] = spare
        return True

    def profile(self, times: int) -> Profile:
        """The least time of each step and of each copy between the memories, of so many executions."""
        least = [float("inf")] * len(self.actions)
        for _ in range(times):
            self.execute()  # so that kernels are ready, and elements that are decided are in place
            self.workspace.clear()
            for k, action in enumerate(self.actions):
                began = time.perf_counter()
                self._run(action)
                least[k] = min(least[k], (time.perf_counter() - began) * 1e6)
        return Profile(self._spent(action, spent) for action, spent in zip(self.actions, least, strict=True) if _shown(action))

    def _run(self, action: Action) -> None:
        """Run a step or a copy alone, to its end."""
        if action.step is not None:
            if action.step.run is not None:
                action.step.run()
            for call in action.step.calls:
                call.launch()
        elif action.region is not None and action.region.memory is not None:
            data, offset = action.region.memory
            if action.to == DEVICE:
                self.opened.write(data, action.region.host, offset)
            else:
                self.opened.read(data, np.empty(action.region.nbytes, np.uint8), offset)
        self.opened.wait()

    def _spent(self, action: Action, spent: float) -> Spent:
        if action.step is not None:
            parts = (*action.step.reads.values(), *action.step.writes.values())
            return Spent(action.step.title, action.step.kernel, spent, sum(part.array.nbytes for part in parts))
        assert action.region is not None
        return Spent(f"copy to the {action.to}", "copy", spent, action.region.nbytes)

    def _closed(self, waiting: Sequence[tuple[Step, DeviceCall]], last: DeviceCall | None) -> bool:
        """Decide the elements that calls left undecided. False if a later call than the first of these has read them."""
        if not waiting:
            return True
        counts = self.workspace.counts()
        found = [(step, call) for step, call in waiting if call.is_open(counts)]
        for step, call in waiting:
            if step.counted is not None and not found:
                step.counted.add(int(counts[call.number, 0]), 0)
        if not found:
            return True
        self._carefully.update(call.number for _, call in found)
        step, call = found[0]
        if call is not last:
            return False
        listed, left = call.settle(lambda name: self._array(step, name))
        if step.counted is not None:
            step.counted.add(listed, left)
        return True

    def _array(self, step: Step, name: str) -> NDArray[Any]:
        """The array of a tensor that a step reads, with the device's content."""
        part = step.reads[name]
        region = part.region
        if region.memory is not None and HOST not in region.begin:
            self.opened.read(region.memory.data, region.host, region.memory.offset)
        return part.array


def _planned(steps: Sequence[Step], regions: Sequence[Region]) -> list[Action]:
    """The steps, and before each the copies of what it reads; at the end, those that regions need."""
    valid = {id(region): set(region.begin) for region in regions}
    found: list[Action] = []

    def bring(region: Region, to: str) -> None:
        holds = valid[id(region)]
        if holds and to not in holds:
            found.append(Action(None, region, to))
            holds.add(to)

    for step in steps:
        side = HOST if step.run is not None else DEVICE
        for part in step.reads.values():
            bring(part.region, side)
        for part in step.writes.values():
            if not covers(part):
                bring(part.region, side)
        found.append(Action(step))
        for part in step.writes.values():
            valid[id(part.region)] = {side}
    for region in regions:
        if region.end is not None:
            bring(region, region.end)
    return found


def _shown(action: Action) -> bool:
    return action.step is None or bool(action.step.title)


def _said(action: Action) -> dict[str, Any]:
    """A step or a copy, as a line of ANYDML_VERBOSE=dispatch has it."""
    if action.step is not None:
        return {"nodes": action.step.title, "kernel": action.step.kernel}
    assert action.region is not None
    return {"copy_to": action.to, "bytes": action.region.nbytes}


def covers(part: Part) -> bool:
    """Whether a tensor covers every byte of its region."""
    return part.array.nbytes == part.region.nbytes


def placed(name: str, value: Any) -> Any:
    """The place of a buffer on the device of a name; for any other value, the value."""
    return value.place if isinstance(value, Buffer) and value.opened is opened(name) else value


def fetch(arrays: Arrays) -> None:
    """Copy the content of buffers to their places, where checks of this machine read it."""
    for array in arrays.values():
        if (found := holding(array)) is not None:
            found[0].fetch()


def operator_call(compiled: CompiledOperator, arrays: Arrays) -> Call:
    """The call of a single operator on arrays and buffers."""
    call = Call(opened(compiled.opencl))
    tensors, outputs, owned = compiled.tensors_by_role()
    regions: dict[tuple[int, int], Region] = {}
    parts: dict[str, Part] = {}
    for name in (*outputs, *(name for name in tensors if name not in outputs)):
        span = bytes_of(arrays[name], tensors[name])
        constant = call.uploaded(compiled.on_devices, name, span) if name in owned and compiled.built.on_device else None
        key = address_of(span), span.nbytes
        if key not in regions:
            regions[key] = call.given(span, written=name in outputs, constant=constant)
        parts[name] = Part(regions[key], arrays[name])
    reads = {name: part for name, part in parts.items() if name not in outputs}
    writes = {name: parts[name] for name in outputs}
    call.add(compiled.built, reads, writes, lambda: compiled.built.bind(arrays), compiled.wire_name, compiled.kernel_name)
    return call


def graph_call(
    graph: GraphCall,
    arrays: Arrays,
    memory: Mapping[int, NDArray[np.uint8]],
    later: Sequence[Bound],
    sights: Sequence[BoundPart],
) -> Call:
    """The call of a graph. memory: the bytes of each buffer; later: outputs that are copied at the end."""
    call = Call(opened(graph.opencl))
    checked, layout, fixed = graph.checked, graph.layout, graph.fixed
    computed_there = {
        use.buffer
        for part in graph.parts
        if part.built.on_device is not None
        for use in (*part.work.reads.values(), *part.work.writes.values())
    }
    within = computed_there & layout.offsets.keys()
    scratch = call.opened.allocate(layout.bytes) if within else None
    written = {b.buffer for b in checked.outputs} - {b.buffer for b in later}
    given = written | {b.buffer for b in checked.inputs} | fixed
    regions: dict[int, Region] = {}
    for i, host in memory.items():
        if i in given:
            constant = call.uploaded(graph.constants, i, host) if i in fixed and i in computed_there else None
            regions[i] = call.given(host, written=i in written, constant=constant)
        else:
            regions[i] = call.between(host, DeviceMemory(scratch, layout.offsets[i]) if i in within else None)

    def parts_of(uses: Mapping[str, Use], views: Arrays) -> dict[str, Part]:
        return {name: Part(regions[use.buffer], views[name], use.offset) for name, use in uses.items()}

    changing = {b.buffer for b in checked.inputs} - fixed

    def judge(bound: BoundPart, buffers: Collection[int]) -> None:
        ruled = bound.part.compiled.judged if bound.part.compiled is not None else ()
        names = [name for name, use in bound.part.work.reads.items() if use.buffer in buffers and name in ruled]
        reads = parts_of(bound.part.work.reads, bound.views)
        for run in bound.part.judged(bound.views, names):
            call.judge(run, {name: reads[name] for name in names})

    for bound in sights:
        judge(bound, changing)
    for bound in sights:
        part, views = bound
        if part.built.on_device is not None:
            judge(bound, memory.keys() - fixed - changing)
        reads, writes = parts_of(part.work.reads, views), parts_of(part.work.writes, views)
        call.add(part.built, reads, writes, partial(part.prepared, views), part.title, part.kernel_name)
    for output in later:
        tensor = graph.written(output.buffer)
        target = call.given(bytes_of(arrays[output.name], output.tensor), written=True)
        one = Part(regions[output.buffer], laid_over(memory[output.buffer], tensor))
        two = Part(target, laid_over(target.host, tensor))
        call.copy(one, two)
    return call
