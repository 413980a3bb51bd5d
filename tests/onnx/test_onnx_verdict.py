"""The verdict of a comparison: the worst node, exit statuses, tensors recorded in other forms, random indices."""

from __future__ import annotations

import json
from base64 import b64encode
from io import BytesIO
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
from anydml.onnx.compare_carried import with_error
from anydml.onnx.compare_files import named_as
from anydml.onnx.compare_results import BEYOND, EQUAL, UNJUDGED, Deviation, ModelComparison, NodeComparison
from anydml.onnx.compare_runtimes import drawn, recorded
from anydml.onnx.comparing import compare
from faulty_networks import tensors

Array = npt.NDArray[Any]
X = np.linspace(-2, 2, 64, dtype=np.float32).reshape(4, 16)
value = helper.make_tensor_value_info


def model(*nodes: onnx.NodeProto, constants: dict[str, Array], sizes: tuple[int, ...] = (4, 16), **options: Any) -> ModelProto:
    graph = helper.make_graph(
        nodes,
        "g",
        [value("x", TensorProto.FLOAT, sizes)],
        [value("y", TensorProto.FLOAT, None)],
        [numpy_helper.from_array(x, name) for name, x in constants.items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17), helper.make_opsetid("mine", 1)], ir_version=8)


def normalised(epsilon: float = 1e-5) -> ModelProto:
    """y = layer normalisation of 3 x + 1, halved."""
    make = helper.make_node
    return model(
        make("Mul", ["x", "three"], ["a"], "/scale/Mul"),
        make("Add", ["a", "one"], ["b"], "shift"),
        make("LayerNormalization", ["b", "gain"], ["n"], "norm", epsilon=epsilon),
        make("Mul", ["n", "half"], ["y"], "halve"),
        constants={
            "three": np.float32(3),
            "one": np.float32(1),
            "half": np.float32(0.5),
            "gain": np.ones(16, np.float32),
        },
    )


def faulty(last: float = 0.0) -> dict[str, Array]:
    """Tensors with a wrong epsilon in `norm`, after a `shift` with one element that is wrong by 5e-07."""
    exact = tensors(normalised(), {"x": X})
    b = exact["b"].copy()
    b[1, 2] += np.float32(5e-7)
    n = tensors(normalised(0.1), {"x": X})["n"]
    return {"a": exact["a"], "b": b, "n": n, "y": n * np.float32(0.5) + np.float32(last)}


def test_the_worst_node_stands_before_the_first() -> None:
    found = compare(normalised(), {"x": X}, actual=faulty())
    assert [row.verdict for row in found.nodes] == [EQUAL, BEYOND, BEYOND, EQUAL]
    assert found.first is not None
    assert found.worst is not None
    assert (found.first.name, found.worst.name) == ("shift", "norm")
    said = str(found).splitlines()
    assert said[0].startswith("2 of 4 nodes differ. 2 are beyond rounding. The worst is norm (LayerNormalization): 64 of 64 ")
    assert said[1].startswith("The first beyond rounding is shift (Add): 1 of 64 differs by up to ")
    assert said[2].startswith("Of the error of the model's outputs, norm alone makes 64 of 64, up to ")
    assert found.to_dict()["worst"] == "norm"


def test_an_error_is_carried_to_the_outputs_through_exact_nodes() -> None:
    norm = next(row for row in compare(normalised(), {"x": X}, actual=faulty()).nodes if row.name == "norm")
    exact, other = (tensors(normalised(epsilon), {"x": X})["y"] for epsilon in (1e-5, 0.1))
    assert norm.carried is not None
    assert norm.carried.away == pytest.approx(float(np.abs(other - exact).max()), rel=1e-3)


