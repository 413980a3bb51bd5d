"""The decisions of a runtime: the branches that it takes and the turns that it makes. With them, every node can be judged.

The decisions are the conditions of If nodes and the numbers of turns of Loop nodes. A runtime tells them if they are outputs of
the model.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from onnx import ModelProto, TensorProto, helper, numpy_helper

from anydml.onnx.compare_flat import Sizes, body_of, flat
from anydml.onnx.compare_models import named
from anydml.onnx.compare_runtimes import Run, RuntimeFailed
from anydml.onnx.errors import ModelError
from anydml.onnx.model import load
from anydml.onnx.values import Array, by_name

DEEP = 8  # nested bodies at most


def decided(
    proto: ModelProto, given: Mapping[str, Array], exact: Mapping[str, Array], run: Run | None, actual: Mapping[str, Any]
) -> tuple[ModelProto, list[str]]:
    """The model with the branches and turns that the other runtime takes in place of If, Loop and Scan.

    The notes name the nodes that decide otherwise than in the exact model.
    """
    if not has_bodies(proto) or not exact:
        return proto, []
    exactly: dict[bytes, dict[str, Array]] = {}

    def tensors(asked: ModelProto) -> dict[str, Array]:
        key = asked.SerializeToString()
        if key not in exactly:
            exactly[key] = load(asked).run(given, keep="all")
        return exactly[key]

    def told(asked: ModelProto, names: list[str]) -> dict[str, Array]:
        found = {name: x for name, x in tensors(asked).items() if name in names}
        found |= {name: np.asarray(x) for name, x in actual.items() if name in names}
        if run is not None and names:
            made = run(asked, given)
            if isinstance(made, (list, tuple)):
                made = dict(zip((output.name for output in asked.graph.output), made, strict=False))
            found |= {name: np.asarray(x) for name, x in by_name(made, "run returns outputs").items() if name in names}
        return found

    def sizes(asked: ModelProto) -> dict[str, tuple[int, ...]]:
        return {name: x.shape for name, x in {**given, **tensors(asked)}.items()}

    try:
        made, theirs = unrolled(proto, told, sizes)
        _, ours = unrolled(proto, lambda asked, names: tensors(asked), sizes)
    except (ModelError, RuntimeFailed):
        return proto, []
    others = [name for name, x in theirs.items() if name not in ours or not np.array_equal(x, ours[name])]
    said = "takes another branch, or another number of turns, than in the exact model; there are no accumulated errors"
    return made, [f"{name} {said}" for name in others]


def asking(proto: ModelProto) -> tuple[ModelProto, dict[str, str]]:
    """The model with its decisions as further outputs, and the names of these outputs by the name of the If or Loop node.

    A Loop gets an output of the numbers of its turns. If nodes whose condition is a constant are not asked.
    """
    made = ModelProto()
    made.CopyFrom(proto)
    there = {t.name for t in made.graph.output}
    asked: dict[str, str] = {}
    for node in made.graph.node:
        if node.domain not in ("", "ai.onnx"):
            continue
        if node.op_type == "If":
            asked[node.name] = node.input[0]
        elif node.op_type == "Loop":
            body = body_of(node)
            number, output = f"{node.name} number of the turn", f"{node.name} turns"
            body.node.append(helper.make_node("Identity", [body.input[0].name], [number], f"{node.name} counting"))
            body.output.append(helper.make_tensor_value_info(number, TensorProto.INT64, []))
            node.output.extend([""] * (len(body.output) - 2 - len(node.output)))  # all but the condition and the new one
            node.output.append(output)
            asked[node.name] = output
    known = {t.name for t in made.graph.initializer}
    for name in asked.values():
        if name not in there and name not in known:
            made.graph.output.append(helper.make_empty_tensor_value_info(name))
            there.add(name)
    return made, asked


def unrolled(
    proto: ModelProto, tell: Callable[[ModelProto, list[str]], Mapping[str, Array]], sizes: Callable[[ModelProto], Sizes]
) -> tuple[ModelProto, dict[str, Array]]:
    """The model without bodies, as far as its decisions are known, and the decisions by the name of the node.

    tell: the values of tensors of a model. sizes: those of all tensors of a model.
    """
    told: dict[str, Array] = {}
    for _ in range(DEEP):
        if not has_bodies(proto):
            break
        asked, names = asking(proto)
        constants = {t.name: numpy_helper.to_array(t) for t in proto.graph.initializer}
        known = {**tell(asked, [name for name in names.values() if name not in constants]), **constants}
        taken = {node: known[name] for node, name in names.items() if name in known}
        made = named(flat(proto, taken, sizes(asked)))
        if len(made.graph.node) == len(proto.graph.node) and made.graph.node == proto.graph.node:
            break
        told |= taken
        proto = made
    return proto, told


def has_bodies(proto: ModelProto) -> bool:
    """Whether a node of the model has a body that can be made part of the model."""
    return any(n.op_type in ("If", "Loop", "Scan") and n.domain in ("", "ai.onnx") for n in proto.graph.node)
