"""The report of a quantised model: its figures beside NumPy's, what saturates, what would be better, and the command."""

from __future__ import annotations

import json
import math
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
from anydml.cli.main import commands
from anydml.onnx import load
from anydml.onnx.report_page import report_page
from anydml.onnx.reporting import Layer, Report, decibels, report, sqnr
from every_kernel import SOAK

Array = npt.NDArray[Any]
DIGITS = Path(__file__).parents[2] / "examples" / "digits"
value = helper.make_tensor_value_info
RANDOM = np.random.default_rng(11)
X = RANDOM.standard_normal((64, 8)).astype(np.float32)
W = (RANDOM.standard_normal((8, 6)) * np.array([1, 1, 1, 1, 1, 0.01])).astype(np.float32)


def model(nodes: list[Any], constants: dict[str, Array]) -> ModelProto:
    held = [numpy_helper.from_array(np.asarray(x), name) for name, x in constants.items()]
    graph = helper.make_graph(nodes, "g", [value("x", TensorProto.FLOAT, [64, 8])], [value("y", TensorProto.FLOAT, None)], held)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


FLOAT = model(
    [helper.make_node("MatMul", ["x", "w"], ["h"], "product"), helper.make_node("Relu", ["h"], ["y"], "relu")], {"w": W}
)
STEP, WEIGHT_STEP, CLIP = np.float32(X.max() / 127), np.float32(np.abs(W).max() / 127), np.float32(3 / 255)


def quantised() -> ModelProto:
    """The product of integers, clamped to 0 to 3, where some results are larger."""
    make = helper.make_node
    nodes = [
        make("QuantizeLinear", ["x", "x_scale", "zero"], ["x_q"]),
        make("QLinearMatMul", ["x_q", "x_scale", "zero", "w_q", "w_scale", "zero", "y_scale", "least"], ["y_q"]),
        make("DequantizeLinear", ["y_q", "y_scale", "least"], ["y"]),
    ]
    constants: dict[str, Any] = {
        "x_scale": STEP, "zero": np.int8(0), "w_q": np.rint(W / WEIGHT_STEP).astype(np.int8), "w_scale": WEIGHT_STEP,
        "y_scale": CLIP, "least": np.uint8(0),
    }  # fmt: skip
    return model(nodes, constants)


def ratio(x: Array, y: Array) -> float:
    return float(10 * np.log10(np.sum(x.astype(float) ** 2) / np.sum((x.astype(float) - y) ** 2)))


def test_the_figures_are_those_of_the_definition() -> None:
    found = report(quantised(), FLOAT, {"x": X})
    first, last = found.layers
    assert (first.name, first.operator, first.tensor, first.bits) == ("x", "input", "x_q", 8)
    assert (last.name, last.operator, last.tensor) == ("relu", "Relu", "y_q")
    y = np.maximum(X.astype(float) @ W, 0).astype(np.float32)
    assert first.own == pytest.approx(ratio(X, np.clip(np.rint(X / STEP), -128, 127) * STEP), abs=1e-3)
    assert last.own == pytest.approx(ratio(y, np.clip(np.rint(y / CLIP), 0, 255) * CLIP), abs=1e-3)
    assert first.low == pytest.approx(np.mean(X < -128.5 * STEP))
    assert last.low == 0
    assert last.high == pytest.approx(np.mean(y > 3 + CLIP / 2))
    assert last.high > 0.05
    assert last.weights == pytest.approx(ratio(W, np.rint(W / WEIGHT_STEP) * WEIGHT_STEP), abs=1e-3)
    assert last.by_channel is not None
    assert last.weights is not None
    assert last.by_channel > last.weights
    made = load(quantised()).run({"x": X})["y"]
    assert found.outputs == pytest.approx(ratio(y, made), abs=1e-3)
    assert found.together == pytest.approx(found.outputs, abs=1.5)
    assert found.wider is not None
    assert found.wider > found.outputs + 6  # nothing saturates then
    assert [layer.name for layer in found.worst] == ["relu", "x"]
    assert last.alone < first.alone
    said = str(found)
    assert said.startswith(f"The outputs have an SQNR of {decibels(found.outputs)}; ")
    assert f"More than 1 % of the elements saturate in relu ({100 * last.high:.2g} %)" in said


