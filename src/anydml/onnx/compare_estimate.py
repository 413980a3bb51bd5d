"""An estimate of how far rounding moves the outputs of many nodes, for which no useful bound is known.

Bounds are carried from node to node in the worst case, so that through ten layers they say nothing. The estimate draws an error
for every element that a node rounds, and carries all of them to the outputs exactly, a few times.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping

import numpy as np
from onnx import ModelProto, NodeProto, TensorProto, helper

from anydml.errors import Error
from anydml.exact.formats import float_limits
from anydml.onnx.compare_models import reads
from anydml.onnx.model import load
from anydml.onnx.values import Array, is_float
from anydml.tensor import DataType

SAMPLES = 4  # sets of errors that are drawn
ROUNDINGS = 16  # the largest error of an element, in half units in the last place of its tensor's largest element
FLIPPED = 1 / 64  # the share of 8-bit elements that are rounded to the other side

COARSER = {"tf32": 2.0**-10, "bfloat16": 2.0**-8, "float16": 2.0**-11}  # by name, the least precise step's rounding unit

COPYING = {
    "Abs", "Ceil", "Clip", "Compress", "Concat", "DepthToSpace", "Expand", "Flatten", "Floor", "Gather", "GatherElements",
    "GatherND", "GlobalMaxPool", "Identity", "Max", "MaxPool", "Min", "Neg", "Pad", "ReduceMax", "ReduceMin", "Relu", "Reshape",
    "Round", "Sign", "Slice", "SpaceToDepth", "Split", "Squeeze", "Tile", "Transpose", "Unsqueeze", "Where",
}  # fmt: skip
"""Operators that do not round."""
QUANTISING = ("QuantizeLinear", "DynamicQuantizeLinear", "QGemm")


def moved_by_rounding(proto: ModelProto, inputs: Mapping[str, Array], precision: str | None = None) -> dict[str, float]:
    """The largest change of each output that errors of rounding made, by name; empty if that cannot be computed.

    precision: the type that rounds, see `COARSER`, if it is not that of the tensors.
    """
    try:
        exact = {**inputs, **load(proto).run(inputs, keep="all")}
        noisy, names = _noisy(proto, exact)
        if not names:
            return {}
        model = load(noisy)
        found = dict.fromkeys((x.name for x in proto.graph.output), 0.0)
        for seed in range(SAMPLES):
            random = np.random.default_rng(seed)
            made = model.run(
                {
                    **inputs,
                    **{f"{name} error": _error(exact[name], random, COARSER.get(precision or "", 0.0)) for name in names},
                }
            )
            for name in found:
                found[name] = max(found[name], _change(exact[name], made[name]))
    except Error:  # such as an index that an error makes too large
        return {}
    return found


def _change(exact: Array, made: Array) -> float:
    with np.errstate(invalid="ignore", over="ignore"):
        off = np.abs(exact.astype(np.float64) - made.astype(np.float64))
    same = (exact == made) | (np.isnan(exact) & np.isnan(made)) if exact.dtype.kind == "f" else exact == made
    return float(np.max(np.where(same, 0, np.nan_to_num(off, nan=math.inf)), initial=0.0))


def _error(x: Array, random: np.random.Generator, unit: float) -> Array:
    """Errors of a tensor's elements: of floats, evenly distributed, but none of zeros; of bytes, a step for some of them."""
    if is_float(x.dtype):
        largest = float(np.max(np.abs(np.where(np.isfinite(x), x, 0).astype(np.float64)), initial=0.0))
        most = ROUNDINGS * largest * max(unit, float_limits(DataType.of(x.dtype)).eps / 2)
        return np.where(x == 0, 0, random.uniform(-most, most, x.shape)).astype(x.dtype)
    return (random.choice([-1, 1], x.shape) * (random.random(x.shape) < FLIPPED)).astype(np.float32)


def _noisy(proto: ModelProto, exact: Mapping[str, Array]) -> tuple[ModelProto, list[str]]:
    """The model with an error added to each tensor that is rounded, and the names of these tensors.

    Of a single node, the inputs get errors too, in place of the roundings within the node.
    """
    made = ModelProto()
    made.CopyFrom(proto)
    graph = made.graph
    del graph.value_info[:]
    reached = {x.name for x in graph.input} or {t.name for t in graph.initializer}
    nodes: list[NodeProto] = []
    names: list[str] = []
    if len(graph.node) == 1:
        (node,) = graph.node
        names = sorted({x.name for x in graph.input if x.name in node.input and exact[x.name].dtype.kind == "f"})
        nodes += [helper.make_node("Add", [name, f"{name} error"], [f"{name} changed"]) for name in names]
        for i, name in enumerate(node.input):
            node.input[i] = f"{name} changed" if name in names else name
        reached |= {f"{name} changed" for name in names}
    for node in graph.node:
        nodes.append(node)
        if node.op_type in ("Shape", "Size") or not reached.intersection(reads(node)):
            continue
        reached.update(filter(None, node.output))
        for i, name in enumerate(node.output):
            if name in exact and _is_rounded(node, exact[name]):
                names.append(name)
                node.output[i] = f"{name} exact"
                nodes += _added(name, exact[name])
    kept = [NodeProto.FromString(node.SerializeToString()) for node in nodes]
    del graph.node[:]
    graph.node.extend(kept)
    for name in names:
        dtype = exact[name].dtype if exact[name].dtype.kind == "f" else np.dtype(np.float32)
        kind = helper.np_dtype_to_tensor_dtype(dtype)
        graph.input.append(helper.make_tensor_value_info(f"{name} error", kind, exact[name].shape))
    return made, names


def _is_rounded(node: NodeProto, x: Array) -> bool:
    """Whether an output is rounded: a computed float, or a byte that a node quantises to."""
    if is_float(x.dtype):
        return node.op_type not in COPYING
    return x.dtype in (np.int8, np.uint8) and (node.op_type in QUANTISING or node.op_type.startswith("QLinear"))


def _added(name: str, x: Array) -> Iterator[NodeProto]:
    """Nodes that add the error of a tensor; that of bytes saturates."""
    if is_float(x.dtype):
        yield helper.make_node("Add", [f"{name} exact", f"{name} error"], [name])
        return
    limits = np.iinfo(x.dtype)
    steps = [f"{name} {word}" for word in ("float", "sum", "least", "most", "above", "clipped")]
    number, total, least, most, above, clipped = steps
    yield helper.make_node("Cast", [f"{name} exact"], [number], to=TensorProto.FLOAT)
    yield helper.make_node("Add", [number, f"{name} error"], [total])
    for end, limit in ((least, limits.min), (most, limits.max)):
        yield helper.make_node("Constant", [], [end], value=helper.make_tensor("", TensorProto.FLOAT, [], [float(limit)]))
    yield helper.make_node("Max", [total, least], [above])
    yield helper.make_node("Min", [above, most], [clipped])
    yield helper.make_node("Cast", [clipped], [name], to=helper.np_dtype_to_tensor_dtype(x.dtype))
