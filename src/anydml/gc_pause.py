"""Pauses of Python's collector of cyclic garbage.

Compiling makes very many objects that stay alive. The collector would visit them again and again, which takes half of the time
of a graph of 15,000 nodes. Few of them are cyclic garbage: without the collector, such a graph takes a tenth more memory.
"""

from __future__ import annotations

import gc
import os
from collections.abc import Callable
from functools import wraps
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
R = TypeVar("R")

_paused = False


def paused(function: Callable[P, R]) -> Callable[P, R]:
    """The function, with the collector paused while it runs; of several threads, the first to return ends the pause."""

    @wraps(function)
    def without(*args: P.args, **keywords: P.kwargs) -> R:
        global _paused
        if not gc.isenabled():
            return function(*args, **keywords)
        _paused = True
        gc.disable()
        try:
            return function(*args, **keywords)
        finally:
            gc.enable()
            _paused = False

    return without


def _in_child() -> None:
    """End a pause in a child of a fork, where the thread that began it may not exist."""
    if _paused:
        gc.enable()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_in_child)
