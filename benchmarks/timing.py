"""Best of many, interleaved: what each of several calls costs at its undisturbed best, measured in one run."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping

LONG = 50e-6  # seconds from which a call is timed by itself
BATCH = 2e-3  # seconds of a batch
LEAST = 4  # calls in a batch


def best(calls: Mapping[str, Callable[[], object]], *, seconds: float = 0.5) -> dict[str, float]:
    """Seconds of one call of each, the smallest of many; batches of calls of all take turns for `seconds` each.

    Every batch begins with a call that is not timed, so that each finds in the caches what it leaves there itself, and not
    what the one before it in the round did.
    """
    repeats = {name: _repeats(call) for name, call in calls.items()}
    smallest = dict.fromkeys(calls, float("inf"))
    end = time.perf_counter() + seconds * len(calls)
    rounds = 0
    while rounds < 5 or time.perf_counter() < end:
        rounds += 1
        for name, call in calls.items():
            timed, together = repeats[name]
            call()
            for _ in range(timed):
                began = time.perf_counter()
                for _ in together:
                    call()
                smallest[name] = min(smallest[name], (time.perf_counter() - began) / len(together))
    return smallest


def _repeats(call: Callable[[], object]) -> tuple[int, range]:
    """How many times to time in a batch, and how many calls each time."""
    call()  # the first one fills caches
    began = time.perf_counter()
    call()
    spent = max(time.perf_counter() - began, 1e-7)
    count = max(LEAST, int(BATCH / spent))
    return (count, range(1)) if spent > LONG else (1, range(count))
