"""`anydml tune`: thresholds of kernels, measured on this machine, on one thread.

Each candidate is timed beside the thresholds so far, in turns, on calls that it is made for: the best times of many. It is kept
if it is faster by more than the noise twice. Results of calls do not depend on thresholds, and are compared all the same.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from importlib import import_module
from math import exp, log
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

import anydml as dml
from anydml.functional.describing import described
from anydml.kernels.code import processor

Array = NDArray[Any]
Timer = Callable[[Callable[[], object]], float]
GAIN = 1.03  # a candidate must be faster than this, in the mean of its calls
SECOND, STREAM = processor.caches().second, processor.past_caches()


class Trial(NamedTuple):
    """A threshold of a family, its candidates, and the names of calls on which they are timed."""

    family: str
    name: str
    candidates: tuple[int, ...]
    calls: tuple[str, ...]


class Found(NamedTuple):
    """The winner of a trial: the threshold's value before, its own, and the time before over its own."""

    trial: Trial
    before: int
    best: int
    gain: float


TRIALS = (
    Trial("contract", "block", (SECOND // 2, SECOND * 3 // 4, SECOND * 5 // 4), ("integers", "long integers")),
    Trial("contract", "chunk", (64 << 10, 128 << 10, 512 << 10), ("integers", "long integers")),
    Trial("contract", "strip", (128 << 10, 512 << 10), ("integer windows",)),
    Trial("contract.floats", "block", (SECOND // 8, SECOND // 2), ("products", "points")),
    Trial("contract.floats", "chunk", (SECOND // 4, SECOND * 3 // 4), ("products", "points", "first layer")),
    Trial("contract.floats", "column_bytes", (4, 8), ("products", "long points")),
    Trial("contract.floats", "depth", (64, 256), ("products",)),
    Trial("contract.floats", "at_once_terms", (128, 768), ("points", "long points")),
    Trial("contract.floats", "tiles", (SECOND // 4, SECOND // 2, SECOND * 2), ("windows", "few windows")),
    Trial("contract.floats", "products", (SECOND // 16, SECOND // 4), ("windows", "few windows")),
    Trial("contract.floats", "sums", (SECOND // 16, SECOND // 4), ("windows", "few windows")),
    Trial("copy", "stream", (STREAM // 3, STREAM * 8 // 3), ("copy",)),
    Trial("copy", "near", (1 << 16, 1 << 20), ("rows",)),
    Trial("elementwise", "stream", (STREAM // 3, STREAM * 8 // 3), ("sum of two",)),
    Trial("reduce", "block", (SECOND // 8, SECOND), ("columns",)),
    Trial("attention", "scores", (1 << 16, 1 << 17, 1 << 19, 1 << 20), ("attention",)),
    Trial("recurrence", "sums", (1 << 18, 1 << 19, 1 << 21), ("recurrence",)),
    Trial("windows", "band", (8, 32), ("pooling",)),
    Trial("windows", "near", (16 << 10, 48 << 10), ("pooling",)),
)


def arguments() -> dict[str, Callable[[], tuple[Callable[..., Any], tuple[Any, ...], dict[str, Any]]]]:
    """The calls by name: functions that make an eager function's arguments, with which it is returned."""
    rng = np.random.default_rng(0)

    def normal(*sizes: int) -> Array:
        return rng.standard_normal(sizes, np.float32)

    def whole(*sizes: int) -> Array:
        return rng.integers(-128, 128, sizes, np.int8)

    def large() -> Array:
        """More bytes than those from which stores pass by the caches, of the same numbers again and again."""
        return np.resize(normal(1 << 16), (1, 1, max(STREAM * 4 // 3 // 4096, 1024), 1024))

    around = {"start_padding": (1, 1), "end_padding": (1, 1)}
    pool = {"window_size": (3, 3), "strides": (2, 2)} | around
    columns = {"function": "SUM", "axes": (2,)}
    return {
        "integers": lambda: (dml.matrix_multiply_integer, (whole(512, 512), whole(512, 512)), {}),
        "long integers": lambda: (dml.matrix_multiply_integer, (whole(256, 2048), whole(2048, 512)), {}),
        "integer windows": lambda: (dml.convolution_integer, (whole(1, 64, 28, 28), whole(64, 64, 3, 3)), around),
        "products": lambda: (dml.gemm, (normal(1, 1, 384, 512), normal(1, 1, 512, 384)), {}),
        "points": lambda: (dml.convolution, (normal(1, 64, 28, 28), normal(128, 64, 1, 1)), {}),
        "long points": lambda: (dml.convolution, (normal(1, 512, 14, 14), normal(64, 512, 1, 1)), {}),
        "first layer": lambda: (
            dml.convolution,
            (normal(1, 3, 112, 112), normal(32, 3, 3, 3)),
            around | {"strides": (2, 2)},
        ),
        "windows": lambda: (dml.convolution, (normal(1, 64, 28, 28), normal(64, 64, 3, 3)), around),
        "few windows": lambda: (dml.convolution, (normal(1, 16, 56, 56), normal(16, 16, 3, 3)), around),
        "copy": lambda: (dml.element_wise_identity, (large(),), {}),
        "rows": lambda: (dml.slice1, (normal(512, 1024), (0, 0), (512, 512), (1, 1)), {}),
        "sum of two": lambda: (dml.element_wise_add, (large(), large()), {}),
        "columns": lambda: (dml.reduce, (normal(1, 1, 1024, 1024),), columns),
        "attention": lambda: (dml.multihead_attention, tuple(normal(1, 256, 256) for _ in range(3)), {"head_count": 4}),
        "recurrence": lambda: (dml.gru, (normal(1, 32, 4, 64), normal(1, 1, 192, 64), normal(1, 1, 192, 64)), {}),
        "pooling": lambda: (dml.max_pooling, (normal(1, 32, 56, 56),), pool),
    }


def ready(names: Sequence[str]) -> Iterator[tuple[str, Callable[[], Any], list[Array]]]:
    """The named calls, compiled for one thread with the thresholds of now: name, call, and the outputs that it writes."""
    device, asked = dml.Device(threads=1), arguments()
    for name in names:
        function, given, attributes = asked[name]()
        desc, inputs, outputs = described(function, *given, **attributes)
        arrays = {tensor: np.empty(t.sizes, t.data_type.dtype) for tensor, t, _ in filter(None, outputs)}
        compiled = device.compile(desc)
        yield name, compiled.bind(**inputs, **arrays).execute, [*arrays.values()]


def seconds(call: Callable[[], object], least: float = 0.002) -> float:
    """The time of one call, as that of several which take `least` seconds together."""
    count, spent = 0, 0.0
    began = time.thread_time()
    while spent < least:
        call()
        count += 1
        spent = time.thread_time() - began
    return spent / count


def compared(one: Sequence[Callable[[], Any]], other: Sequence[Callable[[], Any]], turns: int, timer: Timer) -> float:
    """The time of calls over that of others, in the geometric mean: the best of `turns` each."""
    best = [[float("inf")] * 2 for _ in one]
    for _ in range(turns):
        for k, pair in enumerate(zip(one, other, strict=True)):
            for side, call in enumerate(pair):
                best[k][side] = min(best[k][side], timer(call))
    return exp(sum(log(a / b) for a, b in best) / len(best))


def tune(told: Callable[[Found], object], timer: Timer = seconds, trials: Sequence[Trial] | None = None) -> dict[str, int]:
    """The thresholds that are better than the usual ones, by family and name. told: is called after each of the `trials`.

    The process's thresholds are the same again at the end.
    """
    trials = TRIALS if trials is None else trials
    modules: dict[str, Any] = {t.family: import_module(f"anydml.kernels.{t.family}.tuning") for t in trials}
    before = {family: module.TUNING for family, module in modules.items()}
    won: dict[str, int] = {}
    try:
        for module in modules.values():
            module.TUNING = type(module.TUNING)()
        for trial in trials:
            found = _tried(trial, modules[trial.family], timer)
            if found.best != found.before:
                module = modules[trial.family]
                module.TUNING = module.TUNING._replace(**{trial.name: found.best})
                won[f"{trial.family}.{trial.name}"] = found.best
            told(found)
    finally:
        for family, module in modules.items():
            module.TUNING = before[family]
    return won


def _tried(trial: Trial, module: Any, timer: Timer) -> Found:
    now = module.TUNING
    before: int = getattr(now, trial.name)
    calls, outputs = _ready(trial.calls)
    best, gain = before, 1.0
    for candidate in trial.candidates:
        if candidate == before:
            continue
        try:
            module.TUNING = now._replace(**{trial.name: candidate})
            others, theirs = _ready(trial.calls)
        finally:
            module.TUNING = now
        for x, y in zip(outputs, theirs, strict=True):
            assert x.tobytes() == y.tobytes(), f"{trial.family}.{trial.name} = {candidate} changes a result"
        faster = compared(calls, others, 6, timer)
        if faster > max(gain, GAIN):  # measured again, so that noise does not win
            faster = min(faster, compared(calls, others, 18, timer))
            if faster > max(gain, GAIN):
                best, gain = candidate, faster
    return Found(trial, before, best, gain)


def _ready(names: Sequence[str]) -> tuple[list[Callable[[], Any]], list[Array]]:
    """The calls, made once, and their outputs."""
    calls, outputs = [], []
    for _, call, written in ready(names):
        call()
        calls.append(call)
        outputs += written
    return calls, outputs


def shown(found: Found) -> str:
    """A line about a trial."""
    name = f"{found.trial.family}.{found.trial.name}"
    if found.best == found.before:
        return f"{name:30} {found.before:>12}  none of {', '.join(map(str, found.trial.candidates))} is faster"
    return f"{name:30} {found.before:>12}  {found.best} is {found.gain:.2f} times as fast"


def as_data(thresholds: Mapping[str, int], trials: Sequence[Found]) -> dict[str, Any]:
    """The outcome, as JSON holds it."""
    rows = [
        {"threshold": f"{f.trial.family}.{f.trial.name}", "before": f.before, "best": f.best, "gain": round(f.gain, 3)}
        for f in trials
    ]
    return {"processor": processor.name(), "thresholds": dict(thresholds), "trials": rows}