@pytest.mark.parametrize("turned", [False, True])
def test_gemm_addition_and_multiplication_of_onnxruntime_are_layers(turned: bool) -> None:
    """y = (x W + c + b) * f, where QGemm adds c in units of both scales, QLinearAdd b and QLinearMul f."""
    make = helper.make_node
    random = np.random.default_rng(12)
    c = random.standard_normal(6).astype(np.float32)
    b, f = (random.standard_normal((64, 6)).astype(np.float32) for _ in "bf")
    floats = model(
        [
            make("Gemm", ["x", "w", "c"], ["h"], "gemm", transB=int(turned)),
            make("Add", ["h", "b"], ["s"], "sum"),
            make("Mul", ["s", "f"], ["y"], "factor"),
        ],
        {"w": np.ascontiguousarray(W.T) if turned else W, "c": c, "b": b, "f": f},
    )
    h = (X.astype(float) @ W + c).astype(np.float32)
    s = h + b
    y = s * f
    steps = {
        name: np.float32(np.abs(x).max() / 127) for name, x in {"x": X, "w": W, "b": b, "f": f, "h": h, "s": s, "y": y}.items()
    }
    whole = {name: np.clip(np.rint(x / steps[name]), -127, 127).astype(np.int8) for name, x in {"w": W, "b": b, "f": f}.items()}
    whole["w"] = np.ascontiguousarray(whole["w"].T) if turned else whole["w"]
    constants: dict[str, Any] = {f"{name}_scale": step for name, step in steps.items()} | {"zero": np.int8(0)}
    constants |= {f"{name}_q": q for name, q in whole.items()}
    constants["c_q"] = np.rint(c / (steps["x"] * steps["w"])).astype(np.int32)

    def of(name: str) -> list[str]:
        return [f"{name}_q", f"{name}_scale", "zero"]

    microsoft: dict[str, Any] = {"domain": "com.microsoft"}
    nodes = [
        make("QuantizeLinear", ["x", "x_scale", "zero"], ["x_q"]),
        make("QGemm", [*of("x"), *of("w"), "c_q", "h_scale", "zero"], ["h_q"], transB=int(turned), **microsoft),
        make("QLinearAdd", [*of("h"), *of("b"), "s_scale", "zero"], ["s_q"], **microsoft),
        make("QLinearMul", [*of("s"), *of("f"), "y_scale", "zero"], ["y_q"], **microsoft),
        make("DequantizeLinear", ["y_q", "y_scale", "zero"], ["y"]),
    ]
    integers = model(nodes, constants)
    integers.opset_import.append(helper.make_opsetid("com.microsoft", 1))
    found = report(integers, floats, {"x": X})
    layers = {layer.name: layer for layer in found.layers}
    assert list(layers) == ["x", "gemm", "sum", "factor"]
    assert [layer.tensor for layer in found.layers] == ["x_q", "h_q", "s_q", "y_q"]
    for name, exact in (("gemm", h), ("sum", s), ("factor", y)):
        step = steps["hsy"[("gemm", "sum", "factor").index(name)]]
        assert layers[name].own == pytest.approx(ratio(exact, np.clip(np.rint(exact / step), -128, 127) * step), abs=1e-2)
    stored = whole["w"].T if turned else whole["w"]
    assert layers["gemm"].weights == pytest.approx(ratio(W, stored * steps["w"]), abs=1e-3)
    assert layers["gemm"].by_channel is not None
    made = load(integers).run({"x": X})["y"]
    assert found.outputs == pytest.approx(ratio(y, made), abs=1e-3)


