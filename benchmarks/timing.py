"""The best of many interleaved measurements: the cost of each of several calls without disturbance, measured in one run."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping

LONG = 50e-6  # calls that take longer than these seconds are timed one by one
BATCH = 2e-3  # seconds of a batch
LEAST = 4  # calls in a batch
LASTING = 10e-3  # calls that take longer than these seconds are not affected by the contents of caches at first


def best(
    calls: Mapping[str, Callable[[], object]],
    *,
    seconds: float = 0.5,
    slow: float = float("inf"),
    clock: Callable[[], float] = time.perf_counter,
) -> dict[str, float]:
    """The smallest time of each call in seconds; batches of all calls take turns, for `seconds` each.

    Every batch begins with a call that is not timed, so that caches contain what the call itself leaves there, not another
    call. slow: a call that takes longer than this the first time is timed once. clock: `time.thread_time`, which stops while
    other processes run, is for calls on one thread that are often interrupted.
    """
    found = {name: _first(call, slow) for name, call in calls.items()}
    smallest = {name: once if once > slow else float("inf") for name, once in found.items()}
    turns = {name: (call, *_batch(found[name])) for name, call in calls.items() if found[name] <= slow}
    end = time.perf_counter() + seconds * len(turns)
    rounds = 0
    while turns and (rounds < 5 or time.perf_counter() < end):
        rounds += 1
        for name, (call, timed, together) in turns.items():
            if found[name] < LASTING:
                call()
            for _ in range(timed):
                began = clock()
                for _ in together:
                    call()
                smallest[name] = min(smallest[name], (clock() - began) / len(together))
    return smallest


def _first(call: Callable[[], object], slow: float) -> float:
    """Seconds of the second call, which has filled caches, or of the first one if it is slow."""
    once = 0.0
    for _ in range(2):
        if once <= slow:
            began = time.perf_counter()
            call()
            once = time.perf_counter() - began
    return once


def _batch(spent: float) -> tuple[int, range]:
    """The number of measurements in a batch, and the calls of each."""
    count = max(1 if spent > LASTING else LEAST, int(BATCH / max(spent, 1e-7)))
    return (count, range(1)) if spent > LONG else (1, range(count))
