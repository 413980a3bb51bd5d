"""Progress: nothing in a pipe, before two seconds and if it is not wanted; and a bar otherwise."""

from __future__ import annotations

import io
import sys
import time
from types import ModuleType

import pytest

from anydml import progress


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The time in seconds, which stands still until a test moves it."""
    now = [100.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    monkeypatch.setenv("TERM", "xterm")
    return now


def test_a_bar_is_shown_after_two_seconds_and_goes(clock: list[float], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stderr", terminal := Terminal())
    with progress.shown() as report:
        report("compiling", 1, 8)
        assert terminal.getvalue() == ""
        clock[0] += 3
        report("compiling", 2, 8)
        with progress.shown() as inner:  # parts report to the same bars
            clock[0] += 1
            inner("evaluating exactly", 1, 4)
        progress.report("compiling", 3, 8)
    text = terminal.getvalue()
    assert "compiling" in text
    assert "2/8" in text
    assert "evaluating exactly" in text
    assert text.endswith("\x1b[2K")  # the lines are erased


@pytest.mark.parametrize("why", ["pipe", "keyword", "variable", "outer"])
def test_nothing_is_shown(why: str, clock: list[float], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stderr", stream := io.StringIO() if why == "pipe" else Terminal())
    if why == "variable":
        monkeypatch.setenv("ANYDML_PROGRESS", "0")
    with progress.shown(why != "outer"), progress.shown(why != "keyword") as report:
        clock[0] += 3
        report("compiling", 1, 2)
    assert stream.getvalue() == ""


def test_a_function_takes_progress_false(clock: list[float], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stderr", terminal := Terminal())

    @progress.showing
    def work(*, progress: bool | None = None) -> None:
        clock[0] += 3
        report("working", 1, 2)

    from anydml.progress import report

    work(progress=False)
    assert terminal.getvalue() == ""
    work()
    assert "working" in terminal.getvalue()


def test_a_notebook_shows_a_line_that_goes(clock: list[float], monkeypatch: pytest.MonkeyPatch) -> None:
    lines: list[str] = []

    class Handle:
        def update(self, data: dict[str, str], raw: bool) -> None:
            lines.append(data["text/plain"])

    python, display = ModuleType("IPython"), ModuleType("IPython.display")
    shell = ModuleType("shell")
    monkeypatch.setattr(shell, "kernel", object(), raising=False)
    monkeypatch.setattr(python, "get_ipython", lambda: shell, raising=False)
    monkeypatch.setattr(display, "display", lambda data, raw, display_id: Handle(), raising=False)
    for name, module in (("ipykernel", ModuleType("ipykernel")), ("IPython", python), ("IPython.display", display)):
        monkeypatch.setitem(sys.modules, name, module)
    with progress.shown() as report:
        clock[0] += 3
        report("compiling", 2, 8)
        clock[0] += 3
        report("compiling", 4, 8)
    assert lines == [
        f"compiling {'█' * 6}{'░' * 18} 2/8, about 6 s left",
        f"compiling {'█' * 12}{'░' * 12} 4/8, about 5 s left",
        "",
    ]
