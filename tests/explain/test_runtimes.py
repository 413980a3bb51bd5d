"""`tools/runtimes.py`: what NumPy and onnxruntime compute is explained by rounding in some form."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[2] / "tools"))
import runtimes
import runtimes_cases

USUAL = ["normal", "small variance", "integers"]


@pytest.mark.parametrize("runtime", ["numpy", "onnxruntime"])
def test_ordinary_results_are_never_beyond_rounding(runtime: str, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip(runtime)
    pytest.importorskip("onnx")
    runtimes.main(["--runtime", runtime, *(word for kind in USUAL for word in ("--inputs", kind))])
    said = capsys.readouterr().out
    counts = {line[3:67].strip(): int(line[67:]) for line in said.splitlines() if line[67:].strip().isdigit()}
    assert counts["all"] >= 3 * 48
    assert not {"beyond", "no bound", "failed"} & set(counts), said
    assert counts["explained by the normalisation folded into scale and shift"] == 3


def test_the_cells_are_of_forty_operators_and_three_runtimes() -> None:
    for runtime in runtimes.RUNTIMES:
        assert sum(runtime in operator.runtimes for operator in runtimes_cases.OPERATORS) >= 40
