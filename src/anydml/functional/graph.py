"""`dml.graph`: a function of eager calls as a graph, compiled and run as one."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Literal, NamedTuple, cast

import numpy as np
from numpy.typing import NDArray

from anydml.chunking.samples import batch_axes
from anydml.devices.binding import as_array
from anydml.devices.device import Device, device_of
from anydml.devices.graph import CompiledGraph, fused
from anydml.devices.graph_call import laid_over
from anydml.devices.spare import Spare
from anydml.errors import BindingError, DescError, Fault
from anydml.feature_level import FeatureLevel
from anydml.functional import graph_files
from anydml.functional.batches import Output, alone, axis_of, mapped
from anydml.functional.call import call
from anydml.functional.run import allocate
from anydml.functional.tracing import Building, GraphTensor
from anydml.gc_pause import paused
from anydml.graphs import show
from anydml.graphs.check import check_graph
from anydml.graphs.checked import CheckedGraph
from anydml.graphs.desc import GraphDesc, OutputEdge, tensor_names
from anydml.graphs.plan import Work, fixed_buffers, operators_of, split
from anydml.int4_tensors import array_dtype, pack, unpacked
from anydml.lazy import computed_once
from anydml.schema.tensor_rules import broken
from anydml.tensor import EXTENSIONS, TensorDesc, TensorFlags, four_bit, packed_strides

COPIED = 1 << 26  # bytes of inputs and outputs, at most, that are copied for a call that stays bound


class Graph:
    """A graph with named inputs and outputs, made by `graph`.

    desc: its desc, for `Device.compile`. inputs, outputs: the tensors that are bound, by name.
    """

    def __init__(
        self,
        desc: GraphDesc,
        inputs: Mapping[str, TensorDesc],
        outputs: Mapping[str, TensorDesc],
        form: Any,
        scalars: Collection[str] = (),
    ) -> None:
        self.desc, self.inputs, self.outputs = desc, dict(inputs), dict(outputs)
        self._form = form  # the function's result, with names instead of tensors
        self._scalars = frozenset(scalars)  # names of arrays without dimensions, whose tensors have sizes (1,)

    def __repr__(self) -> str:
        """Inputs, nodes with the calls that they were fused to, and outputs."""
        return show.text(*self._planned())

    def _repr_html_(self) -> str:
        return show.html(*self._planned())

    def to_dot(self) -> str:
        """The graph for Graphviz: a box around nodes that were fused, sizes at the edges."""
        return show.dot(*self._planned())

    def _planned(self) -> tuple[CheckedGraph, Sequence[Work], Sequence[Work]]:
        checked = check_graph(self.desc, FeatureLevel.EXTENDED)
        once, every = split(operators := operators_of(checked), fixed_buffers(checked, operators))
        return checked, once, fused(checked, every)

    def save(self, folder: str | os.PathLike[str]) -> None:
        """Write the graph to a folder: graph.json, and an .npy file for each constant."""
        graph_files.write(folder, self.desc, self._form, self._scalars)

    @classmethod
    def load(cls, folder: str | os.PathLike[str]) -> Graph:
        """The graph that `save` wrote to a folder; GraphError if the files hold no graph."""
        desc, form, scalars = graph_files.read(folder)
        checked = check_graph(desc, FeatureLevel.EXTENDED)
        tensors = [
            {b.name: t or b.tensor for b, t in zip(bound, given or [None] * len(bound), strict=True)}
            for bound, given in ((checked.inputs, desc.input_tensors), (checked.outputs, desc.output_tensors))
        ]
        return cls(desc, tensors[0], tensors[1], form, scalars)

    def compile(self, device: Device | str | None = None, *, fuse: bool = True) -> CompiledGraph:
        """The graph for a device, by default the cpu. Initialize it if an input is OWNED_BY_DML, then bind."""
        return cast(CompiledGraph, device_of(device).compile(self.desc, fuse=fuse))

    def run(
        self, inputs: Mapping[str, Any], device: Device | str | None = None, *, keep: Literal["outputs", "all"] = "outputs"
    ) -> dict[str, NDArray[Any]]:
        """The outputs by name, in new arrays; with keep="all", also the outputs of every operator, by the operator's name.

        The graph is compiled once for a device, unless an input is OWNED_BY_DML.
        """
        if keep == "all":
            return self._whole.run(inputs, device)
        if keep != "outputs":
            raise ValueError(f'keep is {keep!r}, and may be "outputs" or "all"')
        device = device_of(device)
        if (made := self._again(inputs, device)) is not None:
            return made
        inputs = {name: _with_dimension(x) if name in self._scalars else x for name, x in inputs.items()}
        owned = {name: x for name, x in inputs.items() if name in self.inputs and self.inputs[name].flags}
        if any(t.flags & TensorFlags.OWNED_BY_DML for t in self.inputs.values()):
            compiled = self.compile(device)
            compiled.initialize(**{name: _as_bytes(x) for name, x in owned.items()})
        else:
            compiled = compiled_on(device, self)
        scratch = compiled.binding_properties.temporary_resource_size
        found = {name: _fresh(t, scratch) for name, t in self.outputs.items()}
        if taken := [name for name in inputs if name in found]:
            raise BindingError([Fault(name, "is an output of the graph, and run makes its array") for name in taken])
        given = {name: _as_bytes(x) for name, x in inputs.items() if name not in owned}
        compiled.bind(**given, **found).execute()
        made = {name: _as_elements(x, self.outputs[name]) for name, x in found.items()}
        return {name: x.reshape(()) if name in self._scalars else x for name, x in made.items()}

    def _again(self, inputs: Mapping[str, Any], device: Device) -> dict[str, NDArray[Any]] | None:
        """The outputs, for small arrays that need no conversion, from a call that stays bound to its own; else None."""
        spare: Spare | None = device.cached(_idle, self)
        if spare is None or inputs.keys() != self.inputs.keys():
            return None
        for name, (shape, dtype) in self._taken.items():
            x = inputs[name]
            if type(x) is not np.ndarray or x.shape != shape or x.dtype != dtype:
                return None
        try:
            call = spare.pop()
        except IndexError:
            call = _Idle(device.cached(_compiled, self), self)
        made: dict[str, NDArray[Any]] = call(inputs)
        spare.give(call)
        return made

    @computed_once
    def _taken(self) -> dict[str, tuple[tuple[int, ...], np.dtype[Any]]]:
        """The shapes and data types of the arrays of inputs."""
        return {name: (t.sizes, t.data_type.dtype) for name, t in self.inputs.items()}

    @computed_once
    def _whole(self) -> Graph:
        """The graph with every tensor as an output."""
        checked, *_ = self._planned()
        edges, tensors = [*self.desc.output_edges], dict(self.outputs)
        there = {b.buffer for b in checked.outputs}
        for node, writes in enumerate(checked.writes):
            operator = checked.nodes[node]
            slots = [] if operator is None else tensor_names(operator.desc, "output")
            for name, buffer in writes.items():
                if operator is not None and buffer not in there:
                    title = show.called(checked, node) + (f".{name}" if len(writes) > 1 else "")
                    edges.append(OutputEdge(node, slots.index(name), len(edges), title))
                    tensors[title] = operator.tensors[name]
        whole = replace(self.desc, output_edges=tuple(edges), output_tensors=())
        return Graph(whole, self.inputs, tensors, [*tensors], self._scalars)

    def map_blocks(self, x: Any, batch_axis: int = 0) -> Any:
        """The results for the samples of a Dask array, as Dask arrays in the form in which the function returns them.

        The graph has one input. x may have any number of samples along `batch_axis`, in blocks of any size; the graph computes
        as many as it was made for at a time. Sizes and data types are those of the graph, and nothing is computed before the
        results are. BindingError if x does not fit; UnsupportedError if a sample's results depend on other samples.
        """
        if len(self.inputs) != 1:
            raise BindingError([Fault("x", f"map_blocks takes graphs of one input, not of {', '.join(self.inputs)}")])
        ((name, t),) = self.inputs.items()
        axis = axis_of(batch_axis, t.sizes)
        if name in self._scalars or any(o in self._scalars for o in self.outputs):
            raise BindingError([Fault("x", "map_blocks takes graphs of arrays with dimensions")])
        axes = batch_axes(check_graph(self.desc), name, axis) if t.sizes[axis] > 1 else None
        outputs = {
            n: Output(o.sizes, array_dtype(o.data_type), alone(o.sizes, axis, n) if axes is None else axes[n])
            for n, o in self.outputs.items()
        }
        run = partial(_run_on, name)
        return _filled(self._form, mapped(self, run, x, axis, t.sizes, array_dtype(t.data_type), outputs, t.sizes[axis]))

    def __call__(self, /, *arrays: Any, **inputs: Any) -> Any:
        """The results for arrays, in the form in which the function returns them: an array, or a tuple or dict of arrays.

        Arrays are given by name, or in the order of `inputs`. BindingError for sizes other than an input's.
        """
        if len(arrays) > len(self.inputs):
            raise TypeError(f"the graph takes {len(self.inputs)} arrays ({', '.join(self.inputs)}), not {len(arrays)}")
        for name, array in zip(self.inputs, arrays, strict=False):
            if name in inputs:
                raise TypeError(f"{name} is given twice")
            inputs[name] = array
        shapes = {name: tuple(getattr(x, "shape", ())) for name, x in inputs.items()}
        faults = [
            Fault(name, f"{name} has shape {shapes[name]}, where the graph takes {() if name in self._scalars else t.sizes}")
            for name, t in self.inputs.items()
            if shapes.get(name) and shapes[name] != t.sizes and t.strides is None and t.data_type.element_bits > 4
        ]
        if faults:
            raise BindingError(faults)
        return _filled(self._form, self.run(inputs))


class _Idle:
    """A call of a graph, bound to its own arrays. A call that stays bound takes a tenth of the time of a new one."""

    def __init__(self, compiled: CompiledGraph, made: Graph) -> None:
        self._inputs = {name: np.empty(t.sizes, t.data_type.dtype) for name, t in made.inputs.items()}
        self._outputs = {name: np.empty(t.sizes, t.data_type.dtype) for name, t in made.outputs.items()}
        self._execute = compiled.bind(**self._inputs, **self._outputs).execute

    def __call__(self, inputs: Mapping[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
        for name, own in self._inputs.items():
            own[...] = inputs[name]
        self._execute()
        return {name: own.copy() for name, own in self._outputs.items()}


def _idle(device: Device, made: Graph) -> Spare | None:
    """The idle calls of a graph; None if its arrays are large, or not what is bound and returned."""
    tensors = [*made.inputs.values(), *made.outputs.values()]
    plain = all(
        t.data_type.element_bits >= 8
        and not t.flags
        and t.data_type not in EXTENSIONS.values()
        and t.explicit_strides == packed_strides(t.sizes)
        for t in tensors
    )
    if not plain or made._scalars:
        return None
    nbytes = sum(t.element_bytes for t in tensors)
    scratch = device.cached(_compiled, made).binding_properties.temporary_resource_size
    return Spare(nbytes + scratch) if nbytes <= COPIED else None


def _run_on(name: str, made: Graph, x: NDArray[Any], device: Device) -> dict[str, NDArray[Any]]:
    return made.run({name: x}, device)


def _with_dimension(x: Any) -> Any:
    """An array without dimensions reshaped to (1,); other values unchanged."""
    return x.reshape(1) if isinstance(x, (np.ndarray, np.generic)) and x.ndim == 0 else x


def _as_bytes(x: Any) -> Any:
    """An array of 4-bit elements packed to bytes, as it is bound; other values unchanged."""
    return pack(x) if isinstance(x, np.ndarray) and four_bit(x.dtype) is not None else x


def _as_elements(x: NDArray[Any], t: TensorDesc) -> NDArray[Any]:
    """The array that eager functions return for a tensor: 4-bit elements are unpacked, one in each item."""
    dtype = array_dtype(t.data_type)
    return unpacked(x, t).astype(dtype) if t.data_type.element_bits < 8 else x if x.dtype == dtype else x.view(dtype)


def _fresh(t: TensorDesc, scratch: int) -> NDArray[Any]:
    """A new array for an output: packed, or bytes for the layout of its desc."""
    if t.data_type.element_bits > 4 and t.explicit_strides == packed_strides(t.sizes):
        return allocate(t.sizes, t.data_type.dtype, scratch)
    return laid_over(allocate((t.element_bytes,), np.dtype(np.uint8), scratch), t)


def _compiled(device: Device, made: Graph) -> CompiledGraph:
    return made.compile(device)


def compiled_on(device: Device, made: Graph) -> CompiledGraph:
    """The graph for a device, which keeps it."""
    found: CompiledGraph = device.cached(_compiled, made)
    return found


@paused
def graph(function: Callable[..., Any], /, **inputs: Any) -> Graph:
    """The graph of a function that calls eager functions.

    inputs: the function's arguments by name. A TensorDesc makes an input of the graph, which is bound at each call; the
    function gets other values unchanged. Arrays that operators read become constants, which are copied. The function is
    called once, on tensors without values. It returns one of them, or a tuple, list or dict of them. Outputs are called
    `output`, or `output_0`, `output_1`, .., or by the names of a dict or named tuple. Sizes of () mean an array without
    dimensions. Errors are those of eager calls, and end with the line that made the call. DescError for a TensorDesc that
    breaks rules.
    """
    building = Building()
    arguments: dict[str, Any] = {}
    violations = []
    given: list[GraphTensor] = []
    scalars = {name for name, value in inputs.items() if isinstance(value, TensorDesc) and not value.sizes}
    for name, value in inputs.items():
        if isinstance(value, TensorDesc):
            if name in scalars:
                value = replace(value, sizes=(1,), strides=None)
            violations += [rule.violation("GRAPH", value, at, within=name) for rule, at in broken(value, "input")]
            given.append(GraphTensor(building, name, value, (None, len(given))))
            arguments[name] = given[-1].reshape(()) if name in scalars else given[-1]
        else:
            arguments[name] = value
            array = as_array(value) if isinstance(value, np.ndarray) else None
            if isinstance(array, np.ndarray) and array.size and four_bit(array.dtype) is None:
                building.named[name] = array
    if violations:
        raise DescError(violations)
    returned = function(**arguments)
    found: dict[str, GraphTensor] = {}
    form = _named(returned, building, found)
    read = {e.graph_input_index for e in building.input_edges}
    if unread := [t.name for i, t in enumerate(given) if i not in read]:
        raise BindingError([Fault(name, f"{name} is read by no operator of the graph") for name in unread])
    if taken := {t.name for t in given} & found.keys():
        raise BindingError([Fault(name, f"{name} is an input and an output, and arrays are bound by name") for name in taken])
    made = built(building, given, found, form)
    made._scalars = frozenset(scalars | {name for name, t in found.items() if not t.sizes})
    return made


def built(building: Building, given: Sequence[GraphTensor], found: Mapping[str, GraphTensor], form: Any) -> Graph:
    """The finished graph. given: the inputs; those that no operator reads are dropped. found: the outputs by name."""
    read = {i: k for k, i in enumerate(sorted({e.graph_input_index for e in building.input_edges}))}
    given = [given[i] for i in read]
    edges = []
    for k, (name, t) in enumerate(found.items()):
        node, slot = t._source
        assert node is not None
        edges.append(OutputEdge(node, slot, k, name))
    outputs = {name: t.tensor if t.sizes else replace(t.tensor, sizes=(1,)) for name, t in found.items()}
    desc = GraphDesc(
        tuple(building.nodes),
        tuple(e._replace(graph_input_index=read[e.graph_input_index]) for e in building.input_edges),
        tuple(edges),
        tuple(building.intermediate_edges),
        input_tensors=tuple(t.tensor for t in given),
        output_tensors=tuple(outputs.values()),
    )
    return Graph(desc, {t.name: t.tensor for t in given}, outputs, form)


class Part(NamedTuple):
    """A graph of some values of a walk, or None if there is nothing to compute; the sizes of its outputs.

    aliases: names of tensors that have others. known: the values that are no tensors of the graph.
    """

    graph: Graph | None
    shapes: dict[str, tuple[int, ...]]
    aliases: dict[str, str]
    known: dict[str, Any]


def part(building: Building, given: Sequence[GraphTensor], values: Mapping[str, Any], names: Mapping[int, str]) -> Part:
    """The graph that computes values by name. names: those of the inputs, by identity."""
    found: dict[str, GraphTensor] = {}
    made, by_identity = Part(None, {}, {}, {}), dict(names)
    for name, value in sorted(values.items()):
        if not isinstance(value, GraphTensor):
            made.known[name] = value
        elif id(value) in by_identity:
            if by_identity[id(value)] != name:
                made.aliases[name] = by_identity[id(value)]
        else:
            by_identity[id(value)] = name
            found[name], made.shapes[name] = computed(value), value.sizes
    return made._replace(graph=built(building, given, found, {name: name for name in found})) if found else made


def _named(returned: Any, building: Building, found: dict[str, GraphTensor]) -> Any:
    """A function's results with names instead of tensors. found: gets the tensors by name."""
    if isinstance(returned, GraphTensor):
        return _output("output", returned, building, found)
    if isinstance(returned, Mapping):
        return {str(name): _output(str(name), t, building, found) for name, t in returned.items()}
    if isinstance(returned, (tuple, list)) and returned:
        names = getattr(returned, "_fields", [f"output_{k}" for k in range(len(returned))])
        made = [_output(name, t, building, found) for name, t in zip(names, returned, strict=True)]
        return type(returned)(*made) if hasattr(returned, "_fields") else type(returned)(made)
    if isinstance(returned, np.ndarray):
        raise TypeError(
            "the function of a graph must return its tensors, not an array; give a TensorDesc for an argument that is an input"
        )
    raise TypeError(f"the function of a graph must return a tensor of it, or a tuple or dict of them, not {returned!r}")


def _output(name: str, t: Any, building: Building, found: dict[str, GraphTensor]) -> str:
    if not isinstance(t, GraphTensor) or t._building is not building:
        raise TypeError(f"{name}, which the function of a graph returns, is not a tensor of the graph: {t!r}")
    found[name] = computed(t)
    return name


def computed(t: GraphTensor) -> GraphTensor:
    """A packed tensor that an operator writes, for an output: no edge leads from an input to an output."""
    copied = t.packed()
    if copied._source[0] is None:
        copied = call("ELEMENT_WISE_IDENTITY", (t,), (None,))
    return copied


def _filled(form: Any, arrays: Mapping[str, Any]) -> Any:
    if isinstance(form, str):
        return arrays[form]
    if isinstance(form, dict):
        return {name: arrays[at] for name, at in form.items()}
    made = [arrays[at] for at in form]
    return type(form)(*made) if hasattr(form, "_fields") else type(form)(made)
