"""Pages of programs and models, and what other viewers read."""

from __future__ import annotations

import json
from itertools import pairwise
from pathlib import Path
from typing import Any

import click
import numpy as np
import onnx
import pytest
from click.testing import CliRunner
from onnx import helper

import anydml as dml
from anydml.cli.main import commands
from anydml.onnx import load
from anydml.onnx.comparing import compare

ROOT = Path(__file__).parents[2]
DIGITS = ROOT / "examples" / "digits"


def ran(*arguments: str) -> tuple[int, str, str]:
    done = CliRunner().invoke(commands, [*arguments], standalone_mode=False)
    if done.exception is not None and not isinstance(done.exception, click.UsageError):
        raise done.exception
    return done.return_value, done.stdout, str(done.exception or done.stderr)


def test_a_program_s_page_has_every_fault_at_its_place(tmp_path: Path) -> None:
    to = tmp_path / "page.html"
    status, _, said = ran("picture", str(ROOT / "examples" / "programs" / "faulty.json"), "-o", str(to))
    assert status == 2
    assert said == f"Wrote {to}\n"
    text = to.read_text(encoding="utf-8")
    for place in ("/dispatchables/crop/desc/InputWindowOffsets/3", "/dispatchables/square/desc/OutputTensor/Sizes"):
        assert place in text
    assert "InputWindowStrides[2] is 0; it must not be 0" in text
    assert text.count("<details class=") == text.count(" open>") == 2
    assert 'class="fault"' in text


def test_a_program_without_faults_and_one_that_is_no_json(tmp_path: Path) -> None:
    to = tmp_path / "page.html"
    assert ran("picture", str(ROOT / "examples" / "programs" / "slice.json"), "-o", str(to))[0] == 0
    assert "A program without faults." in to.read_text(encoding="utf-8")
    hostile = tmp_path / "<img src=x>.json"
    hostile.write_text("{", encoding="utf-8")
    assert ran("picture", str(hostile), "-o", str(to))[0] == 2
    assert "<img" not in to.read_text(encoding="utf-8")
    assert "A program with 1 fault." in to.read_text(encoding="utf-8")


def test_what_cannot_be_drawn_is_refused_and_nothing_is_written(tmp_path: Path) -> None:
    program, model = str(ROOT / "examples" / "programs" / "slice.json"), str(DIGITS / "cnn.onnx")
    for arguments, message in {
        ("picture", program, "-o", str(tmp_path / "x.svg")): "written as .html or .htm, not as x.svg",
        ("picture", "SLICE1", "-o", str(tmp_path / "x.png")): "written as .svg or .html, not as x.png",
        ("describe", model, "--html", str(tmp_path / "x.png")): "written as .html or .htm, not as x.png",
        ("picture", model, "-o", str(tmp_path / "x.html")): "is a model: anydml describe",
        ("picture", str(tmp_path / "none.json"), "-o", str(tmp_path / "x.html")): "There is no file",
    }.items():
        assert message in ran(*arguments)[2]
    assert not [*tmp_path.iterdir()]


def test_an_operator_is_drawn_in_the_terminal_and_to_a_file(tmp_path: Path) -> None:
    status, said, _ = ran("picture", "slice1")
    assert status == 0
    assert said.startswith("SLICE1\n")
    assert "▸1:2" in said
    assert ran("picture", "GEMM", "-o", str(tmp_path / "gemm.svg"))[0] == 0
    assert (tmp_path / "gemm.svg").read_text(encoding="utf-8").startswith("<svg")
    assert "GEMN" in ran("picture", "GEMN")[2]


def test_a_model_s_page_draws_each_operator_once(tmp_path: Path) -> None:
    to = tmp_path / "page.html"
    assert ran("describe", str(DIGITS / "cnn.onnx"), "--html", str(to))[0] == 0
    text = to.read_text(encoding="utf-8")
    descs = {node.desc for node in load(DIGITS / "cnn.onnx").graph(N=1).desc.nodes if isinstance(node, dml.OperatorNode)}
    assert text.count('class="part anydml"') == len(descs) > 4
    assert "What flows where" in text
    assert "CONVOLUTION" in text
    assert "are for models" in ran("describe", "GEMM", "--html", str(to))[2]


