"""Comparison of what has no bound of its own: bodies of If, Loop and Scan, old files, models whose outputs alone are known."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
import pytest
from onnx import ModelProto, TensorProto, helper, numpy_helper

from anydml.onnx import load
from anydml.onnx.compare_decisions import asking
from anydml.onnx.compare_flat import flat
from anydml.onnx.compare_models import named
from anydml.onnx.compare_results import BEYOND, EQUAL, ROUNDING
from anydml.onnx.compare_runtimes import onnxruntime
from anydml.onnx.comparing import compare
from every_kernel import SOAK, Ran

Array = npt.NDArray[Any]
FLOAT, INT64, BOOL = TensorProto.FLOAT, TensorProto.INT64, TensorProto.BOOL
DIGITS = Path(__file__).parents[2] / "examples" / "digits"
make, value = helper.make_node, helper.make_tensor_value_info
X = np.random.default_rng(3).uniform(0.5, 2, (4, 6)).astype(np.float32)
CONSTANTS = {"w": np.random.default_rng(4).uniform(0.5, 1, (6, 6)).astype(np.float32), "half": np.float32(0.5)}


def model(nodes: list[Any], outputs: list[str], opset: int = 17) -> ModelProto:
    graph = helper.make_graph(
        nodes,
        "bodies",
        [value("x", FLOAT, [4, 6])],
        [value(name, FLOAT, None) for name in outputs],
        [numpy_helper.from_array(x, name) for name, x in CONSTANTS.items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)


def branching() -> ModelProto:
    """If the sum is not 0, tanh of a product, times 3, else the negative square."""
    inner = [
        helper.make_graph(
            [make("MatMul", ["x", "w"], ["p"], "product"), make("Tanh", ["p"], ["o"], "bend"), make("Identity", ["c"], ["k"])],
            "then",
            [],
            [value("o", FLOAT, None), value("k", FLOAT, None)],
            [helper.make_tensor("c", FLOAT, [1], [3.0])],
        ),
        helper.make_graph(
            [make("Neg", ["x"], ["o"]), make("Identity", ["x"], ["k"])],
            "else",
            [],
            [value("o", FLOAT, None), value("k", FLOAT, None)],
        ),
    ]
    nodes = [
        make("ReduceSum", ["x"], ["sum"], "sum", keepdims=0),
        make("Cast", ["sum"], ["yes"], "cast", to=BOOL),
        make("If", ["yes"], ["a", "b"], "choice", then_branch=inner[0], else_branch=inner[1]),
        make("Mul", ["a", "b"], ["y"], "end"),
    ]
    return model(nodes, ["y"])


def turning(opset: int = 17) -> ModelProto:
    """Three turns of s = tanh(s w), with every s as rows of another output, and within each turn a branch."""
    branches = [
        helper.make_graph([make(operator, ["t"], ["o"], operator)], operator, [], [value("o", FLOAT, None)])
        for operator in ("Sigmoid", "Neg")
    ]
    body = helper.make_graph(
        [
            make("MatMul", ["s_in", "w"], ["m"], "product"),
            make("Tanh", ["m"], ["t"], "bend"),
            make("Less", ["i", "two"], ["early"], "early"),
            make("If", ["early"], ["s_out"], "choice", then_branch=branches[0], else_branch=branches[1]),
            make("Identity", ["c_in"], ["c_out"], "on"),
        ],
        "body",
        [value("i", INT64, []), value("c_in", BOOL, []), value("s_in", FLOAT, None)],
        [value("c_out", BOOL, []), value("s_out", FLOAT, None), value("t", FLOAT, None)],
        [helper.make_tensor("two", INT64, [], [2])],
    )
    nodes = [
        make("Constant", [], ["three"], "three", value=helper.make_tensor("", INT64, [], [3])),
        make("Loop", ["three", "", "x"], ["last", "all"], "turns", body=body),
        make("Mul", ["last", "half"], ["y"], "end"),
    ]
    return model(nodes, ["y", "all"], opset)


def scanning() -> ModelProto:
    """Sums of the columns so far, from the last column on, and the exponentials of each."""
    body = helper.make_graph(
        [make("Add", ["s_in", "e"], ["s_out"], "sum"), make("Exp", ["s_out"], ["each"], "exp")],
        "body",
        [value("s_in", FLOAT, [4]), value("e", FLOAT, [4])],
        [value("s_out", FLOAT, [4]), value("each", FLOAT, [4])],
    )
    zeros = make("ReduceMin", ["x"], ["start"], "start", axes=[1], keepdims=0)
    scan = make("Scan", ["start", "x"], ["y", "all"], "scan", body=body, num_scan_inputs=1, scan_input_axes=[1],
                scan_input_directions=[1], scan_output_axes=[-1], scan_output_directions=[1])  # fmt: skip
    return model([zeros, scan], ["y", "all"])


MODELS = {"If": branching, "Loop": turning, "Loop, opset 11": lambda: turning(11), "Scan": scanning}


def exactly(proto: ModelProto, inputs: Mapping[str, Array]) -> dict[str, Array]:
    return load(proto).run(inputs)


@pytest.mark.parametrize("name", MODELS)
def test_the_flat_model_computes_the_same(name: str) -> None:
    proto = named(MODELS[name]())
    outputs = exactly(proto, {"x": X})
    found = compare(proto, {"x": X}, run=exactly)
    assert found.equal
    assert not {"If", "Loop", "Scan"} & {kind for row in found.nodes for kind in row.operators}
    assert not found.notes
    asked, names = asking(proto)
    tensors = load(asked).run({"x": X}, keep="all")
    shapes = {key: x.shape for key, x in {"x": X, **tensors}.items()}
    made = flat(proto, {node: tensors[key] for node, key in names.items()}, shapes)
    for runtime in (exactly, onnxruntime):
        for key, x in runtime(made, {"x": X}).items():
            np.testing.assert_allclose(x, outputs[key], rtol=1e-5)


@pytest.mark.parametrize("name", MODELS)
def test_rounding_of_nodes_in_bodies_is_explained(name: str) -> None:
    found = compare(MODELS[name](), {"x": X}, run=onnxruntime)
    assert {row.verdict for row in found.nodes} <= {EQUAL, ROUNDING}, str(found)
    if name == "Loop":
        assert {"turns[0]/product", "turns[2]/choice/Neg"} <= {row.name for row in found.nodes}
    if name == "If":
        assert "choice/product" in {row.name for row in found.nodes}


@pytest.mark.parametrize("name", MODELS)
def test_a_fault_in_a_body_is_found_by_the_outputs_alone(name: str) -> None:
    proto = MODELS[name]()
    right = onnxruntime(proto, {"x": X})
    found = compare(proto, {"x": X}, actual=right)
    assert {row.verdict for row in found.nodes if row.own is not None} <= {EQUAL, ROUNDING}, str(found)
    assert [row.nodes for row in found.unjudged] == ([("sum", "cast")] if name == "If" else [])  # no output shows a condition
    wrong = compare(proto, {"x": X}, actual={key: x * np.float32(1.001) for key, x in right.items()})
    assert any(row.verdict == BEYOND for row in wrong.nodes), str(wrong)


def test_a_runtime_that_takes_another_branch_is_said() -> None:
    def other(proto: ModelProto, inputs: Mapping[str, Array]) -> dict[str, Array]:
        made = exactly(proto, inputs)
        return made | {"yes": np.array(False)} if "yes" in made else made | {"y": -X * X}

    found = compare(branching(), {"x": X}, run=other)
    (note,) = found.notes
    assert note.startswith("choice takes another branch, or another number of turns, than in the exact model; ")


def test_a_runtime_with_other_numbers_in_bodies_is_judged_by_its_own() -> None:
    """It computes a loop with errors that it does not make outside of loops."""

    def fusing(proto: ModelProto, inputs: Mapping[str, Array]) -> dict[str, Array]:
        made = exactly(proto, inputs)
        if any(node.op_type == "Loop" for node in proto.graph.node):
            made["y"] = np.nextafter(made["y"], np.float32(9))
        return made

    found = compare(turning(), {"x": X}, run=fusing)
    assert found.notes[0] == "The other runtime gives other numbers if branches and turns are not bodies of nodes"
    assert {row.verdict for row in found.nodes} <= {EQUAL, ROUNDING}, str(found)
    assert any("Tanh" in row.operators and len(row.nodes) > 1 for row in found.nodes)


def test_files_of_version_3_are_judged() -> None:
    nodes = [make("MatMul", ["x", "w"], ["p"], "product"), make("Mul", ["p", "half"], ["y"], "end")]
    proto = model(nodes, ["y"], 9)
    proto.ir_version = 3
    proto.graph.input.extend(value(name, FLOAT, x.shape) for name, x in CONSTANTS.items())
    found = compare(proto, {"x": X}, run=onnxruntime)
    assert {row.verdict for row in found.nodes} <= {EQUAL, ROUNDING}
    assert [row.name for row in found.nodes] == ["product", "end"]
    assert not found.unjudged


@pytest.mark.parametrize("name", ["cnn", "cnn-qlinear", "cnn-qdq", "encoder"])
def test_outputs_alone_are_judged(name: str, ran: Ran) -> None:
    """Those of a runtime that rounds are explained; zeros, and outputs of a model with another weight, are not."""
    random = np.random.default_rng(5)
    cases = 0
    for _ in range(SOAK):
        image = (random.integers(0, 17, (20, 8, 8) if name == "encoder" else (20, 1, 8, 8)) / 16).astype(np.float32)
        proto = onnx.load(DIGITS / f"{name}.onnx")
        right = onnxruntime(proto, {"image": image})
        (row,) = compare(proto, {"image": image}, actual=right).nodes
        assert row.verdict in (EQUAL, ROUNDING), str(row)
        assert row.reason == ""
        (row,) = compare(proto, {"image": image}, actual={key: np.zeros_like(x) for key, x in right.items()}).nodes
        assert row.verdict == BEYOND, str(row)
        assert ("200 of them are beyond rounding, by an estimate" in str(row)) == (name in ("cnn", "encoder"))
        cases += 1
    ran(cases, SOAK)
