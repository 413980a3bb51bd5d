"""The parts of `make soak`: their files exist, results add up over several sittings, and what failed is run again."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT / "tools"))
import soak  # noqa: E402


def test_every_pattern_of_every_part_has_files() -> None:
    for _, runs in soak.PARTS.values():
        for run in runs:
            for pattern in run.files.split():
                assert any(path.name.startswith("test_") for path in ROOT.glob(pattern)), pattern
            assert all("=" in item for item in run.variables.split())
    names = [unit.name for unit in soak.units()]
    assert len({*names}) == len(names) > 80
    made = next(line for line in (ROOT / "Makefile").read_text().splitlines() if line.startswith("SOAKS := "))
    assert made == f"SOAKS := $(addprefix soak-,{' '.join(soak.PARTS)})"


def test_sittings_add_up(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    seen: list[str] = []

    def sit(unit: soak.Unit, digest: str) -> dict[str, Any]:
        seen.append(unit.file)
        wrong = ["a test"] if unit.file.endswith("test_staged.py") and seen.count(unit.file) == 1 else []
        found = {"unit": unit.name, "part": unit.part, "code": digest, "processor": "P", "seconds": 2.0}
        found |= {"wrong": wrong, "counts": {"tests": 3, "cases": 1000}}
        with soak.RESULTS.open("a") as file:
            file.write(json.dumps(found) + "\n")
        if len(seen) == 4:
            raise KeyboardInterrupt
        return found

    monkeypatch.setattr(soak, "RESULTS", tmp_path / "soak.jsonl")
    monkeypatch.setattr(soak, "sit", sit)
    monkeypatch.setattr(soak, "code", lambda: "today")
    count = sum(unit.part == "contractions" for unit in soak.units())
    monkeypatch.setattr(sys, "argv", ["soak", "contractions"])
    with pytest.raises(KeyboardInterrupt):
        soak.main()
    assert soak.main() == 1  # one has failed
    assert len(seen) == count
    assert "wrong: a test" in capsys.readouterr().out
    assert soak.main() == 0
    assert len(seen) == count + 1
    (row,) = (line for line in capsys.readouterr().out.splitlines() if line.startswith("| contractions"))
    assert row == f"| contractions | P | {count} of {count} | {3 * count} | {1000 * count:,} cases | {2 * count} | 0 |"
    monkeypatch.setattr(sys, "argv", ["soak", "contractions", "rows", "--list"])
    assert soak.main() == 0
    assert "| rows | | 0 of 3 |" in capsys.readouterr().out
    monkeypatch.setattr(sys, "argv", ["soak", "sums"])
    with pytest.raises(SystemExit):
        soak.main()
    assert "there are no parts sums" in capsys.readouterr().err


def test_tests_and_cases_of_a_file_are_counted(tmp_path: Path) -> None:
    (tmp_path / "test_it.py").write_text(
        "import os\n\ndef test_one(record_property):\n    record_property('cases', int(os.environ['TIMES']))\n\n"
        "def test_two():\n    assert 0\n"
    )
    program = f"""
import sys
sys.path.insert(0, {str(ROOT / "tools")!r})
from pathlib import Path
import soak
soak.tested(soak.Unit("dask", soak.Run("TIMES=7", ""), "test_it.py"), Path("told"))
"""
    subprocess.run([sys.executable, "-c", program], cwd=tmp_path, check=True, capture_output=True)
    assert json.loads((tmp_path / "told").read_text()) == {
        "wrong": ["test_it.py::test_two"], "counts": {"tests": 1, "cases": 7},
    }  # fmt: skip
