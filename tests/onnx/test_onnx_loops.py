"""Loop and Scan, compared with onnxruntime; the limit of iterations, and interruptions."""

from __future__ import annotations

import signal
import threading
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime as ort
import pytest
from onnx import ModelProto, TensorProto, helper

import anydml.onnx
from anydml.cli.main import commands

FLOAT, INT64, BOOL = TensorProto.FLOAT, TensorProto.INT64, TensorProto.BOOL


def value(name: str, kind: int = FLOAT, sizes: Any = None) -> Any:
    return helper.make_tensor_value_info(name, kind, sizes)


def model(nodes: list[Any], inputs: list[Any], outputs: list[Any]) -> ModelProto:
    graph = helper.make_graph(nodes, "loop", inputs, outputs)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def constant(name: str, x: Any) -> Any:
    return helper.make_node("Constant", [], [name], value=helper.make_tensor("", INT64, [], [x]))


def halving() -> ModelProto:
    """x is halved until its sum is below a limit outside of the loop, or for M iterations."""
    body = helper.make_graph(
        [
            helper.make_node("Add", ["v", "v_in"], ["half"]),
            helper.make_node("Mul", ["half", "quarter"], ["v_out"]),
            helper.make_node("ReduceSum", ["v_out"], ["sum"], keepdims=0),
            helper.make_node("Greater", ["sum", "limit"], ["goes_on"]),
            helper.make_node("Cast", ["i"], ["made"], to=FLOAT),
        ],
        "body",
        [value("i", INT64, []), value("c", BOOL, []), value("v_in", FLOAT, [3])],
        [value("goes_on", BOOL, []), value("v_out", FLOAT, [3]), value("v_out2", FLOAT, [3]), value("made", FLOAT, [])],
        [helper.make_tensor("quarter", FLOAT, [], [0.25])],
    )  # fmt: skip
    body.node[0].input[0] = "v_in"
    body.node.append(helper.make_node("Identity", ["v_out"], ["v_out2"]))
    nodes = [
        helper.make_node("Abs", ["x"], ["start"]),
        helper.make_node("Loop", ["M", "", "start"], ["end", "steps", "turns"], body=body),
        helper.make_node("Neg", ["end"], ["y"]),
    ]
    return model(
        nodes, [value("x", FLOAT, [3]), value("M", INT64, []), value("limit", FLOAT, [])],
        [value("y", FLOAT, [3]), value("steps", FLOAT, ["n", 3]), value("turns", FLOAT, ["n"])],
    )  # fmt: skip


def session(proto: ModelProto) -> Any:
    return ort.InferenceSession(proto.SerializeToString(), providers=["CPUExecutionProvider"])


@pytest.mark.parametrize(("most", "limit"), [(10, 1.0), (2, 0.0), (0, 0.0), (40, 1e-6)])
def test_loop(most: int, limit: float) -> None:
    proto = halving()
    given = dict(x=np.array([4, -8, 3], np.float32), M=np.array(most), limit=np.array(limit, np.float32))
    found = anydml.onnx.load(proto).run(given)
    for ours, theirs in zip(found.values(), session(proto).run(None, given), strict=True):
        np.testing.assert_array_equal(ours, theirs)
        assert ours.dtype == theirs.dtype


def test_scan() -> None:
    """Running sums along the second axis, from its end."""
    body = helper.make_graph(
        [helper.make_node("Add", ["s_in", "e"], ["s_out"]), helper.make_node("Mul", ["s_out", "w"], ["each"])],
        "body",
        [value("s_in", FLOAT, [2]), value("e", FLOAT, [2])],
        [value("s_out", FLOAT, [2]), value("each", FLOAT, [2])],
    )
    node = helper.make_node(
        "Scan", ["s", "x"], ["end", "all"], body=body, num_scan_inputs=1, scan_input_axes=[1], scan_input_directions=[1],
        scan_output_axes=[-1],
    )  # fmt: skip
    proto = model(
        [node], [value("s", FLOAT, [2]), value("x", FLOAT, [2, 5]), value("w", FLOAT, [])],
        [value("end", FLOAT, [2]), value("all", FLOAT, [2, 5])],
    )  # fmt: skip
    given = dict(s=np.ones(2, np.float32), x=np.arange(10, dtype=np.float32).reshape(2, 5), w=np.array(3, np.float32))
    found = anydml.onnx.load(proto).run(given)
    for ours, theirs in zip(found.values(), session(proto).run(None, given), strict=True):
        np.testing.assert_array_equal(ours, theirs)


def endless() -> ModelProto:
    body = helper.make_graph(
        [helper.make_node("Identity", ["c"], ["c_out"]), helper.make_node("Neg", ["v"], ["v_out"])],
        "body",
        [value("i", INT64, []), value("c", BOOL, []), value("v", FLOAT, [3])],
        [value("c_out", BOOL, []), value("v_out", FLOAT, [3])],
    )
    return model(
        [helper.make_node("Loop", ["", "", "x"], ["y"], body=body, name="endless")],
        [value("x", FLOAT, [3])],
        [value("y", FLOAT, [3])],
    )


def test_turns_have_a_limit() -> None:
    x = np.ones(3, np.float32)
    with pytest.raises(anydml.onnx.ModelError, match=r"endless \(Loop\): invalid: it takes more than 30 turns"):
        anydml.onnx.load(endless(), turns=30).run(x=x)
    proto = halving()
    given = dict(x=x, M=np.array(31), limit=np.array(0, np.float32))
    with pytest.raises(anydml.onnx.ModelError, match="more than 30 turns"):
        anydml.onnx.load(proto, turns=30).run(given)
    assert anydml.onnx.load(proto, turns=31).run(given)["turns"].shape == (31,)


def test_the_command_takes_the_limit(tmp_path: Path) -> None:
    onnx.save(halving(), file := tmp_path / "halving.onnx")
    arrays = {"x": np.ones(3, np.float32), "M": np.array(31), "limit": np.array(0, np.float32)}
    given = []
    for name, x in arrays.items():
        np.save(tmp_path / f"{name}.npy", x)
        given += ["--input", f"{name}={tmp_path / name}.npy"]
    command = ["run", str(file), *given, "--output-path", str(tmp_path / "out"), "--turns"]
    with pytest.raises(anydml.onnx.ModelError, match="more than 30 turns"):
        commands.main([*command, "30"], standalone_mode=False)
    commands.main([*command, "31"], standalone_mode=False)
    assert np.load(tmp_path / "out" / "turns.npy").shape == (31,)


@pytest.mark.usefixtures("interruptible")
def test_a_signal_ends_a_loop() -> None:
    model = anydml.onnx.load(endless(), turns=10**6)  # a minute
    with pytest.raises(anydml.onnx.ModelError):
        anydml.onnx.load(endless(), turns=2).run(x=np.ones(3, np.float32))
    timer = threading.Timer(0.3, lambda: signal.raise_signal(signal.SIGINT))
    timer.start()
    try:
        with pytest.raises(KeyboardInterrupt):
            model.run(x=np.ones(3, np.float32))
    finally:
        timer.cancel()


def test_check_looks_behind_a_loop() -> None:
    proto = endless()
    proto.graph.node.append(helper.make_node("RandomUniformLike", ["y"], ["z"], name="noise"))
    assert [r.node for r in anydml.onnx.load(proto).check()] == ["noise"]
    inside = endless()
    inside.graph.node[0].attribute[0].g.node.append(helper.make_node("RandomUniformLike", ["v"], ["d"], name="within"))
    assert [r.node for r in anydml.onnx.load(inside).check()] == ["within"]
