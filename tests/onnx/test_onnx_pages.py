"""The code on the pages about runtimes does what they say."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

from anydml.cli.main import commands

ROOT = Path(__file__).parents[2]
DIGITS = ROOT / "examples" / "digits"


def python_blocks(page: str) -> list[str]:
    return re.findall(r"^```python\n(.*?)^```$", (ROOT / "docs" / page).read_text(encoding="utf-8"), re.M | re.S)


@pytest.fixture
def digits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with the models and an image.npy, which is the current one."""
    for name in ("cnn", "cnn-qlinear"):
        (tmp_path / f"{name}.onnx").write_bytes((DIGITS / f"{name}.onnx").read_bytes())
    np.save(tmp_path / "image.npy", (np.random.default_rng(5).integers(0, 17, (40, 1, 8, 8)) / 16).astype(np.float32))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "200")
    return tmp_path


def test_the_recorder_of_the_page_records_what_compare_reads(digits: Path) -> None:
    pytest.importorskip("onnxruntime")
    (digits / "model.onnx").write_bytes((DIGITS / "cnn.onnx").read_bytes())
    (code,) = (block for block in python_blocks("which-node.md") if "np.savez" in block)
    assert len(code.splitlines()) <= 14
    exec(code, {})
    options = ["compare", "model.onnx", "--input", "image=image.npy", "--actual", "actual.npz"]
    done = CliRunner().invoke(commands, options, standalone_mode=False)
    assert done.return_value == 0, done.stdout
    assert "were not recorded" not in done.stdout


def test_the_report_on_the_page(digits: Path) -> None:
    text = (ROOT / "docs" / "which-node.md").read_text(encoding="utf-8")
    found = re.search(r"^\$ anydml (report .*?)\n(.*?)^```$", text, re.M | re.S)
    assert found is not None
    done = CliRunner().invoke(commands, found[1].split(), standalone_mode=False)
    assert done.exception is None
    assert [line.rstrip() for line in done.stdout.splitlines()] == found[2].splitlines()
    assert (digits / "report.html").exists()


def test_the_hard_inputs_on_the_page() -> None:
    (code,) = (block for block in python_blocks("oracle-for-runtimes.md") if "hard_inputs" in block)
    names: dict[str, Any] = {}
    exec(code, names)
    assert names["twice"].shape == (16, 16)
