"""Forks: a child process has the forking thread alone, and every lock as the threads that it lacks held it.

`guard` is therefore held over each fork, and taken wherever a library's lock is: around LLVM, around an import that comes
late, around the standard streams. It is reentrant, since what it guards may itself import or fork. No module takes it while
it is being imported: another thread may hold it and wait for that import.
"""

from __future__ import annotations

import os
import threading
import time

guard = threading.RLock()
BEGAN = time.time()  # when this process, or the one that it is a fork of, began to import the package
_generation = 0  # forks from the first process to this one


def generation() -> int:
    """A number that is another one in a child of a fork: what other threads were using in the parent is to be made anew."""
    return _generation


def _in_child() -> None:
    global _generation
    _generation += 1
    guard.release()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=guard.acquire, after_in_parent=guard.release, after_in_child=_in_child)
