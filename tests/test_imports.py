"""No module imports itself by way of others, imports within functions included."""

from __future__ import annotations

import ast
from pathlib import Path

SOURCE = Path(__file__).parents[1] / "src"
FILES = {
    ".".join((file.parent if file.stem == "__init__" else file.with_suffix("")).relative_to(SOURCE).parts): file
    for file in (SOURCE / "anydml").rglob("*.py")
}


def imported(tree: ast.AST) -> set[str]:
    """The modules that a module imports when it runs, not only for its types."""
    found: set[str] = set()
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
            continue
        if isinstance(node, ast.Import):
            found.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            inside = {f"{node.module}.{alias.name}" for alias in node.names}
            found |= {name if name in FILES else str(node.module) for name in inside}
        found |= imported(node)
    return found & FILES.keys()


def test_there_are_no_circles() -> None:
    left = {name: imported(ast.parse(file.read_text(encoding="utf-8"))) - {name} for name, file in FILES.items()}
    print(f"{len(left)} modules, {sum(map(len, left.values()))} imports")
    assert len(left) > 900
    while ready := [name for name, others in left.items() if not others & left.keys()]:
        for name in ready:
            del left[name]
    assert not left, sorted(left)  # those in circles, and those that import them
