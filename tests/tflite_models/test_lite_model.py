"""Models of several nodes: runs, graphs, checks, sizes, names, and what is refused."""

from __future__ import annotations

import copy
import pickle
import subprocess
import sys
from typing import Any

import numpy as np
import pytest

import anydml.tflite
from anydml.errors import BindingError
from lite_models import Writer
from lite_networks import NODES, network, spectrum


def loaded(seed: int = 3) -> anydml.tflite.Model:
    return anydml.tflite.load(network(np.random.default_rng(seed)))


def test_a_network_runs_on_every_device_alike() -> None:
    model, x = loaded(), spectrum(np.random.default_rng(0))
    whole = model.run({"spectrum": x}, keep="all")
    assert [*whole] == ["chances", *sorted({*NODES} - {"chances"})]
    assert len(np.unique(whole["third"])) > 10
    exact = model.run({"spectrum": x}, device="reference", keep="all")
    for name, tensor in whole.items():
        np.testing.assert_array_equal(tensor, exact[name], name)
    for _ in range(3):  # calls that stay bound
        np.testing.assert_array_equal(model.run({"spectrum": x})["chances"], whole["chances"])
    np.testing.assert_array_equal(model.run(sound=x)["chances"], whole["chances"])
    graph = model.graph()
    np.testing.assert_array_equal(graph.run({"spectrum": x})["chances"], whole["chances"])


def test_a_batch_is_each_of_its_images() -> None:
    model, x = loaded(), spectrum(np.random.default_rng(0), 3)
    together = model.run(spectrum=x)["chances"]
    for image, row in zip(x, together, strict=True):
        np.testing.assert_array_equal(model.run(spectrum=image[None])["chances"][0], row)
    assert model.graph(spectrum=(3, 12, 10, 1)).outputs["chances"].sizes == (3, 5)
    assert model.check(sound=(3, 12, 10, 1)) == ()


def test_a_copy_is_the_same_model() -> None:
    model, x = loaded(), spectrum(np.random.default_rng(0))
    for other in (pickle.loads(pickle.dumps(model)), copy.deepcopy(model)):
        np.testing.assert_array_equal(other.run(spectrum=x)["chances"], model.run(spectrum=x)["chances"])


def test_what_is_known_of_a_model() -> None:
    model = loaded()
    assert str(model.inputs["spectrum"]) == "INT8 (?, 12, 10, 1), scale 0.579999983, zero point 83"
    assert model.operators["CONV_2D"] == 2
    assert model.aliases == {"sound": "spectrum", "words": "chances"}
    assert "7 nodes" in repr(model)


def test_inputs_that_do_not_fit_are_named() -> None:
    model = loaded()
    with pytest.raises(BindingError, match="is an input of the model, and was not given"):
        model.run({})
    with pytest.raises(BindingError, match="takes INT8"):
        model.run(spectrum=np.zeros((1, 12, 10, 1), np.float32))
    with pytest.raises(BindingError, match="takes INT8"):
        model.run(spectrum=np.zeros((1, 12, 9, 1), np.int8))
    with pytest.raises(BindingError, match="has no input 'other'"):
        model.run(spectrum=spectrum(np.random.default_rng(0)), other=1)
    with pytest.raises(BindingError, match="has sizes INT8"):
        model.graph(spectrum=(1, 12, 9, 1))


def test_sizes_are_computed_while_the_graph_is_made() -> None:
    """SHAPE, STRIDED_SLICE and PACK, as converters write them for a RESHAPE, need no values."""
    writer = Writer()
    x = writer.tensor("x", "float32", (2, 3, 4), signature=(-1, 3, 4))
    shape = writer.tensor("shape", "int32", (3,))
    first = writer.tensor("first", "int32", ())
    ends = [writer.constant(f"end {k}", [k], "int32") for k in (0, 1)]
    writer.node("SHAPE", [x], [shape], "ShapeOptions", OutType=2)
    writer.node("STRIDED_SLICE", [shape, *ends, ends[1]], [first], "StridedSliceOptions", ShrinkAxisMask=1)
    sizes = writer.tensor("sizes", "int32", (2,))
    writer.node("PACK", [first, writer.constant("twelve", 12, "int32")], [sizes], "PackOptions", ValuesCount=2, Axis=0)
    y = writer.tensor("y", "float32", (2, 12), signature=(-1, 12))
    writer.node("RESHAPE", [x, sizes], [y], "ReshapeOptions")
    z = writer.tensor("z", "bool", (2, 12), signature=(-1, 12))
    writer.node("LESS", [y, writer.constant("zero", 0, "float32")], [z])
    model = anydml.tflite.load(writer.model([x], [y, z, first]))
    for batch in (2, 5):
        given = np.random.default_rng(0).normal(size=(batch, 3, 4)).astype(np.float32)
        found = model.run(x=given)
        np.testing.assert_array_equal(found["y"], given.reshape(batch, 12))
        np.testing.assert_array_equal(found["z"], given.reshape(batch, 12) < 0)
        assert found["z"].dtype == np.bool_
        assert found["first"].shape == ()
        assert found["first"] == batch