def test_a_refused_model_s_page_names_the_refusal(tmp_path: Path) -> None:
    x = helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, (2,))
    y = helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, (2,))
    graph = helper.make_graph([helper.make_node("NoSuch", ["x"], ["y"], name="<b>n</b>", domain="other")], "g", [x], [y])
    onnx.save(
        helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17), helper.make_opsetid("other", 1)]),
        tmp_path / "m.onnx",
    )
    to = tmp_path / "page.html"
    assert ran("describe", str(tmp_path / "m.onnx"), "--html", str(to))[0] == 2
    text = to.read_text(encoding="utf-8")
    assert "NoSuch" in text
    assert "<b>" not in text


@pytest.fixture
def recorded(tmp_path: Path) -> list[str]:
    """Options for the comparison of cnn.onnx with two recordings, of which the second has a fault."""
    image = (np.random.default_rng(5).integers(0, 17, (4, 1, 8, 8)) / 16).astype(np.float32)
    exact = load(DIGITS / "cnn.onnx").run({"image": image}, keep="all")
    np.save(tmp_path / "image.npy", image)
    for name in ("phone", "npu"):
        np.savez(tmp_path / f"{name}.npz", allow_pickle=False, **exact)
        exact = {n: x + np.float32(0.5) if n == "logits" else x for n, x in exact.items()}
    files = [str(tmp_path / f"{name}.npz") for name in ("phone", "npu")]
    options = ["compare", str(DIGITS / "cnn.onnx"), "--input", f"image={tmp_path / 'image.npy'}"]
    return [*options, *(x for f in files for x in ("--actual", f))]


def test_several_runtimes_side_by_side(recorded: list[str], tmp_path: Path) -> None:
    page, data = tmp_path / "page.html", tmp_path / "data.json"
    status, said, notes = ran(*recorded, "--html", str(page), "--model-explorer", str(data), "--json", "--quiet")
    assert status == 1
    found = json.loads(said)
    assert [one["equal"] for one in found.values()] == [True, False]
    text = page.read_text(encoding="utf-8")
    assert text.count('<th scope="col">') == 3
    assert text.count('class="unit"') == 8
    assert (
        sorted(p.name for p in tmp_path.glob("data*"))
        == [f"data.{i}{kind}.json" for i in (1, 2) for kind in (".accumulated", "", ".verdict")]
        or notes
    )


def test_node_data_for_model_explorer(recorded: list[str], tmp_path: Path) -> None:
    """As node_data_builder of ai-edge-model-explorer 0.1.34 writes it, by the names of outputs."""
    assert ran(*recorded[:-2], "--model-explorer", str(tmp_path / "d.json"))[0] == 0
    own, far, verdicts = (json.loads((tmp_path / f"d{k}.json").read_text()) for k in ("", ".accumulated", ".verdict"))
    assert own.keys() == {"name", "results"}
    names = {n for node in onnx.load(DIGITS / "cnn.onnx").graph.node for n in node.output}
    assert own["results"].keys() == far["results"].keys() == verdicts["results"].keys() == names
    assert {r["value"] for r in own["results"].values()} == {0}
    assert {r["value"] for r in verdicts["results"].values()} == {"equal"}


def test_a_profile_for_perfetto(tmp_path: Path) -> None:
    graph = dml.graph(lambda x: dml.activation_softmax(dml.gemm(x, x)), x=dml.TensorDesc("FLOAT32", (4, 4)))
    profile = graph.compile().profile(2, x=np.eye(4, dtype="f4"), output=np.empty((4, 4), "f4"))
    profile.to_perfetto(tmp_path / "trace.json")
    events = json.loads((tmp_path / "trace.json").read_text())["traceEvents"]
    spans: list[dict[str, Any]] = [e for e in events if e["ph"] == "X"]
    assert [e["name"] for e in spans] == [s.nodes for s in profile]
    assert all(a["ts"] + a["dur"] == b["ts"] for a, b in pairwise(spans))


def test_details_are_kept_only_if_asked_for() -> None:
    x = np.array([[-1, 2, 3], [4, 5, 6]], np.float32)
    info = [helper.make_tensor_value_info(n, onnx.TensorProto.FLOAT, (2, 3)) for n in "xy"]
    graph = helper.make_graph([helper.make_node("Relu", ["x"], ["y"], name="n")], "g", info[:1], info[1:])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])
    actual = {"y": x}
    assert not compare(model, {"x": x}, actual=actual).details
    found = compare(model, {"x": x}, actual=actual, details=True)
    assert compare(model, {"x": x}, actual=actual) == found
    (tensor,) = found.details["n",].tensors
    assert tensor.worst[0].reads == "Input[0, 0] = -1"
