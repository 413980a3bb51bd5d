"""Best of many, interleaved: what each of several calls costs at its undisturbed best, measured in one run."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping


def best(
    calls: Mapping[str, Callable[[], object]],
    *,
    seconds: float = 0.5,
    slow: float = float("inf"),
    warm: bool = False,
    clock: Callable[[], float] = time.perf_counter,
) -> dict[str, float]:
    """Seconds of one call of each, the smallest of many batches; the batches of all take turns for `seconds` each.

    slow: a call that takes longer than so many seconds, the first time, is timed that once. warm: each batch begins with a
    call that is not counted, for what the others put out of the caches. clock: `time.thread_time`, which stands still while
    other processes run, suits calls of one thread that take longer than the system lets them run undisturbed.
    """
    found = {name: _repeats(call, slow) for name, call in calls.items()}
    repeats = {name: count for name, (count, _) in found.items()}
    smallest = {name: once if once > slow else float("inf") for name, (_, once) in found.items()}
    turns = {name: call for name, call in calls.items() if smallest[name] == float("inf")}
    end = time.perf_counter() + seconds * len(turns)
    rounds = 0
    while turns and (rounds < 5 or time.perf_counter() < end):
        rounds += 1
        for name, call in turns.items():
            if warm:
                call()
            count = range(repeats[name])
            began = clock()
            for _ in count:
                call()
            smallest[name] = min(smallest[name], (clock() - began) / len(count))
    return smallest


def _repeats(call: Callable[[], object], slow: float) -> tuple[int, float]:
    """How many calls make a batch of about a millisecond, and what one takes."""
    once = 0.0
    for _ in range(2):  # the first one fills caches
        if once > slow:
            break
        began = time.perf_counter()
        call()
        once = time.perf_counter() - began
    return max(1, int(1e-3 / max(once, 1e-7))), once
