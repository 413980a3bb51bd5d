"""No modules of the kernels import each other in a circle, also not within a folder, in a function, or for types only."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

import anydml

ROOT = Path(anydml.__file__).parent
Imports = Mapping[str, set[str]]


def sources() -> dict[str, str]:
    """The text of each module of the kernels."""
    found = {}
    for path in sorted((ROOT / "kernels").rglob("*.py")):
        parts = ("anydml", *path.relative_to(ROOT).with_suffix("").parts)
        found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path.read_text(encoding="utf-8")
    return found


def imports(texts: Mapping[str, str]) -> Imports:
    """The modules that each module imports, anywhere in its text."""
    return {name: set(imported(ast.parse(text), texts)) for name, text in texts.items()}


def imported(tree: ast.Module, texts: Mapping[str, str]) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name in texts)
        elif isinstance(node, ast.ImportFrom):
            assert not node.level, "imports are absolute"
            for alias in node.names:
                module = f"{node.module}.{alias.name}"
                if module in texts or node.module in texts:
                    yield module if module in texts else str(node.module)


def circle(graph: Imports) -> list[str]:
    """The modules of a circle; none if there is no circle."""
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        return list(error.args[1])
    return []


def test_kernels_import_one_another_in_no_circle() -> None:
    texts = sources()
    assert len(texts) > 350
    graph = imports(texts)
    assert sum(map(len, graph.values())) > 1500
    assert circle(graph) == []


@pytest.mark.parametrize(
    "back",
    ["from a.y import thing", "import a.y", "def f():\n    from a import y", "if TYPE_CHECKING:\n    from a.y import Thing"],
)
def test_a_circle_is_found_wherever_it_is_imported(back: str) -> None:
    texts = {"a": "", "a.x": back, "a.y": "from a import z", "a.z": "from a.x import other"}
    assert set(circle(imports(texts))) == {"a.x", "a.y", "a.z"}
    assert circle(imports({**texts, "a.x": "from a import other"})) == []
