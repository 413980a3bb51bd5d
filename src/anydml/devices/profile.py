"""The time that each call of a graph, or each dispatch of a program, takes."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from anydml.devices.graph_call import Part, Run


class Spent(NamedTuple):
    """One call: its nodes (or its name in a program), its kernel, its least time, and the bytes that it reads and writes."""

    nodes: str
    kernel: str
    microseconds: float
    bytes: int


class Profile(tuple[Spent, ...]):
    """The calls in order, each with its time; `str` is a table."""

    __slots__ = ()

    def __str__(self) -> str:
        total = sum(s.microseconds for s in self) or 1.0
        width = max((len(s.nodes) for s in self), default=0)
        lines = [
            f"{s.nodes:{width}}  {s.kernel:24}  {s.microseconds:10.1f} us  {s.microseconds / total:4.0%}  {s.bytes:12} bytes"
            for s in self
        ]
        return "\n".join([*lines, f"{total:.1f} us in all"])

    __repr__ = __str__

    def to_perfetto(self, path: str | os.PathLike[str]) -> None:
        """Write the calls one after the other as a trace, in Chrome's JSON format, which Perfetto (ui.perfetto.dev) opens."""
        events: list[dict[str, object]] = [{"name": "thread_name", "ph": "M", "pid": 1, "tid": 1, "args": {"name": "calls"}}]
        began = 0.0
        for s in self:
            arguments = {"kernel": s.kernel, "bytes": s.bytes, "bytes per second": round(s.bytes / (s.microseconds or 1) * 1e6)}
            events.append({"name": s.nodes, "cat": s.kernel, "ph": "X", "pid": 1, "tid": 1, "ts": began, "dur": s.microseconds,
                           "args": arguments})  # fmt: skip
            began += s.microseconds
        text = json.dumps({"displayTimeUnit": "ns", "traceEvents": events}, indent=1)
        Path(path).write_text(text + "\n", encoding="utf-8", newline="\n")


def profiled(runs: list[Run], times: int) -> Profile:
    """The least time of each part of a graph that is executed `times` times."""
    least = [float("inf")] * len(runs)
    for _ in range(times):
        for k, run in enumerate(runs):
            began = time.perf_counter()
            run.execute()
            least[k] = min(least[k], (time.perf_counter() - began) * 1e6)
    return Profile(
        Spent(part.title, part.kernel_name, spent, _bytes(part)) if part else Spent("copy of an output", "copy", spent, 0)
        for (part, *_), spent in zip(runs, least, strict=True)
    )


def _bytes(part: Part) -> int:
    return sum(use.tensor.element_bytes for use in (*part.work.reads.values(), *part.work.writes.values()))
