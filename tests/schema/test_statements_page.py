"""docs/statements.md shows statements as in the operator files, with the formulas that are made from them."""

from __future__ import annotations

import inspect
import re
import textwrap
from pathlib import Path

import pytest

from anydml import operators
from anydml.schema.formula import formulas
from anydml.schema.operator import example_desc

PAGE = (Path(__file__).parents[2] / "docs" / "statements.md").read_text(encoding="utf-8")
SECTIONS = dict(re.findall(r"^## \w+: (\w+)\n(.*?)(?=^## |\Z)", PAGE, re.MULTILINE | re.DOTALL))


def test_six_kinds_of_statement_are_shown() -> None:
    assert len(SECTIONS) == len(set(SECTIONS)) == 6


@pytest.mark.parametrize("name", SECTIONS)
def test_a_statement_on_the_page_is_the_file_s(name: str) -> None:
    operator = operators.find(name)
    assert operator is not None
    source = textwrap.dedent(inspect.getsource(inspect.getmodule(operator)))  # type: ignore[arg-type]
    shown = re.findall(r"^```python\n(.*?)^```$", SECTIONS[name], re.MULTILINE | re.DOTALL)
    assert shown
    assert "statement" in shown[0]
    for block in shown:
        assert block.count("\n") <= 10
        indented = [textwrap.indent(block, " " * depth) for depth in (0, 4)]
        assert any(f"\n{text}\n" in source for text in indented), block


@pytest.mark.parametrize("name", SECTIONS)
def test_a_formula_on_the_page_is_made_of_the_statement(name: str) -> None:
    operator = operators.find(name)
    assert operator is not None
    (shown,) = re.findall(r"^```text\n(.*?)^```$", SECTIONS[name], re.MULTILINE | re.DOTALL)
    made = {name: " ".join(text.split()) for name, text in formulas(example_desc(operator)).items()}
    told = [" ".join(line.split()) for line in re.split(r"\n(?! )", shown.rstrip())]
    outputs = [made.pop(found.name) for found in example_desc(operator).tensors() if found.name in made]
    assert told[: len(outputs)] == outputs
    assert set(told[len(outputs) :]) <= set(made.values())  # of intermediate tensors
