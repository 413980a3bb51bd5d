"""docs/onnx.md: its examples run in order, and print what the page shows."""

from __future__ import annotations

import io
import re
from contextlib import redirect_stdout
from pathlib import Path

PAGE = (Path(__file__).parents[2] / "docs" / "onnx.md").read_text(encoding="utf-8")


def test_the_examples_print_what_the_page_says() -> None:
    names: dict[str, object] = {}
    blocks = re.findall(r"^```python\n(.*?)^```$\n\n^```text\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
    for code, shown in blocks:
        said = io.StringIO()
        with redirect_stdout(said):
            exec(compile(code, "onnx.md", "exec"), names)
        assert said.getvalue() == shown
    assert len(blocks) == 2
