"""The README: its examples run, and its counts are right."""

from __future__ import annotations

import doctest
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import anydml as dml
from anydml import operators
from anydml.catalog import NOT_COMPILED
from anydml.schema.directml import NAMES

ROOT = Path(__file__).parents[1]
README = ROOT / "README.md"
TEXT = README.read_text(encoding="utf-8")
PACKAGE = str(Path(dml.__file__).parents[1])  # the anydml under test, installed or not


def python(*arguments: str, path: str = "") -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, (path, PACKAGE))), "PYTHONIOENCODING": "utf-8"}
    command = [sys.executable, *arguments]
    return subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, encoding="utf-8", check=False)


def test_every_example_of_the_readme_gives_what_it_says() -> None:
    results = doctest.testfile(str(README), module_relative=False)
    assert results.attempted >= 16
    assert results.failed == 0


def test_the_examples_hold_where_nothing_can_be_compiled(tmp_path: Path) -> None:
    (tmp_path / "llvmlite.py").write_text("raise ImportError('no llvmlite')\n", encoding="utf-8")
    done = python("-m", "doctest", str(README), path=str(tmp_path))
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_the_sessions_of_the_readme_are_so() -> None:
    commands = 0
    for session in re.findall(r"^```console\n(.*?)^```$", TEXT, re.MULTILINE | re.DOTALL):
        for command, shown in re.findall(r"^\$ anydml (.*)\n((?:(?!\$ ).*\n)*)", session, re.MULTILINE):
            said = python("-m", "anydml", *command.split()).stdout
            assert doctest.OutputChecker().check_output(shown, said, doctest.ELLIPSIS), said
            commands += 1
    assert commands >= 3


@pytest.mark.parametrize(
    ("page", "targets"),
    [
        ("README.md", {"demo", "test", "bench"}),
        ("CONTRIBUTING.md", {"test", "lint", "functions", "docs", "approximations", "prove", "soak", "mutants"}),
    ],
)
def test_every_make_target_that_is_named_is_there(page: str, targets: set[str]) -> None:
    text, makefile = (ROOT / page).read_text(encoding="utf-8"), (ROOT / "Makefile").read_text(encoding="utf-8")
    assert set(re.findall(r"(?:`|^)make (\w+)", text, re.MULTILINE)) == targets
    assert all(f"\n{target}:" in makefile or f" {target} " in makefile for target in targets)


PAGES = [README, *(ROOT / name for name in ("CHANGELOG.md", "CONTRIBUTING.md", "pyproject.toml", "mkdocs.yml")),
         *(page for page in (ROOT / "docs").rglob("*.md") if page.parent.name != "operators")]  # fmt: skip


def test_the_operators_that_there_are_are_counted_once_and_rightly() -> None:
    counts = {
        page.relative_to(ROOT).as_posix(): found
        for page in PAGES
        if (found := re.findall(rf"(\w+)\s+of\s+(?:\w+\s+|DirectML's\s+)?{len(NAMES)}", page.read_text(encoding="utf-8")))
    }
    assert counts == {"README.md": [str(len(operators.every()))]}


def test_the_operators_said_to_be_compiled_are_those_that_are() -> None:
    sentence = re.search(r"^- All (\d+) of them are compiled for the processor(.*?\.md.*?)\. ", TEXT, re.MULTILINE | re.DOTALL)
    assert sentence
    assert int(sentence[1]) == len(operators.every())
    assert not NOT_COMPILED  # another test compares this list with what compiles
    named = set(re.findall(r"`(\w+)`", sentence[2]))
    assert len(named) > 12
    assert named <= {o.spec.name for o in operators.every()}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_between_files_lead_somewhere(page: Path) -> None:
    prose = re.sub(r"^```.*?^```|`[^`]*`", "", page.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
    for link in re.findall(r"\]\(([^)#]*)(?:#[^)]*)?\)", prose):
        generated = "operators/" in link and "src/" not in link
        assert not link or "://" in link or generated or (page.parent / link).exists(), link


FILES = [f"/{path.relative_to(ROOT).as_posix()}" for folder in ("src", "tests", "docs", "examples", "benchmarks", "tools")
         for path in (ROOT / folder).rglob("*")] + [f"/{path.name}" for path in ROOT.iterdir()]  # fmt: skip


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_files_that_are_named_are_there(page: Path) -> None:
    prose = re.sub(r"^```.*?^```", "", page.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
    for name in re.findall(r"`((?:\w+/)*\w+\.(?:py|toml)|(?:\w+/)+)`", prose):
        if name != "element_wise_atan_yx.py":  # the file that the example adds
            assert any(path.endswith(f"/{name.rstrip('/')}") for path in FILES), name


def test_the_class_that_contributing_shows_is_the_file_s() -> None:
    (shown,) = re.findall(r"^```python\n(.*?)^```$", (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8"), re.M | re.S)
    assert f"\n{shown}" in (ROOT / "src/anydml/operators/element_wise_exp.py").read_text(encoding="utf-8")
