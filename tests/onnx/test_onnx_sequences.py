"""Sequences within models, compared with onnxruntime: within one graph, and between graphs."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnxruntime as ort
import pytest
from onnx import TensorProto, helper

import anydml.onnx

FLOAT, INT64 = TensorProto.FLOAT, TensorProto.INT64
X = np.random.default_rng(1).normal(size=(5, 4)).astype(np.float32)


def node(operator: str, inputs: str, outputs: str, **attributes: Any) -> Any:
    return helper.make_node(operator, inputs.split(), outputs.split(), **attributes)


def constant(name: str, *values: int, scalar: bool = True) -> Any:
    return helper.make_node(
        "Constant", [], [name], value=helper.make_tensor("", INT64, [] if scalar else [len(values)], values)
    )


PIECES = [constant("two", 2), constant("one", 1), constant("last", -1), node("Relu", "x", "r")]
MODELS = {
    "split": [*PIECES, node("SplitToSequence", "r two", "s"), node("SequenceAt", "s last", "a"), node("Neg", "a", "y")],
    "join": [
        *PIECES, node("Neg", "x", "n"), node("SequenceConstruct", "r n", "s"), node("SequenceInsert", "s x one", "t"),
        node("SequenceErase", "t last", "u"), node("ConcatFromSequence", "u", "y", axis=1),
    ],
    "stack": [
        *PIECES, node("SplitToSequence", "r", "s", axis=1, keepdims=0), node("SequenceEmpty", "", "e"),
        node("SequenceInsert", "e x", "e2"), node("SequenceLength", "e2", "l"), node("SequenceErase", "s l", "t"),
        node("ConcatFromSequence", "t", "y", axis=0, new_axis=1),
    ],
    "cut": [
        *PIECES, node("NonZero", "r", "z"), node("Shape", "z", "zs"), node("SplitToSequence", "r two", "s"),
        node("ReduceSum", "zs", "n", keepdims=0), node("Mod", "n two", "p"), node("SequenceAt", "s p", "a"),
        node("Exp", "a", "y"),
    ],
}  # fmt: skip


@pytest.mark.parametrize("name", MODELS)
def test_sequences(name: str) -> None:
    graph = helper.make_graph(
        MODELS[name],
        name,
        [helper.make_tensor_value_info("x", FLOAT, [5, 4])],
        [helper.make_tensor_value_info("y", FLOAT, None)],
    )
    proto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    (wanted,) = ort.InferenceSession(proto.SerializeToString(), providers=["CPUExecutionProvider"]).run(None, {"x": X})
    model = anydml.onnx.load(proto)
    assert model.check() == ()
    for _ in range(2):
        np.testing.assert_allclose(model.run(x=X)["y"], wanted, rtol=1e-6)
    assert model.run({"x": X}, keep="all")["y"].shape == wanted.shape
