"""A small persistent pool of threads that wait in machine code, without the GIL, for pieces of a call.

Waking a Python thread takes longer than many kernels. So after its last piece a worker looks for further pieces for 100 us, and
only then returns to Python to sleep. A caller wakes sleeping workers, but never waits for one that has claimed no piece. All
callers share one state: a caller that finds it in use computes its pieces alone until it is free.

Linux often wakes a thread on the processor of the thread that woke it, and does not move it for some milliseconds, in which
both take turns there. So workers may run on every processor but their caller's.
"""

from __future__ import annotations

import ctypes
import os
import sys
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import cache
from queue import SimpleQueue
from typing import Any

import numpy as np
from numpy.typing import NDArray

from anydml.errors import UnsupportedError
from anydml.kernels.call import pool_emit
from anydml.kernels.code import engine
from anydml.kernels.code.targets import Target

WAIT = 100e-6  # seconds that a worker looks for further pieces
PIECES = 64  # the most pieces that work is divided into on machines with fewer processors
PATIENCE = 5  # a caller that has waited for a worker for WAIT / PATIENCE yields to other threads


class _Place:
    """The processors that a worker may use, those that it was given, and the one that it is kept from."""

    def __init__(self) -> None:
        self.thread, self.avoided = threading.get_native_id(), -1
        self.given = self.allowed = os.sched_getaffinity(self.thread)

    def avoid(self, processor: int) -> bool:
        """Keep the worker from a processor, and say whether it was. Processors that others gave the thread are allowed ones."""
        self.avoided = processor
        with suppress(OSError):
            if (now := os.sched_getaffinity(self.thread)) != self.given:
                self.allowed = now
            if others := self.allowed - {processor}:
                os.sched_setaffinity(self.thread, others)
                self.given = others
        return processor not in self.given


