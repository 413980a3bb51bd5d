"""The page of processors has the thresholds that follow from the caches which it names."""

from __future__ import annotations

import re
import runpy
from pathlib import Path

import pytest

from anydml.kernels.code import processor, tuned

ROOT = Path(__file__).parents[2]
UNITS = {"KB": 1 << 10, "MB": 1 << 20}


def size(text: str) -> int:
    number, unit = text.split()
    return int(number) * UNITS[unit]


def test_thresholds_of_processors(monkeypatch: pytest.MonkeyPatch) -> None:
    """Modules of thresholds are run with each row's caches."""
    head, _, *rows = re.search(
        r"^\| caches: second, last .*(?:\n\|.*)+", (ROOT / "docs/kernels/processors.md").read_text("utf-8"), re.MULTILINE
    )[0].splitlines()  # type: ignore[index]
    names = [cell.strip() for cell in head.strip("|").split("|")][4:]
    monkeypatch.setattr(tuned, "measured", dict)
    assert len(rows) >= 7
    for row in rows:
        sizes, _, maker, _, *shown = (cell.strip() for cell in row.strip("|").split("|"))
        caches = processor.Caches(*map(size, sizes.split(", ")))
        assert processor.sensible({2: caches.second, 3: caches.last}) == caches
        monkeypatch.setattr(processor, "caches", lambda caches=caches: caches)
        monkeypatch.setattr(processor, "name", lambda maker=maker: f"a processor of {maker}")
        for name, text in zip(names, shown, strict=True):
            family, _, threshold = name.rpartition(".")
            path = ROOT / "src/anydml/kernels" / family.replace(".", "/") / "tuning.py"
            assert getattr(runpy.run_path(str(path))["TUNING"], threshold) == int(text.replace(",", "")), (row, name)
