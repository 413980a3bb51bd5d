"""The commands `run`, `check` and `describe` on ONNX models, and the interface of backends."""

from __future__ import annotations

import json
from pathlib import Path

import click
import numpy as np
import onnx
import pytest
from click.testing import CliRunner
from test_onnx_model import cnn, info, model_of, node

import anydml.onnx
from anydml.cli.main import commands


def invoked(*arguments: str) -> tuple[int, str]:
    found = CliRunner().invoke(commands, arguments, standalone_mode=False)
    if found.exception is not None:
        raise found.exception
    return found.return_value, found.output


def test_run_writes_every_output(tmp_path: Path) -> None:
    x = np.random.default_rng(0).normal(size=(2, 1, 5, 5)).astype(np.float32)
    onnx.save(cnn(), file := tmp_path / "cnn.onnx")
    np.save(tmp_path / "x.npy", x)
    status, text = invoked(
        "run", str(file), "--input", "x=x.npy", "--input-path", str(tmp_path), "--output-path", str(tmp_path / "out")
    )
    assert status == 0
    assert "y: float32 (2, 3)" in text
    np.testing.assert_array_equal(np.load(tmp_path / "out" / "y.npy"), anydml.onnx.load(file).run(x=x)["y"])


def test_names_of_outputs_stay_in_the_folder(tmp_path: Path) -> None:
    onnx.save(model_of([node("Relu", "x", "../../y")], [info("x", [1])], [info("../../y", [1])]), file := tmp_path / "m.onnx")
    np.save(tmp_path / "x.npy", np.ones(1, np.float32))
    invoked("run", str(file), "--input", f"x={tmp_path / 'x.npy'}", "--output-path", str(tmp_path / "out"))
    assert len([*(tmp_path / "out").glob("*.npy")]) == 1


def test_check_says_what_is_needed_or_refused(tmp_path: Path) -> None:
    onnx.save(cnn(), file := tmp_path / "cnn.onnx")
    status, text = invoked("check", str(file), "--size", "N=1")
    assert status == 0
    assert "nothing is refused" in text
    assert "feature level " in text
    onnx.save(model_of([node("RandomUniformLike", "x", "y")], [info("x", [2, 2])], [info("y", [2, 2])]), file)
    status, text = invoked("check", str(file), "--json")
    assert status == 2
    assert [r["operator"] for r in json.loads(text)] == ["RandomUniformLike"]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["check", "cnn.onnx"], "the model leaves N open: --size N=1"),
        (["run", "cnn.onnx"], "The model reads x: --input x=FILE.npy, or --inputs DIR, or --random SEED."),
    ],
)
def test_what_a_command_lacks_is_said_as_an_option(
    arguments: list[str], said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    onnx.save(cnn(), tmp_path / "cnn.onnx")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(click.UsageError) as refused:
        invoked(*arguments)
    assert str(refused.value) == said


def test_sizes_of_an_input_leave_none_open(tmp_path: Path) -> None:
    onnx.save(cnn(), file := tmp_path / "cnn.onnx")
    status, text = invoked("check", str(file), "--size", "x=2,1,5,5")
    assert status == 0
    assert "feature level " in text


def test_describe_lists_a_model(tmp_path: Path) -> None:
    onnx.save(cnn(), file := tmp_path / "cnn.onnx")
    facts = json.loads(invoked("describe", str(file), "--json")[1])
    assert facts["inputs"] == {"x": "FLOAT (N, 1, 5, 5)"}
    assert facts["operators"]["Conv"] == 1


def test_options_of_programs_and_of_models_are_told_apart() -> None:
    import click

    with pytest.raises(click.UsageError, match="--input is for models"):
        invoked("run", "program.json", "--input", "x=x.npy")


def test_the_backend_runs_models_and_nodes() -> None:
    x = np.array([-1, 1], np.float32)
    assert anydml.onnx.supports_device("CPU")
    assert not anydml.onnx.supports_device("CUDA:0")
    assert anydml.onnx.run_node(node("Relu", "x", "y"), [x])[0].tolist() == [0, 1]
    proto = model_of([node("Relu", "x", "y")], [info("x", [2])], [info("y", [2])])
    assert anydml.onnx.run_model(proto, [x])[0].tolist() == [0, 1]
    assert anydml.onnx.prepare(proto).run({"x": x})[0].tolist() == [0, 1]