def test_an_output_may_be_an_input_or_a_constant() -> None:
    writer = Writer()
    x, c = writer.tensor("x", "int8", (2,), 0.5), writer.constant("c", [1, 2], "int8", scale=0.5)
    y = writer.tensor("y", "int8", (2,), 0.5)
    writer.node("ADD", [x, c], [y], "AddOptions")
    model = anydml.tflite.load(writer.model([x], [x, c, y]))
    given = np.array([3, 100], np.int8)
    found = model.run(x=given)
    assert {name: tensor.tolist() for name, tensor in found.items()} == {"x": [3, 100], "c": [1, 2], "y": [4, 102]}
    with pytest.raises(anydml.tflite.ModelError, match="inputs or constants"):
        model.graph()


def test_all_that_is_refused_is_named_at_once() -> None:
    writer = Writer()
    x, y = writer.tensor("x", "int8", (1, 4), 0.5), writer.tensor("y", "int8", (1, 4), 0.5)
    z, end = writer.tensor("z", "int8", (1, 4), 0.5), writer.tensor("end", "float32", (1, 4))
    other = writer.tensor("other", "int8", (1, 4))
    writer.node("MyOwn", [x], [y])
    writer.node("SVDF", [y, y, y, y, y], [z])
    writer.node("TANH", [x], [end])
    writer.node("MUL", [x, other], [other], "MulOptions")
    writer.node("RELU", [y], [writer.tensor("after", "int8", (1, 4), 0.5)])
    model = anydml.tflite.load(writer.model([x, other], [z]))
    refused = model.check()
    assert [(r.node, r.operator, r.kind) for r in refused] == [
        ("y", "CUSTOM MyOwn", "not in DirectML"),
        ("z", "SVDF", "not in anydml yet"),
        ("end", "TANH", "invalid"),
        ("other", "MUL", "invalid"),
    ]
    with pytest.raises(anydml.tflite.ModelError, match="CUSTOM MyOwn"):
        model.run(x=np.zeros((1, 4), np.int8), other=np.zeros((1, 4), np.int8))


def made(operator: str, tensors: dict[str, Any], options: str = "", **members: Any) -> anydml.tflite.Model:
    """A model of one node, whose inputs are tensors or constants and whose output is `y`."""
    writer = Writer()
    numbers = {
        name: writer.constant(name, *t) if isinstance(t[0], list) else writer.tensor(name, *t) for name, t in tensors.items()
    }
    inputs = [n for name, n in numbers.items() if name != "y"]
    writer.node(operator, inputs, [numbers["y"]], options, **members)
    return anydml.tflite.load(writer.model([n for name, n in numbers.items() if name.startswith("x")], [numbers["y"]]))


IMAGE = ("int8", (1, 4, 4, 2), 0.5)
FILTERS = ([[[[1, 2]]]], "int8")