def test_stacked_matrices_that_are_read_column_by_column_are_a_cause() -> None:
    x, w = (np.random.default_rng(5).standard_normal(sizes).astype(np.float32) for sizes in ((2, 3, 4), (4, 3)))
    product = model(helper.make_node("MatMul", ["x", "w"], ["y"], "product"), constants={"w": w}, sizes=x.shape)
    read = tensors(product, {"x": np.ascontiguousarray(x.reshape(2, 4, 3).swapaxes(1, 2))})
    (row,) = compare(product, {"x": x}, actual=read).nodes
    assert "the matrices of A transposed" in row.cause


def test_the_error_of_a_tensor_is_added_to_the_exact_one() -> None:
    def moved(exact: Any, due: Any, actual: Any, dtype: Any) -> list[Any]:
        made = with_error(*(np.array(x, dtype) for x in (exact, due, actual)))
        assert made.dtype == dtype
        return list(made.tolist())

    assert moved([10, 250, 3], [5, 5, 9], [6, 15, 0], np.uint8) == [11, 255, 0]
    assert moved([1.5, 2, 3], [1, 1, np.nan], [2, np.inf, np.nan], np.float32) == [2.5, np.inf, 3]
    assert moved([True, True], [True, False], [False, False], np.bool_) == [False, True]
    assert moved([2**63 - 1], [0], [5], np.int64) == [2**63 - 1]


@pytest.mark.parametrize(
    ("deviation", "said"),
    [
        (Deviation(9, 1, 443, " ULP", 3e-07), "443 ULP (3e-07)"),
        (Deviation(9, 1, 1.7e9, " ULP", 9.5e-07, relative=2e-7), "9.5e-07 (2e-05 % of the largest element)"),
        (Deviation(9, 1, 1.7e9, " ULP", 80.0, relative=40.0), "80 (40 times the largest element)"),
        (Deviation(9, 1, float("inf"), " ULP", float("inf")), "inf ULP (inf)"),
        (Deviation(9, 1, 11), "11"),
    ],
)
def test_units_in_the_last_place_give_way_to_numbers(deviation: Deviation, said: str) -> None:
    assert deviation.size == said


def test_a_node_that_is_not_judged_is_said_with_its_reason() -> None:
    make = helper.make_node
    made = model(
        make("Mul", ["x", "k"], ["a"], "scale"),
        make("Strange", ["a"], ["b"], "strange", domain="mine"),
        make("Neg", ["b"], ["y"], "last"),
        constants={"k": np.float32(3)},
    )
    found = compare(made, {"x": X}, actual={"a": X * np.float32(3), "b": X, "y": -X})
    assert [row.verdict for row in found.nodes] == [EQUAL, UNJUDGED, EQUAL]
    said = str(found).splitlines()
    assert said[0] == "All 2 nodes that were judged are exact; 1 is not judged"
    assert said[1].startswith("Not judged: strange: ")
    assert "Strange" in said[1]
    assert [row.name for row in found.unjudged] == ["strange"]


def test_many_reasons_are_cut() -> None:
    rows = [NodeComparison((f"n{i}",), ("O",), (), (), None, None, UNJUDGED, reason=f"r{i // 6}") for i in range(66)]
    said = str(ModelComparison(tuple(rows))).splitlines()
    assert said[0] == "No node was judged"
    assert said[1] == "Not judged: n0, n1, n2, n3, ...: r0"
    assert said[-1] == "and 3 more reasons"


def run(*arguments: str) -> tuple[int, str, str]:
    done = CliRunner().invoke(commands, arguments, standalone_mode=False)
    if done.exception is not None and not isinstance(done.exception, click.UsageError):
        raise done.exception
    return done.return_value, done.stdout, str(done.exception or "")


def saved(tmp_path: Path, proto: ModelProto, actual: dict[str, Array]) -> list[str]:
    onnx.save(proto, tmp_path / "m.onnx")
    for folder, arrays in (("inputs", {"x": X}), ("actual", actual)):
        (tmp_path / folder).mkdir(exist_ok=True)
        named: dict[str, Any] = {name.replace("/", "%2F"): x for name, x in arrays.items()}
        np.savez(tmp_path / folder / "all.npz", **named)
    return ["compare", f"{tmp_path}/m.onnx", "--inputs", f"{tmp_path}/inputs", "--actual", f"{tmp_path}/actual/all.npz"]


