"""Nodes that a runtime fuses between DequantizeLinear and QuantizeLinear: the fault of its integers is named."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

pytest.importorskip("onnx")
from onnx import ModelProto, TensorProto, helper, numpy_helper

from anydml import deviations
from anydml.onnx import load
from anydml.onnx.comparing import compare

Array = npt.NDArray[Any]
F32 = np.float32
Scales = tuple[float, float, float]
SEGMENT = ("product", "relu", "y")


def qdq(product: str, scales: Scales, weight: Array, *, bias: bool, zero: int = 0, relu: bool = True) -> ModelProto:
    """A model that quantises x, multiplies it by a weight, and quantises the product; bias: of a convolution."""
    constants: dict[str, Any] = {
        **{name: F32(s) for name, s in zip(("xs", "ws", "ys"), scales, strict=True)},
        **dict(xz=np.uint8(3), wz=np.int8(0), yz=np.uint8(zero), w=weight),
    }
    nodes = [
        helper.make_node("DequantizeLinear", ["x", "xs", "xz"], ["x_real"], "x_real"),
        helper.make_node("DequantizeLinear", ["w", "ws", "wz"], ["w_real"], "w_real"),
    ]
    reads = ["x_real", "w_real"]
    if bias:
        constants |= dict(b=np.arange(-2, len(weight) - 2, dtype=np.int32), bs=F32(scales[0]) * F32(scales[1]))
        nodes.append(helper.make_node("DequantizeLinear", ["b", "bs"], ["b_real"], "b_real"))
        reads.append("b_real")
    nodes.append(helper.make_node(product, reads, ["product"], "product"))
    if relu:
        nodes.append(helper.make_node("Relu", ["product"], ["relu"], "relu"))
    nodes.append(helper.make_node("QuantizeLinear", ["relu" if relu else "product", "ys", "yz"], ["y"], "y"))
    shape = [6, 1, 5, 5] if product == "Conv" else [40, weight.shape[0]]
    made = [6, len(weight), 3, 3] if product == "Conv" else [40, weight.shape[1]]
    graph = helper.make_graph(
        nodes,
        "segment",
        [helper.make_tensor_value_info("x", TensorProto.UINT8, shape)],
        [helper.make_tensor_value_info("y", TensorProto.UINT8, made)],
        [numpy_helper.from_array(np.asarray(x), name) for name, x in constants.items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def accumulators(model: ModelProto, x: Array) -> Array:
    """The integer sums: the same model with scales of 1, without RELU, in float32, which represents them exactly."""
    weight = next(numpy_helper.to_array(t) for t in model.graph.initializer if t.name == "w")
    bias = any(t.name == "b" for t in model.graph.initializer)
    product = next(n.op_type for n in model.graph.node if n.name == "product")
    ones = qdq(product, (1, 1, 1), weight, bias=bias, relu=False)
    return load(ones).run(x=x, keep="all")["product"].astype(np.int64)


def requantised(model: ModelProto, x: Array, scales: Scales, deviation: str) -> Array:
    made = getattr(deviations, deviation)(
        accumulators(model, x), *(np.array([s], F32) for s in scales), np.array([0], np.uint8), output_data_type=np.uint8
    )
    return np.asarray(made, np.uint8)


@pytest.mark.parametrize("product", ["Conv", "MatMul"])
@pytest.mark.parametrize(
    ("deviation", "scales"),
    [
        # ties in integers; the float operators have none, since they round 0.1 x first
        ("exact_requantisation", (0.1, 0.5, 0.1)),
        ("half_away_from_zero", (0.1, 0.5, 0.1)),
        ("float32_requantisation", (0.3, 0.3, 0.2)),
        ("fixed_point_double_rounding", (0.3, 0.3, 0.2)),
    ],
)
def test_the_deviation_of_a_fused_segment_is_named(product: str, deviation: str, scales: Scales) -> None:
    rng = np.random.default_rng(3)
    weight = rng.integers(-4, 5, (7, 1, 3, 3) if product == "Conv" else (9, 7)).astype(np.int8)
    model = qdq(product, scales, weight, bias=product == "Conv")
    x = rng.integers(0, 12, [d.dim_value for d in model.graph.input[0].type.tensor_type.shape.dim]).astype(np.uint8)
    y = requantised(model, x, scales, deviation)
    found = compare(model, {"x": x}, actual={"y": y, "x_real": load(model).run(x=x, keep="all")["x_real"]})
    (row,) = [row for row in found.nodes if row.nodes == SEGMENT]
    assert row.departs, "the segment gives what the integers do"
    assert row.verdict == "rounding"
    assert row.deviation == ("integer_product" if deviation == "exact_requantisation" else deviation), str(row)
    integer = {"Conv": "QLinearConv", "MatMul": "QLinearMatMul"}[product]
    assert f"a {integer} " in row.cause
    assert row.cause.endswith(f"in {y.size} of {y.size} outputs")


def test_rounding_in_integers_explains_no_step_more() -> None:
    rng = np.random.default_rng(5)
    scales = (0.3, 0.3, 0.2)
    model = qdq("MatMul", scales, rng.integers(-4, 5, (9, 7)).astype(np.int8), bias=False)
    x = rng.integers(0, 12, (40, 9)).astype(np.uint8)
    y = requantised(model, x, scales, "fixed_point_double_rounding")
    y[3, 2] += 2
    (row,) = compare(model, {"x": x}, actual={"y": y}).nodes
    assert row.verdict == "beyond rounding"


@pytest.mark.parametrize(("zero", "relu", "named"), [(5, True, False), (5, False, True), (0, True, True)])
def test_relu_is_what_saturates_at_the_lowest_zero_point_alone(zero: int, relu: bool, named: bool) -> None:
    rng = np.random.default_rng(4)
    model = qdq("MatMul", (0.1, 0.5, 0.1), rng.integers(-4, 5, (9, 7)).astype(np.int8), bias=False, zero=zero, relu=relu)
    x = rng.integers(0, 12, (40, 9)).astype(np.uint8)
    sums = accumulators(model, x)
    y = np.clip(np.rint(np.maximum(sums, 0) / 2 if relu else sums / 2) + zero, 0, 255).astype(np.uint8)
    found = compare(model, {"x": x}, actual={"y": y})
    (row,) = found.nodes
    assert row.departs
    assert (row.deviation == "integer_product") == named, str(row)


@pytest.mark.parametrize("level", [0, 4])
def test_activations_of_8_bits_are_rounding_where_a_node_allows_them(level: int) -> None:
    """MatMulNBits with blocks of 16: of the activations' blocks, each has a scale, as onnxruntime computes at level 4."""
    rng = np.random.default_rng(6)
    b, scales = rng.integers(0, 256, (5, 4, 8)).astype(np.uint8), rng.uniform(0.01, 0.02, 20).astype(F32)
    node = helper.make_node(
        "MatMulNBits", ["a", "b", "s"], ["y"], "product", domain="com.microsoft", K=64, N=5, bits=4, block_size=16,
        accuracy_level=level,
    )  # fmt: skip
    graph = helper.make_graph(
        [node],
        "bits",
        [helper.make_tensor_value_info("a", TensorProto.FLOAT, [6, 64])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [6, 5])],
        [numpy_helper.from_array(x, name) for name, x in (("b", b), ("s", scales))],
    )
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)]
    model = helper.make_model(graph, opset_imports=opsets, ir_version=8)
    a = rng.standard_normal((6, 64)).astype(F32)
    blocks = a.reshape(6, 4, 16)
    steps = np.abs(blocks).max(-1, keepdims=True) / F32(127)
    rounded = (np.rint(blocks / steps) * steps).reshape(6, 64)
    nibbles = np.stack([b & 15, b >> 4], -1).reshape(5, 4, 16).astype(F32) - F32(8)
    weights = (nibbles * scales.reshape(5, 4, 1)).reshape(5, 64)
    (row,) = compare(model, {"a": a}, actual={"y": rounded @ weights.T}).nodes
    assert row.deviation == "int8_activations"
    assert row.verdict == ("rounding" if level else "beyond rounding")
    if level:
        assert "rounding explains all of them, with A quantised to int8 in blocks of 16" in str(row)


