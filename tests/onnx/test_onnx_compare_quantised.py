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
    assert row.deviation == ("integer_product" if deviation == "exact_requantisation" else deviation), str(row)
    integer = {"Conv": "QLinearConv", "MatMul": "QLinearMatMul"}[product]
    assert f"a {integer} " in row.cause
    assert row.cause.endswith(f"in {y.size} of {y.size} outputs")


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
