"""`anydml.onnx.load`: an ONNX model as DirectML's operators, run exactly."""

from __future__ import annotations

import os
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from typing import Any, Literal

import numpy as np
from onnx import ModelProto

from anydml.devices.device import Device, device_of, usual
from anydml.errors import BindingError, Fault
from anydml.functional.graph import Graph
from anydml.onnx.build import Walk
from anydml.onnx.calls import Known, computed
from anydml.onnx.errors import INVALID, ModelError, Refusal, Refused
from anydml.onnx.evaluate import evaluate
from anydml.onnx.nodes import Body, Scope
from anydml.onnx.read import Read, Signature, by_name, given_array, read, shown
from anydml.onnx.segments import Segment, State
from anydml.onnx.types import BOOL, DTYPES, type_of
from anydml.onnx.values import Array

CACHED = 16  # graphs of a model, by the sizes of its inputs; and of what follows a value, by the value
MOST_SEGMENTS = 1000  # of one run

Sizes = tuple[tuple[str, tuple[int, ...]], ...]


class Model:
    """An ONNX model: made by `load`. inputs, outputs: their names, element types and sizes, as the model has them."""

    def __init__(self, found: Read) -> None:
        self.proto: ModelProto = found.proto
        self.inputs: dict[str, Signature] = found.inputs
        self.outputs: dict[str, Signature] = found.outputs
        self._read = found
        self._constants = found.constants
        self._types = {**found.types, **{s.name: s.element_type for s in found.inputs.values()}}
        self._segments: OrderedDict[Any, Segment] = OrderedDict()
        self._calls = Known(tuple(self.inputs), tuple(self.outputs))

    def __repr__(self) -> str:
        def listed(tensors: Mapping[str, Signature]) -> str:
            return ", ".join(f"{s.name} {'?' if s.sizes is None else shown(s.sizes)}" for s in tensors.values())

        return f"<Model: {len(self.proto.graph.node)} nodes; {listed(self.inputs)} -> {listed(self.outputs)}>"

    def graph(self, **sizes: Any) -> Graph:
        """The model as one graph, for inputs of certain sizes.

        sizes: for an input's name, its sizes; or a number for the name of a size. What the model says need not be given.
        ModelError where a node is refused, and where the values of a tensor decide about sizes, so that no one graph is all.
        """
        segment = self._segment(("graph", found := self._sizes(sizes)), found, False)
        if not segment.last:
            at = segment.alone or segment.wanted
            raise ModelError([Refusal(str(at), "", INVALID, "its values decide about sizes, so that one graph is not all")])
        if segment.graph is None or set(segment.graph.outputs) != set(self.outputs):
            raise ModelError([Refusal("", "", INVALID, "outputs of the model are inputs or constants, which no graph writes")])
        return segment.graph

    def check(self, **sizes: Any) -> tuple[Refusal, ...]:
        """All that is refused, as far as sizes tell; empty where the model runs. sizes: as in `graph`."""
        try:
            self._segment(("check", found := self._sizes(sizes)), found, False)
        except ModelError as error:
            return error.refusals
        return ()

    def run(
        self,
        inputs: Mapping[str, Any] | None = None,
        /,
        *,
        device: Device | str | None = None,
        keep: Literal["outputs", "all"] = "outputs",
        **named: Any,
    ) -> dict[str, Array]:
        """The outputs by name, for inputs by name, of ONNX's types; with keep="all", every tensor that a node computes.

        The graphs are kept for the next inputs of the same sizes, 16 of them. device: for all that is computed, what follows
        from constants too; the cpu without one.
        BindingError for inputs that do not fit, ModelError for what is refused.
        """
        given = {**by_name(inputs), **named} if inputs is not None else named
        if keep == "outputs" and (made := self._calls.again(given, device)) is not None:
            return made
        if keep not in ("outputs", "all"):
            raise ValueError(f'keep is {keep!r}, and may be "outputs" or "all"')
        on = device_of(device)
        with usual(on):
            env = self._given(given)
            made, segment = self._run(env, on, keep == "all")
        as_given = all(env[name] is given[name] for name in self.inputs) and len(given) == len(self.inputs)
        if keep == "outputs" and as_given and all(y.dtype != np.bool_ for y in made.values()):
            self._calls.keep(given, device, segment, on)
        return made

    def _run(self, env: dict[str, Array], device: Device, keep_all: bool) -> tuple[dict[str, Array], Segment]:
        """The tensors that are asked for, and the first segment."""
        sizes = tuple((name, x.shape) for name, x in env.items())
        key: Any = ("run", device, sizes, keep_all)
        first = segment = self._segment(key, sizes, keep_all, tuple(env))
        env |= {name: x for name, x in self._constants.items() if name in self.outputs and name not in env}
        types = self._types
        met: set[str] = set()
        fresh: set[str] = set()  # what a graph wrote, and nothing else is
        for _ in range(MOST_SEGMENTS):
            found = _computed(segment, env, device)
            env |= found
            met |= found.keys()
            fresh |= segment.shapes.keys() - set(segment.aliases.values())
            types = {**types, **segment.types}
            if segment.last:
                break
            state, key = _after(segment, env, types, key)
            if segment.alone is not None:
                met.update(filter(None, segment.alone.outputs))
            segment = self._cached(key, state, keep_all)
        else:
            raise ModelError([Refusal("", "", INVALID, f"values decide about sizes at more than {MOST_SEGMENTS} places")])
        wanted = [*self.outputs, *sorted(met - self.outputs.keys())] if keep_all else [*self.outputs]
        made = {name: _of_type(env[name] if name in fresh else env[name].copy(), types.get(name)) for name in wanted}
        return made, first

    def _given(self, inputs: Mapping[str, Any]) -> dict[str, Array]:
        found = {}
        faults = [
            Fault(name, f"the model has no input {name!r}; its inputs are {', '.join(self.inputs)}")
            for name in inputs
            if name not in self.inputs and name not in self._constants
        ]
        for name, signature in self.inputs.items():
            if name not in inputs:
                faults.append(Fault(name, "is an input of the model, and was not given"))
                continue
            try:
                found[name] = given_array(signature, inputs[name])
            except (TypeError, ValueError) as error:
                faults.append(Fault(name, str(error)))
        for name in self._constants.keys() & inputs.keys():  # an input with a default
            constant = self._constants[name]
            own = Signature(name, self._read.types[name], constant.shape)
            try:
                found[name] = given_array(own, inputs[name])
            except (TypeError, ValueError) as error:
                faults.append(Fault(name, str(error)))
        if faults:
            raise BindingError(faults)
        return found

    def _sizes(self, given: Mapping[str, Any]) -> Sizes:
        """The sizes of every input, as the model and the caller say them."""
        faults, found, used = [], [], set()
        for name, signature in self.inputs.items():
            if name in given:
                used.add(name)
                found.append((name, tuple(int(n) for n in given[name])))
                continue
            sizes = []
            for n in (None,) if signature.sizes is None else signature.sizes:
                if isinstance(n, str) and n in given:
                    used.add(n)
                    n = int(given[n])
                if not isinstance(n, int):
                    faults.append(
                        Fault(name, f"has sizes {shown(signature.sizes or ('?',))}; {n or 'its sizes'} must be given")
                    )
                    break
                sizes.append(n)
            found.append((name, tuple(sizes)))
        faults += [Fault(name, "is neither an input nor the name of a size") for name in given if name not in used]
        if faults:
            raise BindingError(faults)
        return tuple(found)

    def _segment(self, key: Any, sizes: Sequence[Any], keep_all: bool, given: tuple[str, ...] = ()) -> Segment:
        if (found := self._segments.get(key)) is not None:
            self._segments.move_to_end(key)
            return found
        known = {name: x for name, x in self._constants.items() if name not in given}
        arrays = {name: (shape, DTYPES[self._types[name]]) for name, shape in sizes}
        body = Body(self.proto.graph.node, Scope(), self._read.opsets)
        return self._cached(key, State(known, arrays, self._types, ((body, 0),)), keep_all)

    def _cached(self, key: Any, state: State, keep_all: bool) -> Segment:
        if (found := self._segments.get(key)) is not None:
            self._segments.move_to_end(key)
            return found
        outputs = frozenset(self.outputs)
        made = self._segments[key] = Walk(state, self._read.functions).run(outputs, keep_all)
        if len(self._segments) > CACHED:
            self._segments.popitem(last=False)
        return made


