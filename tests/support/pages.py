"""Runs the examples of a page of the documentation, and compares what they print with what the page shows."""

from __future__ import annotations

import io
import re
from contextlib import redirect_stdout
from pathlib import Path

DOCS = Path(__file__).parents[2] / "docs"
EXAMPLE = re.compile(r"^```python\n(.*?)^```$(?:\n\n^```text\n(.*?)^```$)?", re.MULTILINE | re.DOTALL)


def examples_run(name: str, module: str = "page") -> int:
    """The number of a page's examples, which run one after another. An example without output prints nothing."""
    names: dict[str, object] = {"__name__": module}
    blocks = EXAMPLE.findall((DOCS / name).read_text(encoding="utf-8"))
    for code, shown in blocks:
        printed = io.StringIO()
        with redirect_stdout(printed):
            exec(compile(code, name, "exec"), names)
        assert printed.getvalue() == shown
    return len(blocks)
