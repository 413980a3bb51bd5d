"""The nodes of a model, with attributes as Python values. Bodies of functions and branches have their own names."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import AttributeProto, FunctionProto, GraphProto, NodeProto, TensorProto

from anydml.onnx.types import dtype_of, schema_of


@dataclass(frozen=True)
class Scope:
    """The names within a body: the model's, a function's or a branch's.

    prefix: comes before the names of its own tensors and nodes. names: the tensors whose names are not formed so. around: the
    scope of all other names; None if they are its own. attributes: those of the node that calls the function. depth: the
    number of functions and branches around it.
    """

    prefix: str = ""
    names: Mapping[str, str] = field(default_factory=dict)
    around: Scope | None = None
    attributes: Mapping[str, AttributeProto] = field(default_factory=dict)
    depth: int = 0

    def name(self, name: str) -> str:
        if not name:
            return ""
        scope: Scope = self
        while name not in scope.names and scope.around is not None:
            scope = scope.around
        return scope.names.get(name, scope.prefix + name)

    def resolved(self, node: NodeProto) -> dict[str, AttributeProto]:
        """A node's attributes by name; references to attributes of the function's node are replaced by their values."""
        found: dict[str, AttributeProto] = {}
        for a in node.attribute:
            if not a.ref_attr_name:
                found[a.name] = a
            elif a.ref_attr_name in self.attributes:
                found[a.name] = AttributeProto()
                found[a.name].CopyFrom(self.attributes[a.ref_attr_name])
                found[a.name].name = a.name
        return found


@dataclass(frozen=True)
class Body:
    """Nodes in order, with the scope of their names and the versions of their operator sets by domain."""

    nodes: Sequence[NodeProto]
    scope: Scope
    opsets: Mapping[str, int]


@dataclass(frozen=True)
class Node:
    """A node of a model.

    inputs, outputs: names of tensors, "" if absent. opset: the version of its domain. attributes: by name, text as str.
    types: the element types of the inputs, None if absent. output_types: those of the outputs, None if unknown.
    """

    name: str
    operator: str
    domain: str
    opset: int
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    attributes: Mapping[str, Any]
    protos: Mapping[str, AttributeProto] = field(compare=False, repr=False)
    scope: Scope = field(compare=False, repr=False)
    types: tuple[int | None, ...] = ()
    output_types: tuple[int | None, ...] = ()

    def get(self, name: str, default: Any = None) -> Any:
        """An attribute, or the default if it is absent."""
        found = self.attributes.get(name)
        return default if found is None else found

    def having(self, **attributes: Any) -> Node:
        """The same node with other attributes."""
        return replace(self, attributes={**self.attributes, **attributes})

    def wants(self, output: int) -> bool:
        """Whether the model names, and so uses, an output."""
        return output < len(self.outputs) and bool(self.outputs[output])

    @property
    def schema(self) -> Any:
        return schema_of(self.domain, self.operator, self.opset)

    @property
    def key(self) -> str:
        """The operator with its domain, which is left out if it is ONNX's."""
        return f"{self.domain}.{self.operator}" if self.domain else self.operator

    def __str__(self) -> str:
        return f'node "{self.name}" ({self.key})'


def node_of(proto: NodeProto, body: Body) -> Node:
    """A node of a body, with the names of its scope."""
    scope = body.scope
    protos = scope.resolved(proto)
    attributes = {name: _value(a) for name, a in protos.items()}
    domain = "" if proto.domain == "ai.onnx" else proto.domain
    inputs, outputs = tuple(map(scope.name, proto.input)), tuple(map(scope.name, proto.output))
    title = scope.prefix + (proto.name or next(filter(None, proto.output), ""))
    version = body.opsets.get(domain, 1)
    return Node(title, proto.op_type, domain, version, inputs, outputs, attributes, protos, scope)


def _value(a: AttributeProto) -> Any:
    value = onnx.helper.get_attribute_value(a)
    if a.type == AttributeProto.STRING:
        return value.decode("utf-8", "replace")
    if a.type == AttributeProto.STRINGS:
        return [x.decode("utf-8", "replace") for x in value]
    return value


def array_of(tensor: TensorProto) -> NDArray[Any]:
    """The elements of a tensor, booleans as UINT8; Refused if DirectML has no such type."""
    dtype = dtype_of(tensor.data_type)
    array: NDArray[Any] = np.asarray(onnx.numpy_helper.to_array(tensor))
    return array.view(np.uint8) if array.dtype == np.bool_ else array.astype(dtype, copy=False)


def function_body(node: Node, function: FunctionProto, opsets: Mapping[str, int], number: int) -> Body:
    """The nodes of the function that a node calls. number: counts expansions, so that names are unique."""
    names = {inner: node.inputs[i] if i < len(node.inputs) else "" for i, inner in enumerate(function.input)}
    names |= {inner: outer for inner, outer in zip(function.output, node.outputs, strict=False) if outer}
    given = {a.name: a for a in function.attribute_proto} | dict(node.protos)
    own = {s.domain: s.version for s in function.opset_import}
    versions = {("" if domain == "ai.onnx" else domain): version for domain, version in own.items()}
    scope = Scope(f"{node.name}#{number}/", names, None, given, node.scope.depth + 1)
    return Body(function.node, scope, {**opsets, **versions})


def branch_body(node: Node, graph: GraphProto, opsets: Mapping[str, int], number: int) -> Body:
    """The nodes of a branch, from its constants to the node's outputs."""
    prefix = f"{node.name}#{number}/"
    nodes = [onnx.helper.make_node("Constant", [], [t.name], value=t) for t in graph.initializer]
    nodes += graph.node
    own = {name: prefix + name for p in nodes for name in p.output if name}
    for i, (result, outer) in enumerate(zip(graph.output, node.outputs, strict=False)):
        if outer:
            nodes.append(onnx.helper.make_node("Identity", [result.name], [f"#{i}"]))
            own[f"#{i}"] = outer
    return Body(nodes, Scope(prefix, own, node.scope, node.scope.attributes, node.scope.depth + 1), opsets)
