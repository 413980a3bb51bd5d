"""docs/torch.md: its examples run, one after another, and print what it says; its table is made of the mappings."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import torch

from pages import DOCS, examples_run

ROOT = Path(__file__).parents[2]
PAGE = (DOCS / "torch.md").read_text(encoding="utf-8")


def test_the_examples_print_what_the_page_says() -> None:
    assert examples_run("torch.md", "torch_page") == 5
    torch._dynamo.reset()


def test_the_table_of_operators_is_that_of_the_mappings() -> None:
    spec = importlib.util.spec_from_file_location("torch_operators", ROOT / "tools" / "torch_operators.py")
    assert spec is not None
    assert spec.loader is not None
    tool = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(tool)
    assert tool.page(PAGE) == PAGE
