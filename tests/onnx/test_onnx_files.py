"""Models that onnxruntime takes although ONNX's checker refuses them: repaired, with notes, with onnxruntime's results."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import onnx
import onnxruntime as ort
import pytest
from onnx import ModelProto, TensorProto, helper
from test_onnx_cli import invoked

import anydml.onnx

X = np.array([[1, -2, 3], [4, 5, -6]], np.float32)
FLOAT = TensorProto.FLOAT


def value(name: str, sizes: Any = (2, 3), kind: int = FLOAT) -> Any:
    return helper.make_tensor_value_info(name, kind, sizes)


def model(nodes: list[Any], outputs: list[Any], opset: int = 17, ir: int = 8, **constants: Any) -> ModelProto:
    held = [onnx.numpy_helper.from_array(np.asarray(x), name) for name, x in constants.items()]
    graph = helper.make_graph(nodes, "mended", [value("x")], outputs, held)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=ir)


def unsorted() -> ModelProto:
    nodes = [("Neg", "b", "y"), ("Relu", "a", "b"), ("Abs", "x", "a")]
    return model([helper.make_node(op, [i], [o]) for op, i, o in nodes], [value("y")])


def untyped() -> ModelProto:
    found = model(
        [helper.make_node("Relu", ["x"], ["a"]), helper.make_node("Neg", ["a"], ["y"])], [onnx.ValueInfoProto(name="y")]
    )
    found.graph.value_info.append(onnx.ValueInfoProto(name="a"))
    return found


def unsized() -> ModelProto:
    return model([helper.make_node("Relu", ["x"], ["y"])], [value("y", None)])


def old_constants() -> ModelProto:
    return model([helper.make_node("Add", ["x", "w"], ["y"])], [value("y")], 8, 3, w=np.ones(3, np.float32))


def no_import() -> ModelProto:
    return model(
        [helper.make_node("BiasGelu", ["x", "w"], ["y"], domain="com.microsoft")], [value("y")], w=np.ones(3, np.float32)
    )


def early_layer_norm() -> ModelProto:
    w, b = np.ones(3, np.float32), np.zeros(3, np.float32)
    return model([helper.make_node("LayerNormalization", ["x", "w", "b"], ["y"], axis=-1)], [value("y")], 13, w=w, b=b)


def simplified() -> ModelProto:
    return model(
        [helper.make_node("SimplifiedLayerNormalization", ["x", "w"], ["y"], epsilon=1e-5)],
        [value("y")],
        w=np.ones(3, np.float32),
    )


def affine() -> ModelProto:
    return model([helper.make_node("Affine", ["x"], ["y"], alpha=2.0, beta=0.5)], [value("y")], 8)


def truths_of_int64() -> ModelProto:
    nodes = [
        helper.make_node("Cast", ["x"], ["i"], to=TensorProto.INT64),
        helper.make_node("Relu", ["x"], ["r"]),
        helper.make_node("Cast", ["r"], ["j"], to=TensorProto.INT64),
        helper.make_node("NonZero", ["j"], ["y"]),
    ]
    return model(nodes, [value("y", (2, "n"), TensorProto.INT64)])


def nameless() -> ModelProto:
    found = model([helper.make_node("Relu", ["x"], ["y"])], [value("y")])
    found.graph.name = ""
    return found


MENDED: dict[str, tuple[Callable[[], ModelProto], str]] = {
    "unsorted": (unsorted, "sorted"),
    "untyped": (untyped, "leaves out types or sizes"),
    "unsized": (unsized, "leaves out types or sizes"),
    "constants": (old_constants, "constants are not inputs"),
    "import": (no_import, "com.microsoft; 1 was taken"),
    "early": (early_layer_norm, "LayerNormalization is not in ONNX's operator set 13"),
    "simplified": (simplified, "SimplifiedLayerNormalization is not in ONNX"),
    "affine": (affine, "Affine is not in ONNX"),
    "nameless": (nameless, "its graph has no name"),
    "int64": (truths_of_int64, ""),
}


@pytest.mark.parametrize("name", MENDED)
def test_files_that_onnxruntime_takes(name: str, tmp_path: Any) -> None:
    make, said = MENDED[name]
    proto = make()
    before = proto.SerializeToString()
    loaded = anydml.onnx.load(proto)
    assert proto.SerializeToString() == before, "the caller's model is the caller's"
    assert len(loaded.notes) == bool(said)
    assert all(said in note for note in loaded.notes)
    session = ort.InferenceSession(before, providers=["CPUExecutionProvider"])
    (wanted,) = session.run(None, {"x": X})
    np.testing.assert_allclose(loaded.run(x=X)["y"], wanted, rtol=1e-6, atol=1e-6)
    (file := tmp_path / "one.onnx").write_bytes(before)
    status, text = invoked(
        "check",
        str(file),
    )
    assert status == 0
    assert said in text


def test_old_images() -> None:
    """Crop and ImageScaler, which onnxruntime supports."""
    nodes = [
        helper.make_node("ImageScaler", ["x"], ["a"], scale=0.5, bias=[1.0, -1.0]),
        helper.make_node("Crop", ["a"], ["b"], border=[1, 0, 1, 2]),
        helper.make_node("Crop", ["a"], ["c"], border=[1, 2, 0, 0], scale=[2, 3]),
    ]
    graph = helper.make_graph(nodes, "old", [value("x", (1, 2, 5, 6))], [value("b", (1, 2, 3, 4)), value("c", (1, 2, 2, 3))])
    proto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 8)], ir_version=3)
    x = np.random.default_rng(3).normal(size=(1, 2, 5, 6)).astype(np.float32)
    found = anydml.onnx.load(proto).run(x=x)
    wanted = ort.InferenceSession(proto.SerializeToString(), providers=["CPUExecutionProvider"]).run(None, {"x": x})
    for ours, theirs in zip(found.values(), wanted, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-6)


def test_cycles_are_still_refused() -> None:
    nodes = [helper.make_node("Add", ["x", "b"], ["a"]), helper.make_node("Relu", ["a"], ["b"])]
    with pytest.raises(anydml.onnx.ModelError, match="invalid"):
        anydml.onnx.load(model(nodes, [value("b")]))


def test_what_a_runtimes_operator_lacks_is_said() -> None:
    """No schema gives the number of inputs of these operators."""
    proto = no_import()
    del proto.graph.node[0].input[1:]
    (refusal,) = anydml.onnx.load(proto).check()
    assert (refusal.kind, refusal.reason) == ("invalid", "it has 1 inputs, and takes 2")
