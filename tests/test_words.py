"""One word for each concept: names of classes and modules, and the terms of the glossary."""

from __future__ import annotations

import ast
from collections import defaultdict
from pathlib import Path

ROOT = Path(__file__).parents[1]
# modules that were called by words with several meanings, or by none that the field has
GONE = {
    "alike", "collector", "computed", "forks", "four_bit", "names", "spread", "turned", "turned_sums", "wording",
    "by_kinds", "contracted", "faulty", "guarded", "hurting", "wirings",
    "test_alike", "test_at_once", "test_forks", "test_four_bit", "test_oracle_new", "test_pilots_pointwise",
    "test_pilots_quantised", "test_pilots_sums", "test_spread", "test_turned", "test_wording",
}  # fmt: skip


def test_no_two_classes_of_kernels_have_one_name() -> None:
    found: dict[str, list[str]] = defaultdict(list)
    for path in sorted((ROOT / "src" / "anydml" / "kernels").rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ClassDef):
                found[node.name].append(str(path.relative_to(ROOT)))
    assert len(found) > 300
    assert {name: paths for name, paths in found.items() if len(paths) > 1} == {}


def test_no_module_has_a_name_that_went() -> None:
    stems = [path.stem for folder in ("src", "tests") for path in (ROOT / folder).rglob("*.py")]
    assert len(stems) > 900
    assert sorted(GONE & set(stems)) == []


def test_no_page_says_what_the_glossary_has_another_word_for() -> None:
    made_of_docstrings = ROOT / "docs" / "operators"
    written = [p for p in (ROOT / "docs").rglob("*.md") if p.parent != made_of_docstrings]
    pages = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *written]
    assert len(pages) > 40
    riddles = ("left open", "leaves open", "stays open", "is half between", "are half between", "lies as it")
    found = {
        str(p.relative_to(ROOT)): r for p in pages for r in riddles if r in " ".join(p.read_text(encoding="utf-8").split())
    }
    assert found == {}
