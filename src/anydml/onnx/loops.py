"""Loop and Scan: each turn runs the body as a model of its own. Turns with the same sizes share graphs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from onnx import GraphProto, ModelProto, TensorProto

from anydml.onnx.errors import INVALID, Refused
from anydml.onnx.nodes import Node, Scope
from anydml.onnx.read import Read, Signature, constants_of
from anydml.onnx.types import BOOL, DTYPES
from anydml.onnx.values import Array, axis_of

MOST_TURNS = 10_000  # turns of a loop at most, by default
Typed = tuple[Array, int]  # elements, and their ONNX type
Turn = Callable[[Sequence[Typed]], list[Typed]]


def read_around(graph: GraphProto) -> list[str]:
    """The tensors that a body, or a body within it, reads from the outer scope."""
    own = {t.name for t in (*graph.input, *graph.initializer)}
    found: dict[str, None] = {}
    for node in graph.node:
        names = [*node.input]
        for a in node.attribute:
            for inner in (*([a.g] if a.HasField("g") else ()), *a.graphs):
                names += read_around(inner)
        found |= dict.fromkeys(name for name in names if name and name not in own)
        own.update(node.output)
    return [*found, *(t.name for t in graph.output if t.name not in own and t.name not in found)]


def body_read(graph: GraphProto, given: Mapping[str, int], around: Read, opsets: Mapping[str, int], scope: Scope) -> Read:
    """A body as a model, for inputs of element types by name."""
    constants, types = constants_of(graph.initializer)
    inputs = {name: Signature(name, t, None) for name, t in given.items()}
    outputs = {info.name: Signature(info.name, TensorProto.UNDEFINED, None) for info in graph.output}
    proto = ModelProto()
    proto.graph.CopyFrom(graph)
    own = Scope(attributes=scope.attributes, depth=scope.depth + 1)
    return Read(proto, dict(opsets), constants, types, inputs, outputs, around.functions, (), own)


def looped(node: Node, given: Sequence[Typed | None], run: Turn, turns: int) -> list[Typed]:
    """Loop: turns while its condition holds, up to its limit. Returns the final values and the stacked outputs of the turns."""
    limit, condition, *rest = given
    most = None if limit is None else int(limit[0].reshape(-1)[0])
    goes_on = condition is None or bool(condition[0].reshape(-1)[0])
    state = [x for x in rest if x is not None]
    body = node.attributes["body"]
    made: list[list[Typed]] = [[] for _ in body.output[1 + len(state) :]]
    count = 0
    while goes_on and (most is None or count < most):
        _within(count, turns)
        true = np.array(1, np.uint8)
        ended, *found = run([(np.array(count, np.int64), TensorProto.INT64), (true, BOOL), *state])
        goes_on = bool(ended[0].reshape(-1)[0])
        state, each = found[: len(state)], found[len(state) :]
        for so_far, x in zip(made, each, strict=True):
            so_far.append(x)
        count += 1
    return [*state, *(_stacked(x, 0, info) for x, info in zip(made, body.output[1 + len(state) :], strict=True))]


def _within(count: int, turns: int) -> None:
    if count >= turns:
        raise Refused(f"it takes more than {turns} turns; `turns` of `load` allows more", INVALID)


def _stacked(values: Sequence[Typed], axis: int, info: Any, backward: bool = False) -> Typed:
    """The tensors of all turns, stacked along a new axis; without turns, an empty tensor with the sizes that the body gives."""
    if values:
        arrays = [x for x, _ in values]
        if len({x.shape for x in arrays}) > 1:
            raise Refused(f"{info.name} has other sizes in another turn", INVALID)
        return np.stack(arrays[::-1] if backward else arrays, axis_of(axis, arrays[0].ndim + 1)), values[0][1]
    tensor = info.type.tensor_type
    if tensor.elem_type not in DTYPES:
        raise Refused(f"{info.name} has no type, and there is no turn to make it", INVALID)
    sizes = [d.dim_value for d in tensor.shape.dim]
    sizes.insert(axis_of(axis, len(sizes) + 1), 0)
    return np.empty(sizes, DTYPES[tensor.elem_type]), tensor.elem_type


def scanned(node: Node, given: Sequence[Typed | None], run: Turn, turns: int) -> list[Typed]:
    """Scan: a turn for each slice of its tensors along an axis; in operator set 8, for each batch separately."""
    if node.opset >= 9:
        return _scanned(node, [x for x in given if x is not None], run, turns, None)
    lengths, *rest = given
    batched = [x for x in rest if x is not None]
    counts = [None] * len(batched[0][0]) if lengths is None else [int(n) for n in lengths[0]]
    by_batch = [
        _scanned(node, [(x[b], t) for x, t in batched], run, turns, count) for b, count in enumerate(counts)
    ]  # fmt: skip
    states = len(batched) - node.get("num_scan_inputs", 0)
    whole = batched[-1][0].shape[1]
    outputs = []
    for i, parts in enumerate(zip(*by_batch, strict=True)):
        arrays = [x for x, _ in parts]
        if i >= states:
            arrays = [np.pad(x, [(0, whole - len(x))] + [(0, 0)] * (x.ndim - 1)) for x in arrays]
        outputs.append((np.stack(arrays), parts[0][1]))
    return outputs


def _scanned(node: Node, given: Sequence[Typed], run: Turn, turns: int, length: int | None) -> list[Typed]:
    count = node.get("num_scan_inputs", 0)
    states = len(given) - count
    state, tensors = [*given[:states]], given[states:]
    axes = node.get("scan_input_axes", [0] * count)
    backward = node.get("scan_input_directions", node.get("directions", [0] * count))
    moved = [
        np.moveaxis(x, axis_of(a, x.ndim), 0)[:length][:: -1 if back else 1]
        for (x, _), a, back in zip(tensors, axes, backward, strict=True)
    ]
    if count < 1 or len({len(x) for x in moved}) > 1:
        raise Refused("it scans no tensors, or tensors of different lengths", INVALID)
    _within(len(moved[0]) - 1, turns)
    infos = node.attributes["body"].output[states:]
    made: list[list[Typed]] = [[] for _ in infos]
    for parts in zip(*moved, strict=True):
        one = [(np.array(x), t) for x, (_, t) in zip(parts, tensors, strict=True)]
        found = run([*state, *one])
        state = found[:states]
        for so_far, x in zip(made, found[states:], strict=True):
            so_far.append(x)
    out_axes = node.get("scan_output_axes", [0] * len(infos))
    flipped = node.get("scan_output_directions", [0] * len(infos))
    return [
        *state,
        *(_stacked(x, a, info, bool(f)) for x, a, f, info in zip(made, out_axes, flipped, infos, strict=True)),
    ]