def _lines(count: int) -> NDArray[np.int64]:
    """`count` zero bytes that begin at a cache line. A child of a fork gets a copy of them."""
    words = np.zeros((count + pool_emit.LINE) // 8, np.int64)
    first = -words.ctypes.data % pool_emit.LINE // 8
    return words[first : first + count // 8]


_state = _lines(pool_emit.STATE_BYTES)
_asleep: set[int] = set()  # each worker adds itself; the caller that wakes it removes it
_beds: dict[int, SimpleQueue[None]] = {}  # where each worker sleeps
_places: dict[int, _Place] = {}


def _after_fork() -> None:
    """Reset the state in a child of a fork, which has none of the parent's threads and none of their calls."""
    _state[:] = 0
    _asleep.clear()
    _beds.clear()
    _places.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


def call(
    phases: Sequence[Sequence[tuple[int, int]]],
    runner: engine.Code,
    target: Target,
    keep: Any,
    threads: int | None = None,
    *,
    keeps_gil: bool = False,
) -> Callable[[], int]:
    """The call that has `runner` run the phases' pieces (steps, length); see pool_emit.call. keep: what they point to."""
    return _call(phases, runner, target, keep, threads, keeps_gil=keeps_gil)[0] if phases else lambda: 0


def parts(
    phases: Sequence[Sequence[tuple[int, int]]],
    runner: engine.Code,
    target: Target,
    keep: Any,
    *,
    keeps_gil: bool = False,
) -> tuple[Callable[[int, int], int], Callable[[], int]]:
    """As `call`, a function that runs only the phases from its first to before its second argument, at least one; and a
    function that returns the last phase that was run."""
    run, job = _call(phases, runner, target, keep, None, keeps_gil=keeps_gil)

    def some(first: int, past: int) -> int:
        job[pool_emit.FIRST], job[pool_emit.PAST] = first, past
        return run()

    return some, lambda: int(job[pool_emit.STOPPED])


def _call(
    phases: Sequence[Sequence[tuple[int, int]]],
    runner: engine.Code,
    target: Target,
    keep: Any,
    threads: int | None,
    *,
    keeps_gil: bool,
) -> tuple[Callable[[], int], NDArray[np.int64]]:
    """The call of all phases, and its job, the arguments of the machine code."""
    most = max([1, *map(len, phases)])
    assert most <= pool_emit.LEFT
    helpers = in_use(min(most, threads or most), target) - 1
    code = engine.compiled(pool_emit.call, target)
    pieces = np.array([piece for phase in phases for piece in phase], np.int64).reshape(-1, 2)
    ends = pieces.ctypes.data + 16 * np.cumsum([len(phase) for phase in phases])
    last = max((i for i, phase in enumerate(phases) if helpers and len(phase) > 1), default=0)
    rows = [(end, len(phase), i < last) for i, (end, phase) in enumerate(zip(ends, phases, strict=True))]
    spins = spins_in(WAIT, target) if helpers else 0
    serve = engine.compiled(pool_emit.serve, target) if helpers else None  # compiled here, where a failure can still be handled
    head = (_state.ctypes.data, _way(), spins // PATIENCE, _where(), helpers, runner.address, 0, len(phases), 0)
    job = np.array([*head, *(word for row in rows for word in row)], np.int64)
    function = _function(code, keeps_gil=keeps_gil and most == 1)  # a worker might need the GIL before it can help
    address = ctypes.c_void_p(job.ctypes.data)
    needed = frozenset(range(helpers))

    def run(keep: Any = (code, runner, pieces, job, keep)) -> int:
        if serve and (not needed.isdisjoint(_asleep) or len(_beds) < helpers):
            _wake(helpers, serve, spins)
        status: int = function(address)
        return status

    return run, job


def _function(code: engine.Code, *, keeps_gil: bool = False) -> Any:
    return (ctypes.PYFUNCTYPE if keeps_gil else ctypes.CFUNCTYPE)(ctypes.c_int64, ctypes.c_void_p)(code.address)


def _wake(helpers: int, serve: engine.Code, spins: int) -> None:
    here = _processor()
    for index in range(helpers):
        if index in _asleep:
            try:
                _asleep.discard(index)
                if here >= 0 and (place := _places.get(index)) and place.avoided != here:
                    place.avoid(here)
            finally:  # also if a signal handler raises: a sleeping worker that is not registered as asleep would never be woken
                _beds[index].put(None)
        elif index not in _beds:
            bed: SimpleQueue[None] = SimpleQueue()
            if _beds.setdefault(index, bed) is bed:  # no other thread was quicker
                block = np.array((_state.ctypes.data, _way(), _where(), index, spins), np.int64)
                with suppress(RuntimeError):  # if no further thread can be started, callers work without it
                    threading.Thread(target=_work, args=(index, bed, serve, block, _state), name="anydml", daemon=True).start()


def _work(index: int, bed: SimpleQueue[None], code: engine.Code, block: NDArray[np.int64], state: NDArray[np.int64]) -> None:
    """Run a worker. This frame holds everything that its machine code uses, and outlives the interpreter's shutdown."""
    function, address = _function(code), ctypes.c_void_p(block.ctypes.data)
    if _where():
        _places[index] = _Place()
    while True:
        while function(address) == pool_emit.TOGETHER:
            if not _places[index].avoid(_processor()):
                block[2] = 0  # it cannot move, and asks no more
        _asleep.add(index)
        if _busy(state, index):  # with a call that began when this worker was neither looking nor asleep
            _asleep.discard(index)
        else:
            bed.get()


def _busy(state: NDArray[np.int64], index: int) -> bool:
    pieces, calls = state[pool_emit.TICKET // 8] & pool_emit.LEFT, state[pool_emit.STAYING // 8]
    return bool((pieces or calls) and index < state[pool_emit.HELPERS // 8])


@cache
def spins_in(seconds: float, target: Target) -> int:
    """The number of times that a worker looks for work in some seconds: measured, since a pause takes 5 to 150 cycles.

    Nothing gives way while it is measured: if another process waits for the processor, what it takes of it would count.
    """
    state, trial = _lines(pool_emit.STATE_BYTES), 1000
    code = engine.compiled(pool_emit.serve, target)
    block = np.array((state.ctypes.data, 0, 0, 0, trial), np.int64)
    function, address = _function(code), ctypes.c_void_p(block.ctypes.data)
    taken = []
    for _ in range(5):
        start = time.perf_counter()
        function(address)
        taken.append(time.perf_counter() - start)
    return max(1, int(seconds * trial / max(min(taken), 1e-9)))


def _way() -> int:
    """The address of the system's function that lets another thread have the processor, or 0."""
    if sys.platform == "win32":
        return _address("SwitchToThread", "kernel32")
    return _address("sched_yield")


def _where() -> int:
    """The address of the system's function that returns the number of the thread's processor; 0, if threads cannot be moved."""
    return _address("sched_getcpu") if hasattr(os, "sched_setaffinity") else 0


def _processor() -> int:
    """The number of the processor that this thread runs on, or -1."""
    return _number()() if _where() else -1


@cache
def _number() -> Callable[[], int]:
    return ctypes.PYFUNCTYPE(ctypes.c_int)(_where())


@cache
def _address(name: str, library: str | None = None) -> int:
    """The address of a function of the system, or 0. library: where Windows has it."""
    try:
        if sys.platform == "win32":
            functions: ctypes.CDLL = ctypes.WinDLL(library)
        else:
            functions = ctypes.CDLL(None)
        return ctypes.cast(getattr(functions, name), ctypes.c_void_p).value or 0
    except (AttributeError, OSError):
        return 0


def processors() -> int:
    """The number of processors that this process may use; more threads would only wait for each other."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def at_most(threads: int) -> int:
    """The number of threads for which work is divided: the given one, but no more than could run. More would cost memory."""
    return min(threads, max(processors(), PIECES))


def in_use(threads: int, target: Target) -> int:
    """The number of threads, at most the given one, that run at the same time."""
    return min(threads, processors()) if pool_emit.pooled(target) else 1


def default_threads() -> int:
    """ANYDML_NUM_THREADS, else OMP_NUM_THREADS, else the processors that affinity and the cgroup's quota leave."""
    return threads_and_why()[0]


def threads_and_why() -> tuple[int, str]:
    """`default_threads`, and the source of the number. UnsupportedError for an ANYDML_NUM_THREADS that is not a number."""
    if value := os.environ.get("ANYDML_NUM_THREADS", "").strip():
        if not (value.isascii() and value.isdigit() and value.strip("0")):
            raise UnsupportedError(f"ANYDML_NUM_THREADS is {value!r}, and takes a number of threads, 1 or more")
        return _count(value), "as ANYDML_NUM_THREADS says"
    value = os.environ.get("OMP_NUM_THREADS", "").split(",")[0].strip()  # a number for each level of nesting
    if value.isascii() and value.isdigit() and value.strip("0"):
        return _count(value), "as OMP_NUM_THREADS says"
    available, quota = processors(), _quota()
    if quota is not None and quota < available:
        return quota, "the processors that the cgroup's quota leaves"
    return available, "the processors that this process may run on"


def _count(digits: str) -> int:
    return int(digits) if len(digits) < 10 else 10**9  # Python refuses to read thousands of digits


def _quota() -> int | None:
    try:
        with open("/sys/fs/cgroup/cpu.max", encoding="ascii") as file:
            quota, period = file.read().split()
        return None if quota == "max" else max(1, int(quota) // int(period))
    except (OSError, ValueError):
        return None
