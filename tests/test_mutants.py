"""The faults of `make mutants`: each is in today's source, parses, and has tests that are run for it; and the tool itself."""

from __future__ import annotations

import ast
import hashlib
import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from every_kernel import Ran

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT / "tools"))
from mutants import __main__ as tool  # noqa: E402
from mutants import chosen, covering, generated, reached, trying  # noqa: E402
from mutants.equivalents import EQUIVALENT, TABLE, is_equivalent  # noqa: E402
from mutants.mutant import SOURCE, Mutant, Source  # noqa: E402

KINDS = {
    *("bound/16", "bound*16", "bound=0", "comparison", "comparison in code", "guard dropped", "rule dropped", "zero point"),
    *("half away", chosen.LIST, chosen.PHASE, chosen.TAIL, chosen.ROUNDED, chosen.STEP),
}
STEP = 4  # of so many files, those of one are looked at


@pytest.fixture(scope="module")
def every() -> list[Mutant]:
    return [*generated.mutants(STEP), *chosen.mutants()]


def test_each_fault_is_another_text_and_one_in_ten_parsed(every: list[Mutant], ran: Ran) -> None:
    sources: dict[str, bytes] = {}
    trees: dict[str, str] = {}
    texts = set()
    for m in every:
        source = sources.setdefault(m.path, (SOURCE / m.path).read_bytes())
        made = m.planted(source)
        texts.add((m.path, made))
        if len(texts) % 10 == 0:
            if m.path not in trees:
                trees[m.path] = ast.dump(ast.parse(source))
            assert ast.dump(ast.parse(made)) != trees[m.path], m.name
    assert len(texts) == len({m.name for m in every}) == len(every)
    ran(len(every), 200)


def test_there_are_faults_of_every_kind_in_every_folder(every: list[Mutant]) -> None:
    assert {m.kind for m in every} == KINDS
    families = {"attention", "contract", "elementwise", "nests", "numbers", "recurrence", "reduce", "scan", "windows"}
    families |= {"copy", "irregular", "order", "random"}
    assert {m.path.split("/")[1] for m in every if m.path.startswith("kernels/")} >= families


def test_the_tests_that_are_run_exist(every: list[Mutant]) -> None:
    for names in covering.COVERING.values():
        assert all((ROOT / "tests" / name).exists() for name in names)
    for path, kind in {(m.path, m.kind) for m in every}:
        assert all((ROOT / name).is_file() for name in covering.files(path, kind, ROOT))


def test_equivalent_faults_are_still_there(every: list[Mutant]) -> None:
    files = {name.split(":")[0] for name in EQUIVALENT}
    found = {m.name: m for path in files for m in generated.kept(Source(path))} | {m.name: m for m in every}
    changed = [name for name in EQUIVALENT if name not in found or not is_equivalent(found[name])]
    assert not changed, f"the lines have changed, so that the reasons in {TABLE} may be others"
    assert all(reason for _, reason in EQUIVALENT.values())


def test_a_text_that_changed_is_an_error() -> None:
    with pytest.raises(ValueError, match="is not found in the source"):
        chosen.mutants()[0].planted(b"other = 1\n")


