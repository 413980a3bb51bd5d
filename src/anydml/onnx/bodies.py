"""The bodies of operators that ONNX defines by other operators, and the tensors that later nodes read."""

from __future__ import annotations

from typing import Any

import onnx

from anydml.onnx.nodes import Body, Node
from anydml.onnx.values import Value

Frames = tuple[tuple[Body, int], ...]  # the bodies from the model's to the innermost, each with the index of its next node


def own_body(node: Node, values: list[Value]) -> Any:
    """ONNX's own definition of an operator by other operators; None if there is none."""
    schema = node.schema
    if schema is None:
        return None
    if schema.has_function:
        versions = [v for v in schema.function_opset_versions if v <= node.opset]
        text = schema.get_function_with_opset_version(max(versions)) if versions else None
    elif schema.has_context_dependent_function:
        types = [_type_proto(t, x) for t, x in zip(node.types, values, strict=True)]
        versions = [v for v in schema.context_dependent_function_opset_versions if v <= node.opset]
        proto = onnx.helper.make_node(node.operator, node.inputs, node.outputs, node.name, domain=node.domain)
        proto.attribute.extend(node.protos.values())
        text = None
        if versions:
            given = proto.SerializeToString()
            text = schema.get_context_dependent_function_with_opset_version(max(versions), given, types)
    else:
        return None
    if text is None:
        return None
    function = onnx.FunctionProto()
    function.ParseFromString(text)
    if not function.node:  # ONNX has none for these inputs
        return None
    own = {a.name for a in function.attribute_proto}
    defaults = [a.default_value for a in schema.attributes.values() if a.default_value.name and a.name not in own]
    function.attribute_proto.extend(defaults)
    return function


def _type_proto(element_type: int | None, x: Value) -> bytes:
    if element_type is None or x is None:
        return b""
    text: bytes = onnx.helper.make_tensor_type_proto(element_type, tuple(x.shape)).SerializeToString()
    return text


def read_by(node: Node) -> set[str]:
    """The tensors that a node reads, including those that its bodies read from the outer scope."""
    found = set(filter(None, node.inputs))
    own = Body((), node.scope, {})
    for a in node.protos.values():
        for graph in (a.g, *a.graphs):
            _read_within(graph, own, found)
    return found


def read_later(frames: Frames) -> set[str]:
    """The tensors that later nodes may read."""
    found: set[str] = set()
    for body, at in frames:
        for proto in body.nodes[at:]:
            found.update(map(body.scope.name, proto.input))
            for a in proto.attribute:
                for graph in (a.g, *a.graphs):
                    _read_within(graph, body, found)
    return found


def _read_within(graph: Any, body: Body, found: set[str]) -> None:
    found.update(body.scope.name(t.name) for t in graph.output)
    for proto in graph.node:
        found.update(map(body.scope.name, proto.input))
        for a in proto.attribute:
            for inner in (a.g, *a.graphs):
                _read_within(inner, body, found)
