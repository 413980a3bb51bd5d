"""`anydml.onnx.load`: an ONNX model as DirectML's operators, run exactly."""

from __future__ import annotations

import os
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, Literal

import numpy as np
from onnx import ModelProto, TensorProto

from anydml.chunking.samples import batch_axes
from anydml.devices.device import Device, device_of, usual
from anydml.errors import BindingError, Fault, UnsupportedError
from anydml.feature_level import FeatureLevel
from anydml.functional.batches import Output, alone, axis_of, mapped
from anydml.functional.graph import Graph
from anydml.graphs.check import check_graph
from anydml.onnx.binding import BoundModel
from anydml.onnx.build import TURNS, Walk, refused_later
from anydml.onnx.calls import Known, computed
from anydml.onnx.errors import INVALID, NOT_YET, ModelError, Refusal, Refused
from anydml.onnx.evaluate import evaluate
from anydml.onnx.loops import MOST_TURNS, body_read, looped, read_around, scanned
from anydml.onnx.nodes import Body, Node
from anydml.onnx.read import Read, Signature, given_array, read, shown
from anydml.onnx.segments import Segment, State, member
from anydml.onnx.types import BOOL, DTYPES, type_of
from anydml.onnx.values import Array, by_name
from anydml.tensor import packed_strides

FLOAT = int(TensorProto.FLOAT)
CACHED = 16  # graphs of a model, by the sizes of its inputs; and graphs of later segments, by the values they depend on
MOST_SEGMENTS = 1000  # segments of one run at most

Sizes = tuple[tuple[str, tuple[int, ...]], ...]


