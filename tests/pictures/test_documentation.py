"""The pictures of the documentation are those that anydml makes, its notebooks run, and its search finds parts of names."""

from __future__ import annotations

import json
import re
import runpy
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import anydml as dml
from anydml.pictures.shown import Picture

ROOT = Path(__file__).parents[2]
NOTEBOOKS = sorted((ROOT / "examples" / "notebooks").glob("*.ipynb"))


def test_the_pictures_are_those_that_the_tool_makes() -> None:
    made = runpy.run_path(str(ROOT / "tools" / "pictures.py"))["PICTURES"]
    there = {path.stem: path.read_text(encoding="utf-8") for path in (ROOT / "docs" / "pictures").glob("*.svg")}
    assert there.keys() == made.keys()
    for name, make in made.items():
        assert make().svg() == there[name], f"{name}: python tools/pictures.py makes it anew"


def test_each_picture_is_on_a_page() -> None:
    pages = "".join(path.read_text(encoding="utf-8") for path in (ROOT / "docs").glob("*.md"))
    for path in (ROOT / "docs" / "pictures").glob("*.svg"):
        assert f"pictures/{path.name}" in pages


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda p: p.stem)
def test_the_notebooks_run(path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.chdir(path.parent)
    names: dict[str, Any] = {}
    cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
    sources = ["".join(cell["source"]) for cell in cells if cell["cell_type"] == "code"]
    assert all(not cell.get("outputs") for cell in cells)
    assert len(sources) >= 3
    for source in sources:
        *before, last = source.split("\n")
        try:
            shown = compile(last, path.name, "eval")
        except SyntaxError:
            exec(source, names)
            continue
        exec("\n".join(before), names)
        value = eval(shown, names)
        if isinstance(value, Picture):
            assert "<svg" in value._repr_html_()
    assert names
    capsys.readouterr()


def test_each_notebook_is_on_the_page() -> None:
    page = (ROOT / "docs" / "notebooks.md").read_text(encoding="utf-8")
    assert re.findall(r"`(\w+)\.ipynb`", page) == ["kernels", "models", "directml", "arrays"]
    assert {path.stem for path in NOTEBOOKS} == {"kernels", "models", "directml", "arrays"}


def test_the_search_splits_names_at_underscores() -> None:
    (found,) = re.findall(r"separator: '(.*?)'", (ROOT / "mkdocs.yml").read_text(encoding="utf-8"))
    assert re.split(found, "ACTIVATION_RELU - anydml")[1] == "RELU"
    assert re.split(found, "`anydml.activation_relu`")[3] == "relu"


def test_the_gallery_s_code_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (code,) = re.findall(r"^```python\n(.*?)^```$", (ROOT / "docs" / "gallery.md").read_text(encoding="utf-8"), re.M | re.S)
    exec(code, {"np": np, "dml": dml})
    assert (tmp_path / "slice.svg").read_text(encoding="utf-8") == (ROOT / "docs" / "pictures" / "slice.svg").read_text("utf-8")