def _computed(segment: Segment, env: Mapping[str, Array], device: Device) -> dict[str, Array]:
    """The tensors that are known once a segment has run, by name."""
    found = dict(segment.known)
    if segment.graph is not None:
        found |= computed(segment, env, device)
    for name, other in segment.aliases.items():
        found[name] = found[other] if other in found else env[other]
    return found


def _after(segment: Segment, env: dict[str, Array], types: dict[str, int], key: Any) -> tuple[State, Any]:
    """The state behind a segment whose tensors are computed, and the key of the segment that follows."""
    known = {name: x for name, x in segment.known.items() if name in segment.live}
    if (node := segment.alone) is not None:
        try:
            results = evaluate(node, [env[name] if name else None for name in node.inputs])
        except Refused as refused:
            raise ModelError([Refusal(node.name, node.key, refused.kind, refused.reason)]) from None
        for name, declared, x in zip(node.outputs, node.output_types, results, strict=False):
            if name and x is not None:
                env[name] = x
                types[name] = declared if declared in DTYPES and declared is not None else type_of(x)
        key = (key, tuple((env[name].shape, env[name].dtype.str) for name in node.outputs if name))
    else:
        known |= {name: env[name] for name in segment.wanted}
        key = (key, tuple((env[name].shape, env[name].tobytes()) for name in segment.wanted))
    sizes = {name: (env[name].shape, env[name].dtype) for name in segment.live & env.keys() - known.keys()}
    return State(
        known, sizes, {n: types[n] for n in known.keys() | sizes.keys() if n in types}, segment.frames, segment.count
    ), key


def _of_type(x: Array, element_type: int | None) -> Array:
    """An output with ONNX's dtype."""
    return x.view(np.bool_) if element_type == BOOL and x.dtype == np.uint8 else x


def load(model: str | os.PathLike[str] | ModelProto) -> Model:
    """The model of an .onnx file or of a ModelProto, of opset 6 or newer; ModelError for what cannot be read."""
    return Model(read(model))
