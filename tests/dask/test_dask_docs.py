"""The page about Dask: what it shows happens; its recipe for Ray Data is run where Ray is installed."""

from __future__ import annotations

import doctest
import subprocess
import sys
import warnings
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "dask.md"


def test_every_example_of_the_page_gives_what_it_says(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", module="zarr|dask|xarray")
        results = doctest.testfile(str(PAGE), module_relative=False, optionflags=doctest.NORMALIZE_WHITESPACE)
    assert results.attempted >= 30
    assert results.failed == 0


SCRIPT = """
import os, sys
os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
import numpy as np, ray, anydml.onnx
model = anydml.onnx.load("examples/digits/cnn-qdq.onnx")
images = np.random.default_rng(0).random((40, 1, 8, 8)).astype(np.float32) * 16
ray.init(num_cpus=2, include_dashboard=False, _node_ip_address="127.0.0.1", object_store_memory=100 << 20)
dataset = ray.data.from_numpy(images).rename_columns(["image"])
*body, last = sys.argv[1].strip().splitlines()
exec("\\n".join(body))
got = [row["logits"] for row in eval(last).take_all()]
assert sorted(map(bytes, got)) == sorted(map(bytes, model.run({"image": images})["logits"]))
"""


def test_the_recipe_for_ray_data() -> None:
    """In a process of its own, since Ray takes over signals."""
    pytest.importorskip("ray", reason="Ray is not installed")
    text = PAGE.read_text(encoding="utf-8").partition("**Ray Data**")[2].partition("```python\n")[2].partition("```")[0]
    subprocess.run([sys.executable, "-c", SCRIPT, text], cwd=ROOT, check=True, timeout=300)
