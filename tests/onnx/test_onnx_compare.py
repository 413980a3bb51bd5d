"""Comparison by node: injected faults are located and named; fusions of a runtime; tensors recorded elsewhere."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click
import numpy as np
import numpy.typing as npt
import onnx
import pytest
from click.testing import CliRunner
from onnx import ModelProto, TensorProto, helper, numpy_helper

import anydml as dml
from anydml.cli import compare_models
from anydml.cli.main import commands
from anydml.onnx.compare_models import cut
from anydml.onnx.compare_page import page as page_of
from anydml.onnx.compare_results import BEYOND, EQUAL, ROUNDING, Deviation, ModelComparison, NodeComparison
from anydml.onnx.compare_runtimes import recorded
from anydml.onnx.comparing import compare
from every_kernel import SOAK, Ran
from faulty_networks import NODES, followed, network, tensors, with_fault

Array = npt.NDArray[Any]
DIGITS = Path(__file__).parents[2] / "examples" / "digits"
NAMES = {"saturation": "pair_saturation", "float32": "float32_requantisation", "weight": "changed_weight"}


def node_of(model: ModelProto, name: str) -> onnx.NodeProto:
    found: onnx.NodeProto = next(node for node in model.graph.node if node.name == name)
    return found


def other_weight(model: ModelProto, name: str, random: np.random.Generator) -> ModelProto:
    """The model with one weight of a node changed, by at least a tenth of the largest weight."""
    made = ModelProto()
    made.CopyFrom(model)
    tensor = next(t for t in made.graph.initializer if t.name == f"{name}.weight")
    weights = numpy_helper.to_array(tensor).copy()
    flat = weights.reshape(-1)
    at = int(random.integers(flat.size))
    if weights.dtype == np.int8:
        flat[at] = random.choice([w for w in range(-127, 128) if abs(w - int(flat[at])) > 12])
    else:
        flat[at] += np.abs(flat).max() * random.choice([-1, 1]) * random.uniform(0.1, 1)
    tensor.CopyFrom(numpy_helper.from_array(weights, tensor.name))
    return made


def test_the_faults_are_none_where_nothing_is_at_fault() -> None:
    model, inputs = network(np.random.default_rng(1), 4)
    known = tensors(model, inputs)
    for name in NODES:
        for channels_last in (False, True):
            made = with_fault(model, node_of(model, name), known | inputs, "none", channels_last)
            np.testing.assert_array_equal(made, known[name])


@pytest.mark.parametrize("fault", NAMES)
def test_injected_faults_are_located_and_named(fault: str, ran: Ran) -> None:
    random = np.random.default_rng([7, *fault.encode()])
    cases = tried = 0
    wanted = min(100, 3 * SOAK)
    while cases < wanted and tried < 40 * wanted:
        tried += 1
        # with few images, a wrong weight may explain one output of them by chance
        model, inputs = network(random, 72 if fault == "weight" else 24)
        name = str(random.choice(NODES))
        known = tensors(model, inputs)
        if fault == "weight":
            output = tensors(other_weight(model, name, random), inputs)[name]
        else:
            output = with_fault(model, node_of(model, name), known | inputs, fault, bool(random.integers(2)))
        if np.array_equal(output, known[name]):
            continue
        cases += 1
        found = compare(model, inputs, actual=followed(model, known, name, output))
        assert found.first is not None
        assert found.first.name == name, str(found)
        assert found.first.deviation == NAMES[fault], str(found)
        assert [row.name for row in found.nodes if row.departs] == [name]
        assert found.first.verdict == (ROUNDING if fault == "float32" else BEYOND), str(found)
    ran(cases, wanted)


@pytest.mark.parametrize("network", ["cnn", "encoder"])
def test_a_changed_weight_of_a_float_network_is_located(network: str, ran: Ran) -> None:
    random = np.random.default_rng(3)
    model = onnx.load(DIGITS / f"{network}.onnx")
    nodes = {
        "cnn": {"conv1": "conv1", "conv2": "conv2", "classify": "logits"},
        "encoder": {"attended": "attended", "inner": "inner_product"},
    }[network]
    cases = 0
    for weight, node in [*nodes.items()] * SOAK:
        inputs = {"image": random.uniform(0, 1, (3, *(1, 8, 8)[-3 if network == "cnn" else -2 :])).astype(np.float32)}
        actual, exact = tensors(other_weight(model, weight, random), inputs), tensors(model, inputs)
        if all(np.array_equal(actual[name], exact[name]) for name in exact):
            continue  # the weight of an element that is 0 in all images
        found = compare(model, inputs, actual=actual)
        assert found.first is not None
        assert (found.first.name, found.first.deviation, found.first.verdict) == (node, "changed_weight", BEYOND), str(found)
        assert sum(row.departs for row in found.nodes) == 1
        cases += 1
    ran(cases, 2)


def exactly(model: ModelProto, inputs: Mapping[str, Array]) -> dict[str, Array]:
    from anydml.onnx.model import load

    return load(model).run(inputs)


def test_an_exact_runtime_is_equal_everywhere() -> None:
    image = np.random.default_rng(0).uniform(0, 1, (2, 1, 8, 8)).astype(np.float32)
    found = compare(DIGITS / "cnn-qlinear.onnx", {"image": image}, run=exactly)
    assert found.equal
    assert found.first is None
    assert str(found) == "All 8 nodes that were judged are exact"
    assert {row.verdict for row in found.nodes} == {"equal"}
    assert found.to_dict()["equal"]


def chain() -> ModelProto:
    """y = relu(x * 0.1 + 0.7) * 3 as five nodes."""
    nodes = [
        helper.make_node("Mul", ["x", "tenth"], ["a"], "scale"),
        helper.make_node("Add", ["a", "more"], ["b"], "shift"),
        helper.make_node("Relu", ["b"], ["c"], "clip"),
        helper.make_node("Mul", ["c", "three"], ["y"], "triple"),
    ]
    constants = {"tenth": 0.1, "more": 0.7, "three": 3.0}
    graph = helper.make_graph(
        nodes,
        "chain",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["N"])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["N"])],
        [numpy_helper.from_array(np.float32(v), name) for name, v in constants.items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


X = np.linspace(-9, 9, 101, dtype=np.float32)


def fusing(off: float = 0.0) -> Any:
    """A runtime that computes `shift` from x in one step, unless `a` is requested, with an error of `off`."""
    calls: list[list[str]] = []

    def run(model: ModelProto, inputs: Mapping[str, Array]) -> dict[str, Array]:
        asked = [t.name for t in model.graph.output]
        calls.append(asked)
        made = tensors(model, inputs) | exactly(model, inputs)
        if "a" not in asked:
            made["b"] = (inputs["x"] * np.float64(np.float32(0.1)) + np.float64(np.float32(0.7)) + off).astype(np.float32)
            made["c"] = np.maximum(made["b"], np.float32(0))
            made["y"] = made["c"] * np.float32(3)
        return {name: made[name] for name in asked}

    return run, calls


def test_a_fusion_that_gives_other_numbers_is_named_and_judged_as_one() -> None:
    run, calls = fusing()
    found = compare(chain(), {"x": X}, run=run)
    assert [row.nodes for row in found.nodes] == [("scale", "shift"), ("clip",), ("triple",)]
    assert [row.verdict for row in found.nodes] == [ROUNDING, "equal", "equal"]
    assert found.notes[0] == "The other runtime's fusion of scale..shift gives other numbers"
    assert "1 tensor changes the model's outputs" in found.notes[1]
    assert calls[0] == ["y"]
    assert calls[1] == ["y", "a", "b", "c"]


def test_a_wrong_fusion_is_beyond_rounding() -> None:
    found = compare(chain(), {"x": X}, run=fusing(1e-5)[0])
    assert found.first is not None
    assert found.first.name == "scale..shift"
    assert found.first.verdict == BEYOND


def test_tensors_recorded_elsewhere_are_read_from_files(tmp_path: Path) -> None:
    model = chain()
    known = tensors(model, {"x": X})
    np.save(tmp_path / "a.npy", known["a"])
    (tmp_path / "out.pb").write_bytes(numpy_helper.from_array(known["y"] + np.float32(1), "y").SerializeToString())
    np.save(tmp_path / "stranger.npy", X)
    found = compare(model, {"x": X}, actual=recorded(tmp_path))
    assert [row.nodes for row in found.nodes] == [("scale",), ("shift", "clip", "triple")]
    assert [row.verdict for row in found.nodes] == ["equal", BEYOND]
    assert found.notes == (
        "The model has no tensors stranger",
        "2 of 4 tensors were not recorded; nodes around them are judged as one",
    )


def test_a_runtime_may_return_a_list_in_the_models_order() -> None:
    def listed(model: onnx.ModelProto, inputs: Mapping[str, Any]) -> list[Any]:
        return [tensors(model, inputs)[output.name] for output in model.graph.output]

    assert compare(chain(), {"x": X}, run=listed).equal
    with pytest.raises(dml.BindingError, match="y: is missing among the other runtime's outputs"):
        compare(chain(), {"x": X}, run=lambda *_: [])


def test_a_number_that_a_branch_takes_from_around_it_has_no_dimensions() -> None:
    value = helper.make_tensor_value_info
    branches = [
        helper.make_graph([helper.make_node(operator, ["k"], ["o"])], "branch", [], [value("o", TensorProto.FLOAT, [])])
        for operator in ("Abs", "Neg")
    ]
    node = helper.make_node("If", ["c"], ["y"], then_branch=branches[0], else_branch=branches[1])
    graph = helper.make_graph(
        [node], "one", [value("c", TensorProto.BOOL, [])], [value("y", TensorProto.FLOAT, [])],
        [helper.make_tensor("k", TensorProto.FLOAT, [], [2.0])],
    )  # fmt: skip
    proto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    values = {"c": np.array(True), "k": np.array(2, np.float32)}
    made, given = cut(proto, [node], values, ["k"], ["y"])
    assert [tuple(t.dims) for t in made.graph.initializer] == [()]
    assert list(given) == ["c"]


def test_what_does_not_fit_is_named(tmp_path: Path) -> None:
    model = chain()
    array: Any = X  # instead of names
    with pytest.raises(TypeError, match="either run="):
        compare(model, {"x": X})
    with pytest.raises(dml.BindingError, match=r"y: is float64 \(101,\), and must be float32 \(101,\)"):
        compare(model, {"x": X}, run=lambda *_: {"y": X.astype(np.float64)})
    with pytest.raises(dml.BindingError, match="y: is missing among the other runtime's outputs"):
        compare(model, {"x": X}, run=lambda *_: {})
    with pytest.raises(TypeError, match=r"a model takes inputs by name, a dict such as {'x': array}, not ndarray"):
        compare(model, array, run=lambda *_: {})
    with pytest.raises(TypeError, match="run returns outputs by name"):
        compare(model, {"x": X}, run=lambda *_: array)
    with pytest.raises(TypeError, match="actual takes tensors by name"):
        compare(model, {"x": X}, actual=array)
    with pytest.raises(dml.BindingError, match="none of its tensors"):
        compare(model, {"x": X}, actual={"z": X})
    with pytest.raises(dml.BindingError, match="x: is an input of the model"):
        compare(model, {}, actual={"y": X})
    (tmp_path / "bad.npy").write_bytes(b"no array")
    (tmp_path / "bad.pb").write_bytes(b"\xff\xff\xff")
    with pytest.raises(dml.BindingError) as refused:
        recorded(tmp_path)
    assert len(refused.value.faults) == 2
    with pytest.raises(dml.BindingError, match="is neither a folder nor a file"):
        recorded(tmp_path / "missing")


def onnxruntime_on(name: str, images: int = 20) -> ModelComparison:
    pytest.importorskip("onnxruntime")
    from anydml.onnx.compare_runtimes import onnxruntime

    shape = (images, 8, 8) if name == "encoder" else (images, 1, 8, 8)
    image = (np.random.default_rng(5).integers(0, 17, shape) / 16).astype(np.float32)
    return compare(DIGITS / f"{name}.onnx", {"image": image}, run=onnxruntime)


@pytest.mark.parametrize("name", ["cnn", "encoder"])
def test_rounding_explains_what_onnxruntime_computes_in_float32(name: str) -> None:
    found = onnxruntime_on(name)
    assert {row.verdict for row in found.nodes} <= {"equal", ROUNDING}, str(found)
    assert all(row.own is not None for row in found.nodes)


def test_what_departs_in_onnxruntime_s_integers_is_explained() -> None:
    """On a processor without 8-bit dot products, the cause is saturation in 16 bits."""
    found = onnxruntime_on("cnn-qlinear")
    for row in found.nodes:
        if row.verdict == BEYOND:
            assert row.deviation == "pair_saturation", str(row)


# --- the command line and the page ---


def command(*arguments: str) -> tuple[int, str, str]:
    done = CliRunner().invoke(commands, ["compare", *arguments], standalone_mode=False)
    if done.exception is not None and not isinstance(done.exception, click.UsageError):
        raise done.exception
    return done.return_value, done.stdout, str(done.exception or "")


def test_the_command_line_judges_recorded_tensors(tmp_path: Path) -> None:
    model, inputs, actual = tmp_path / "chain.onnx", tmp_path / "inputs", tmp_path / "actual"
    onnx.save(chain(), model)
    for folder, arrays in ((inputs, {"x": X}), (actual, tensors(chain(), {"x": X}))):
        folder.mkdir()
        for name, array in arrays.items():
            np.save(folder / f"{name}.npy", array)
    options = [str(model), "--actual", str(actual), "--inputs", str(inputs)]
    status, said, _ = command(*options)
    assert status == 0
    assert said.splitlines()[0].split() == ["node", "operator", "own", "error", "accumulated", "verdict"]
    assert said.splitlines()[-1] == "All 4 nodes that were judged are exact"
    np.save(actual / "c.npy", X * 2)
    page = tmp_path / "page.html"
    status, said, _ = command(*options, "--html", str(page), "--json")
    found = json.loads(said)
    assert status == 1
    assert found["first"] == "clip"
    assert [node["verdict"] for node in found["nodes"]] == ["equal", "equal", "beyond rounding", "beyond rounding"]
    text = page.read_text(encoding="utf-8")
    assert text.count('<rect class="box"') == 4
    assert text.count('<path class="edge"') == 3
    assert "chain.onnx by " in text


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["m.onnx"], "with a runtime (--against onnxruntime) or with recorded tensors"),
        (["m.onnx", "--against", "onnxruntime"], "A model needs inputs: --input NAME=FILE, or --inputs DIR, or --random SEED"),
        (["m.onnx", "--against", "onnxruntime", "--random", "0", "--resource", "r"], "are for programs"),
        (["M.ONNX", "--against", "onnxruntime", "--random", "0", "--resource", "r"], "are for programs"),
        (["program.json"], "Missing option '--resource'"),
        (["program.json", "--resource", "r"], "Missing option '--actual'"),
        (["program.json", "--resource", "r", "--actual", "a.npy", "--random", "1"], "are for models"),
    ],
)
def test_options_that_do_not_belong_together_are_refused(arguments: list[str], said: str) -> None:
    assert said in command(*arguments)[2]


def test_the_page_escapes_what_a_model_says() -> None:
    deviation = Deviation(4, 1, 2, "", 0, (0,), "<1>", "&")
    row = NodeComparison(("<b>&",), ("Add",), ("x",), ("y",), deviation, None, BEYOND, 1, "It equals <i>", "d")
    made = page_of(ModelComparison((row,), ("a <note>",)), "<model>", "&")
    assert "<b>" not in made
    assert "&lt;b&gt;&amp;" in made
    assert "<i>" not in made
    assert "<note>" not in made
    assert "<model>" not in made


def test_a_large_model_s_graph_has_a_box_for_each_block() -> None:
    rows = tuple(
        NodeComparison((f"n{i}",), (("Add", "Mul", "Relu")[i % 3],), (f"t{i}",), (f"t{i + 1}",), Deviation(1, 0), None, EQUAL)
        for i in range(600)
    )
    few, many = (page_of(ModelComparison(rows[:n]), "m", "o") for n in (30, 600))
    assert few.count('<rect class="box"') == 30
    assert many.count('<rect class="box"') == many.count('<details class="block" id=') == 200
    assert "<strong>block 200 of 200</strong>" in many
    assert many.count('<path class="edge"') == 199


def test_a_model_or_a_runtime_that_is_not_there_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = str(tmp_path / "m.onnx")
    with pytest.raises(dml.BindingError, match=r"m\.onnx cannot be read: there is no such file"):
        command(file, "--against", "onnxruntime", "--random", "1")
    onnx.save(chain(), file)
    monkeypatch.setattr(compare_models, "find_spec", lambda _: None)
    assert (
        "onnxruntime is not installed here: pip install onnxruntime."
        in command(file, "--against", "onnxruntime", "--random", "1")[2]
    )


def test_a_folded_normalisation_is_rounding_and_named() -> None:
    """A batch normalisation as scale and shift, as runtimes compute it, is rounding; with another epsilon, it is beyond
    rounding."""
    random = np.random.default_rng(3)
    x = (40 + random.standard_normal((1, 4, 6, 5))).astype(np.float32)
    parameters = [random.standard_normal(4), random.standard_normal(4), np.full(4, 40.5), random.uniform(0.5, 2, 4)]
    scale, bias, mean, variance = (p.astype(np.float32) for p in parameters)
    constants = {"scale": scale, "bias": bias, "mean": mean, "variance": variance}
    node = helper.make_node("BatchNormalization", ["x", *constants], ["y"], "norm", epsilon=1e-5)
    ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, x.shape) for name in "xy"]
    held = [numpy_helper.from_array(value, name) for name, value in constants.items()]
    model = helper.make_model(helper.make_graph([node], "it", ends[:1], ends[1:], held), ir_version=8)
    model.opset_import[0].version = 15

    def output(epsilon: float) -> Array:
        factor, channels = scale / np.sqrt(variance + np.float32(epsilon)), (1, 4, 1, 1)
        return np.asarray(x * factor.reshape(channels) + (bias - mean * factor).reshape(channels))

    found = compare(model, {"x": x}, actual={"y": output(1e-5)})
    (row,) = found.nodes
    assert row.verdict == ROUNDING
    assert row.forms == ("the normalisation folded into scale and shift",)
    assert "rounding explains all of them, with the normalisation folded into scale and shift" in str(row)
    assert "Explained by the normalisation folded into scale and shift." in page_of(found, "model", "it")
    assert found.to_dict()["nodes"][0]["forms"] == list(row.forms)
    assert "\n1 node is explained by the normalisation folded into scale and shift" in str(found)
    (row,) = compare(model, {"x": x}, actual={"y": output(1e-4)}).nodes
    assert row.verdict == BEYOND
