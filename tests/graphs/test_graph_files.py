"""Graphs shown and stored: as text, HTML and DOT, every tensor of a run, the time of each call, and files."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import anydml as dml
from anydml import ConstantNode, GraphDesc, OperatorNode, TensorDesc, operators
from anydml.functional import graph_files

W = np.arange(6, dtype=np.float32).reshape(3, 2) - 2
X = np.ones((2, 3), np.float32)


def layer(x: Any, w: Any) -> Any:
    product = dml.gemm(x, w)
    active = dml.activation_gelu(dml.element_wise_subtract(product, 1.0))
    return {"rows": dml.activation_softmax(active), "halves": dml.cast(product, output_data_type="FLOAT16")}


GRAPH = dml.graph(layer, x=TensorDesc("FLOAT32", (2, 3)), w=W)


def test_a_graph_as_text() -> None:
    assert (
        repr(GRAPH)
        == """<Graph: 5 operators, 2 constants, 4 calls
  x: FLOAT32 (2, 3)
  1  gemm(x, w)                                FLOAT32 (2, 2)
  2  element_wise_subtract(gemm, constant[3])  FLOAT32 (2, 2)
  2  activation_gelu(element_wise_subtract)    FLOAT32 (2, 2)
  3  activation_softmax(activation_gelu)       FLOAT32 (2, 2)
  4  cast(gemm)                                FLOAT16 (2, 2)
  rows = activation_softmax
  halves = cast>"""
    )


def test_a_graph_for_graphviz() -> None:
    text = GRAPH.to_dot()
    assert 'subgraph cluster1 { n2 [label="element_wise_subtract"]; n4 [label="activation_gelu"]; }' in text
    assert '  n2 -> n4 [label="(2, 2)"];' in text
    assert text.count("{") == text.count("}")
    assert text.count(" -> ") == 6 + 2 + 1 - 1 + 1  # between nodes, to outputs, from the input, from constants


def test_a_graph_as_a_table() -> None:
    made = dml.graph(lambda **given: dml.activation_relu(given["<x>"]), **{"<x>": TensorDesc("FLOAT32", (3,))})
    assert "<td>&lt;x&gt;</td>" in made._repr_html_()
    assert GRAPH._repr_html_().count("<tr>") == 6


@pytest.mark.parametrize("device", ["cpu", "reference"])
def test_a_run_keeps_every_tensor(device: str) -> None:
    found = GRAPH.run({"x": X}, device, keep="all")
    product = dml.gemm(X, W)
    less = dml.element_wise_subtract(product, 1.0)
    wanted = dict(layer(X, W), gemm=product, element_wise_subtract=less, activation_gelu=dml.activation_gelu(less))
    assert found.keys() == wanted.keys()
    for name, array in wanted.items():
        np.testing.assert_array_equal(found[name], array, strict=True)
    other: Any = {"keep": "some"}  # no such literal
    with pytest.raises(ValueError, match='keep is \'some\', and may be "outputs" or "all"'):
        GRAPH.run({"x": X}, **other)


def test_the_time_of_each_call() -> None:
    compiled: Any = GRAPH.compile()
    outputs = {name: np.empty(t.sizes, t.data_type.dtype) for name, t in GRAPH.outputs.items()}
    profile = compiled.profile(x=X, **outputs, times=3)
    assert [s.nodes for s in profile] == ["gemm", "element_wise_subtract + activation_gelu", "activation_softmax", "cast"]
    assert profile[1].kernel == "elementwise:compiled"
    assert profile[0].bytes == 24 + 24 + 16
    assert all(s.microseconds > 0 for s in profile)
    assert len(str(profile).splitlines()) == 5
    np.testing.assert_array_equal(outputs["rows"], layer(X, W)["rows"])
    with pytest.raises(ValueError, match="times is 0"):
        compiled.profile(x=X, **outputs, times=0)


def test_a_graph_is_saved_and_loaded(tmp_path: Path) -> None:
    GRAPH.save(tmp_path / "layer")
    assert {path.name for path in (tmp_path / "layer").iterdir()} == {"graph.json", "constant_1.npy", "constant_3.npy"}
    again = dml.Graph.load(tmp_path / "layer")
    assert repr(again) == repr(GRAPH)
    found, wanted = again(x=X), GRAPH(x=X)
    assert found.keys() == wanted.keys()
    for name, array in wanted.items():
        np.testing.assert_array_equal(found[name], array, strict=True)
    pair = dml.graph(lambda x: (dml.activation_relu(x), dml.element_wise_exp(x)), x=TensorDesc("FLOAT32", (2,)))
    pair.save(tmp_path / "pair")
    assert isinstance(dml.Graph.load(tmp_path / "pair")(x=np.zeros(2, np.float32)), tuple)


def test_every_operator_s_desc_is_kept(tmp_path: Path) -> None:
    """The descs of all examples as nodes without edges, since files are not checked."""
    descs = [operator(**example.fields) for operator in operators.every() for example in operator.spec.examples]
    graph_files.write(tmp_path, GraphDesc((*map(OperatorNode, descs), ConstantNode(W, "w"))), "output", ["x"])
    found, form, scalars = graph_files.read(tmp_path)
    assert [node.desc for node in found.nodes if isinstance(node, OperatorNode)] == descs
    assert len(descs) > 200
    assert found.nodes[-1].name == "w"
    assert (form, scalars) == ("output", ["x"])


BROKEN: dict[str, tuple[dict[str, Any], str]] = {
    "another format": ({"format": "onnx"}, "is no 'anydml graph 1'"),
    "no nodes": ({"nodes": None}, "has no 'nodes'"),
    "an operator that is not there": ({"nodes": [{"operator": "FFT", "desc": {}, "name": ""}]}, "there is no operator 'FFT'"),
    "a field that is not there": (
        {"nodes": [{"operator": "ACTIVATION_RELU", "desc": {"Alpha": 1}, "name": ""}]},
        "ACTIVATION_RELU has no 'Alpha'",
    ),
    "a file elsewhere": ({"nodes": [{"constant": "../w.npy", "name": ""}]}, "'../w.npy' is not a file of the folder"),
    "edges of another form": ({"inputEdges": [[0]]}, "missing"),
    "a cut list": ({"inputEdges": 3}, "not iterable"),
    "scalars that are no names": ({"scalars": [3]}, "must be a list of names"),
}


@pytest.mark.parametrize("case", BROKEN)
def test_files_that_are_no_graph_s_are_refused(case: str, tmp_path: Path) -> None:
    changes, message = BROKEN[case]
    GRAPH.save(tmp_path)
    document = json.loads((tmp_path / "graph.json").read_text(encoding="utf-8")) | changes
    document = {name: value for name, value in document.items() if value is not None}
    (tmp_path / "graph.json").write_text(json.dumps(document), encoding="utf-8")
    with pytest.raises(dml.GraphError) as caught:
        dml.Graph.load(tmp_path)
    assert message in str(caught.value)


def test_a_folder_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(dml.GraphError, match="No such file"):
        dml.Graph.load(tmp_path / "nowhere")
