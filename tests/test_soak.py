"""The parts of `make soak`: their files exist, results add up over several sittings, and what failed is run again."""

from __future__ import annotations

import json
import os
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


def sat(folder: Path, times: int, workers: bool) -> Any:
    """Run `soak.tested` on test_it.py in a process of its own, and return the tests and cases that it wrote down."""
    program = f"""
import sys
sys.path.insert(0, {str(ROOT / "tools")!r})
from pathlib import Path
import soak
soak.BEGUN = Path("begun")
soak.tested(soak.Unit({"ties" if workers else "dask"!r}, soak.Run("SAID=1", ""), "test_it.py"), Path("told"), "today")
"""
    environment = {**os.environ, "TIMES": str(times)}
    subprocess.run([sys.executable, "-c", program], cwd=folder, check=True, capture_output=True, env=environment)
    return json.loads((folder / "told").read_text())


@pytest.mark.parametrize("workers", [False, True])
def test_a_file_goes_on_where_it_was_stopped(tmp_path: Path, workers: bool) -> None:
    (tmp_path / "pyproject.toml").write_text('[tool.pytest.ini_options]\nmarkers = ["xdist_group"]\n')
    (tmp_path / "test_it.py").write_text(
        "import os\nimport pytest\n\n@pytest.mark.xdist_group('one')\ndef test_one(record_property):\n"
        "    record_property('cases', int(os.environ['TIMES']) * int(os.environ['SAID']))\n\n"
        "def test_one_more():\n    assert os.environ['TIMES'] == '8'\n"
    )
    wrong = ["test_it.py::test_one_more"]
    assert sat(tmp_path, 7, workers) == {"wrong": wrong, "counts": {"tests": 1, "cases": 7}}
    (line,) = (tmp_path / "begun").read_text().splitlines()
    assert (json.loads(line)["code"], json.loads(line)["counts"]) == ("today", {"tests": 1, "cases": 7})
    assert sat(tmp_path, 8, workers) == {"wrong": [], "counts": {"tests": 2, "cases": 7}}  # the first is not run again
    assert not (tmp_path / "told.passed").exists()
