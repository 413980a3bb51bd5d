"""Pages in Chromium: nothing on the console, nothing from the network, no violation that axe finds, at any width and theme.

Chromium is Debian's; playwright-core and axe-core come from npm into .pages: `make test-pages` installs them, and loads every
page. `make test` loads one where they are there.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import onnx
import pytest
from made import HOSTILE, hostile, large

import anydml as dml
from anydml import operators
from anydml.onnx.compare_page import page
from anydml.onnx.comparing import compare
from anydml.schema.operator import example_desc

ROOT = Path(__file__).parents[2]
DIGITS = ROOT / "examples" / "digits"
EVERY = os.environ.get("ANYDML_PAGES") == "1"
LARGEST = 5_000_000  # bytes of a page of 2,000 nodes
LOOKS = "light:360 dark:1600 light:1600 dark:360" if EVERY else "light:360 dark:1600"  # themes, and widths in pixels
READY = 2000  # milliseconds of processor time until such a page has answered two searches


def loaded(tmp_path: Path, **pages: str) -> list[dict[str, object]]:
    """Each page in each of the looks, as load.js tells of it; the test is skipped where there is no browser."""
    browser = shutil.which("chromium")
    packages = ROOT / ".pages" / "node_modules"
    if browser is None or shutil.which("node") is None:
        pytest.skip("there is no chromium, or no node: Debian's packages have them")
    if not packages.exists():
        pytest.skip("playwright-core and axe-core are not there: make test-pages installs them")
    files = []
    for name, text in pages.items():
        files.append(tmp_path / f"{name}.html")
        files[-1].write_text(text, encoding="utf-8")
    shots = os.environ.get("ANYDML_SHOTS", "-")
    done = subprocess.run(
        ["node", Path(__file__).with_name("load.js"), browser, shots, LOOKS, *files],
        env={**os.environ, "NODE_PATH": str(packages)}, capture_output=True, text=True, timeout=500,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    found: list[dict[str, object]] = json.loads(done.stdout)
    assert len(found) == len(LOOKS.split()) * len(pages)
    return found


def is_clean(found: list[dict[str, object]]) -> None:
    wrong = [
        {key: one[key] for key in ("file", "colorScheme", "width", "messages", "requests", "violations", "wide")}
        for one in found
        if one["messages"] or one["requests"] or one["violations"] or one["wide"]
    ]
    assert not wrong, json.dumps(wrong, indent=1)


def test_a_page_of_a_comparison_is_clean(tmp_path: Path) -> None:
    is_clean(loaded(tmp_path, hostile=page(hostile(), f"m{HOSTILE}")))


@pytest.mark.skipif(not EVERY, reason="all pages are loaded by make test-pages")
def test_every_page_is_clean(tmp_path: Path) -> None:
    ort = pytest.importorskip("onnxruntime")
    assert ort
    from anydml.onnx.compare_runtimes import onnxruntime

    random = np.random.default_rng(5)
    image = (random.integers(0, 17, (40, 1, 8, 8)) / 16).astype(np.float32)
    pages = {}
    for name in ("cnn", "cnn-qdq", "cnn-qlinear", "encoder"):
        model = onnx.load(DIGITS / f"{name}.onnx")
        given = {model.graph.input[0].name: image[:, 0] if name == "encoder" else image}
        found = compare(model, given, onnxruntime, details=True)
        pages[name.replace("-", "_")] = page(found, f"{name}.onnx", "onnxruntime")
    operator = operators.find("SLICE1")
    assert operator is not None
    pages["broken"] = dml.picture(example_desc(operator, {"input_window_offsets": (0, 0, 0, 2)})).html()
    convolution = dml.picture(dml.convolution, image[:1, :, :6, :6], np.ones((2, 1, 3, 3), np.float32), start_padding=(1, 1))
    pages["convolution"] = convolution.html()
    is_clean(loaded(tmp_path, **pages))


@pytest.mark.skipif(not EVERY, reason="all pages are loaded by make test-pages")
def test_a_page_of_2000_nodes_is_clean_and_answers_soon(tmp_path: Path) -> None:
    found = loaded(tmp_path, large=page({"phone": large(), "npu": large()}, "large.onnx"))
    is_clean(found)
    assert all(isinstance(one["ready"], int) and one["ready"] < READY for one in found), [one["ready"] for one in found]


class Tags(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.found: set[str] = set()
        self.handlers: set[str] = set()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.add(tag)
        self.handlers |= {name for name, _ in attrs if name.startswith("on")}


def test_names_of_models_are_text() -> None:
    text = page(hostile(), f"m{HOSTILE}")
    tags = Tags()
    tags.feed(text)
    assert "img" not in tags.found
    assert not tags.handlers
    assert text.count("<script") == text.count("</script") == 1
    assert "\x1b" not in text
    assert "\u202e" not in text


def test_a_page_of_2000_nodes_is_small_and_has_blocks() -> None:
    found = large()
    assert len(found.nodes) == 2000
    text = page({"phone": found, "npu": found}, "large.onnx")
    assert len(text.encode()) < LARGEST
    assert text.count('<details class="block" id=') == 200
    assert text.count("66 blocks alike") == 1
    assert text.count("133 blocks alike") == 1
    assert text.count('<details class="block" id="block66" open>') == 1  # the one with a node beyond rounding
    assert text.count(" open>") == 1
    assert text.count('class="unit') == 2000


def test_nodes_that_one_runtime_fuses_are_a_box_for_all() -> None:
    text = page(hostile(), "m")
    assert text.count('class="unit fused"') == 1
    assert 'rowspan="2"' in text
    assert "beyond rounding" in text


def test_the_node_alone_counts_what_the_comparison_counted(capsys: pytest.CaptureFixture[str]) -> None:
    """The program on the page, run."""
    (first, _) = hostile().values()
    ((names, found),) = first.details.items()
    assert names == (f"second{HOSTILE}",)
    exec(found.python, {})
    assert capsys.readouterr().out.endswith(": 6 of 6 differ\n")
    assert "Add" in found.onnx
    (tensor,) = found.tensors
    assert sum(n for _, n in tensor.bins) == 6
    assert tensor.worst[0].reads.count("=") == 2
