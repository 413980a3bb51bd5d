"""A small persistent pool of threads for calls into machine code, which run without the GIL."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Sequence
from queue import SimpleQueue

_tasks: SimpleQueue[tuple[Callable[[], int], SimpleQueue[int]]] = SimpleQueue()
_workers = 0
_lock = threading.Lock()


def _after_fork() -> None:
    global _tasks, _workers, _lock
    _tasks, _workers, _lock = SimpleQueue(), 0, threading.Lock()  # no thread of the parent lives on in the child


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


def _work(tasks: SimpleQueue[tuple[Callable[[], int], SimpleQueue[int]]]) -> None:
    while True:
        task, done = tasks.get()
        done.put(task())


def run(tasks: Sequence[Callable[[], int]]) -> int:
    """Run all tasks, the first on this thread, and return when every one is done: 0, or a status that is not."""
    global _workers
    if len(tasks) > 1:
        with _lock:
            while _workers < len(tasks) - 1:
                threading.Thread(target=_work, args=(_tasks,), name="anydml", daemon=True).start()
                _workers += 1
    done: SimpleQueue[int] = SimpleQueue()
    for task in tasks[1:]:
        _tasks.put((task, done))
    status = tasks[0]()
    for _ in tasks[1:]:
        status = done.get() or status
    return status


def default_threads() -> int:
    """ANYDML_NUM_THREADS, else OMP_NUM_THREADS, else the processors that affinity and the cgroup's quota leave."""
    for variable in ("ANYDML_NUM_THREADS", "OMP_NUM_THREADS"):
        value = os.environ.get(variable, "").split(",")[0].strip()
        if value.isdigit() and int(value) > 0:
            return int(value)
    available = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return max(1, min(available, _quota() or available))


def _quota() -> int | None:
    try:
        with open("/sys/fs/cgroup/cpu.max", encoding="ascii") as file:
            quota, period = file.read().split()
        return None if quota == "max" else max(1, int(quota) // int(period))
    except (OSError, ValueError):
        return None
