"""The page about Dask: what it shows happens; its recipe for Ray Data is run where Ray is installed."""

from __future__ import annotations

import doctest
import os
import warnings
from pathlib import Path
from typing import Any

import numpy as np
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


def test_the_recipe_for_ray_data() -> None:
    ray = pytest.importorskip("ray", reason="Ray is not installed")
    pytest.importorskip("pyarrow")
    import anydml.onnx

    model = anydml.onnx.load(ROOT / "examples" / "digits" / "cnn-qdq.onnx")
    images = np.random.default_rng(0).random((40, 1, 8, 8)).astype(np.float32) * 16
    text = PAGE.read_text(encoding="utf-8").partition("**Ray Data**")[2].partition("```python\n")[2].partition("```")[0]
    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    ray.init(num_cpus=2, include_dashboard=False, _node_ip_address="127.0.0.1", logging_level="ERROR")
    try:
        names: dict[str, Any] = {"model": model, "dataset": ray.data.from_numpy(images).rename_columns(["image"])}
        *body, last = text.strip().splitlines()
        exec("\n".join(body), names)
        found = eval(last, names).take_all()
    finally:
        ray.shutdown()
    got = np.stack([row["logits"] for row in found])
    assert sorted(map(bytes, got)) == sorted(map(bytes, model.run({"image": images})["logits"]))
