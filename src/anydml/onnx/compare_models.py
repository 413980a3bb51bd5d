"""Models made from a model: one with more tensors as outputs, and one of only a few nodes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

import numpy as np
import onnx
from onnx import GraphProto, ModelProto, NodeProto, TensorProto, helper, numpy_helper

from anydml.onnx.values import Array

KNOWN = 64  # integers in a tensor that a node may need before it runs, such as sizes


def reads(node: NodeProto) -> list[str]:
    """The tensors that a node reads, those that its branches read from outside among them, each once."""
    found = dict.fromkeys(filter(None, node.input))
    for attribute in node.attribute:
        for graph in (attribute.g, *attribute.graphs):
            found |= dict.fromkeys(_outside(graph))
    return list(found)


def _outside(graph: GraphProto) -> Iterator[str]:
    own = {t.name for t in (*graph.input, *graph.initializer)}
    for node in graph.node:
        yield from (name for name in reads(node) if name not in own)
        own.update(node.output)
    yield from (t.name for t in graph.output if t.name not in own)


def named(proto: ModelProto) -> ModelProto:
    """The model with a name for every node: its own, or that of its first output."""
    made = ModelProto()
    made.CopyFrom(proto)
    taken: set[str] = set()
    for i, node in enumerate(made.graph.node):
        if not node.name or node.name in taken:
            node.name = next((name for name in node.output if name and name not in taken), f"node {i}")
        taken.add(node.name)
    return made


def marked(proto: ModelProto, tensors: Iterable[str]) -> ModelProto:
    """The model with these tensors as outputs too."""
    made = ModelProto()
    made.CopyFrom(proto)
    there = {t.name for t in made.graph.output}
    types = {t.name: t for t in made.graph.value_info}
    for name in tensors:
        if name not in there:
            made.graph.output.append(types.get(name) or helper.make_empty_tensor_value_info(name))
    return made


def cut(
    proto: ModelProto, nodes: Sequence[NodeProto], values: Mapping[str, Array], constants: Iterable[str], outputs: Sequence[str]
) -> tuple[ModelProto, dict[str, Array]]:
    """A model of a few nodes, and its inputs. values: what they read; constants: those of them that are initializers."""
    written = {name for node in nodes for name in node.output}
    needed = dict.fromkeys(name for node in nodes for name in reads(node) if name not in written)
    fixed = {name for name in needed if name in constants or _small(values[name])}
    given = {name: values[name] for name in needed if name not in fixed}
    graph = helper.make_graph(
        nodes,
        "cut",
        [helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(x.dtype), x.shape) for name, x in given.items()],
        [helper.make_empty_tensor_value_info(name) for name in outputs],
        [_initializer(values[name], name) for name in needed if name in fixed],
    )
    made = helper.make_model(graph, opset_imports=proto.opset_import, ir_version=proto.ir_version, functions=proto.functions)
    return onnx.shape_inference.infer_shapes(made), given


def _small(x: Array) -> bool:
    return x.dtype == np.int64 and x.size <= KNOWN


def _initializer(x: Array, name: str) -> TensorProto:
    return numpy_helper.from_array(np.asarray(x, order="C"), name)
