"""Optional passes and kernels, which only make a call faster: an unexpected exception in one does not fail the call."""

from __future__ import annotations

from collections.abc import Callable
from types import TracebackType
from typing import TypeVar

from anydml.errors import PACKAGE, Error, OptimizationWarning, warn

T = TypeVar("T")
R = TypeVar("R")


def attempted(stage: str, work: Callable[[], T], instead: Callable[[str], R]) -> T | R:
    """The result of optional `work`; if it raises an unexpected exception, the result of `instead`, called with that as text.

    stage: the work's name in the warning. anydml's own errors and MemoryError are raised unchanged.
    """
    try:
        return work()
    except (Error, MemoryError, OptimizationWarning):
        raise
    except Exception as error:  # a bug may raise anything, and the call does not need this work
        reason = f"{type(error).__name__}: {error}"
        left_out(stage, f"{reason} ({_place(error.__traceback__)})")
        return instead(reason)


def left_out(stage: str, reason: str) -> None:
    """Warn that optional work is left out, and ask for a report."""
    text = f"{stage} left out: {reason}. The results are the same, and may take longer. Please report this as a bug of anydml, "
    warn(OptimizationWarning, text + "with what `anydml info` prints")


def _place(found: TracebackType | None) -> str:
    """The innermost line of the package that was being executed."""
    place = ""
    while found is not None:
        if (file := found.tb_frame.f_code.co_filename).startswith(PACKAGE):
            place = f"{file.removeprefix(PACKAGE)}, line {found.tb_lineno}"
        found = found.tb_next
    return place
