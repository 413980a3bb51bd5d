"""Best of many, interleaved: what each of several calls costs at its undisturbed best, measured in one run."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping


def best(calls: Mapping[str, Callable[[], object]], *, seconds: float = 0.5) -> dict[str, float]:
    """Seconds of one call of each, the smallest of many batches; the batches of all take turns for `seconds` each."""
    repeats = {name: _repeats(call) for name, call in calls.items()}
    smallest = dict.fromkeys(calls, float("inf"))
    end = time.perf_counter() + seconds * len(calls)
    rounds = 0
    while rounds < 5 or time.perf_counter() < end:
        rounds += 1
        for name, call in calls.items():
            count = range(repeats[name])
            began = time.perf_counter()
            for _ in count:
                call()
            smallest[name] = min(smallest[name], (time.perf_counter() - began) / len(count))
    return smallest


def _repeats(call: Callable[[], object]) -> int:
    """How many calls make a batch of about a millisecond."""
    call()  # the first one fills caches
    began = time.perf_counter()
    call()
    return max(1, int(1e-3 / max(time.perf_counter() - began, 1e-7)))
