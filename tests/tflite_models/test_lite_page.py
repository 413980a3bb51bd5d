"""docs/tflite.md: its examples run, one after another, and print what it says; it lists the mapped operators."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

import anydml.tflite
from anydml.tflite.mapping import MAPPINGS
from lite_networks import network, spectrum
from pages import DOCS, examples_run

PAGE = (DOCS / "tflite.md").read_text(encoding="utf-8")


def test_the_examples_print_what_the_page_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("words.tflite").write_bytes(network(np.random.default_rng(4)))
    other = anydml.tflite.load(network(np.random.default_rng(4), changed="second weights"))
    np.save("x.npy", spectrum(np.random.default_rng(4)))
    tensors = other.run(spectrum=np.load("x.npy"), keep="all")
    np.savez("recorded.npz", allow_pickle=False, **{str(other.tensors[name].number): x for name, x in tensors.items()})
    assert examples_run("tflite.md") == 2


def test_the_page_lists_the_mapped_operators() -> None:
    (listed,) = re.findall(r"^Mapped are (.*?)\.$", PAGE, re.MULTILINE | re.DOTALL)
    assert set(re.findall(r"[A-Z0-9_]+", listed)) == MAPPINGS.keys()
