"""Best of many, interleaved: what each of several calls costs at its undisturbed best, measured in one run."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping

LONG = 50e-6  # seconds from which a call is timed by itself
BATCH = 2e-3  # seconds of a batch
LEAST = 4  # calls in a batch
LASTING = 10e-3  # seconds from which what the caches hold at first counts for nothing


def best(
    calls: Mapping[str, Callable[[], object]],
    *,
    seconds: float = 0.5,
    slow: float = float("inf"),
    clock: Callable[[], float] = time.perf_counter,
) -> dict[str, float]:
    """Seconds of one call of each, the smallest of many; batches of calls of all take turns for `seconds` each.

    Every batch begins with a call that is not timed, so that each finds in the caches what it leaves there itself, and not
    what the one before it in the round did. slow: a call that takes longer than so many seconds, the first time, is timed
    that once. clock: `time.thread_time`, which stands still while other processes run, suits calls of one thread that take
    longer than the system lets them run undisturbed.
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
    """Seconds of a call, of the second one unless the first is slow: that one fills caches."""
    once = 0.0
    for _ in range(2):
        if once <= slow:
            began = time.perf_counter()
            call()
            once = time.perf_counter() - began
    return once


def _batch(spent: float) -> tuple[int, range]:
    """The number of times to time in a batch, and the calls of each time."""
    count = max(1 if spent > LASTING else LEAST, int(BATCH / max(spent, 1e-7)))
    return (count, range(1)) if spent > LONG else (1, range(count))