def rounded() -> dict[str, Array]:
    exact = tensors(normalised(), {"x": X})
    y = np.nextafter(exact["n"], np.float32(9)) * np.float32(0.5)
    return exact | {"n": np.nextafter(exact["n"], np.float32(9)), "y": y}


@pytest.mark.parametrize(
    ("actual", "by_default", "differs", "beyond", "small", "large"),
    [("exact", 0, 0, 0, 0, 0), ("rounded", 0, 1, 0, 0, 0), ("faulty", 1, 1, 1, 1, 0), ("strange", 3, 3, 0, 3, 3)],
)
def test_the_exit_status(
    tmp_path: Path, actual: str, by_default: int, differs: int, beyond: int, small: int, large: int
) -> None:
    proto, exact = normalised(), tensors(normalised(), {"x": X})
    if actual == "strange":
        proto.graph.node.append(helper.make_node("Strange", ["y"], ["z"], "strange", domain="mine"))
        proto.graph.output.append(value("z", TensorProto.FLOAT, None))
        exact["z"] = exact["y"]
    given = {"exact": lambda: exact, "strange": lambda: exact, "rounded": rounded, "faulty": faulty}[actual]()
    options = saved(tmp_path, proto, given)
    assert run(*options)[0] == by_default
    assert run(*options, "--fail-on", "unjudged")[0] == by_default
    assert run(*options, "--fail-on", "differs")[0] == differs
    assert run(*options, "--fail-on", "beyond")[0] == beyond
    assert run(*options, "--fail-on", "1e-4")[0] == small
    assert run(*options, "--fail-on", "10")[0] == large


@pytest.mark.parametrize("given", ["nothing", "-1", "inf", "nan", ""])
def test_what_else_fails_is_refused(tmp_path: Path, given: str) -> None:
    said = run(*saved(tmp_path, normalised(), faulty()), "--fail-on", given)[2]
    assert said.startswith("--fail-on takes differs, beyond, unjudged or a tolerance such as 1e-3, not ")


def test_tensors_are_recorded_in_many_forms(tmp_path: Path) -> None:
    np.save(tmp_path / "%2Fscale%2FMul.npy", X)
    (tmp_path / "block").mkdir()
    np.save(tmp_path / "block" / "out.npy", X)
    np.savez(tmp_path / "more.npz", c=X)
    assert sorted(recorded(tmp_path)) == ["/scale/Mul", "block/out", "c"]
    assert [*recorded(tmp_path / "more.npz")] == ["c"]
    meant = named_as({"scale_Mul_output_0": X, "b:0": X, "twice": X}, ["/scale/Mul_output_0", "b:0", "/twice", "twice/"])
    assert [*meant] == ["/scale/Mul_output_0", "b:0", "twice"]
    meant = named_as(
        {"layer1.0.conv1": X, "layer1.0": X, "model/conv/BiasAdd;model/conv/Conv2D": X},
        ["/layer1/layer1.0/conv1/Conv_output_0", "/layer1/layer1.0/relu/Relu_output_0", "/layer1/layer1.0/Add_output_0",
         "model/conv/BiasAdd:0", "model/conv/BiasAdd_1:0"],
    )  # fmt: skip
    assert [*meant] == ["/layer1/layer1.0/conv1/Conv_output_0", "/layer1/layer1.0/Add_output_0", "model/conv/BiasAdd:0"]
    saved = BytesIO()
    np.save(saved, X)
    array = {"array": b64encode(saved.getvalue()).decode(), "polygraphy_class": "ndarray"}
    outputs = {"/conv/out": {"values": array, "polygraphy_class": "LazyArray"}, "plain": array}
    results = {"lst": [["runner", [{"outputs": outputs, "polygraphy_class": "IterationResult"}]]]}
    (tmp_path / "out.json").write_text(json.dumps({**results, "polygraphy_class": "RunResults"}))
    found = recorded(tmp_path / "out.json")
    assert sorted(found) == ["/conv/out", "plain"]
    np.testing.assert_array_equal(found["plain"], X)