def test_outcomes_are_kept_and_faults_tried_once(every: list[Mutant], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    class Tree:
        tried: list[str] = []  # noqa: RUF012

        def ready(self, mutant: Mutant) -> bool:
            return not self.tried or mutant.name > self.tried[-1]

        def tried_by(self, mutant: Mutant, tests: Sequence[str], seconds: float) -> None:
            assert tests in ([""], ["a test"])  # no file has this name

        def try_(self, mutant: Mutant, seconds: float, killers: Sequence[str], *, everything: bool) -> trying.Outcome:
            self.tried.append(mutant.name)
            assert not everything
            return trying.Outcome("survived" if len(self.tried) == 1 else "caught", "a test", 1.0, 1)

    monkeypatch.setattr(generated, "mutants", lambda: [m for m in every[:40] if not is_equivalent(m)])
    monkeypatch.setattr(tool, "OUTCOMES", tmp_path / "outcomes.jsonl")
    monkeypatch.setattr(tool, "Tree", Tree)
    monkeypatch.setattr(sys, "argv", ["mutants", "--count", "3", "--kinds", "comparison"])
    assert tool.main() == 1  # one survived
    assert tool.main() == 1
    assert len(Tree.tried) == 3
    monkeypatch.setattr(sys, "argv", [*sys.argv, "--again", "survived"])
    assert tool.main() == 0
    assert Tree.tried[3:] == Tree.tried[:1]
    assert [json.loads(line)["status"] for line in tool.OUTCOMES.read_text().splitlines()] == ["caught"] * 3


def test_the_tests_that_found_others_come_first_and_those_that_reach_a_fault_before_the_rest(tmp_path: Path) -> None:
    found = {
        "tests/a.py": {
            "tests/a.py::one[1]": (3.0, True, [0]), "tests/a.py::one[2]": (1.0, True, [0]), "tests/a.py::two": (2.0, True, [1]),
            "tests/a.py::bad": (1.0, False, [0]),
        },
        "tests/b.py": {"tests/b.py::three": (0.5, True, [0]), "tests/b.py::four": (0.25, True, [])},
        "tests/c.py": {"tests/c.py::five": (0.1, True, [])},
    }  # fmt: skip
    (tmp_path / "tests").mkdir()
    for file, tests in found.items():
        (tmp_path / file).write_text("")
        digest = hashlib.sha256(b"").hexdigest()[:16]
        text = json.dumps({"digest": digest, "functions": ["kernels/x.py:A.f.g", "kernels/x.py:h"], "tests": tests})
        (tmp_path / f"{file.replace('/', '+')}.json").write_text(text)
    seen = reached.Reached(tmp_path, tmp_path)
    fault = Mutant("kernels/x.py", "A.f", "bound*16", 1, 0, 0, "", "")
    first = ["tests/b.py::three", "tests/a.py::one[2]", "tests/a.py::one[1]"]
    rest = ["tests/b.py::four", "tests/a.py::two"]
    assert reached.ordered(fault, seen, [], 99, ["tests/none.py::x"]) == first + rest
    assert reached.ordered(fault, seen, [], 2, ["tests/a.py::two"]) == ["tests/a.py::two"]
    assert reached.ordered(fault, seen, [], 1.8, []) == [*first[:2], rest[0]]
    assert reached.ordered(fault, seen, [], 1.8, [], first)[0] == rest[0]
    nowhere = fault._replace(path="kernels/y.py")
    assert reached.ordered(nowhere, seen, ["tests/c.py"], 99, []) == ["tests/c.py::five"]
    (tmp_path / "tests/c.py").write_text("changed = 1")
    assert not reached.Reached(tmp_path, tmp_path).kept("tests/c.py")
    assert seen.kept("tests/b.py")


def test_a_constant_is_reached_by_the_functions_that_read_it() -> None:
    (fault,) = (m for m in generated._of(Source("kernels/scan/doubled.py")) if m.kind == "bound*16" and not m.inside)
    users = reached.users_of(fault)
    assert users == {"_summed"}
    assert reached.reaches("kernels/scan/doubled.py:_summed", fault, users)
    assert not reached.reaches("kernels/scan/doubled.py:further", fault, users)


def test_functions_that_tests_reach_are_noted_and_a_test_that_fails_is_told(tmp_path: Path) -> None:
    """In a process of its own, as `Tree` runs it."""
    (tmp_path / "code.py").write_text("class A:\n    def f(self):\n        return (lambda: 1)()\n")
    (tmp_path / "test_it.py").write_text(
        "from code_of import A\n\ndef test_one():\n    assert A().f() == 1\n\ndef test_two():\n    assert 0, 'so'\n"
    )
    (tmp_path / "code.py").rename(tmp_path / "code_of.py")
    (tmp_path / "pytest.ini").write_text("[pytest]\npythonpath = .\n")
    program = f"""
import json, sys
from pathlib import Path
sys.path.insert(0, {str(ROOT / "tools")!r})
from mutants import reached
import pytest
watch = reached.Watch({str(tmp_path)!r} + "/")
pytest.main([*reached.QUIET, "test_it.py"], plugins=[watch])
told = Path("told")
status = reached.asked(["test_it.py::test_two", "test_it.py::test_one"], told)
Path("found").write_text(json.dumps([sorted(watch.found["test_it.py::test_one"].functions), sorted(watch.failed), status]))
"""
    environment = {**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    subprocess.run([sys.executable, "-c", program], cwd=tmp_path, env=environment, check=True, capture_output=True)
    functions, failed, status = json.loads((tmp_path / "found").read_text())
    assert {"code_of.py:A.f", "test_it.py:test_one"} <= {*functions} if sys.version_info >= (3, 11) else functions
    assert (failed, status) == (["test_it.py::test_two"], 1)
    told = [json.loads(line) for line in (tmp_path / "told").read_text().splitlines()]
    assert told == [{"begun": "test_it.py::test_two"}, {"failed": "test_it.py::test_two", "why": told[1]["why"]}]
    assert "so" in told[1]["why"]


def test_operators_of_mutation() -> None:
    source = Source("kernels/scan/doubled.py")
    assert source.mutant("a", 0, 3, "x").inside == ""
    made = [m for m in generated._of(source) if m.kind == "bound/16"]
    assert (made[0].inside, made[0].before) == ("", "2.0**-51")
    assert made[0].after == "(2.0**-51) * 2.0**-4"
    compared = [m for m in generated._of(Source("exact/formats.py")) if m.kind == "comparison"]
    assert {(m.before.strip(), m.after.strip()) for m in compared} >= {("<", "<="), (">=", ">")}
