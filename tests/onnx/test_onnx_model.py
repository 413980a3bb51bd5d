"""ONNX models: what `load` supports, sizes, division into graphs, and refusals."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import anydml as dml
import anydml.onnx
from anydml.onnx import build
from anydml.onnx.errors import INVALID, NOT_IN_DIRECTML
from anydml.onnx.read import MOST_NODES

FLOAT, INT64, BOOL, DOUBLE = TensorProto.FLOAT, TensorProto.INT64, TensorProto.BOOL, TensorProto.DOUBLE


def info(name: str, sizes: Sequence[int | str | None] | int, kind: int = FLOAT) -> Any:
    """A tensor; sizes: an int is a number of unknown sizes."""
    if isinstance(sizes, int):
        sizes = [None] * sizes
    return helper.make_tensor_value_info(name, kind, sizes)


def model_of(nodes: Sequence[Any], inputs: Sequence[Any], outputs: Sequence[Any], opset: int = 17, **constants: Any) -> Any:
    initializers = [numpy_helper.from_array(np.asarray(x), name) for name, x in constants.items()]
    graph = helper.make_graph([*nodes], "graph", [*inputs], [*outputs], initializers)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)


def node(operator: str, inputs: str, outputs: str, **attributes: Any) -> Any:
    return helper.make_node(operator, inputs.split(), outputs.split(), name=f"the_{operator}", **attributes)


def cnn() -> Any:
    """A small network with an unknown batch size, and arithmetic of sizes."""
    random = np.random.default_rng(0)
    nodes = [
        node("Conv", "x w", "c", pads=[1, 1, 1, 1]),
        node("Relu", "c", "r"),
        node("GlobalAveragePool", "r", "p"),
        node("Shape", "p", "s"),
        node("Slice", "s zero one", "batch"),
        node("Concat", "batch rest", "sizes", axis=0),
        node("Reshape", "p sizes", "f"),
        node("Gemm", "f k", "y", transB=1),
    ]
    constants: dict[str, Any] = dict(
        w=random.normal(size=(4, 1, 3, 3)).astype(np.float32),
        k=random.normal(size=(3, 4)).astype(np.float32),
        zero=[0],
        one=[1],
        rest=[-1],
    )
    return model_of(nodes, [info("x", ["N", 1, 5, 5])], [info("y", ["N", 3])], **constants)


def test_a_model_is_its_operators_one_after_another() -> None:
    proto = cnn()
    w, k = (numpy_helper.to_array(t) for t in proto.graph.initializer[:2])
    model = anydml.onnx.load(proto)
    for batch in (1, 2):
        x = np.random.default_rng(batch).normal(size=(batch, 1, 5, 5)).astype(np.float32)
        relu = dml.activation_relu(dml.convolution(x, w, start_padding=(1, 1), end_padding=(1, 1)))
        pooled = dml.reduce(relu, "AVERAGE", (2, 3))
        wanted = dml.gemm(pooled.reshape(batch, 4), k, trans_b="TRANSPOSE")
        found = model.run(x=x)
        assert found.keys() == {"y"}
        np.testing.assert_array_equal(found["y"], wanted)
        np.testing.assert_array_equal(model.graph(N=batch)(x=x)["y"], wanted)
        whole = model.run({"x": x}, keep="all")
        np.testing.assert_array_equal(whole["r"], relu)
        assert whole["sizes"].tolist() == [batch, -1]
        np.testing.assert_array_equal(whole["y"], wanted)


def test_a_graph_says_which_sizes_it_lacks() -> None:
    model = anydml.onnx.load(cnn())
    with pytest.raises(dml.BindingError, match=r"x: has sizes \(N, 1, 5, 5\); N must be given"):
        model.graph()
    with pytest.raises(dml.BindingError, match="M: is neither an input nor the name of a size"):
        model.graph(N=1, M=2)
    assert [t.sizes for t in model.graph(x=(2, 1, 5, 5)).inputs.values()] == [(2, 1, 5, 5)]


@pytest.mark.parametrize(
    ("inputs", "message"),
    [
        ({}, "x: is an input of the model, and was not given"),
        ({"x": np.zeros((1, 1, 5, 5))}, "x: takes FLOAT, not float64"),
        ({"x": np.zeros((1, 2, 5, 5), np.float32)}, r"x: takes sizes \(N, 1, 5, 5\), not \(1, 2, 5, 5\)"),
        ({"x": np.zeros((1, 1, 5, 5), np.float32), "z": 1}, "the model has no input 'z'; its inputs are x"),
    ],
)
def test_inputs_that_do_not_fit(inputs: dict[str, Any], message: str) -> None:
    with pytest.raises(dml.BindingError, match=message):
        anydml.onnx.load(cnn()).run(inputs)


def test_values_cut_a_model_into_graphs() -> None:
    """NonZero's count and a Reshape's sizes follow from values; so does the branch of an If."""
    branches = {}
    for name, operator in (("then_branch", "Relu"), ("else_branch", "Neg")):
        branches[name] = helper.make_graph([node(operator, "v", f"out_{name}")], name, [], [info(f"out_{name}", 1)])
    nodes = [
        node("Mul", "x x", "square"),
        node("NonZero", "square", "places"),
        node("Transpose", "places", "rows"),
        node("Gather", "x rows_flat", "taken"),
        node("Exp", "x", "v"),
        node("If", "condition", "chosen", **branches),
        node("Reshape", "chosen sizes", "y"),
    ]
    nodes.insert(3, node("Reshape", "rows minus", "rows_flat"))
    inputs = [info("x", ["n"]), info("condition", [], BOOL), info("sizes", [2], INT64)]
    model = anydml.onnx.load(model_of(nodes, inputs, [info("taken", 1), info("y", 2), info("places", 2, INT64)], minus=[-1]))
    for x, condition, sizes in (
        ([0, 2, 0, -3], True, (2, 2)),
        ([1, 0, 0, 0], False, (4, 1)),
        ([0, 0], True, (1, 2)),
        ([5, 6, 7, 8], True, (1, 4)),
    ):
        array = np.array(x, np.float32)
        found = model.run(x=array, condition=np.array(condition), sizes=np.array(sizes, np.int64))
        np.testing.assert_array_equal(found["places"], np.array(np.nonzero(array)))
        np.testing.assert_array_equal(found["taken"], array[array != 0])
        powers = dml.element_wise_exp(array)
        np.testing.assert_array_equal(found["y"], (powers if condition else -powers).reshape(sizes))
    with pytest.raises(anydml.onnx.ModelError, match="its values determine sizes"):
        model.graph(x=(4,))
    with pytest.raises(anydml.onnx.ModelError, match="cannot become") as error:
        model.run(x=np.ones(4, np.float32), condition=np.array(True), sizes=np.array([3, 1], np.int64))
    assert error.value.refusals[0].kind == INVALID


def test_outputs_have_onnx_types_and_are_the_callers_own() -> None:
    nodes = [node("Greater", "x zero", "truth"), node("Identity", "x", "same"), node("Shape", "x", "sizes")]
    outputs = [info("truth", 1, BOOL), info("same", 1), info("sizes", 1, INT64), info("zero", 0)]
    model = anydml.onnx.load(model_of(nodes, [info("x", [3])], outputs, zero=np.zeros((), np.float32)))
    x = np.array([-1, 0, 1], np.float32)
    found = model.run(x=x)
    assert [y.dtype for y in found.values()] == [np.bool_, np.float32, np.int64, np.float32]
    assert found["truth"].tolist() == [False, False, True]
    assert found["sizes"].tolist() == [3]
    for y in found.values():
        y[...] = 0  # neither the model's array nor the caller's
    assert x.tolist() == [-1, 0, 1]
    assert model.run(x=x)["sizes"].tolist() == [3]


def test_an_input_with_a_default_may_be_given() -> None:
    proto = model_of([node("Add", "x b", "y")], [info("x", [2]), info("b", [2])], [info("y", [2])], b=np.ones(2, np.float32))
    model = anydml.onnx.load(proto)
    x = np.array([1, 2], np.float32)
    assert list(model.inputs) == ["x"]
    assert model.run(x=x)["y"].tolist() == [2, 3]
    assert model.run(x=x, b=x)["y"].tolist() == [2, 4]
    assert model.run(x=x)["y"].tolist() == [2, 3]


def test_all_that_is_refused_comes_at_once() -> None:
    nodes = [
        node("RandomUniformLike", "m", "d"),
        node("Add", "p p", "q"),
        node("Relu", "d", "e"),
        node("RandomNormalLike", "m", "s"),
    ]
    inputs = [info("m", [2, 2]), info("p", [2], DOUBLE)]
    model = anydml.onnx.load(model_of(nodes, inputs, [info("e", [2, 2]), info("q", 1, DOUBLE), info("s", [2, 2])]))
    found = model.check()
    assert [(r.node, r.operator, r.kind) for r in found] == [
        ("the_RandomUniformLike", "RandomUniformLike", NOT_IN_DIRECTML),
        ("the_Add", "Add", NOT_IN_DIRECTML),
        ("the_RandomNormalLike", "RandomNormalLike", NOT_IN_DIRECTML),
    ]
    assert "float64" in found[1].reason
    with pytest.raises(anydml.onnx.ModelError) as error:
        model.graph()
    assert error.value.refusals == found


def test_functions_of_the_model_are_expanded() -> None:
    function = helper.make_function(
        "own", "Twice", ["a"], ["b"],
        [helper.make_node("Add", ["a", "a"], ["t"]), helper.make_node("Elu", ["t"], ["b"])],
        [helper.make_opsetid("", 17)], ["alpha"],
    )  # fmt: skip
    attribute = function.node[1].attribute.add()
    attribute.name, attribute.ref_attr_name, attribute.type = "alpha", "alpha", onnx.AttributeProto.FLOAT
    nodes = [
        helper.make_node("Twice", ["x"], ["y"], domain="own", alpha=2.0),
        helper.make_node("Twice", ["y"], ["z"], domain="own", alpha=0.5),
    ]
    proto = model_of(nodes, [info("x", [2])], [info("z", [2])])
    proto.functions.append(function)
    proto.opset_import.append(helper.make_opsetid("own", 1))
    x = np.array([-1, 1], np.float32)
    inner = dml.activation_elu(dml.element_wise_add(x, x), alpha=2.0)
    wanted = dml.activation_elu(dml.element_wise_add(inner, inner), alpha=0.5)
    np.testing.assert_array_equal(anydml.onnx.load(proto).run(x=x)["z"], wanted)


@pytest.mark.parametrize("opset", [7, 12, 17, onnx.defs.onnx_opset_version()])
def test_operators_are_known_by_name_in_every_opset(opset: int) -> None:
    """Axes as attributes or as inputs; Softmax along one axis, or over all axes from one on."""
    given = {} if opset >= 13 else {"axes": [1]}
    nodes = [node("Unsqueeze", "x axes" if opset >= 13 else "x", "u", **given), node("Softmax", "u", "y", axis=1)]
    constants = {"axes": [1]} if opset >= 13 else {}
    model = anydml.onnx.load(model_of(nodes, [info("x", [2, 3])], [info("y", 3)], opset, **constants))
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    axes = (1,) if opset >= 13 else (1, 2)
    np.testing.assert_array_equal(model.run(x=x)["y"], dml.activation_softmax1(x[:, None], axes=axes))


def test_empty_tensors_need_no_computing() -> None:
    nodes = [
        node("Relu", "x", "r"),
        node("ReduceSum", "x axes", "sum", keepdims=0),
        node("Concat", "r z", "joined", axis=0),
        node("MatMul", "x w", "product"),
    ]
    inputs = [info("x", ["n", 2]), info("z", [1, 2])]
    outputs = [info(name, rank) for name, rank in (("r", 2), ("sum", 1), ("joined", 2), ("product", 2))]
    model = anydml.onnx.load(model_of(nodes, inputs, outputs, axes=[0], w=np.ones((2, 3), np.float32)))
    z = np.array([[1, 2]], np.float32)
    found = model.run(x=np.empty((0, 2), np.float32), z=z)
    assert found["r"].shape == (0, 2)
    assert found["product"].shape == (0, 3)
    assert found["sum"].tolist() == [0, 0]
    assert found["joined"].tolist() == [[1, 2]]


def test_graphs_are_kept_by_size() -> None:
    model = anydml.onnx.load(cnn())
    for n in (*range(1, 20), 1):
        assert model.check(N=n) == ()
    assert len(model._segments) == 16


def test_the_reference_gives_the_same() -> None:
    model = anydml.onnx.load(cnn())
    x = np.random.default_rng(5).normal(size=(1, 1, 5, 5)).astype(np.float32)
    np.testing.assert_array_equal(model.run(x=x)["y"], model.run({"x": x}, device="reference")["y"])


def test_a_call_is_found_again_by_what_it_is_given(monkeypatch: pytest.MonkeyPatch) -> None:
    model, fresh = anydml.onnx.load(cnn()), anydml.onnx.load(cnn())
    monkeypatch.setattr(fresh._calls, "keep", lambda *_: None)
    walked: list[object] = []

    def given_to(given: Any) -> Any:
        walked.append(given)
        return type(model)._given(model, given)

    monkeypatch.setattr(model, "_given", given_to)
    rng = np.random.default_rng(8)
    kept = []
    for n in (2, 2, 3, 2, 3):
        x = rng.normal(size=(n, 1, 5, 5)).astype(np.float32)
        kept.append((model.run({"x": x})["y"], fresh.run({"x": x})["y"]))
    assert len(walked) == 2
    for found, wanted in kept:  # the arrays are the callers' own
        np.testing.assert_array_equal(found, wanted)
    x = rng.normal(size=(2, 1, 5, 5)).astype(np.float32)
    y = fresh.run(x=x)["y"]
    for given in (x.tolist(), x[:, :, ::-1][:, :, ::-1], np.asfortranarray(x)):
        np.testing.assert_array_equal(model.run(x=np.asarray(given, np.float32))["y"], y)
    np.testing.assert_array_equal(model.run({"x": x}, device="reference")["y"], y)
    assert model.run(x=x, keep="all").keys() > {"y"}
    count = len(walked)
    with pytest.raises(dml.BindingError, match="float64"):
        model.run(x=x.astype(np.float64))
    with pytest.raises(dml.BindingError, match="no input 'z'"):
        model.run(x=x, z=x)
    with pytest.raises(dml.BindingError, match="was not given"):
        model.run(z=x)
    assert len(walked) == count + 3
    np.testing.assert_array_equal(model.run(x=x)["y"], y)
    assert len(walked) == count + 3


def test_a_device_computes_what_follows_from_constants_too() -> None:
    nodes = [node("Exp", "w", "power"), node("Add", "x power", "sum"), node("NonZero", "sum", "places")]
    nodes += [node("Shape", "places", "count"), node("Expand", "power count", "y")]
    model = anydml.onnx.load(
        model_of(nodes, [info("x", [3])], [info("y", [1, "N"])], w=np.ones(1, np.float32)),
    )
    x = np.array([-np.e, -np.e, 1], np.float32)
    device, other = dml.Device("reference"), dml.Device("reference")

    def computed(device: dml.Device) -> int:
        """The number of kinds of calls that a device has computed."""
        return int(device.cached.cache_info().misses)  # type: ignore[attr-defined]  # of functools.lru_cache

    usual = dml.devices.device.named("cpu", dml.FeatureLevel.EXTENDED)
    before = computed(usual)
    y = model.run(x=x, device=device)["y"]
    assert y.tobytes() == np.full((1, 1), np.float32(np.e)).tobytes()
    model.run(x=x, device=other)
    assert min(computed(device), computed(other)) >= 1
    assert computed(usual) == before
    assert model.run(x=x)["y"].tobytes() == y.tobytes()
    assert computed(usual) > before


def hostile(tmp_path: Path) -> dict[str, Any]:
    """Invalid models by their fault: a file's path or a ModelProto."""
    whole = cnn().SerializeToString()
    (cut := tmp_path / "cut.onnx").write_bytes(whole[: len(whole) // 2])
    (noise := tmp_path / "noise.onnx").write_bytes(np.random.default_rng(0).bytes(4096))
    (nothing := tmp_path / "nothing.onnx").write_bytes(b"")
    cyclic = model_of([node("Add", "x b", "a"), node("Relu", "a", "b")], [info("x", [1])], [info("b", [1])])
    twice = model_of([node("Relu", "x", "y"), node("Neg", "x", "y")], [info("x", [1])], [info("y", [1])])
    unknown = model_of([node("Relu", "w", "y")], [info("x", [1])], [info("y", [1])])
    short = model_of([node("Add", "x w", "y")], [info("x", [4])], [info("y", [4])], w=np.ones(4, np.float32))
    short.graph.initializer[0].raw_data = b"1234"
    wide = model_of([node("Add", "x w", "y")], [info("x", [4])], [info("y", [4])], w=np.ones(4, np.float32))
    wide.graph.initializer[0].dims[0] = 2**62
    outside = model_of([node("Add", "x w", "y")], [info("x", [4])], [info("y", [4])], w=np.ones(4, np.float32))
    onnx.external_data_helper.set_external_data(outside.graph.initializer[0], "../secret.bin")
    outside.graph.initializer[0].ClearField("raw_data")
    (tmp_path / "secret.bin").write_bytes(bytes(16))
    (tmp_path / "inside").mkdir()
    (away := tmp_path / "inside" / "outside.onnx").write_bytes(outside.SerializeToString())
    return dict(
        cut=cut, noise=noise, nothing=nothing, cyclic=cyclic, twice=twice, unknown=unknown, short=short, wide=wide,
        outside=away, external=outside,
    )  # fmt: skip


def test_what_is_no_model_is_refused(tmp_path: Path) -> None:
    models = hostile(tmp_path)
    assert len(models) == 10
    for what, source in models.items():
        with pytest.raises(anydml.onnx.ModelError) as error:
            anydml.onnx.load(source)
        assert {r.kind for r in error.value.refusals} == {INVALID}, what
        assert len(str(error.value)) < 2000, what


@pytest.mark.parametrize(
    ("given", "x", "constants", "reason"),
    [
        (node("Conv", "x w", "y"), [2, 3], dict(w=np.ones((3, 4), np.float32)), "its input has no spatial dimensions"),
        (node("ConvTranspose", "x w", "y"), [2, 3], dict(w=np.ones((3, 4), np.float32)), "its input has no spatial dimensions"),
        (
            node("Conv", "x w b", "y"), [1, 1, 2], dict(w=np.ones((1, 1, 1), np.float32), b=np.float32(1)),
            "its bias has 0 dimensions, and must have one",
        ),
        (
            node("OneHot", "x depth pair", "y"), [2], dict(depth=np.float32(np.nan), pair=np.zeros(2, np.float32)),
            "its depth is nan, and must be finite",
        ),
        (
            helper.make_node("Range", ["a", "b", "a"], ["y"], name="the_Range"), [2],
            dict(a=np.float32(1), b=np.float32(np.nan)), "1.0, nan and 1.0 are not all finite",
        ),
        (
            helper.make_node("Range", ["a", "b", "a"], ["y"], name="the_Range"), [2],
            dict(a=np.float32(1), b=np.float32(np.inf)), "1.0, inf and 1.0 are not all finite",
        ),
        (
            node("Conv", "x w", "y", kernel_shape=[3]), [1, 1, 5], dict(w=np.ones((1, 1, 2), np.float32)),
            "its kernel_shape is (3,), and its filters have sizes (2,)",
        ),
        (
            node("ConvTranspose", "x w", "y", kernel_shape=[3]), [1, 1, 5], dict(w=np.ones((1, 1, 2), np.float32)),
            "its kernel_shape is (3,), and its filters have sizes (2,)",
        ),
        (
            node("ReduceSum", "x axes", "y"), [1, 4], dict(axes=[1, -1]),
            "axes (1, -1) name a dimension twice",
        ),
        (
            node("Squeeze", "x axes", "y"), [1, 4], dict(axes=[0, 0]),
            "axes (0, 0) name a dimension twice",
        ),
        (
            node("Slice", "x axes axes axes", "y"), [1, 4], dict(axes=[1, 1]),
            "axes (1, 1) name a dimension twice",
        ),
        (
            helper.make_node("Pad", ["x", "pads", "", "axes"], ["y"], name="the_Pad"), [1, 4],
            dict(pads=[1, 1, 1, 1], axes=[0, -2]), "axes (0, -2) name a dimension twice",
        ),
        (
            node("MeanVarianceNormalization", "x", "y", axes=[1, 1]), [1, 4], {},
            "axes (1, 1) name a dimension twice",
        ),
        (
            helper.make_node("Resize", ["x", "", "s"], ["y"], name="the_Resize", axes=[1, 1]), [1, 4],
            dict(s=np.array([2, 2], np.float32)),
            "axes (1, 1) name a dimension twice",
        ),
        (
            node("Split", "x", "y", num_outputs=2**62), [2], {},
            "it has 1 outputs, and its num_outputs is 4611686018427387904",
        ),
        (
            helper.make_node("Concat", ["x", ""], ["y"], name="the_Concat", axis=0), [2], {},
            "its input inputs is absent, and is not optional",
        ),
    ],
)  # fmt: skip
def test_nodes_that_do_not_fit_are_refused(given: Any, x: list[int], constants: dict[str, Any], reason: str) -> None:
    """Models that ONNX's checker accepts, since it does not check dimension counts and values."""
    model = anydml.onnx.load(model_of([given], [info("x", x)], [info("y", 3)], 18, **constants))
    (refusal,) = model.check()
    assert (refusal.node, refusal.kind, refusal.reason) == (f"the_{given.op_type}", INVALID, reason)


@pytest.mark.parametrize("scale", [0.0, -2.0, np.nan, np.inf, -np.inf])
def test_scales_that_are_no_scales_are_refused(scale: float) -> None:
    """Scales that are inputs or attributes, known before the run or not."""
    x, s, reason = np.ones((1, 4), np.float32), np.array([1, scale], np.float32), "it must be above 0 and finite"
    models = [
        (model_of([node("Upsample", "x", "y", scales=[1.0, scale])], [info("x", [1, 4])], [info("y", 2)], 7), {}),
        (model_of([node("Upsample", "x s", "y")], [info("x", [1, 4])], [info("y", 2)], 9, s=s), {}),
        (model_of([node("Upsample", "x s", "y")], [info("x", [1, 4]), info("s", [2])], [info("y", 2)], 9), {"s": s}),
        (model_of([node("Resize", "x s", "y")], [info("x", [1, 4]), info("s", [2])], [info("y", 2)], 10), {"s": s}),
        (model_of([resized("x", "", "s")], [info("x", [1, 4]), info("s", [2])], [info("y", 2)], 18), {"s": s}),
    ]
    for proto, given in models:
        with pytest.raises(anydml.onnx.ModelError, match=f"invalid: a scale is {scale}; {reason}"):
            anydml.onnx.load(proto).run({"x": x, **given})


def test_what_has_no_elements_is_not_resized() -> None:
    model = model_of([resized("x", "", "", "sizes")], [info("x", [1, "n"])], [info("y", 2)], 18, sizes=[1, 4])
    with pytest.raises(anydml.onnx.ModelError, match="invalid: it has no elements to resize"):
        anydml.onnx.load(model).run(x=np.ones((1, 0), np.float32))


def resized(*inputs: str, **attributes: Any) -> Any:
    return helper.make_node("Resize", inputs, ["y"], name="the_Resize", **attributes)


def test_a_model_that_was_used_is_copied_and_pickled() -> None:
    model = anydml.onnx.load(cnn())
    x = np.random.default_rng(0).normal(size=(2, 1, 5, 5)).astype(np.float32)
    wanted = model.run(x=x)["y"].tolist()
    for made in (copy.copy(model), copy.deepcopy(model), pickle.loads(pickle.dumps(model))):
        assert repr(made) == repr(model)
        assert made.run(x=x)["y"].tolist() == wanted
        assert pickle.loads(pickle.dumps(made)).run(x=x)["y"].tolist() == wanted


def test_names_that_are_no_text_are_refused() -> None:
    model = model_of([node("Relu", "x", "odd_name"), node("Neg", "odd_name", "y")], [info("x", [1])], [info("y", [1])])
    data = model.SerializeToString().replace(b"odd_name", b"odd\xffname")
    with pytest.raises(anydml.onnx.ModelError, match=r"^invalid: .*odd.*name.* is not UTF-8 text"):
        anydml.onnx.load(onnx.load_from_string(data))


def test_old_operator_sets_are_refused() -> None:
    with pytest.raises(anydml.onnx.ModelError, match="not in anydml yet: the model is of opset 5; 6 to"):
        anydml.onnx.load(model_of([node("Relu", "x", "y")], [info("x", [1])], [info("y", [1])], 5))


def test_huge_sizes_are_refused_where_they_arise() -> None:
    huge = 2**62
    expand = model_of([node("Expand", "x s", "y"), node("Relu", "y", "z")], [info("x", [1])], [info("z", 2)], s=[huge, 2])
    tiled = model_of([node("Tile", "x s", "y")], [info("x", [2])], [info("y", 1)], s=[huge])
    filled = model_of([node("ConstantOfShape", "s", "y")], [], [info("y", 1)], s=[2**40])
    padded = model_of([node("Pad", "x s", "y")], [info("x", [2])], [info("y", 1)], s=[0, huge])
    counted = model_of([node("Range", "a s b", "y")], [], [info("y", 1, INT64)], a=np.int64(0), b=np.int64(1), s=np.int64(huge))
    for proto in (expand, tiled, filled, padded, counted):
        (refusal,) = anydml.onnx.load(proto).check()
        assert refusal.kind == INVALID, refusal
    wide = anydml.onnx.load(model_of([node("Relu", "x", "y")], [info("x", ["n"])], [info("y", 1)]))
    with pytest.raises(anydml.onnx.ModelError, match="are too many elements"):
        wide.graph(n=2**63 - 1)


def test_models_of_too_many_nodes_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nodes are counted during reading: functions that call each other twice have many."""
    functions = []
    for level in range(20):
        inner = ("Relu", "") if level == 0 else (f"F{level - 1}", "own")
        nodes = [helper.make_node(inner[0], [a], [b], domain=inner[1]) for a, b in (("a", "t"), ("t", "b"))]
        opsets = [helper.make_opsetid("", 17), helper.make_opsetid("own", 1)]
        functions.append(helper.make_function("own", f"F{level}", ["a"], ["b"], nodes, opsets))
    proto = model_of([helper.make_node("F19", ["x"], ["y"], domain="own")], [info("x", [1])], [info("y", 1)])
    proto.functions.extend(functions)
    proto.opset_import.append(helper.make_opsetid("own", 1))
    long = [helper.make_node("Identity", [f"t{i}"], [f"t{i + 1}"]) for i in range(MOST_NODES + 1)]
    chain = model_of(long, [info("t0", [1])], [info(f"t{MOST_NODES + 1}", 1)])
    monkeypatch.setattr(build, "MOST_NODES", 500)
    (refusal,) = anydml.onnx.load(proto).check()
    assert refusal.reason == "the model has more than 500 nodes, with those of functions"
    with pytest.raises(anydml.onnx.ModelError, match=f"the model has {MOST_NODES + 1} nodes; {MOST_NODES} at most are read"):
        anydml.onnx.load(chain)
