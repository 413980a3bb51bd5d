"""Progress of work that takes more than two seconds: a bar in a terminal or a notebook, nothing in a pipe.

Work says how much of it is done; whether that is seen is decided here. `ANYDML_PROGRESS=0` shows nothing.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import wraps
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

if TYPE_CHECKING:
    from typing_extensions import ParamSpec

    P = ParamSpec("P")

R = TypeVar("R")

AFTER = 2.0  # seconds before which nothing is shown
OFTEN = 0.1  # seconds between two updates

Report = Callable[[str, int, int], None]
"""A function of the task, how much of it is done, and the total."""


class _Bars(Protocol):
    """Bars by task; `done` is at most `total`."""

    def update(self, doing: str, done: int, total: int) -> None: ...

    def close(self) -> None: ...


class _Terminal:
    """Bars of rich on standard error, each with the task, the share that is done, and the time left."""

    def __init__(self) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

        console = Console(stderr=True, markup=False, highlight=False, emoji=False)
        columns = (TextColumn("{task.description}", markup=False), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
        self._progress = Progress(*columns, console=console, transient=True)
        self._tasks: dict[str, Any] = {}
        self._progress.start()

    def update(self, doing: str, done: int, total: int) -> None:
        if doing not in self._tasks:
            self._tasks[doing] = self._progress.add_task(doing, total=total)
        self._progress.update(self._tasks[doing], completed=done, total=total)

    def close(self) -> None:
        self._progress.stop()


class _Notebook:
    """One line below the cell of a notebook, which is emptied at the end."""

    def __init__(self) -> None:
        from IPython.display import display

        self._began = time.monotonic() - AFTER  # the work began before this line
        self._shown = display({"text/plain": ""}, raw=True, display_id=True)

    def update(self, doing: str, done: int, total: int) -> None:
        filled = 24 * done // max(1, total)
        left = (time.monotonic() - self._began) * (total - done) / done if done else 0
        about = f", about {left:.0f} s left" if done else ""
        said = f"{doing} {'█' * filled}{'░' * (24 - filled)} {done}/{total}{about}"
        self._shown.update({"text/plain": said}, raw=True)

    def close(self) -> None:
        self._shown.update({"text/plain": ""}, raw=True)


class _Display:
    """The work that is going on in a thread, and its bars once it takes long."""

    def __init__(self, bars: Callable[[], _Bars]) -> None:
        self._make = bars
        self._bars: _Bars | None = None
        self._began = self._last = time.monotonic()

    def report(self, doing: str, done: int, total: int) -> None:
        now = time.monotonic()
        if now - self._began < AFTER or (now - self._last < OFTEN and done < total):
            return
        self._last = now
        if self._bars is None:
            self._bars = self._make()
        self._bars.update(doing, min(done, total), total)

    def close(self) -> None:
        if self._bars is not None:
            self._bars.close()


_wanted: ContextVar[bool] = ContextVar("wanted", default=True)
_active: ContextVar[_Display | None] = ContextVar("active", default=None)


def silent(doing: str, done: int, total: int) -> None:
    """Show nothing."""


def report(doing: str, done: int, total: int) -> None:
    """Report to the bars of the context that is active; to none, if there is no context."""
    if (display := _active.get()) is not None and _wanted.get():
        display.report(doing, done, total)


def _bars() -> Callable[[], _Bars] | None:
    """The kind of bars that can be seen here; None in a pipe, and outside of the main thread."""
    if not _wanted.get() or os.environ.get("ANYDML_PROGRESS") == "0":
        return None
    if threading.current_thread() is not threading.main_thread():
        return None
    shell = sys.modules["IPython"].get_ipython() if "ipykernel" in sys.modules and "IPython" in sys.modules else None
    if shell is not None and hasattr(shell, "kernel"):
        return _Notebook
    return _Terminal if sys.stderr is not None and sys.stderr.isatty() else None


@contextmanager
def shown(progress: bool = True) -> Iterator[Report]:
    """A context with a function to report progress; work in it that has parts of its own reports to the same bars.

    progress: whether bars may be shown at all.
    """
    token = _wanted.set(_wanted.get() and progress)
    try:
        if (outer := _active.get()) is not None:
            yield outer.report if _wanted.get() else silent
            return
        if (bars := _bars()) is None:
            yield silent
            return
        display = _Display(bars)
        active = _active.set(display)
        try:
            yield display.report
        finally:
            _active.reset(active)
            display.close()
    finally:
        _wanted.reset(token)


def showing(function: Callable[P, R]) -> Callable[P, R]:
    """A function in a context of its own; its keyword progress=False shows nothing."""

    @wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> R:
        with shown(kwargs.get("progress") is not False):
            return function(*args, **kwargs)

    return call
