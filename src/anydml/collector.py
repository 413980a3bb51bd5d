"""Pauses of Python's collector of cyclic garbage.

Compiling makes very many objects that live on, which the collector would look at again and again: half of the time of a graph
of 15,000 nodes. Few of them are garbage in cycles; without the collector, such a graph takes a tenth more memory.
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
    """The function, during which the collector pauses: where several threads are in one, until the first of them is out."""

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
    """In a child of a fork, the thread that began a pause may not be there to end it."""
    if _paused:
        gc.enable()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_in_child)
