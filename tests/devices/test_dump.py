"""ANYDML_DUMP: files with the texts of kernels."""

from __future__ import annotations

import os
import random
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import anydml as dml
import quantised_graphs
from anydml.kernels.code import llvm
from quantised_graphs import INT8, UINT8, Recipe

pytestmark = pytest.mark.skipif(llvm.unavailable() is not None, reason="there is no LLVM here")
PERF = Path(f"/tmp/perf-{os.getpid()}.map")
CALLED = re.compile(r"^ +([a-z_.]+\.[a-z0-9_]+\.[0-9a-f]{10})\(", re.MULTILINE)


def compiled(desc: Any, kernel: str, **ways: Any) -> Any:
    made = dml.Device(threads=1, **ways).compile(desc)
    assert made.kernel_name == kernel
    return made


def exp_of(count: int) -> dml.ElementWiseExp:
    t = dml.TensorDesc("FLOAT32", (count,))
    return dml.ElementWiseExp(input_tensor=t, output_tensor=t)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, own_code: None) -> Iterator[Path]:
    made = tmp_path / "is" / "made"
    monkeypatch.setenv("ANYDML_DUMP", str(made))
    yield made
    PERF.unlink(missing_ok=True)


def test_an_operator_is_written(folder: Path) -> None:
    x, w, y = (dml.TensorDesc("FLOAT32", sizes) for sizes in ((40, 30), (30, 50), (40, 50)))
    compiled(dml.Gemm(a_tensor=x, b_tensor=w, output_tensor=y), "contract.floats:compiled")
    (path,) = (folder / "operators").iterdir()
    assert path.name.startswith("GEMM.contract.floats.compiled.")
    text = path.read_text()
    for line in (
        "elementwise:compiled: an element depends on more than one element of an input",
        "sum over k < 30 of a_tensor[i, k] * b_tensor[k, j]",
        "  Contraction",
        '"FLOAT32"',
    ):
        assert line in text, line
    called = CALLED.findall(text)
    assert any(name.startswith("contract.floats.packed.tile.sums.") for name in called), "the name tells the algorithm"
    for name in called:
        assert "define i64 @kernel(" in (folder / "kernels" / f"{name}.ll").read_text()
        assert "kernel" in (folder / "kernels" / f"{name}.s").read_text()


def test_graphs_are_written_and_their_regions(folder: Path) -> None:
    layer = Recipe(UINT8, INT8, UINT8, (1, 16, 9, 9), (8, 3, 3), padding=1, clamp="relu")
    case = quantised_graphs.make(layer, 3)
    made = dml.Device(threads=1).compile(case.desc)
    (path,) = (folder / "graphs").iterdir()
    assert repr(made) in path.read_text()
    (path,) = (folder / "operators").glob("FUSED.contract.quantised.compiled.*")
    text = path.read_text()
    assert "QuantisedSums" in text, "what the pattern makes of the statement"
    assert CALLED.findall(text)


def test_refusals_of_regions_are_written(folder: Path) -> None:
    """Regions with scales that make a tie of too many sums."""
    for k in range(12):
        case = quantised_graphs.make(quantised_graphs.random_recipe(random.Random(f"quantised {k}")), k)
        dml.Device(threads=1).compile(case.desc)
    written = "".join(path.read_text() for path in (folder / "graphs").iterdir())
    assert re.search(r"^.+ \+ .+, contract.quantised:compiled: the scales make a tie", written, re.MULTILINE)


@pytest.mark.skipif(sys.platform != "linux", reason="there is no perf")
def test_perf_has_the_same_names(folder: Path) -> None:
    made = compiled(exp_of(1000), "elementwise:compiled")
    code = made.built.rounds[0].phases[0][0][0].code
    lines = [line.split() for line in PERF.read_text().splitlines()]
    (mine,) = (line for line in lines if int(line[0], 16) == code.address)
    assert int(mine[1], 16) > 100
    assert (folder / "kernels" / f"{mine[2]}.ll").exists()
    assert mine[2].startswith("elementwise.emit.emitted.")


def test_a_folder_that_cannot_be_written_is_an_error_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("ANYDML_DUMP", str(tmp_path / "file" / "folder"))
    with pytest.raises(dml.UnsupportedError, match=r"ANYDML_DUMP is .*file.folder', and nothing can be written there: "):
        dml.Device(threads=1).compile(exp_of(7))
    x = np.zeros(7, np.float32)
    made, y = compiled(exp_of(7), "elementwise:compiled"), np.empty_like(x)
    made.bind(input_tensor=x, output_tensor=y).execute()
    assert (y == 1).all()


def test_nothing_is_imported_for_it_otherwise() -> None:
    program = (
        "import sys, numpy as np, anydml as dml; dml.element_wise_exp(np.ones(5, np.float32));"
        "sys.exit(any(name.endswith('.dump') and 'anydml' in name for name in sys.modules))"
    )
    environment = {k: v for k, v in os.environ.items() if k != "ANYDML_DUMP"}
    subprocess.run([sys.executable, "-c", program], env=environment, check=True)
