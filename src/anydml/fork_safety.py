"""Forks: a child process has only the forking thread, and inherits locks that other threads of the parent held.

`guard` is therefore held during each fork, and taken around code that takes a library's lock: LLVM, imports within functions,
the standard streams. It is reentrant, since guarded code may itself import or fork. No module takes it while it is being
imported: another thread may hold it and wait for that import.
"""

from __future__ import annotations

import os
import threading
import time

guard = threading.RLock()
BEGAN = time.time()  # when this process, or the one that it was forked from, began to import the package
_generation = 0  # forks from the first process to this one


def generation() -> int:
    """A number that changes in a child of a fork: objects that the parent's other threads were using must be made anew."""
    return _generation


def _in_child() -> None:
    global _generation
    _generation += 1
    guard.release()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=guard.acquire, after_in_parent=guard.release, after_in_child=_in_child)
