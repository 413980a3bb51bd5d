"""The faults of `make mutants`: each is in today's source, parses, and has tests that are run for it; and the tool itself."""

from __future__ import annotations

import ast
import json
import sys
from pathlib import Path

import pytest

from every_kernel import Ran

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT / "tools"))
from mutants import __main__ as tool  # noqa: E402
from mutants import chosen, covering, generated, trying  # noqa: E402
from mutants.equivalents import EQUIVALENT  # noqa: E402
from mutants.mutant import SOURCE, Mutant, Source  # noqa: E402

KINDS = {
    *("bound/16", "bound*16", "bound=0", "comparison", "comparison in code", "guard dropped", "rule dropped", "zero point"),
    *("half away", chosen.LIST, chosen.PHASE, chosen.TAIL, chosen.ROUNDED),
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
    assert {m.path.split("/")[1] for m in every if m.path.startswith("kernels/")} >= families


def test_the_tests_that_are_run_exist(every: list[Mutant]) -> None:
    for names in covering.COVERING.values():
        assert all((ROOT / "tests" / name).exists() for name in names)
    for m in every:
        assert covering.tests(m.path, m.kind)


def test_equivalent_faults_are_still_there(every: list[Mutant]) -> None:
    files = {name.split(":")[0] for name in EQUIVALENT}
    assert EQUIVALENT.keys() <= {m.name for path in files for m in generated.kept(Source(path))} | {m.name for m in every}
    assert all(EQUIVALENT.values())


def test_a_text_that_changed_is_an_error() -> None:
    with pytest.raises(ValueError, match="is not found in the source"):
        chosen.mutants()[0].planted(b"other = 1\n")


def test_outcomes_are_kept_and_faults_tried_once(every: list[Mutant], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    class Tree:
        tried: list[str] = []  # noqa: RUF012

        def try_(self, mutant: Mutant, limit: float) -> trying.Outcome:
            self.tried.append(mutant.name)
            return trying.Outcome("survived" if len(self.tried) == 1 else "caught", "a test", 1.0)

    monkeypatch.setattr(generated, "mutants", lambda: every[:40])
    monkeypatch.setattr(tool, "OUTCOMES", tmp_path / "outcomes.jsonl")
    monkeypatch.setattr(tool, "Tree", Tree)
    monkeypatch.setattr(sys, "argv", ["mutants", "--count", "3", "--kinds", "comparison"])
    assert tool.main() == 1  # one survived
    assert tool.main() == 1
    assert len(Tree.tried) == 3
    monkeypatch.setattr(sys, "argv", [*sys.argv, "--again", "survived"])
    assert tool.main() == 0
    assert Tree.tried[3:] == Tree.tried[:1]
    assert [json.loads(line)["status"] for line in tool.OUTCOMES.read_text().splitlines()] == ["survived", *["caught"] * 3]


def test_operators_of_mutation() -> None:
    source = Source("kernels/scan/doubled.py")
    assert source.mutant("a", 0, 3, "x").inside == ""
    made = [m for m in generated._of(source) if m.kind == "bound/16"]
    assert (made[0].inside, made[0].before) == ("", "2.0**-51")
    assert made[0].after == "(2.0**-51) * 2.0**-4"
    compared = [m for m in generated._of(Source("exact/formats.py")) if m.kind == "comparison"]
    assert {(m.before.strip(), m.after.strip()) for m in compared} >= {("<", "<="), (">=", ">")}
