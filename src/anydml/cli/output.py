"""Output of text: results to standard output, the rest to standard error; styled on terminals that support it."""

from __future__ import annotations

import io
import json
import os
import sys
from contextlib import suppress
from typing import TYPE_CHECKING, Any, TextIO

from rich.console import Console

from anydml.spelling import printable

if TYPE_CHECKING:
    from rich.table import Table

WIDE = 200  # columns of a table in a file
_NOTES = ("Running on ", "Dispatch ", "Wrote ")  # beginnings of a program's lines that are not results


def _printable(text: str) -> str:
    """A text without control characters, which a program's author could use to command the terminal.

    Line breaks and tabs are kept: names are escaped when they are put into a line.
    """
    if text.replace("\n", "").isprintable():
        return text
    return "\n".join("\t".join(map(printable, line.split("\t"))) for line in text.split("\n"))


def console(*, error: bool = False) -> Console:
    """Standard output or standard error, styled on a terminal that supports it."""
    return Console(
        stderr=error,
        color_system=None if os.environ.get("NO_COLOR") else "auto",  # rich itself would keep bold
        soft_wrap=True,
        markup=False,
        highlight=False,
        emoji=False,
    )


def _print(text: str, style: str | None, error: bool) -> None:
    console(error=error).print(_printable(text), style=style)


def result(text: str, style: str | None = None) -> None:
    """Print lines to standard output."""
    _print(text, style, error=False)


def show_table(rows: Table) -> None:
    """Print a table to standard output, as wide as the terminal; WIDE if it is not one."""
    output = console()
    if not output.is_terminal:
        output.width = WIDE
    output.print(rows, soft_wrap=False)


def note(text: str, style: str | None = None) -> None:
    """Print lines to standard error, if it can be written."""
    with suppress(OSError):
        _print(text, style, error=True)


def as_json(value: Any) -> None:
    """Print JSON to standard output, never styled."""
    print(json.dumps(value, indent=2, allow_nan=False))


class Prints(io.TextIOBase):
    """A stream for the output of a running program, whose prints are results."""

    def write(self, text: str) -> int:
        if text.startswith(_NOTES):
            with suppress(OSError):
                sys.stderr.write(_printable(text))
        else:
            sys.stdout.write(_printable(text))
        return len(text)


def open_streams() -> None:
    """Replace standard streams that were closed at the start by ones whose use fails, as in other tools.

    They also prevent a file that a program writes from getting the number of a standard stream.
    """
    if sys.stdin is None:
        sys.stdin = open("standard input", encoding="utf-8", opener=_refusing)  # noqa: SIM115  # open to the end
    if sys.stdout is None:
        sys.stdout = open("standard output", "w", encoding="utf-8", opener=_refusing)  # noqa: SIM115
    if sys.stderr is None:
        sys.stderr = open("standard error", "w", encoding="utf-8", opener=_refusing)  # noqa: SIM115


def _refusing(name: str, flags: int) -> int:
    """Open the null device so that the requested access fails: for writing if reading is asked for, and the reverse."""
    return os.open(os.devnull, os.O_RDONLY if flags & os.O_WRONLY else os.O_WRONLY)


def flushed(stream: TextIO) -> OSError | None:
    """Flush a stream. If that fails, return the error and discard the rest, which the interpreter would try to flush again."""
    try:
        stream.flush()
    except OSError as error:
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
        return error
    return None