class Model:
    """An ONNX model, made by `load`. inputs, outputs: their names, element types and sizes in the model.

    notes: what was mended in the file, since it was not valid ONNX.
    """

    def __init__(self, found: Read, turns: int = MOST_TURNS) -> None:
        self.notes: tuple[str, ...] = found.notes
        self._turns = turns
        self._bodies: dict[Any, Model] = {}
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

    def __reduce__(self) -> tuple[Any, ...]:
        """The contents of the file. A copy, in another process too, makes its graphs anew."""
        return type(self), (self._read, self._turns)

    def graph(self, **sizes: Any) -> Graph:
        """The model as one graph, for inputs of certain sizes.

        sizes: the sizes of an input by its name, or a number for a named size. Sizes that the model gives are not needed.
        ModelError if a node is refused, or if the values of a tensor determine sizes, so that one graph is not enough.
        """
        segment = self._segment(("graph", found := self._sizes(sizes)), found, False)
        if not segment.last:
            at = segment.alone or segment.wanted
            raise ModelError([Refusal(str(at), "", INVALID, "its values determine sizes, so that one graph is not enough")])
        if segment.graph is None or set(segment.graph.outputs) != set(self.outputs):
            raise ModelError([Refusal("", "", INVALID, "outputs of the model are inputs or constants, not results of nodes")])
        return segment.graph

    def check(self, **sizes: Any) -> tuple[Refusal, ...]:
        """The refusals for these sizes; empty if the model runs. sizes: as in `graph`.

        After a node whose values determine sizes, and in loops and branches, only operators are checked, and not sizes.
        """
        begin = ((Body(self.proto.graph.node, self._read.scope, self._read.opsets), 0),)
        try:
            segment = self._segment(("check", found := self._sizes(sizes)), found, False)
        except ModelError as error:
            names = {r.node for r in error.refusals}
            return (*error.refusals, *(r for r in refused_later(begin, self._read.functions) if r.node not in names))
        return refused_later(begin, self._read.functions) if not segment.last else ()

    def run(
        self,
        inputs: Mapping[str, Any] | None = None,
        /,
        *,
        device: Device | str | None = None,
        keep: Literal["outputs", "all"] = "outputs",
        **named: Any,
    ) -> dict[str, Array]:
        """The outputs by name, for inputs by name, with ONNX's types; with keep="all", every tensor that a node computes.

        The graphs for the last 16 combinations of input sizes are kept. device: computes everything, including nodes that
        depend only on constants; by default the cpu, and by name at feature level EXTENDED.
        BindingError for inputs that do not fit, ModelError for nodes that are refused.
        """
        given: Mapping[str, Any] = named
        if inputs is not None:
            given = inputs if type(inputs) is dict and not named else {**by_name(inputs), **named}
        if keep == "outputs" and (made := self._calls.again(given, device)) is not None:
            return made
        if keep not in ("outputs", "all"):
            raise ValueError(f'keep is {keep!r}, and may be "outputs" or "all"')
        on = device_of(device, FeatureLevel.EXTENDED)
        with usual(on):
            env = self._given(given)
            found, types, segment = self._run(env, on, keep == "all")
            made = {name: _of_type(x, types.get(name)) for name, x in found.items()}
        if keep == "outputs" and len(given) == len(self.inputs) and all(_as_is(given[n], env[n]) for n in self.inputs):
            truths = frozenset(name for name, y in made.items() if y.dtype == np.bool_)
            self._calls.keep(given, device, segment, on, truths)
        return made

    def bind(
        self, arrays: Mapping[str, Any] | None = None, /, *, device: Device | str | None = None, **named: Any
    ) -> BoundModel:
        """The model bound to arrays of its inputs, and of outputs if given; others are allocated.

        Arrays are bound as they are, without copies. An output that is an input with some rows replaced, as a cache of keys in
        GroupQueryAttention or TensorScatter, may be the input's array: then only these rows are written. BindingError for
        arrays that do not fit, and for other outputs that share memory with an input; ModelError if nodes are refused, or if
        values determine sizes, so that one graph is not enough.
        """
        given = {**by_name(arrays), **named} if arrays is not None else named
        on = device_of(device, FeatureLevel.EXTENDED)
        faults, sizes = [], {}
        for name, x in given.items():
            if not isinstance(x, np.ndarray):
                faults.append(Fault(name, f"is bound as an array of NumPy, not as {type(x).__name__}"))
            elif (signature := self.inputs.get(name)) is not None:
                try:
                    sizes[name] = given_array(signature, x).shape
                except (TypeError, ValueError) as error:
                    faults.append(Fault(name, str(error)))
        if faults:
            raise BindingError(faults)
        with usual(on):
            graph = self.graph(**sizes)
            found = self._sizes(sizes)
            return BoundModel(graph, given, self._segment(("graph", found), found, False).shapes, on)

    def map_blocks(self, x: Any, batch_axis: int = 0) -> Any:
        """The outputs for the samples of a Dask array, as Dask arrays: one, or a dict of them by name if there are several.

        The model has one input. x may have any number of samples along `batch_axis`; each block is a batch. A model whose file
        fixes the size of its batches computes as many samples at a time. Sizes and data types are the model's, and nothing is
        computed before the outputs are. BindingError if x does not fit; UnsupportedError if a sample's outputs depend on other
        samples; ModelError for nodes that are refused, or if values determine sizes.
        """
        if len(self.inputs) != 1:
            raise BindingError([Fault("x", f"map_blocks takes models of one input, not of {', '.join(self.inputs)}")])
        ((name, signature),) = self.inputs.items()
        given = signature.sizes if signature.sizes is not None else (None,) * len(x.shape)
        axis = axis_of(batch_axis, given)
        batch = given[axis]
        fixed = batch if isinstance(batch, int) else None
        count = 2 if fixed is None else fixed  # with one sample, its dimension could not be told from others of size 1
        if len(x.shape) != len(given):
            raise BindingError([Fault("x", f"x has shape {x.shape}, where the model takes sizes {shown(given)}")])
        sizes = tuple(count if d == axis else n if isinstance(n, int) else int(x.shape[d]) for d, n in enumerate(given))
        made = self.graph(**{name: sizes})
        axes = {}
        if count > 1:
            axes = batch_axes(check_graph(made.desc), name, _same_axis(sizes, made.inputs[name].sizes, axis, name))
        segment = self._segment(("graph", ((name, sizes),)), ((name, sizes),), False)
        outputs = {}
        for n in self.outputs:
            of = segment.shapes[n]
            at = _same_axis(made.outputs[n].sizes, of, axes[n], n) if axes else alone(of, axis, n)
            outputs[n] = Output(of, _array_type(segment.types.get(n), made.outputs[n].data_type.dtype), at)
        takes = _array_type(signature.element_type, np.dtype(np.float32))
        found = mapped(self, partial(_run_on, name), x, axis, sizes, takes, outputs, fixed)
        return found if len(found) > 1 else next(iter(found.values()))

    def _run(self, env: dict[str, Array], device: Device, keep_all: bool) -> tuple[dict[str, Array], dict[str, int], Segment]:
        """The wanted tensors, with booleans as UINT8, the element types, and the first segment."""
        sizes = tuple((name, x.shape) for name, x in env.items())
        key: Any = ("run", device, sizes, keep_all)
        first = segment = self._segment(key, sizes, keep_all, tuple(env))
        env |= {name: x for name, x in self._constants.items() if name in self.outputs and name not in env}
        types = self._types
        met: set[str] = set()
        fresh: set[str] = set()  # tensors that a graph wrote and that share no memory with others
        for _ in range(MOST_SEGMENTS):
            found = _computed(segment, env, device)
            env |= found
            met |= found.keys()
            fresh |= segment.shapes.keys() - set(segment.aliases.values())
            types = {**types, **segment.types}
            if segment.last:
                break
            state, key = self._after(segment, env, types, key, device)
            if segment.alone is not None:
                met.update(filter(None, segment.alone.outputs))
            segment = self._cached(key, state, keep_all)
        else:
            raise ModelError([Refusal("", "", INVALID, f"values determine sizes at more than {MOST_SEGMENTS} places")])
        tensors = {name for name in met if not isinstance(env[name], tuple)}
        wanted = [*self.outputs, *sorted(tensors - self.outputs.keys())] if keep_all else [*self.outputs]
        return {name: env[name] if name in fresh else env[name].copy() for name in wanted}, types, first

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
        """The sizes of every input, from the model and the caller."""
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
        body = Body(self.proto.graph.node, self._read.scope, self._read.opsets)
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

    def _after(
        self, segment: Segment, env: dict[str, Array], types: dict[str, int], key: Any, device: Device
    ) -> tuple[State, Any]:
        """The state after a segment whose tensors are computed, and the key of the next segment."""
        known = {name: x for name, x in segment.known.items() if name in segment.live}
        if (node := segment.alone) is not None:
            try:
                if node.key in TURNS:
                    results, found = self._looped(node, segment.frames[-1][0].opsets, env, types, device)
                else:
                    results = evaluate(node, [env[name] if name else None for name in node.inputs])
                    found = list(node.output_types)
            except Refused as refused:
                raise ModelError([Refusal(node.name, node.key, refused.kind, refused.reason)]) from None
            for name, declared, x in zip(node.outputs, found, results, strict=False):
                if name and isinstance(x, tuple):
                    env[name] = x
                    env |= {member(name, i): y for i, y in enumerate(x)}
                    types |= {name: next(map(type_of, x), FLOAT)} | {member(name, i): type_of(y) for i, y in enumerate(x)}
                elif name and x is not None:
                    env[name] = x
                    types[name] = declared if declared in DTYPES and declared is not None else type_of(x)
            key = (key, tuple(_kind(env[name]) for name in node.outputs if name))
        else:
            known |= {name: env[name] for name in segment.wanted}
            key = (key, tuple((env[name].shape, env[name].tobytes()) for name in segment.wanted))
        live = segment.live & env.keys()
        sequences = {name: len(x) for name in live if isinstance(x := env[name], tuple)}
        live = (live - sequences.keys()).union(member(name, i) for name, n in sequences.items() for i in range(n))
        known |= {name: x for name, x in segment.known.items() if name in live}
        sizes = {name: (env[name].shape, env[name].dtype) for name in live - known.keys()}
        held = {n: types[n] for n in known.keys() | sizes.keys() | sequences.keys() if n in types}
        return State(known, sizes, held, segment.frames, segment.count, sequences), key

    def _looped(
        self, node: Node, opsets: Mapping[str, int], env: Mapping[str, Array], types: Mapping[str, int], device: Device
    ) -> tuple[list[Array], list[int | None]]:
        """The outputs of a loop, and their element types."""
        graph = node.attributes["body"]
        taken = {name: node.scope.name(name) for name in read_around(graph)}
        if any(isinstance(env[name], tuple) for name in (*taken.values(), *filter(None, node.inputs))):
            raise Refused("its input is a sequence", NOT_YET)
        own = {name: (env[outer], types[outer]) for name, outer in taken.items()}

        def run(given: Sequence[tuple[Array, int]]) -> list[tuple[Array, int]]:
            """The outputs of one turn."""
            named = dict(zip((info.name for info in graph.input), given, strict=True)) | own
            signature = (node.name, tuple((name, t) for name, (_, t) in named.items()))
            if (body := self._bodies.get(signature)) is None:
                read = body_read(graph, {name: t for name, (_, t) in named.items()}, self._read, opsets, node.scope)
                body = self._bodies[signature] = Model(read, self._turns)
            made, found, _ = body._run({name: x for name, (x, _) in named.items()}, device, False)
            return [(made[info.name], found[info.name]) for info in graph.output]

        given = [(env[name], types[name]) if name else None for name in node.inputs]
        outputs = (looped if node.operator == "Loop" else scanned)(node, given, run, self._turns)
        return [x for x, _ in outputs], [t for _, t in outputs]


