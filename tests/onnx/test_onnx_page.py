"""docs/onnx.md: its examples run in order, and print what the page shows."""

from __future__ import annotations

from pages import examples_run


def test_the_examples_print_what_the_page_says() -> None:
    assert examples_run("onnx.md") == 2
