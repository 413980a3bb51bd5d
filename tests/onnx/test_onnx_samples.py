"""GridSample, Det and Unique, compared with onnxruntime on CPU, exact values, and NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import onnxruntime as ort
import pytest
from onnx import helper

import anydml.onnx

R = np.random.default_rng(161)
Array = Any


def node_of(operator: str, inputs: list[Array], outputs: int = 1, **attributes: Any) -> onnx.ModelProto:
    names = [f"x{i}" for i in range(len(inputs))]
    infos = [
        helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(x.dtype), x.shape)
        for name, x in zip(names, inputs, strict=True)
    ]
    made = [f"y{i}" for i in range(outputs)]
    node = helper.make_node(operator, names, made, **attributes)
    graph = helper.make_graph([node], "one", infos, [onnx.ValueInfoProto(name=name) for name in made])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9)


def run(proto: onnx.ModelProto, inputs: list[Array]) -> list[Array]:
    return [*anydml.onnx.load(proto).run({f"x{i}": x for i, x in enumerate(inputs)}).values()]


@pytest.mark.parametrize("aligned", [0, 1])
@pytest.mark.parametrize("padding", ["zeros", "border", "reflection"])
@pytest.mark.parametrize(("mode", "sizes"), [("linear", (5, 4)), ("nearest", (5, 4)), ("cubic", (5, 4)), ("linear", (3, 4, 2))])
def test_samples(mode: str, sizes: tuple[int, ...], padding: str, aligned: int) -> None:
    x = R.normal(size=(2, 3, *sizes)).astype(np.float32)
    grid = R.uniform(-1.6, 1.6, (2, *sizes, len(sizes))).astype(np.float32)
    proto = node_of("GridSample", [x, grid], mode=mode, padding_mode=padding, align_corners=aligned)
    (found,) = run(proto, [x, grid])
    session = ort.InferenceSession(proto.SerializeToString(), providers=["CPUExecutionProvider"])
    np.testing.assert_allclose(found, session.run(None, {"x0": x, "x1": grid})[0], rtol=2e-5, atol=2e-5)


@pytest.mark.parametrize("padding", ["zeros", "border", "reflection"])
@pytest.mark.parametrize("mode", ["linear", "nearest", "cubic"])
def test_coordinates_that_are_no_numbers_read_nothing(mode: str, padding: str) -> None:
    x, grid = np.full((1, 1, 3, 3), np.inf, np.float32), np.full((1, 1, 2, 2), np.nan, np.float32)
    (found,) = run(node_of("GridSample", [x, grid], mode=mode, padding_mode=padding), [x, grid])
    assert found.shape == (1, 1, 1, 2)
    outside = np.full((1, 1, 1, 2), 9, np.float32)
    (found,) = run(node_of("GridSample", [x, outside], mode=mode), [x, outside])
    assert found.tolist() == [[[[0]]]]


def test_a_grid_that_does_not_fit_is_refused() -> None:
    x, grid = np.zeros((1, 1, 3, 3), np.float32), np.zeros((2, 2, 2, 2), np.float32)
    with pytest.raises(anydml.onnx.ModelError):
        run(node_of("GridSample", [x, grid]), [x, grid])


@pytest.mark.parametrize("size", [1, 2, 3])
def test_determinants_of_integers_are_exact(size: int) -> None:
    x = R.integers(-20, 20, (2, 4, size, size)).astype(np.float32)
    (found,) = run(node_of("Det", [x]), [x])
    np.testing.assert_array_equal(found, np.rint(np.linalg.det(x.astype(float))))


def test_a_determinant_that_needs_pivots_is_refused() -> None:
    x = np.eye(4, dtype=np.float32)
    with pytest.raises(anydml.onnx.ModelError, match="not in DirectML: matrices of 4 x 4 need pivots"):
        run(node_of("Det", [x]), [x])


@pytest.mark.parametrize("axis", [None, 0, 1])
@pytest.mark.parametrize("in_order", [0, 1])
def test_unique(axis: int | None, in_order: int) -> None:
    x = R.integers(0, 3, (6, 2)).astype(np.float32)
    more = {} if axis is None else {"axis": axis}
    proto = node_of("Unique", [x], 4, sorted=in_order, **more)
    session = ort.InferenceSession(proto.SerializeToString(), providers=["CPUExecutionProvider"])
    for ours, theirs in zip(run(proto, [x]), session.run(None, {"x0": x}), strict=True):
        assert ours.dtype == theirs.dtype
        np.testing.assert_array_equal(ours, theirs)
