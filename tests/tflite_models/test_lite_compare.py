"""`compare` on recorded tensors: a planted fault is named at its layer, and what TensorFlow Lite rounds twice is named, too."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from test_onnx_cli import invoked

import anydml.tflite
from anydml.errors import BindingError
from anydml.explain import deviations
from every_kernel import SOAK, Ran
from lite_networks import WEIGHTS, network, spectrum

Array = NDArray[Any]


def followed(model: anydml.tflite.Model, x: Array, name: str, output: Array) -> dict[str, Array]:
    """The tensors where one is another, and what follows is computed from it."""
    nodes = [node.name for node in model.read.nodes]
    later = model.read.nodes[nodes.index(name) + 1 :]
    found = {**model.run({"spectrum": x}, keep="all"), name: output}
    if later:
        rest = model.read._replace(nodes=later, inputs=(model.tensors[name],))
        found |= anydml.tflite.Model(rest).run({name: output}, keep="all")
    return found


def by_number(model: anydml.tflite.Model, tensors: Mapping[str, Array]) -> dict[str, Array]:
    return {str(model.tensors[name].number): x for name, x in tensors.items()}


def test_an_exact_runtime_is_equal_everywhere() -> None:
    file, x = network(np.random.default_rng(1)), spectrum(np.random.default_rng(2))

    def run(model: bytes, inputs: Mapping[str, Array]) -> dict[str, Array]:
        return anydml.tflite.load(model).run(inputs, keep="all")

    found = anydml.tflite.compare(file, {"sound": x}, run)
    assert found.equal
    assert len(found.nodes) == 7
    assert str(found) == "All 7 nodes that were judged are exact"


@pytest.mark.parametrize("weight", [*WEIGHTS])
def test_a_changed_weight_is_named_at_its_layer(weight: str, ran: Ran) -> None:
    cases = 0
    for seed in range(4 * SOAK):
        file, other = (network(np.random.default_rng(seed), changed=name) for name in ("", weight))
        model, x = anydml.tflite.load(file), spectrum(np.random.default_rng(seed))
        actual = anydml.tflite.load(other).run({"spectrum": x}, keep="all")
        exact = model.run({"spectrum": x}, keep="all")[WEIGHTS[weight]]
        if np.abs(actual[WEIGHTS[weight]].astype(int) - exact).max() <= 1:  # as little as another requantisation changes
            continue
        found = anydml.tflite.compare(model, {"spectrum": x}, actual=by_number(model, actual))
        assert found.first is not None
        assert (found.first.name, found.first.verdict) == (WEIGHTS[weight], "beyond rounding"), str(found)
        assert [row.name for row in found.nodes if row.departs] == [WEIGHTS[weight]]
        cases += 1
    ran(cases, 2 * SOAK)


def product(model: anydml.tflite.Model, tensors: Mapping[str, Array], deviation: Any) -> Array:
    """The scores of the network by a deviation of requantisation."""
    w, b = model.constants["score weights"], model.constants["score bias"]
    sums = (tensors["flat"].astype(np.int64) + 128) @ w.astype(np.int64).T + b
    scales = [model.tensors[name].quantised.scales for name in ("flat", "score weights", "scores")]
    made: Array = deviation(sums, *scales, 14, output_data_type=np.int8)
    return made


@pytest.mark.parametrize("name", ["fixed_point_double_rounding", "truncation", "rounding_down"])
def test_a_deviation_of_one_layer_is_named_there(name: str, ran: Ran) -> None:
    cases = seed = 0
    while cases < 2 * SOAK and seed < 40 * SOAK:
        seed += 1
        random = np.random.default_rng(seed)
        model = anydml.tflite.load(network(random))
        x = spectrum(random, 24)
        tensors = model.run({"spectrum": x}, keep="all")
        output = product(model, tensors, getattr(deviations, name))
        if np.array_equal(output, tensors["scores"]):
            continue
        actual = followed(model, x, "scores", output)
        found = anydml.tflite.compare(model, {"spectrum": x}, actual=actual)
        assert found.first is not None
        assert found.first.name == "scores", str(found)
        assert [row.name for row in found.nodes if row.departs] == ["scores"]
        if name.startswith("fixed"):
            assert found.first.verdict == "rounding", str(found)
        else:
            assert (found.first.verdict, found.first.deviation) == ("beyond rounding", name), str(found)
        cases += 1
    ran(cases, 1)


def test_nodes_around_what_was_not_recorded_are_judged_as_one() -> None:
    random = np.random.default_rng(5)
    model, x = anydml.tflite.load(network(random)), spectrum(random)
    tensors = model.run({"spectrum": x}, keep="all")
    wrong = tensors["third"].copy()
    wrong[0, 2, 2, 3] ^= 0x40
    actual = followed(model, x, "third", wrong)
    del actual["second"]
    found = anydml.tflite.compare(model, {"spectrum": x}, actual=actual)
    assert found.first is not None
    assert found.first.nodes == ("second", "third")
    assert "1 of 7 tensors was not recorded" in str(found)
    assert found.first.carried is not None


def test_tensors_that_do_not_fit_are_named() -> None:
    file, x = network(np.random.default_rng(1)), spectrum(np.random.default_rng(2))
    with pytest.raises(BindingError, match="none of its tensors is computed by a node"):
        anydml.tflite.compare(file, {"spectrum": x}, actual={"other": x})
    with pytest.raises(BindingError, match=r"chances.*must be int8 \(1, 5\)"):
        anydml.tflite.compare(file, {"spectrum": x}, actual={"chances": x})
    with pytest.raises(TypeError, match="either run=, a function, or actual="):
        anydml.tflite.compare(file, {"spectrum": x})


# --- the command line ---


@pytest.fixture
def recorded(tmp_path: Path) -> Path:
    """A model with its inputs and tensors in files; a weight of the second layer was another one when they were recorded."""
    (tmp_path / "words.tflite").write_bytes(network(np.random.default_rng(4)))
    other = anydml.tflite.load(network(np.random.default_rng(4), changed="second weights"))
    x = spectrum(np.random.default_rng(4))
    np.savez(tmp_path / "inputs.npz", spectrum=x)
    np.savez(tmp_path / "actual.npz", allow_pickle=False, **by_number(other, other.run({"spectrum": x}, keep="all")))
    np.save(tmp_path / "x.npy", x)
    return tmp_path


def test_compare_names_the_layer(recorded: Path) -> None:
    file = str(recorded / "words.tflite")
    options = ["--inputs", str(recorded / "inputs.npz"), "--actual", str(recorded / "actual.npz")]
    status, text = invoked("compare", file, *options, "--html", str(recorded / "page.html"))
    assert status == 1
    assert "The one beyond rounding is second (DEPTHWISE_CONV_2D)" in " ".join(text.split())
    assert "second" in (recorded / "page.html").read_text()
    status, text = invoked("compare", file, *options, "--json")
    assert json.loads(text)["first"] == "second"


def test_run_check_and_describe(recorded: Path) -> None:
    file = str(recorded / "words.tflite")
    status, text = invoked("run", file, "--input", f"spectrum={recorded / 'x.npy'}", "--output-path", str(recorded / "out"))
    assert (status, text.splitlines()[0]) == (0, "chances: int8 (1, 5)")
    due = anydml.tflite.load(file).run(spectrum=np.load(recorded / "x.npy"))
    np.testing.assert_array_equal(np.load(recorded / "out" / "chances.npy"), due["chances"])
    status, text = invoked("check", file)
    assert status == 0
    assert "nothing is refused" in text
    facts = json.loads(invoked("describe", file, "--json")[1])
    assert facts["operators"]["SOFTMAX"] == 1
    assert facts["inputs"] == {"spectrum": "INT8 (?, 12, 10, 1), scale 0.579999983, zero point 83"}


def test_options_that_do_not_fit_a_model_are_refused(recorded: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import click

    file = str(recorded / "words.tflite")
    for arguments, said in (
        (("compare", file, "--against", "onnxruntime", "--random", "1"), "onnxruntime runs models of ONNX"),
        (("run", file, "--turns", "3"), "--turns is for ONNX models"),
        (("run", file), "The model reads spectrum"),
    ):
        with pytest.raises(click.UsageError, match=said):
            invoked(*arguments)
    monkeypatch.setattr("anydml.cli.compare_models.find_spec", lambda name: None)
    with pytest.raises(click.UsageError, match="litert is not installed here: pip install ai-edge-litert"):
        invoked("compare", file, "--against", "litert", "--random", "1")
