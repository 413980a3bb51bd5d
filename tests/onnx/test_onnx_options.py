"""The options that all commands for models share: inputs by name, in files, at random, and sizes; what `run` keeps."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click
import numpy as np
import onnx
import pytest
from click.testing import CliRunner
from onnx import TensorProto, helper, numpy_helper

import anydml as dml
from anydml.cli.main import commands

value, make = helper.make_tensor_value_info, helper.make_node


@pytest.fixture
def model(tmp_path: Path) -> Path:
    """y = table[ids] + x, whose ids have an open size, and any index of the table as an integer that is read behind an Abs."""
    nodes = [
        make("Abs", ["ids"], ["places"], "abs"),
        make("Gather", ["table", "places"], ["rows"], "look"),
        make("Add", ["rows", "x"], ["y"], "add"),
    ]
    inputs = [value("ids", TensorProto.INT64, ["N"]), value("x", TensorProto.FLOAT, ["N", 3])]
    table = numpy_helper.from_array(np.arange(12, dtype=np.float32).reshape(4, 3), "table")
    graph = helper.make_graph(nodes, "g", inputs, [value("y", TensorProto.FLOAT, None)], [table])
    proto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.save(proto, tmp_path / "m.onnx")
    np.save(tmp_path / "ids.npy", np.array([3, 0, 1, 2, 0]))
    return tmp_path / "m.onnx"


def run(*arguments: Any) -> tuple[int, str, str]:
    done = CliRunner().invoke(commands, [str(a) for a in arguments], standalone_mode=False)
    if done.exception is not None:
        raise done.exception
    return done.return_value, done.stdout, done.stderr


def test_random_inputs_and_files_by_name_go_together(model: Path) -> None:
    ids = f"ids={model.parent}/ids.npy"
    for command in (["compare", "--against", "onnxruntime"], ["run", "--output-path", model.parent / "out"],
                    ["record", "-o", model.parent / "made"]):  # fmt: skip
        status, _, _ = run(command[0], model, *command[1:], "--random", 1, "--size", "N=5", "--input", ids)
        assert status == 0
    assert np.load(model.parent / "out" / "y.npy").shape == (5, 3)
    assert np.load(model.parent / "made" / "inputs" / "ids.npy").tolist() == [3, 0, 1, 2, 0]
    status, _, _ = run(
        "compare", model, "--inputs", model.parent / "made" / "inputs", "--actual", model.parent / "made" / "actual"
    )
    assert status == 0


def test_run_keeps_tensors(model: Path) -> None:
    given = ["run", model, "--random", 1, "--size", "x=5,3", "--input", f"ids={model.parent}/ids.npy", "--output-path"]
    run(*given, model.parent / "all", "--keep", "all")
    assert {x.name for x in (model.parent / "all").iterdir()} == {"places.npy", "rows.npy", "y.npy"}
    run(*given, model.parent / "some", "--keep", "rows, places")
    assert {x.name for x in (model.parent / "some").iterdir()} == {"places.npy", "rows.npy"}
    with pytest.raises(dml.BindingError, match="z: is no tensor that a node of the model computes"):
        run(*given, model.parent / "no", "--keep", "rows,z")
    assert not (model.parent / "no").exists()


def test_the_random_input_that_a_model_may_not_take_is_named(model: Path) -> None:
    runner = CliRunner()
    done = runner.invoke(commands, ["compare", str(model), "--against", "onnxruntime", "--random", "1", "--size", "N=40"],
                         standalone_mode=False)  # fmt: skip
    assert isinstance(done.exception, dml.Error)
    assert "The inputs are random. ids is of integers, and the model may take only some" in done.stderr
    assert "--input ids=FILE.npy" in done.stderr


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--inputs", "d", "--random", "1"], "--inputs and --random exclude one another."),
        (["--inputs", "d", "--size", "N=1"], "--size is for random inputs; files have sizes of their own."),
        ([], "The model reads ids and x: --input ids=FILE.npy --input x=FILE.npy, or --inputs DIR, or --random SEED."),
        (["--random", "1", "--size", "N=five"], "--size takes a number, or numbers with commas between them, not 'five'."),
        (["--random", "1", "--input", "ids"], "--input takes NAME=VALUE, not 'ids'."),
    ],
)
def test_options_are_refused_in_the_same_words(model: Path, options: list[str], said: str) -> None:
    with pytest.raises(click.UsageError) as refused:
        run("run", model, *options)
    assert str(refused.value) == said


def test_what_fits_no_input_is_said(model: Path) -> None:
    with pytest.raises(dml.BindingError, match="idz: is no input of the model; these are ids, x"):
        run("run", model, "--random", 1, "--input", f"idz={model.parent}/ids.npy")
    with pytest.raises(dml.BindingError, match="x: has 2 sizes; --size x= gives 1"):
        run("run", model, "--random", 1, "--size", "x=5")
    with pytest.raises(dml.BindingError, match=r"x: is an input of the model: --input x=FILE\.npy"):
        run("run", model, "--input", f"ids={model.parent}/ids.npy")
