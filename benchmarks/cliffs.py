"""Times of calls on data that real layers have, divided by those on normal data; no ratio should be far above 1."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

import anydml as dml
from benchmarks.cliff_cases import ALL_KINDS, CASES, Call, Data

MOST = 5.0  # times the time of normal data, above which there is a cliff
PATIENCE = 1.0  # seconds of processor time after which a call is ended
TYPES = (np.float32, np.float16)


class _LeftOff(Exception):
    """Ends a call that takes too long."""


def run(types: Iterable[Any] = TYPES, part: str = "") -> list[dict[str, Any]]:
    """The times of all cases whose names begin with `part`."""
    found = []
    for dtype in types:
        for name, call in CASES.items():
            if name.startswith(part):
                found.append(row := _row(name, call, np.dtype(dtype)))
                cliffs = {kind: shown for kind, (shown, over) in _cells(row).items() if over}
                if cliffs:
                    listed = ", ".join(f"{kind} {shown}" for kind, shown in cliffs.items())
                    print(
                        f"{row['case']:44}{row['type']:>8} {row['kernel']:22}{row['microseconds']:>8.0f} us: {listed}",
                        flush=True,
                    )
    print(_summary(found))
    return found


def _row(name: str, call: Call, dtype: np.dtype[Any]) -> dict[str, Any]:
    times: dict[str, float] = {}
    compiled = None
    for kind in ALL_KINDS:
        desc, inputs, outputs = call(Data(kind, dtype))
        compiled = compiled or dml.Device("cpu", threads=1).compile(desc)
        each = [o for several in outputs if several is not None for o in (several if isinstance(several, list) else [several])]
        made = {name: np.empty(d.sizes, d.data_type.dtype) for name, d, _ in each}
        if times.get("normal") == float("inf"):
            break  # there is nothing to compare with
        times[kind] = _seconds(compiled.bind_described({**inputs, **made}).execute)
    assert compiled is not None
    normal = min(times["normal"], PATIENCE)
    ratios = {kind: spent / normal for kind, spent in times.items()}
    return {"case": name, "type": dtype.name, "kernel": compiled.kernel_name, "microseconds": normal * 1e6, "ratios": ratios}


def within(call: Callable[[], object], seconds: float) -> bool:
    """Whether a call ends within so many seconds of the processor; one that does not is ended."""

    def leave(*_: object) -> None:
        raise _LeftOff

    if not hasattr(signal, "setitimer"):  # Windows has no such timer, so calls run to their end
        call()
        return True
    before = signal.signal(signal.SIGPROF, leave)
    try:
        signal.setitimer(signal.ITIMER_PROF, seconds)
        call()
        return True
    except _LeftOff:
        return False
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)


def _seconds(call: Callable[[], object]) -> float:
    """The best of some calls; infinity if the first is ended after `PATIENCE`."""
    best = float("inf")
    if not within(call, PATIENCE):
        return best
    end, rounds = time.perf_counter() + 0.02, 0
    while rounds < 2 or (rounds < 20 and time.perf_counter() < end):
        began = time.thread_time()
        call()
        best = min(best, time.thread_time() - began)
        rounds += 1
    return best


def _cells(row: dict[str, Any]) -> dict[str, tuple[str, bool]]:
    """For each kind of data, the text of the ratio, and whether it is a cliff."""
    # normal data whose call is ended are a cliff, too
    least = PATIENCE * 1e6 / row["microseconds"]
    return {
        kind: (f">{least:.0f}" if np.isinf(ratio) else f"{ratio:.{0 if ratio >= 10 else 1}f}", not ratio <= MOST)
        for kind, ratio in row["ratios"].items()
    }


def _summary(rows: list[dict[str, Any]]) -> str:
    cells = [(kind, over) for row in rows for kind, (_, over) in _cells(row).items() if kind != "normal"]
    by_kind = ", ".join(f"{kind} {n}" for kind in ALL_KINDS if (n := sum(over for k, over in cells if k == kind)))
    return f"{sum(over for _, over in cells)} of {len(cells)} cells take over {MOST:g} times the time of normal data" + (
        f": {by_kind}" if by_kind else ""
    )
