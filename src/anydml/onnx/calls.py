"""Calls of a model's graphs that stay bound to their own small arrays, and are reused for inputs of the same kinds."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import numpy as np

from anydml.devices.device import Device
from anydml.devices.graph import CompiledGraph
from anydml.devices.spare import Spare
from anydml.functional.graph import Graph
from anydml.int4_tensors import array_dtype
from anydml.onnx.values import Array

if TYPE_CHECKING:
    from anydml.onnx.segments import Segment

COPIED = 1 << 26  # bytes of inputs and outputs, at most, that are copied for a call that stays bound
KEPT = 16  # kinds of inputs whose calls are kept


class Part(Protocol):
    """A graph of a model, with the sizes of its outputs in the model and its idle calls; see `Segment`."""

    @property
    def graph(self) -> Graph | None: ...

    @property
    def shapes(self) -> Mapping[str, tuple[int, ...]]: ...

    @property
    def spare(self) -> dict[Any, Idle | None]: ...


class Idle(NamedTuple):
    """A segment's graph, compiled, and its calls that have ended."""

    compiled: CompiledGraph
    calls: Spare


class Call:
    """A call of a segment's graph, bound to its own arrays, for inputs of ONNX's sizes."""

    def __init__(self, segment: Part, arrays: Mapping[str, Array], compiled: CompiledGraph) -> None:
        graph = segment.graph
        assert graph is not None
        inputs = {name: np.empty(t.sizes, array_dtype(t.data_type)) for name, t in graph.inputs.items()}
        outputs = {name: np.empty(t.sizes, array_dtype(t.data_type)) for name, t in graph.outputs.items()}
        self.given = [(name, x.reshape(arrays[name].shape)) for name, x in inputs.items()]
        self.made = [(name, outputs[name].reshape(sizes)) for name, sizes in segment.shapes.items()]
        self.execute = compiled.bind(**inputs, **outputs).execute

    def __call__(self, arrays: Mapping[str, Array]) -> dict[str, Array]:
        for name, own in self.given:
            own[...] = arrays[name]
        self.execute()
        return {name: own.copy() for name, own in self.made}


def computed(segment: Part, arrays: Mapping[str, Array], device: Device) -> dict[str, Array]:
    """The outputs of a segment's graph for tensors by name.

    A call that stays bound takes a tenth of the time of a new one. For the largest arrays, copying would take longer.
    """
    graph = segment.graph
    assert graph is not None
    if device not in segment.spare:
        nbytes = sum(t.total for t in (*graph.inputs.values(), *graph.outputs.values()))
        segment.spare[device] = None
        if nbytes <= COPIED:
            compiled = graph.compile(device)
            scratch = compiled.binding_properties.temporary_resource_size
            segment.spare[device] = Idle(compiled, Spare(nbytes + scratch))
    if (idle := segment.spare[device]) is None:
        made = graph.run({name: arrays[name].reshape(t.sizes) for name, t in graph.inputs.items()}, device)
        return {name: made[name].reshape(sizes) for name, sizes in segment.shapes.items()}
    try:
        call: Call = idle.calls.pop()
    except IndexError:  # the first call, or another thread has the spare one
        call = Call(segment, arrays, idle.compiled)
    made = call(arrays)
    idle.calls.give(call)
    return made


class Known:
    """The calls of a model that is a single graph, by the device and by the inputs' sizes and dtypes."""

    def __init__(self, inputs: tuple[str, ...], outputs: tuple[str, ...]) -> None:
        self.inputs, self.outputs = inputs, outputs
        self._spare: dict[Any, tuple[Spare, frozenset[str]]] = {}

    def _key(self, given: Mapping[str, Any], device: Any) -> Any:
        key = [device]
        for name in self.inputs:
            x = given[name]
            key += (x.shape, x.dtype)
        return (*key,)

    def again(self, given: Mapping[str, Any], device: Any) -> dict[str, Array] | None:
        """The outputs, if a call for inputs of this kind was kept and no other thread uses it; else None."""
        try:
            spare, truths = self._spare[self._key(given, device)]
            call = spare.pop()
        except (KeyError, AttributeError, TypeError, IndexError):
            return None
        if len(given) != len(self.inputs):  # a name is missing or unknown
            spare.give(call)
            return None
        made: dict[str, Array] = call(given)
        spare.give(call)
        if truths:
            return {name: made[name].view(np.bool_) if name in truths else made[name] for name in self.outputs}
        return made if (*made,) == self.outputs else {name: made[name] for name in self.outputs}

    def keep(
        self, given: Mapping[str, Any], device: Any, segment: Segment, on: Device, truths: frozenset[str] = frozenset()
    ) -> None:
        """Keep a segment's calls for inputs of this kind, if it is the whole model and the inputs need no conversion.

        device: the argument of the caller. on: the device that it means. truths: the outputs that are returned as bool.
        """
        idle = segment.spare.get(on)
        if not segment.last or idle is None or not set(self.outputs) <= segment.shapes.keys():
            return
        if len(self._spare) >= KEPT:
            self._spare.clear()
        self._spare[self._key(given, device)] = idle.calls, truths