@pytest.mark.parametrize(
    ("operator", "tensors", "options", "members", "reason"),
    [
        ("RELU", {"x": IMAGE, "y": ("int8", (1, 4, 4, 3), 0.5)}, "", {}, "computes sizes"),
        ("RELU", {"x": IMAGE, "y": ("int16", (1, 4, 4, 2))}, "", {}, "computes int8"),
        ("CONV_2D", {"x": IMAGE, "w": ("int8", (3, 2)), "y": IMAGE}, "Conv2DOptions", {}, "no node before it computes 'w'"),
        ("CONV_2D", {"x": IMAGE, "w": ([[1, 2]], "int8"), "y": IMAGE}, "Conv2DOptions", {}, "its filters has 2 dimensions"),
        ("CONV_2D", {"x": IMAGE, "w": FILTERS, "y": IMAGE}, "Conv2DOptions", {}, "must be at least 1"),
        ("CONV_2D", {"x": IMAGE, "w": FILTERS, "y": IMAGE}, "AddOptions", {}, "its options are AddOptions"),
        ("CONV_2D", {"x": IMAGE, "y": IMAGE}, "Conv2DOptions", {}, "it has 1 inputs, and takes 2 to 3"),
        ("POW", {"x": ("float32", (2,)), "y": ("float32", (2,))}, "", {}, "it has 1 inputs, and takes 2"),
        ("LOGICAL_AND", {"x": ("bool", (2,)), "y": ("bool", (2,))}, "", {}, "it has 1 inputs, and takes 2"),
        ("MUL", {"x": IMAGE, "x2": IMAGE, "y": IMAGE}, "MulOptions", {"FusedActivationFunction": 5}, "SIGN_BIT"),
        ("TRANSPOSE", {"x": IMAGE, "p": ([0, 0, 1, 2], "int32"), "y": IMAGE}, "", {}, "twice"),
        ("RESHAPE", {"x": IMAGE, "s": ([7, -1], "int32"), "y": IMAGE}, "ReshapeOptions", {}, "cannot become"),
        ("GATHER", {"x": IMAGE, "i": ([9], "int32"), "y": IMAGE}, "GatherOptions", {"Axis": 9}, "axis 9"),
        ("PAD", {"x": IMAGE, "p": ([[0, -1]] * 4, "int32"), "y": IMAGE}, "", {}, "negative"),
        ("SPLIT_V", {"x": IMAGE, "p": ([1, 2], "int32"), "a": ([1], "int32"), "y": IMAGE}, "", {}, "do not add up to 4"),
        ("SOFTMAX", {"x": IMAGE, "y": IMAGE}, "SoftmaxOptions", {"Beta": float("nan")}, "its beta is nan"),
        ("CAST", {"x": ("float64", (2,)), "y": ("float32", (2,))}, "", {}, "elements of float64"),
        ("RESHAPE", {"x": IMAGE, "x2": ("int32", (1,)), "y": IMAGE}, "ReshapeOptions", {}, "values of x2 determine"),
        ("TILE", {"x": IMAGE, "t": ([10**6] * 4, "int32"), "y": IMAGE}, "", {}, "too many"),
    ],
)
def test_a_node_that_cannot_be_computed_says_why(operator: str, tensors: Any, options: str, members: Any, reason: str) -> None:
    (refused,) = made(operator, tensors, options, **members).check()
    assert refused.operator == operator
    assert reason in refused.reason


def test_a_bias_has_the_scale_of_the_products() -> None:
    def model(scale: float) -> anydml.tflite.Model:
        writer = Writer()
        x, y = writer.tensor("x", "int8", (1, 3), 0.5), writer.tensor("y", "int8", (1, 2), 0.25)
        w = writer.constant("w", np.ones((2, 3)), "int8", scale=0.1)
        b = writer.constant("b", [5, 6], "int32", scale=scale)
        writer.node("FULLY_CONNECTED", [x, w, b], [y], "FullyConnectedOptions")
        return anydml.tflite.load(writer.model([x], [y]))

    assert model(0.05).check() == ()
    (refused,) = model(0.06).check()
    assert "must have the scale of the products, 0.05" in refused.reason


def test_weights_of_integers_stand_for_floats() -> None:
    writer = Writer()
    x, y = writer.tensor("x", "float32", (2, 3)), writer.tensor("y", "float32", (2, 2))
    w = writer.constant("w", [[1, 2, 3], [4, 5, 6]], "int8", scale=[0.5, 0.25])
    writer.node("FULLY_CONNECTED", [x, w], [y], "FullyConnectedOptions")
    given = np.array([[1, 2, 3], [0, 1, 0]], np.float32)
    due = given @ np.array([[0.5, 1, 1.5], [1, 1.25, 1.5]], np.float32).T
    np.testing.assert_array_equal(anydml.tflite.load(writer.model([x], [y])).run(x=given)["y"], due)


def test_a_missing_package_is_named_and_that_of_onnx_is_not_needed() -> None:
    program = """if True:
        import sys
        sys.modules["tflite"] = None
        import anydml.tflite
        try:
            anydml.tflite.load(b"")
        except ModuleNotFoundError as error:
            assert str(error).endswith('pip install "anydml[tflite]"'), error
        del sys.modules["tflite"]
        sys.modules["onnx"] = sys.modules["google.protobuf"] = None
        anydml.tflite.load, anydml.tflite.compare, anydml.tflite.page
    """
    subprocess.run([sys.executable, "-c", program], check=True)
