"""Forms of onnxruntime's operators that its own tests have: masks, orders of rows, empty texts; compared with its results on
CPU."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper
from test_onnx_contrib import Case, model_of, results

import anydml.onnx

R = np.random.default_rng(2718)
Array = Any


def f(*sizes: int, scale: float = 1.0) -> Array:
    return (R.normal(size=sizes) * scale).astype(np.float32)


def u8(*sizes: int) -> Array:
    return R.integers(0, 256, sizes).astype(np.uint8)


GROUPS = R.permutation(np.arange(40) // 16).astype(np.int32)
QUANTISED = (u8(1, 1, 5), np.float32(0.03), np.uint8(10), np.float32(0.0217), np.uint8(9))
ANGLES = R.uniform(0, 6, (16, 4))
TURNS = (np.cos(ANGLES).astype(np.float32), np.sin(ANGLES).astype(np.float32))


def grouped(a: Array, b: Array, scales: Array, zeros: Array, groups: Array) -> Array:
    """MatMulNBits with g_idx, for which onnxruntime on CPU takes only 4 bits, and ignores the zero points."""
    weights, zero = b.reshape(6, -1), zeros
    if b.shape[2] == 8:
        weights, zero = (np.stack([p & 15, p >> 4], -1).reshape(6, -1) for p in (weights, zeros))
    wide = (weights[:, :40].astype(float) - zero[:, groups]) * scales[:, groups]
    return (a.astype(float) @ wide.T).astype(np.float32)


CASES = [
    *(
        Case(
            "MatMulNBits", (f(3, 40), u8(6, 3, 16 * bits // 8), f(6, 3, scale=0.1), zeros, GROUPS), 1,
            dict(K=40, N=6, bits=bits, block_size=16), title=title, tolerance=1e-4,
            formula=grouped if zeros is not None else None,
        )
        for bits, zeros, title in ((4, None, "groups"), (4, u8(6, 2), "groups-zeros"), (8, u8(6, 3), "groups-bytes"))
    ),
    Case("Attention", (f(2, 5, 12), f(12, 24), f(24), np.ones((1, 1), np.int32)), 1, dict(num_heads=2), title="none"),
    Case("Attention", (f(2, 5, 12), f(12, 24), f(24), np.zeros((2, 1), np.int32)), 1, dict(num_heads=2), title="none-each"),
    Case("RotaryEmbedding", (f(2, 5, 24), R.integers(0, 16, (2, 5)), *TURNS), 1, dict(is_packed_batching=1), (0, 1)),
    Case("DynamicQuantizeMatMul", (f(0, 8), R.integers(-9, 9, (8, 5)).astype(np.int8), f(5)), title="empty"),
    *(
        Case("QLinearAveragePool", QUANTISED, 1, dict(auto_pad=mode, kernel_shape=[3], pads=[1, 2][: 2 * (not mode)] or [0, 0]))
        for mode in ("", "VALID")
    ),
]  # fmt: skip


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_forms(case: Case) -> None:
    (ours,), (theirs,) = results(case)
    assert (ours.dtype, ours.shape) == (theirs.dtype, theirs.shape)
    if theirs.dtype.kind == "f":
        np.testing.assert_allclose(ours, theirs, rtol=case.tolerance, atol=case.tolerance * np.abs(theirs).max(initial=1))
    else:
        assert np.abs(ours.astype(int) - theirs.astype(int)).max() <= 1


def test_one_that_keeps_nobody_from_a_key_is_no_mask() -> None:
    x = (f(2, 5, 12), f(12, 24), f(24))
    model = anydml.onnx.load(model_of(Case("Attention", (*x, np.zeros((2, 1), np.int32)), attributes=dict(num_heads=2))))
    plain = anydml.onnx.load(model_of(Case("Attention", x, attributes=dict(num_heads=2))))
    np.testing.assert_array_equal(model.run(x0=x[0])["y0"], plain.run(x0=x[0])["y0"])


def test_mask_of_every_place_has_the_rows_of_the_last_keys() -> None:
    x, w, b = f(1, 2, 4), f(4, 12), f(12)
    past, square = f(2, 1, 2, 2, 2), np.tril(np.ones((6, 6), np.int32))
    inputs = (x, w, b, square[None, None], past)
    square[3, 0] = 0
    whole = anydml.onnx.load(model_of(Case("Attention", inputs, attributes=dict(num_heads=2))))
    three = (x, w, b, square[None, 2:4, :4], past)
    part = anydml.onnx.load(model_of(Case("Attention", three, attributes=dict(num_heads=2))))
    np.testing.assert_array_equal(whole.run(x0=x)["y0"], part.run(x0=x)["y0"])


def test_gathers_along_the_dimension_that_is_in_blocks() -> None:
    x, scales, zeros = u8(2, 7, 3) % 16, f(2, 2, 3), u8(2, 2, 3) % 16
    packed = helper.make_tensor("x", TensorProto.UINT4, x.shape, x.ravel())
    zero = helper.make_tensor("zeros", TensorProto.UINT4, zeros.shape, zeros.ravel())
    at = np.array([[6, 0], [-1, 4]])
    node = helper.make_node(
        "GatherBlockQuantized", ["x", "at", "scales", "zeros"], ["y"], domain="com.microsoft", gather_axis=1, quantize_axis=1,
        block_size=4,
    )  # fmt: skip
    graph = helper.make_graph(
        [node], "one", [helper.make_tensor_value_info("at", TensorProto.INT64, at.shape)],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [2, 2, 2, 3])],
        [packed, zero, onnx.numpy_helper.from_array(scales, "scales")],
    )  # fmt: skip
    opsets = [helper.make_opsetid("", 21), helper.make_opsetid("com.microsoft", 1)]
    model = anydml.onnx.load(helper.make_model(graph, opset_imports=opsets, ir_version=10))
    blocks = np.arange(7) // 4
    wanted = ((x.astype(int) - zeros[:, blocks].astype(int)).astype(np.float32) * scales[:, blocks])[:, at]
    np.testing.assert_array_equal(model.run(at=at)["y"], wanted)


def test_layer_normalisation_has_the_type_of_its_scale() -> None:
    x, scale = f(3, 8).astype(np.float16), f(8)
    node = helper.make_node("LayerNormalization", ["x", "scale"], ["y"])
    graph = helper.make_graph(
        [node], "one", [helper.make_tensor_value_info("x", TensorProto.FLOAT16, x.shape)],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, x.shape)], [onnx.numpy_helper.from_array(scale, "scale")],
    )  # fmt: skip
    model = anydml.onnx.load(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 12)], ir_version=7))
    wide = x.astype(np.float64)
    wanted = (wide - wide.mean(1, keepdims=True)) / np.sqrt(wide.var(1, keepdims=True) + 1e-5) * scale
    found = model.run(x=x)["y"]
    assert found.dtype == np.float32
    np.testing.assert_allclose(found, wanted, rtol=1e-6, atol=1e-6)


def test_thresholded_relu_before_its_operator_set() -> None:
    x = f(9)
    node = helper.make_node("ThresholdedRelu", ["x"], ["y"], alpha=0.25)
    infos = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [9]) for name in "xy"]
    graph = helper.make_graph([node], "one", infos[:1], infos[1:])
    model = anydml.onnx.load(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 7)], ir_version=7))
    np.testing.assert_array_equal(model.run(x=x)["y"], np.where(x > 0.25, x, 0))
    assert "ThresholdedRelu" in model.notes[0]


def test_an_unknown_way_to_pad_is_refused() -> None:
    case = Case("QLinearAveragePool", QUANTISED, 1, dict(auto_pad="same", kernel_shape=[3]))
    with pytest.raises(anydml.onnx.ModelError, match="auto_pad is 'same'"):
        anydml.onnx.load(model_of(case)).run(x0=QUANTISED[0])
