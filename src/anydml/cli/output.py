"""Output of text: results to standard output, the rest to standard error; styled on a terminal that wants it."""

from __future__ import annotations

import io
import json
import os
import sys
from contextlib import suppress
from typing import TYPE_CHECKING, Any, TextIO

from rich.console import Console

from anydml.names import printable

if TYPE_CHECKING:
    from rich.table import Table

WIDE = 200  # columns of a table in a file
_NOTES = ("Running on ", "Dispatch ", "Wrote ")  # how the lines that are no results of a program begin


def _printable(text: str) -> str:
    """Without control characters: what a program's author wrote reaches the terminal, and must not command it.

    Line breaks and tabs are ours: names are escaped where they are put into a line.
    """
    if text.replace("\n", "").isprintable():
        return text
    return "\n".join("\t".join(map(printable, line.split("\t"))) for line in text.split("\n"))


def console(*, error: bool = False) -> Console:
    """Standard output or standard error, styled on a terminal that wants it."""
    return Console(
        stderr=error,
        color_system=None if os.environ.get("NO_COLOR") else "auto",  # rich alone would leave bold
        soft_wrap=True,
        markup=False,
        highlight=False,
        emoji=False,
    )


def _print(text: str, style: str | None, error: bool) -> None:
    console(error=error).print(_printable(text), style=style)


def result(text: str, style: str | None = None) -> None:
    """Lines for standard output."""
    _print(text, style, error=False)


def show_table(rows: Table) -> None:
    """A table for standard output, as wide as the terminal, and wide where that is none."""
    output = console()
    if not output.is_terminal:
        output.width = WIDE
    output.print(rows, soft_wrap=False)


def note(text: str, style: str | None = None) -> None:
    """Lines for standard error; lost where it takes none."""
    with suppress(OSError):
        _print(text, style, error=True)


def as_json(value: Any) -> None:
    """JSON for standard output, never styled."""
    print(json.dumps(value, indent=2, allow_nan=False))


class Prints(io.TextIOBase):
    """The output of a running program: its prints are results."""

    def write(self, text: str) -> int:
        if text.startswith(_NOTES):
            with suppress(OSError):
                sys.stderr.write(_printable(text))
        else:
            sys.stdout.write(_printable(text))
        return len(text)


def open_streams() -> None:
    """Stand-ins for standard streams that were closed when we began: to use them fails, as it does elsewhere.

    They also keep a file that a program writes from getting the number of a standard stream.
    """
    if sys.stdin is None:
        sys.stdin = open("standard input", encoding="utf-8", opener=_refusing)  # noqa: SIM115  # open to the end
    if sys.stdout is None:
        sys.stdout = open("standard output", "w", encoding="utf-8", opener=_refusing)  # noqa: SIM115
    if sys.stderr is None:
        sys.stderr = open("standard error", "w", encoding="utf-8", opener=_refusing)  # noqa: SIM115


def _refusing(name: str, flags: int) -> int:
    """Open what cannot be read to be read, and what cannot be written to be written."""
    return os.open(os.devnull, os.O_RDONLY if flags & os.O_WRONLY else os.O_WRONLY)


def flushed(stream: TextIO) -> OSError | None:
    """Flush a stream; where that fails, say why, and let the rest go nowhere: the interpreter would try once more."""
    try:
        stream.flush()
    except OSError as error:
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
        return error
    return None