def segment(
    operator: str, scales: tuple[float, float], constants: dict[str, Any], **attributes: Any
) -> tuple[ModelProto, Array]:
    """A model that dequantises its inputs, computes one operator, and quantises the result; and its random input."""
    rng = np.random.default_rng(8)
    x = rng.integers(110, 130, (20, 9) if operator == "Gemm" else (2, 3, 6, 6)).astype(np.uint8)
    given = dict(xs=F32(scales[0]), xz=np.uint8(120), ys=F32(scales[1]), yz=np.uint8(130), **constants)
    nodes = [helper.make_node("DequantizeLinear", ["x", "xs", "xz"], ["x_real"], "x_real")]
    for name in ("w", "b"):
        if name in constants:
            reads = [part for part in (name, f"{name}s", f"{name}z") if part in given]
            nodes.append(helper.make_node("DequantizeLinear", reads, [f"{name}_real"], f"{name}_real"))
    read = ["x_real", *(f"{name}_real" for name in ("w", "b") if name in constants)]
    nodes.append(helper.make_node(operator, read, ["product"], "product", **attributes))
    nodes.append(helper.make_node("QuantizeLinear", ["product", "ys", "yz"], ["y"], "y"))
    graph = helper.make_graph(
        nodes,
        "segment",
        [helper.make_tensor_value_info("x", TensorProto.UINT8, x.shape)],
        [helper.make_empty_tensor_value_info("y")],
        [numpy_helper.from_array(np.asarray(x), name) for name, x in given.items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), x


def gemm() -> tuple[ModelProto, Array, Array]:
    rng = np.random.default_rng(9)
    w, b = rng.integers(-4, 5, (7, 9)).astype(np.int8), rng.integers(-9, 10, 7).astype(np.int32)
    constants = dict(w=w, ws=F32(0.3), wz=np.int8(0), b=b, bs=F32(0.3) * F32(0.3))
    model, x = segment("Gemm", (0.3, 0.2), constants, transB=1)
    sums = (x.astype(np.int64) - 120) @ w.T.astype(np.int64) + b
    return (
        model,
        x,
        deviations.fixed_point_double_rounding(sums, F32(0.3), F32(0.3), F32(0.2), 130, output_data_type=np.uint8),
    )


def added() -> tuple[ModelProto, Array, Array]:
    b = np.random.default_rng(10).integers(0, 256, (2, 3, 6, 6)).astype(np.uint8)
    model, x = segment("Add", (0.1, 0.4), dict(w=b, ws=F32(0.2), wz=np.uint8(7)))
    y = deviations.fixed_point_addition(
        x, F32(0.1), np.uint8(120), b, F32(0.2), np.uint8(7), F32(0.4), np.uint8(130), output_data_type=np.uint8
    )
    return model, x, y


def pooled() -> tuple[ModelProto, Array, Array]:
    model, x = segment("AveragePool", (0.03, 0.05), {}, kernel_shape=[3, 3], pads=[1, 1, 1, 1])
    padded = np.pad(x.astype(np.int64) - 120, ((0, 0), (0, 0), (1, 1), (1, 1)))
    sums = np.lib.stride_tricks.sliding_window_view(padded, (3, 3), axis=(2, 3)).sum(axis=(-2, -1))
    y = np.clip(np.rint(sums * (F32(0.03) / F32(0.05)) / 9) + 130, 0, 255).astype(np.uint8)  # padding is counted
    return model, x, y


@pytest.mark.parametrize(
    ("made", "operator", "deviation", "verdict"),
    [
        (gemm, "QGemm", "fixed_point_double_rounding", "rounding"),
        (added, "QLinearAdd", "fixed_point_addition", "rounding"),
        (pooled, "QLinearAveragePool", "padding_counted", "beyond rounding"),
    ],
)
def test_other_segments_are_judged_as_integer_nodes(made: Any, operator: str, deviation: str, verdict: str) -> None:
    model, x, y = made()
    found = compare(model, {"x": x}, actual={"y": y})
    (row,) = (row for row in found.nodes if "product" in row.nodes)
    assert row.departs
    assert (row.deviation, row.verdict) == (deviation, verdict), str(row)
    assert f"a {operator} with " in row.cause
    assert row.cause.endswith(f"in {y.size} of {y.size} outputs")