def _computed(segment: Segment, env: Mapping[str, Array], device: Device) -> dict[str, Array]:
    """The tensors that are known after a segment has run, by name."""
    found: dict[str, Any] = dict(segment.known)
    if segment.graph is not None:
        found |= computed(segment, env, device)
    for name, other in segment.aliases.items():
        found[name] = found[other] if other in found else env[other]
    for name, length in segment.sequences.items():
        found[name] = tuple(found[m] if (m := member(name, i)) in found else env[m] for i in range(length))
    return found


def _as_is(given: Any, taken: Array) -> bool:
    """Whether an input is taken without a conversion but that of truth values to bytes."""
    return given is taken or (type(given) is np.ndarray and given.dtype == np.bool_)


def _kind(x: Any) -> Any:
    """The sizes and dtype for which a graph is made; for a sequence, those of each tensor."""
    return tuple(map(_kind, x)) if isinstance(x, tuple) else (x.shape, x.dtype.str)


def _run_on(name: str, model: Model, x: Array, device: Device) -> dict[str, Array]:
    return model.run({name: x}, device=device)


def _same_axis(sizes: tuple[int, ...], others: tuple[int, ...], axis: int, name: str) -> int:
    """The dimension of the same elements with other sizes that is this one of theirs."""
    own, strides = packed_strides(sizes), packed_strides(others)
    for d, n in enumerate(others):
        if n == sizes[axis] and strides[d] == own[axis]:
            return d
    raise UnsupportedError(f"{name}: its samples lie along no dimension of their own, so that batches are not computed alone")


def _array_type(element_type: int | None, otherwise: np.dtype[Any]) -> np.dtype[Any]:
    """The dtype of arrays of an element type."""
    if element_type is None:
        return otherwise
    return np.dtype(np.bool_) if element_type == BOOL else DTYPES[element_type]


def _of_type(x: Array, element_type: int | None) -> Array:
    """An output with ONNX's dtype."""
    return x.view(np.bool_) if element_type == BOOL and x.dtype == np.uint8 else x


def load(model: str | os.PathLike[str] | ModelProto, *, turns: int = MOST_TURNS) -> Model:
    """The model of an .onnx file or of a ModelProto, of opset 6 or newer; ModelError if it cannot be read.

    turns: the largest number of turns of a loop.
    """
    return Model(read(model), turns)
