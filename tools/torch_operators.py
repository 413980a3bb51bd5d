"""Writes the table of ATen's operators on docs/torch.md from the mappings: python tools/torch_operators.py, in .venv-torch."""

from __future__ import annotations

from pathlib import Path

from anydml.torch.mapping import GROUPS, MAPPINGS

PAGE = Path(__file__).parents[1] / "docs" / "torch.md"
TITLE = "## Operators\n"


def table() -> str:
    """The operators by group, without their overloads."""
    count = len({packet(name) for name in MAPPINGS})
    rows = [f"{count} operators of ATen, in {len(MAPPINGS)} overloads:", "", "| group | operators |", "| --- | --- |"]
    for title, names in GROUPS.items():
        rows.append(f"| {title} | {', '.join(sorted({packet(name) for name in names}))} |")
    return "\n".join(rows) + "\n"


def packet(name: str) -> str:
    """An operator's name without `aten.` and its overload."""
    return name.split(".")[1]


def page(text: str) -> str:
    """The page with the table at its end."""
    return text.split(TITLE)[0] + TITLE + "\n" + table()


if __name__ == "__main__":
    PAGE.write_text(page(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
