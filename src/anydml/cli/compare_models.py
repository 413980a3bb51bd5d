"""`anydml compare model.onnx`: a model judged node by node, as a table, as JSON and as a page."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from types import TracebackType
from typing import Any

import click
import numpy as np
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeElapsedColumn
from rich.table import Table
from rich.text import Text

from anydml.cli.models import model_of
from anydml.cli.output import as_json, console, note, result, show_table
from anydml.errors import BindingError, Fault
from anydml.spelling import printable

STYLES = {"equal": "green", "rounding": "yellow", "beyond rounding": "bold red", "no bound": "magenta", "not judged": "dim"}


def compared(
    model: str,
    *,
    against: str | None,
    actual: str | None,
    inputs: str | None,
    random: int | None,
    sizes: Sequence[str],
    html: str | None,
    seconds: float,
    json_wanted: bool,
) -> int:
    """Compare a model's tensors with the exact ones, and print what was found."""
    if (against is None) == (actual is None):
        raise click.UsageError("a model takes either --against or --actual")
    if (inputs is None) == (random is None):
        raise click.UsageError("a model takes either --inputs or --random")
    try:
        from anydml.onnx.compare_page import page
        from anydml.onnx.compare_runtimes import RUNTIMES, drawn, recorded
        from anydml.onnx.comparing import compare
    except ImportError as missing:
        raise click.UsageError(f"models need the onnx package ({missing}): pip install 'anydml[onnx]'") from None
    if against is not None and find_spec(against) is None:
        raise click.UsageError(f"--against {against} needs the package {against}, which is not installed")
    read = model_of(model)
    named = _sizes(sizes)
    given = drawn(read, random, named) if random is not None else _inputs(recorded(inputs or ""), list(read.inputs))
    with _Bar() as progress:
        found = compare(
            read.proto,
            given,
            RUNTIMES[against] if against else None,
            actual=recorded(actual) if actual else None,
            seconds=seconds,
            progress=progress,
        )
    if json_wanted:
        as_json(found.to_dict())
    else:
        _table(found.nodes)
        result(str(found), "green" if found.equal else None)
    if html is not None:
        Path(html).write_text(page(found, Path(model).name, against or actual or ""), encoding="utf-8")
        note(f"Wrote {printable(html)}")
    return 0 if found.equal else 1


def _sizes(given: Sequence[str]) -> dict[str, int]:
    found = {}
    for text in given:
        name, _, number = text.partition("=")
        if not number.isdecimal() or not name or int(number) < 1:
            raise click.UsageError(f"--size takes NAME=NUMBER, not {printable(text)}")
        found[name] = int(number)
    return found


def _inputs(found: Mapping[str, Any], names: Sequence[str]) -> dict[str, np.ndarray[Any, Any]]:
    """The model's inputs among recorded tensors, which may include others."""
    if missing := [name for name in names if name not in found]:
        raise BindingError([Fault(name, "is an input of the model, and no file of --inputs has it") for name in missing])
    return {name: found[name] for name in names}


def _table(rows: Sequence[Any]) -> None:
    """Print a row for each node, on a terminal in colours."""
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for title in ("node", "operator", "own error", "accumulated"):
        table.add_column(title, overflow="fold")
    table.add_column("verdict")
    for row in rows:
        cells = (row.name, ", ".join(dict.fromkeys(row.operators)), str(row.own or "-"), str(row.accumulated or "-"))
        table.add_row(*(Text(printable(cell)) for cell in cells), Text(row.verdict, STYLES[row.verdict]))
    show_table(table)


class _Bar:
    """A progress bar on standard error while models run, if that is a terminal."""

    def __init__(self) -> None:
        columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
        self._progress = Progress(*columns, console=console(error=True), transient=True)
        self._tasks: dict[str, TaskID] = {}

    def __enter__(self) -> _Bar:
        if self._progress.console.is_terminal:
            self._progress.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._progress.stop()

    def __call__(self, doing: str, done: int, total: int) -> None:
        if doing not in self._tasks:
            self._tasks[doing] = self._progress.add_task(doing, total=total)
        self._progress.update(self._tasks[doing], completed=done, total=total)
