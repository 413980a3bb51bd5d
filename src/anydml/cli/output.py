"""Where text goes: results to standard output, the rest to standard error; styled on a terminal that wants it."""

from __future__ import annotations

import io
import json
import os
import sys
from typing import Any

from rich.console import Console

_CONTROL = {i: f"\\x{i:02x}" for i in (*range(32), *range(127, 160)) if chr(i) not in "\t\n"}
_NOTES = ("Running on '", "Dispatch '")  # how the lines that are no results of a program begin


def _printable(text: str) -> str:
    """Without control characters: what a program's author wrote reaches the terminal, and must not command it."""
    return text.translate(_CONTROL)


def _print(text: str, style: str | None, error: bool) -> None:
    console = Console(
        stderr=error,
        color_system=None if os.environ.get("NO_COLOR") else "auto",  # rich alone would leave bold
        soft_wrap=True,
        markup=False,
        highlight=False,
        emoji=False,
    )
    console.print(_printable(text), style=style)


def result(text: str, style: str | None = None) -> None:
    """Lines for standard output."""
    _print(text, style, error=False)


def note(text: str, style: str | None = None) -> None:
    """Lines for standard error."""
    _print(text, style, error=True)


def as_json(value: Any) -> None:
    """JSON for standard output, never styled."""
    print(json.dumps(value, indent=2, allow_nan=False))


class Prints(io.TextIOBase):
    """What a running program says: its prints are results."""

    def write(self, text: str) -> int:
        (sys.stderr if text.startswith(_NOTES) else sys.stdout).write(_printable(text))
        return len(text)
