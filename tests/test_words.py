"""One word for each concept: names of classes and modules, and the terms of the glossary."""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[1]
# modules that were called by words with several meanings, or by none that the field has
GONE = {
    "alike", "collector", "computed", "forks", "four_bit", "names", "spread", "turned", "turned_sums", "wording",
    "by_kinds", "contracted", "faulty", "guarded", "hurting", "open_rows", "turning", "wirings",
    "test_alike", "test_at_once", "test_forks", "test_four_bit", "test_oracle_new", "test_pilots_pointwise",
    "test_pilots_quantised", "test_pilots_sums", "test_spread", "test_turned", "test_wording",
}  # fmt: skip

# functions, classes, parameters, variables and attributes for which the glossary has another word
GONE_IDENTIFIERS = {
    "open_", "opens", "left_open", "any_open", "some_open", "open_rows", "opened_exactly", "OpenRow", "OpenRows",
    "turned", "_turned", "turned_at", "Turned", "NOT_TURNED", "spread", "_spread", "NO_SPREAD",
    "lie", "lies", "_lies", "lying", "Lies", "_lies_packed", "alike", "_alike", "_may_lie_alike",
    "works", "_works", "works_of", "KeptShape", "shape_across",
}  # fmt: skip

# phrases of docstrings and comments that readers had to guess, most of them about undecided elements, errors and layouts
RIDDLES = re.compile(
    r"comes? to the same|(looks?|looked) at\b|(left|leaves|leave) (open|over)\b|stays? open\b|half between|next to nothing"
    r"|drawn to hurt|\boff by\b|\b(it|they) (lies|lie)\b|counts nowhere|\bgo(es)? by the\b|no more than that\b"
)
FINISHED = (".",)


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


def test_no_identifier_is_a_word_that_went() -> None:
    found: dict[str, list[str]] = {}
    texts = {path: path.read_text(encoding="utf-8") for path in sorted((ROOT / "src" / "anydml").rglob("*.py"))}
    assert len(texts) > 600
    for path, text in texts.items():
        if GONE_IDENTIFIERS.isdisjoint(re.findall(r"\w+", text)) and "shape: " not in text:
            continue
        nodes = [*ast.walk(ast.parse(text))]
        gone = GONE_IDENTIFIERS.intersection(name for node in nodes for name in _names(node))
        for node in nodes:  # a kernel's key is called so
            if isinstance(node, (ast.arg, ast.AnnAssign)) and node.annotation and "Key" in ast.unparse(node.annotation):
                gone |= {"shape"}.intersection(_names(getattr(node, "target", node)))
        if gone:
            found[str(path.relative_to(ROOT))] = sorted(gone)
    assert found == {}


def _names(node: ast.AST) -> list[str]:
    """The identifiers that a node holds itself."""
    names = [getattr(node, field, None) for field in ("id", "arg", "attr", "name", "asname")]
    return [name for name in names if isinstance(name, str)]


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


def test_no_docstring_or_comment_is_a_riddle() -> None:
    found = {}
    for path, texts in _texts():
        if riddles := [m.group() for text in texts for m in RIDDLES.finditer(text)]:
            found[str(path.relative_to(ROOT))] = riddles
    assert found == {}


def test_no_docstring_begins_with_a_question_word() -> None:
    found = {}
    for path, (_, *docstrings) in _texts():
        if questions := [text for text in docstrings if re.match(r"(What|How|Where|Why|Which)\b", text)]:
            found[str(path.relative_to(ROOT))] = questions
    assert found == {}


@cache
def _texts() -> list[tuple[Path, list[str]]]:
    """The comments of each finished file as one text, and then its docstrings."""
    paths = [path for folder in FINISHED for path in sorted((ROOT / "src" / "anydml" / folder).rglob("*.py"))]
    assert len(paths) > 500
    found = []
    for path in paths:
        if path.stem.startswith("undecided") or path.parent.name == "undecided":
            continue
        text = path.read_text(encoding="utf-8")
        comments = " ".join(re.findall(r"# (.*)", text))
        strings = [node.value for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Expr)]
        docstrings = [s.value for s in strings if isinstance(s, ast.Constant) and isinstance(s.value, str)]
        found.append((path, [comments, *(" ".join(s.split()) for s in docstrings)]))
    return found