@pytest.mark.parametrize(
    ("name", "held", "said"),
    [
        ("a.json", b"{}", "is not a RunResults of Polygraphy"),
        ("a.json", b'{"polygraphy_class": "RunResults", "lst": []}', "lack a runner"),
        ("a.json", b"[", "cannot be read as tensors"),
        ("a.npz", b"no zip", "cannot be read as tensors"),
        ("a.npz", b"", "cannot be read as tensors"),
        ("a.txt", b"", "has no tensors: there is no file of the kinds"),
        ("a.pt", b"no zip", "cannot be read as tensors"),
    ],
)
def test_files_that_are_no_recorded_tensors_are_refused(tmp_path: Path, name: str, held: bytes, said: str) -> None:
    (tmp_path / name).write_bytes(held)
    for path in (tmp_path, tmp_path / name):
        with pytest.raises(dml.BindingError, match=said):
            recorded(path)


def test_random_indices_are_those_of_a_table() -> None:
    make = helper.make_node
    graph = helper.make_graph(
        [make("Cast", ["ids"], ["wide"], to=TensorProto.INT64), make("Gather", ["table", "wide"], ["y"], axis=-1)],
        "g",
        [value("ids", TensorProto.INT32, [1000]), value("other", TensorProto.INT64, [1000])],
        [value("y", TensorProto.FLOAT, None)],
        [numpy_helper.from_array(np.zeros((9, 3), np.float32), "table")],
    )
    made = load(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8))
    found = drawn(made, 1, {})
    assert {*found["ids"].tolist()} == {0, 1, 2}
    assert {*found["other"].tolist()} == {*range(8)}


def test_what_onnxruntime_computes_is_recorded_and_compared(tmp_path: Path) -> None:
    pytest.importorskip("onnxruntime")
    onnx.save(normalised(), tmp_path / "m.onnx")
    status, said, _ = run("record", f"{tmp_path}/m.onnx", "--random", "1", "-o", f"{tmp_path}/made")
    assert status == 0
    assert said.split()[:2] == ["anydml", "compare"]
    assert {path.name for path in (tmp_path / "made" / "actual").iterdir()} == {"a.npy", "b.npy", "n.npy", "y.npy"}
    status, said, _ = run(*said.split()[1:])
    assert status == 0, said


def test_a_runtime_that_fails_is_said(tmp_path: Path) -> None:
    pytest.importorskip("onnxruntime")
    from anydml.onnx.compare_runtimes import RuntimeFailed

    strange = model(helper.make_node("Strange", ["x"], ["y"], domain="mine"), constants={})
    onnx.save(strange, tmp_path / "m.onnx")
    options = ["compare", f"{tmp_path}/m.onnx", "--random", "1", "--against", "onnxruntime"]
    with pytest.raises(RuntimeFailed, match="does not run the model"):
        run(*options)
    with pytest.raises(RuntimeFailed, match="onnxruntime has no provider Abacus here; it has "):
        run(*options, "--provider", "Abacus")
    assert "--provider is for --against" in run("compare", "m.onnx", "--actual", "a", "--random", "1", "--provider", "CPU")[2]


def test_zeros_of_the_other_sign_are_told_as_such() -> None:
    off = Deviation(128, 30, 0.0, " ULP", 0.0, (1,), "0.0", "-0.0")
    assert str(off) == "30 of 128, only the sign of 0"
    row = NodeComparison(("relu",), ("Relu",), (), (), off, None, "rounding")
    assert str(row) == (
        "relu (Relu): 30 of 128 differ in only the sign of 0, at [1] -0.0, not 0.0; rounding explains all of them"
    )
