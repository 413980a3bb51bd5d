"""The five samples of Microsoft's Python binding, unchanged, if a checkout of microsoft/DirectML is beside this one.

ANYDML_PYDIRECTML_SAMPLES is the folder `Python/samples` of another checkout.
"""

from __future__ import annotations

import gc
import os
import runpy
import sys
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from anydml import pydirectml
from float64_graphs import evaluate

SAMPLES = Path(os.environ.get("ANYDML_PYDIRECTML_SAMPLES", "") or Path(__file__).parents[3] / "DirectML" / "Python" / "samples")
LARGEST = SAMPLES / "mobile_net_data" / "mobilenetv20_output_pred_weight.npy"
NOT_THERE = "that copy of microsoft/DirectML lacks {}"

pytestmark = [
    pytest.mark.skipif(not SAMPLES.is_dir(), reason="no checkout of microsoft/DirectML lies beside this one"),
    pytest.mark.filterwarnings("ignore:Reading `.npy`", "ignore:invalid value encountered in cast"),
]


class Run:
    """A sample's run: its output, and its last model with inputs and outputs."""

    def __init__(self, name: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
        self.pictures: list[Any] = []
        compute = pydirectml.Device.compute

        def computed(device: Any, model: Any, inputs: Any, outputs: Any) -> Any:
            self.model, self.inputs = model, inputs
            self.outputs = compute(device, model, inputs, outputs)
            return self.outputs

        monkeypatch.setattr(pydirectml.Device, "compute", computed)
        monkeypatch.setattr(Image.Image, "show", lambda picture: self.pictures.append(picture))
        monkeypatch.setattr(sys, "argv", [name])
        monkeypatch.setitem(sys.modules, "pydirectml", pydirectml)
        monkeypatch.chdir(SAMPLES)
        runpy.run_path(name, run_name="__main__")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ResourceWarning)  # the scripts do not close files
            gc.collect()
        self.lines = capsys.readouterr().out.split("\n")

    def close(self) -> None:
        """Assert that the outputs are close to those of float64, except for float32's roundings in between."""
        read = {k: np.array(self.inputs[i].data).reshape(-1) for k, i in enumerate(self.model._inputs)}
        (found,), (expected,) = self.outputs, evaluate(self.model._desc, read)
        np.testing.assert_allclose(np.array(found).reshape(-1), expected, rtol=1e-4, atol=1e-5 * np.abs(expected).max())


@pytest.mark.parametrize(
    ("name", "lines"),
    [
        ("mnist.py", ["", "Number is: 1", "Confidence: 99.98%", ""]),
        ("squeezenet.py", ["", "Category: toy poodle", "", "Confidence: 21.52%", ""]),
        ("superres.py", [""]),
        ("candy.py", [""]),
    ],
)
def test_a_sample_runs_as_it_is(
    name: str, lines: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    run = Run(name, monkeypatch, capsys)
    assert run.lines == lines
    assert [x.size for x in run.pictures] == {"superres.py": [(672, 672)], "candy.py": [(720, 720)]}.get(name, [])
    run.close()


def test_mobilenet_runs_as_it_is(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    if not LARGEST.is_file():
        pytest.skip(NOT_THERE.format(LARGEST.name))
    run = Run("mobilenet.py", monkeypatch, capsys)
    assert run.lines[1].startswith("Category: ")
    run.close()


def test_mobilenet_without_its_last_weights(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """If a copy lacks the largest file, random weights replace it, and the network is compared in the same way."""
    load = np.load

    def loaded(path: Any) -> Any:
        if Path(path).name == LARGEST.name:
            return np.random.default_rng(0).standard_normal((1000, 1280, 1, 1)).astype(np.float32) / 8
        return load(path)

    monkeypatch.setattr(np, "load", loaded)
    Run("mobilenet.py", monkeypatch, capsys).close()
