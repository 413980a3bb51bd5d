"""Models at the very ends of ranges, where `<` and `<=` differ."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import onnx
import pytest

import anydml as dml
from anydml.onnx import compare_flat, compare_judge, compare_page, compare_picture, nodes, page_blocks, page_graph, read
from anydml.onnx.bodies import own_body
from anydml.onnx.compare_details import TensorDetails
from anydml.onnx.mapping import (
    activations,
    attention,
    blocks,
    embeddings,
    fused,
    maths,
    normalization,
    quantised,
    quantised_maps,
    samples,
    scatters,
    shape,
    windows,
)


def test_a_function_s_body_is_that_of_the_model_s_operator_set() -> None:
    schema = onnx.defs.get_schema("MeanVarianceNormalization", 13)
    for opset, there in ((12, False), (13, True), (14, True)):
        node: Any = SimpleNamespace(schema=schema, opset=opset)
        assert (own_body(node, []) is not None) == there


def test_scans_are_judged_from_operator_set_9_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compare_flat, "body_of", lambda node: node)
    node: Any = SimpleNamespace(op_type="Scan", input=[], attribute=[])
    for opset, judged in ((8, False), (9, True)):
        flat: Any = SimpleNamespace(opset=opset, _scanned=lambda *_: True)
        assert compare_flat._Flat._expanded(flat, node, None) == judged


def test_mappings_at_their_limits() -> None:
    node: Any = SimpleNamespace(get=lambda name, default: 1 if name == "axis" else default, opset=13)
    x = np.arange(8, dtype=np.float32).reshape(2, 2, 2)
    assert attention.after_all(np.arange(3), np.array(2)).tolist() == [1, 1, 0]
    assert fused._transposed(x[0], True, False).tolist() == [[0, 2], [1, 3]]
    assert maths.mean(node, *np.array([[0], [3], [6]], np.float32)).tolist() == [3]
    assert quantised._parameter(node, np.ones(1, np.float32), np.ones(3)).shape == (1,)
    assert quantised_maps.softmax(node, x).sum(axis=1) == pytest.approx(np.ones((2, 2)))
    assert scatters._counted(np.array([-3, 2]), 3).tolist() == [0, 2]
    assert normalization.in_groups(x, x[0, 0], x[0, 0], 1, 1e-5).shape == x.shape


def test_a_number_at_an_end_of_its_range_is_inside() -> None:
    ends = np.array([1.0, 2.0])
    found: Any = SimpleNamespace(low=ends[:1], high=ends[1:])
    assert compare_judge._outside(np.full(2, 1.5), ends, found).tolist() == [0, 0]


def test_messages_and_pages_are_cut_beyond_their_limits() -> None:
    assert read._first(ValueError("a" * 400)) == "a" * 400
    assert read._first(ValueError("a" * 401)).endswith("..")
    rows: Any = [SimpleNamespace(name="n", operators=["Abs"], reads=[], writes=[], verdict="", departs=False, own=None)]
    assert len(compare_picture._nodes(rows * compare_picture.MOST)) == compare_picture.MOST
    assert page_graph._layers([[], [0], [0, 1]]) == [0, 1, 2]


def test_what_is_left_out_or_follows() -> None:
    assert shape.completed([-1, 2], 6) == [3, 2]
    found = {"pads": [0, 0, 0, 0], "strides": [1, 1], "dilations": [1, 1]}
    node: Any = SimpleNamespace(get=found.get, opset=13)
    assert windows.window_of(node, (4, 4), (3, 3))[0] == (3, 3)
    call: Any = SimpleNamespace(inputs=["a"], outputs=[], protos={}, name="f", scope=SimpleNamespace(depth=0))
    function: Any = SimpleNamespace(input=["x", "y"], output=[], attribute_proto=[], opset_import=[], node=[])
    assert nodes.function_body(call, function, {}, 0).scope.names == {"x": "a", "y": ""}
    assert page_blocks._repeated(["Relu", "Add"] * page_blocks.REPEATS)[-1].endswith(f"of {page_blocks.REPEATS}")


def test_the_nearest_element_is_the_rounded_one_since_operator_set_11() -> None:
    scales = onnx.numpy_helper.from_array(np.array([2], np.float32), "scales")
    roi = onnx.numpy_helper.from_array(np.zeros(0, np.float32), "roi")
    node = onnx.helper.make_node("Resize", ["x", "roi", "scales"], ["y"], mode="nearest")
    graph = onnx.helper.make_graph([node], "g", [_floats("x", 4)], [_floats("y", 8)], [roi, scales])
    model = dml.onnx.load(onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 11)]))
    assert model.run({"x": np.arange(4, dtype=np.float32)})["y"].tolist() == [0, 0, 1, 1, 2, 2, 3, 3]


def _floats(name: str, size: int) -> Any:
    return onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, [size])


def test_samples_of_a_line() -> None:
    node: Any = SimpleNamespace(get=lambda name, default: default)
    x, grid = np.arange(4, dtype=np.float32).reshape(1, 1, 4), np.zeros((1, 1, 1), np.float32)
    assert samples.grid_sample(node, x, grid).tolist() == [[[1.5]]]


def test_as_many_words_as_positions() -> None:
    """And a softmax of operator set 13 along the last axis."""
    table = np.arange(8, dtype=np.float32).reshape(4, 2)
    words, scale = np.array([[0, 1, 2, 3]], np.int32), np.ones(2, np.float32)
    node: Any = SimpleNamespace(get=lambda name, default=None: default, wants=lambda n: n == 0, opset=13)
    made = embeddings.embed_layer_normalization(node, words, None, table, table, None, scale, scale)
    assert made[0].shape == (1, 4, 2)
    x = np.arange(8, dtype=np.float32).reshape(2, 2, 2)
    along: Any = SimpleNamespace(get=lambda name, default=None: default, opset=13)
    assert activations.over_axes(dml.activation_softmax1)(along, x).sum(axis=2) == pytest.approx(np.ones((2, 2)))


def test_elements_of_a_byte_are_gathered_one_by_one_along_the_last_axis() -> None:
    found = {"bits": 4, "block_size": 16, "gather_axis": 1, "quantize_axis": 0}
    node: Any = SimpleNamespace(get=lambda name, default: found[name])
    packed, scales = np.array([[0x21, 0x43]], np.uint8), np.ones((1, 4), np.float32)
    assert blocks.gather_block_quantized(node, packed, np.array([2, 0]), scales).tolist() == [[3 - 8, 1 - 8]]


def test_every_second_label_of_a_histogram_may_be_left_out() -> None:
    bins = tuple((str(k), 1) for k in range(2 * compare_page.LABELS))
    page = compare_page._tensor(TensorDetails("t", (1,), "float32", "ULP", bins, ()))
    assert "<span>0</span><span class=second></span><span class=second>2</span>" in page
    assert "<span>4</span>" in page
