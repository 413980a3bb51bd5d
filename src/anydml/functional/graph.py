"""`dml.graph`: a function of eager calls as a graph, compiled and run as one."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from anydml.devices.binding import as_array
from anydml.devices.compiled import CompiledOperator
from anydml.devices.device import Device, device_of
from anydml.errors import BindingError, DescError, Fault
from anydml.functional.call import call
from anydml.functional.run import allocate
from anydml.functional.tracing import Building, GraphTensor, traced
from anydml.graphs.desc import GraphDesc, OutputEdge
from anydml.schema.tensor_rules import broken
from anydml.tensor import TensorDesc, TensorFlags, four_bit


class Graph:
    """A graph with names: made by `graph`.

    desc: DirectML's form of it, for `Device.compile`. inputs, outputs: the tensors that are bound, by name.
    """

    def __init__(self, desc: GraphDesc, inputs: Mapping[str, TensorDesc], outputs: Mapping[str, TensorDesc], form: Any) -> None:
        self.desc, self.inputs, self.outputs = desc, dict(inputs), dict(outputs)
        self._form = form  # what the function returned, with names for tensors

    def compile(self, device: Device | str | None = None) -> CompiledOperator:
        """The graph for a device, the cpu without one: initialize it where an input is OWNED_BY_DML, then bind."""
        return device_of(device).compile(self.desc)

    def run(self, inputs: Mapping[str, Any], device: Device | str | None = None) -> dict[str, NDArray[Any]]:
        """The outputs by name, of fresh arrays. The graph is compiled once for a device, unless an input is OWNED_BY_DML."""
        device = device_of(device)
        owned = {name: x for name, x in inputs.items() if name in self.inputs and self.inputs[name].flags}
        if any(t.flags & TensorFlags.OWNED_BY_DML for t in self.inputs.values()):
            compiled = self.compile(device)
            compiled.initialize(**owned)
        else:
            compiled = device.cached(_compiled, self)
        scratch = compiled.binding_properties.temporary_resource_size
        found = {name: allocate(t.sizes, t.data_type.dtype, scratch) for name, t in self.outputs.items()}
        if taken := [name for name in inputs if name in found]:
            raise BindingError([Fault(name, "is an output of the graph, and run makes its array") for name in taken])
        compiled.bind(**{name: x for name, x in inputs.items() if name not in owned}, **found).execute()
        return found

    def __call__(self, **inputs: Any) -> Any:
        """What the function returns, of arrays: an array, or a tuple or dict of them."""
        return _filled(self._form, self.run(inputs))


def _compiled(device: Device, made: Graph) -> CompiledOperator:
    return made.compile(device)


def graph(function: Callable[..., Any], /, **inputs: Any) -> Graph:
    """The graph of a function that calls eager functions, as one operator.

    inputs: the function's arguments by name. A TensorDesc is an input of the graph, bound at each call; anything else the
    function gets as it is, and arrays that operators read are constants, which are copied. The function is called once, on
    tensors without values; it returns one of them, or a tuple, list or dict of them. Outputs are called `output`, or
    `output_0`, `output_1`, .., or by the names of a dict or named tuple.
    Errors are those of eager calls, and end with the line that made the call. DescError for a TensorDesc that breaks rules.
    """
    building = Building()
    arguments: dict[str, Any] = {}
    violations = []
    for i, (name, value) in enumerate(inputs.items()):
        if isinstance(value, TensorDesc):
            violations += [rule.violation("GRAPH", value, at, within=name) for rule, at in broken(value, "input")]
            arguments[name] = GraphTensor(building, name, value, (None, i))
        else:
            arguments[name] = value
            array = as_array(value) if isinstance(value, np.ndarray) else None
            if isinstance(array, np.ndarray) and array.size and four_bit(array.dtype) is None:
                building.named[name] = array
    if violations:
        raise DescError(violations)
    given = [t for t in arguments.values() if isinstance(t, GraphTensor)]
    for i, t in enumerate(given):
        t._source = (None, i)
    returned = function(**arguments)
    found: dict[str, GraphTensor] = {}
    form = _named(returned, building, found)
    read = {e.graph_input_index for e in building.input_edges}
    if unread := [t.name for i, t in enumerate(given) if i not in read]:
        raise BindingError([Fault(name, f"{name} is read by no operator of the graph") for name in unread])
    edges = []
    for k, (name, t) in enumerate(found.items()):
        node, slot = t._source
        assert node is not None
        edges.append(OutputEdge(node, slot, k, name))
    desc = GraphDesc(
        tuple(building.nodes),
        tuple(building.input_edges),
        tuple(edges),
        tuple(building.intermediate_edges),
        input_tensors=tuple(t.tensor for t in given),
        output_tensors=tuple(t.tensor for t in found.values()),
    )
    if taken := {t.name for t in given} & found.keys():
        raise BindingError([Fault(name, f"{name} is an input and an output, and arrays are bound by name") for name in taken])
    return Graph(desc, {t.name: t.tensor for t in given}, {name: t.tensor for name, t in found.items()}, form)


def _named(returned: Any, building: Building, found: dict[str, GraphTensor]) -> Any:
    """What a function returned, with the names of outputs for tensors, which `found` gets."""
    if isinstance(returned, GraphTensor):
        return _output("output", returned, building, found)
    if isinstance(returned, Mapping):
        return {str(name): _output(str(name), t, building, found) for name, t in returned.items()}
    if isinstance(returned, (tuple, list)) and returned:
        names = getattr(returned, "_fields", [f"output_{k}" for k in range(len(returned))])
        made = [_output(name, t, building, found) for name, t in zip(names, returned, strict=True)]
        return type(returned)(*made) if hasattr(returned, "_fields") else type(returned)(made)
    raise TypeError(f"the function of a graph returns a tensor of it, or a tuple or dict of them, not {returned!r}")


def _output(name: str, t: Any, building: Building, found: dict[str, GraphTensor]) -> str:
    if not isinstance(t, GraphTensor) or t._building is not building:
        raise TypeError(f"{name}, which the function of a graph returns, is no tensor of the graph: {t!r}")
    if t._source[0] is None:  # an input as it is: no edge leads from an input to an output
        t = traced(_identity, (t,))
    found[name] = t
    return name


def _identity(tensors: Any, device: Device) -> Any:
    return call("ELEMENT_WISE_IDENTITY", tensors, (None,), None, device)


def _filled(form: Any, arrays: Mapping[str, Any]) -> Any:
    if isinstance(form, str):
        return arrays[form]
    if isinstance(form, dict):
        return {name: arrays[at] for name, at in form.items()}
    made = [arrays[at] for at in form]
    return type(form)(*made) if hasattr(form, "_fields") else type(form)(made)