def test_a_single_number_is_no_weight_of_a_layer() -> None:
    make = helper.make_node
    step, factor = np.float32(np.abs(X).max() / 127), np.float32(0.75)

    def of(name: str) -> list[str]:
        return [f"{name}_q", f"{name}_scale", "zero"]

    floats = model([make("Mul", ["x", "f"], ["y"], "factor")], {"f": factor})
    nodes = [
        make("QuantizeLinear", ["x", "x_scale", "zero"], ["x_q"]),
        make("QLinearMul", [*of("x"), *of("f"), "y_scale", "zero"], ["y_q"], domain="com.microsoft"),
        make("DequantizeLinear", ["y_q", "y_scale", "zero"], ["y"]),
    ]
    steps = {"x_scale": step, "f_scale": np.float32(0.01), "y_scale": step * factor}
    integers = model(nodes, {**steps, "f_q": np.int8(75), "zero": np.int8(0)})
    integers.opset_import.append(helper.make_opsetid("com.microsoft", 1))
    *_, last = report(integers, floats, {"x": X}).layers
    assert (last.name, last.weights) == ("factor", None)


def test_what_is_no_quantised_model_of_the_float_model_is_refused() -> None:
    with pytest.raises(dml.BindingError, match="no quantised tensor of the model has the values of a tensor"):
        report(FLOAT, FLOAT, {"x": X})


def test_ratios() -> None:
    x = np.array([1.0, 2.0])
    assert sqnr(x, x) == math.inf
    assert sqnr(x, x * 1.1) == pytest.approx(20)
    assert sqnr(np.zeros(2), x) == -math.inf
    assert (decibels(math.inf), decibels(31.25)) == ("exact", "31.2 dB")


@pytest.mark.parametrize("name", ["cnn-qdq"] if SOAK == 1 else ["cnn-qlinear", "cnn-qdq"])
def test_layers_of_a_network_are_found_by_their_values(name: str) -> None:
    image = (np.random.default_rng(5).integers(0, 17, (20, 1, 8, 8)) / 16).astype(np.float32)
    found = report(DIGITS / f"{name}.onnx", DIGITS / "cnn.onnx", {"image": image})
    assert [layer.name for layer in found.layers] == ["image", "relu1", "relu2", "logits"]
    assert [layer.weights is None for layer in found.layers] == [True, False, False, False]
    assert found.by_channel is None  # they have a scale for each channel already
    assert 30 < found.outputs < 45
    assert abs(found.together - found.outputs) < 3


def run(*arguments: str) -> tuple[int, str]:
    done = CliRunner().invoke(commands, arguments, standalone_mode=False)
    if done.exception is not None:
        raise done.exception
    return done.return_value, done.stdout


def test_the_command_prints_a_table_and_writes_a_page(tmp_path: Path) -> None:
    onnx.save(quantised(), tmp_path / "int8.onnx")
    onnx.save(FLOAT, tmp_path / "float.onnx")
    np.save(tmp_path / "x.npy", X)
    options = [f"{tmp_path}/int8.onnx", "--float", f"{tmp_path}/float.onnx", "--input", f"x={tmp_path}/x.npy"]
    status, said = run("report", *options, "--html", f"{tmp_path}/page.html")
    assert status == 0
    assert "relu (Relu)" in said
    page = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert page.count('class="bar"') == 2
    assert "int8.onnx beside float.onnx" in page
    found = json.loads(run("report", *options, "--json")[1])
    assert [layer["name"] for layer in found["layers"]] == ["x", "relu"]
    assert found["worst"] == ["relu", "x"]
    with pytest.raises(click.UsageError, match="The model reads x"):
        run("report", *options[:3])


def test_the_page_takes_exact_layers_and_escapes_names() -> None:
    layer = Layer("<l>", "Relu", "t", 16, math.inf, 3.0, 0.0, 0.0, 1.0, None, None, None, math.inf)
    text = report_page(Report((layer,), 1.0, 1.0, None, None), "<a>", "b")
    assert "&lt;l&gt; (Relu)" in text
    assert "exact" in text
    assert "<a>" not in text
