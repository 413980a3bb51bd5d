"""Repair of files that onnxruntime accepts although ONNX's checker does not; notes tell what was changed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import onnx
from onnx import GraphProto, ModelProto, NodeProto, TensorProto

MICROSOFT = "com.microsoft"
RUNTIMES_OWN = ("Affine", "Crop", "ImageScaler", "LayerNormalization", "ParametricSoftplus", "ScaledTanh",
                "SimplifiedLayerNormalization", "ThresholdedRelu")  # fmt: skip
"""Operators in ONNX's domain that runtimes have although the model's operator set does not."""


def mended(proto: ModelProto, own: bool) -> tuple[ModelProto, tuple[str, ...]]:
    """The model with sorted nodes and named operator sets, and notes of the changes. own: it may be changed in place."""
    unsorted = [graph for graph in _graphs(proto.graph) if not _is_sorted(graph)]
    named = {"", "ai.onnx", *(o.domain for o in proto.opset_import)}
    lacking = sorted({node.domain for graph in _graphs(proto.graph) for node in graph.node} - named)
    notes = []
    if (unsorted or lacking) and not own:
        copy = ModelProto()
        copy.CopyFrom(proto)
        return mended(copy, True)
    if unsorted:
        notes.append("its nodes are in an order in which they cannot be computed; they were sorted")
    for graph in unsorted:
        _sort(graph)
    for domain in lacking:
        notes.append(f"it names no version of the operator set {domain}; 1 was taken")
        proto.opset_import.append(onnx.helper.make_opsetid(domain, 1))
    return proto, tuple(notes)


def checkable(proto: ModelProto) -> tuple[ModelProto, tuple[str, ...]]:
    """A copy of a model that ONNX's checker takes, and a note of each thing left out; the model itself if nothing is.

    Left out are values without type or sizes, constants that are not inputs in a file of version 3, and operators of runtimes.
    """
    graphs = [*_graphs(proto.graph)]
    vague = any(not _is_whole(info) for graph in graphs for info in (*graph.value_info, *graph.output))
    named = {i.name for i in proto.graph.input}
    old = 0 < proto.ir_version < 4 and any(t.name not in named for t in proto.graph.initializer)
    version = next((o.version for o in proto.opset_import if o.domain in ("", "ai.onnx")), 1)
    foreign = sorted({node.op_type for graph in graphs for node in graph.node if _is_foreign(node, version)})
    notes = []
    if vague:
        notes.append("it leaves out types or sizes of values, which follow from its nodes")
    if old:
        notes.append("its constants are not inputs, as its version of the format requires")
    if not proto.graph.name:
        notes.append("its graph has no name")
    notes += [f"{name} is not in ONNX's operator set {version}; it is computed as in onnxruntime" for name in foreign]
    if not notes:
        return proto, ()
    copy = ModelProto()
    copy.CopyFrom(proto)
    for graph in _graphs(copy.graph):
        kept = [info for info in graph.value_info if _is_whole(info)]
        del graph.value_info[:]
        graph.value_info.extend(kept)
        for info in graph.output:
            if not _is_whole(info):
                info.CopyFrom(onnx.helper.make_tensor_value_info(info.name, TensorProto.FLOAT, []))
        for node in graph.node:
            if _is_foreign(node, version):
                node.domain = MICROSOFT
    copy.graph.name = copy.graph.name or "graph"
    copy.ir_version = max(copy.ir_version, 4) if old else copy.ir_version
    if foreign and not any(o.domain == MICROSOFT for o in copy.opset_import):
        copy.opset_import.append(onnx.helper.make_opsetid(MICROSOFT, 1))
    return copy, tuple(notes)


def _is_foreign(node: NodeProto, version: int) -> bool:
    if node.domain not in ("", "ai.onnx") or node.op_type not in RUNTIMES_OWN:
        return False
    return not onnx.defs.has(node.op_type, max_inclusive_version=version)


def _is_whole(info: Any) -> bool:
    """Whether a value has a type, and sizes if it is a tensor."""
    kind = info.type.WhichOneof("value")
    if kind is None:
        return False
    tensor = info.type.tensor_type
    return kind != "tensor_type" or bool(tensor.elem_type and tensor.HasField("shape"))


def _graphs(graph: GraphProto) -> Sequence[GraphProto]:
    """A graph and those within it."""
    found, rest = [], [graph]
    while rest:
        found.append(at := rest.pop())
        rest += [
            inner for node in at.node for a in node.attribute for inner in (*([a.g] if a.HasField("g") else ()), *a.graphs)
        ]
    return found


def _reads(node: NodeProto) -> set[str]:
    """The tensors that a node reads, including those that its branches read."""
    found = set(filter(None, node.input))
    for a in node.attribute:
        for inner in (*([a.g] if a.HasField("g") else ()), *a.graphs):
            for graph in _graphs(inner):
                found.update(name for within in graph.node for name in within.input if name)
                found.update(t.name for t in graph.output)
    return found


def _is_sorted(graph: GraphProto) -> bool:
    later = {name for node in graph.node for name in node.output if name}
    for node in graph.node:
        if later & (_reads(node) if any(a.HasField("g") or a.graphs for a in node.attribute) else set(node.input)):
            return False
        later.difference_update(node.output)
    return True


def _sort(graph: GraphProto) -> None:
    """Sort nodes so that each follows those that it reads from, otherwise in their order. The checker reports cycles."""
    maker = {name: i for i, node in enumerate(graph.node) for name in node.output if name}
    reads = [{maker[name] for name in _reads(node) if name in maker} for node in graph.node]
    order, state = [], [0] * len(reads)  # 1: on the way, 2: done
    for start in range(len(reads)):
        way = [(start, iter(sorted(reads[start])))] if not state[start] else []
        state[start] = state[start] or 1
        while way:
            node, rest = way[-1]
            following = next((i for i in rest if state[i] != 2), None)
            if following is None:
                state[node] = 2
                order.append(node)
                way.pop()
            elif state[following] == 1:
                return
            else:
                state[following] = 1
                way.append((following, iter(sorted(reads[following]))))
    nodes = [graph.node[i] for i in order]
    copies = []
    for node in nodes:
        copies.append(NodeProto())
        copies[-1].CopyFrom(node)
    del graph.node[:]
    graph.node.extend(copies)
