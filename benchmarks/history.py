"""The times of earlier runs on the same processor, in a file each, and what got slower since."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).with_name("history")
TIMES = ("microseconds", "us", "milliseconds", "seconds", "ours")  # fields of rows: smaller is better
KEPT, LAST = 50, 5  # runs that a file holds, and those with which a run is compared
SLOWER = 1.15


def times(results: Mapping[str, Any]) -> dict[str, float]:
    """The times in the results of parts, each under the part and the words of its row."""
    found: dict[str, float] = {}
    for part, rows in results.items():
        if isinstance(rows, list):
            for row in rows:
                name = ", ".join([part, *(str(x) for x in row.values() if isinstance(x, str))])
                found |= {f"{name}, {field}": seconds for field, seconds in _numbers(row)}
    return found


def _numbers(row: Mapping[str, Any]) -> Iterator[tuple[str, float]]:
    for field in TIMES:
        x = row.get(field)
        for name, n in x.items() if isinstance(x, dict) else [("", x)]:
            if isinstance(n, (int, float)) and n > 0:
                yield f"{field} {name}".strip(), float(n)


def slower(runs: list[Mapping[str, float]], now: Mapping[str, float]) -> list[tuple[str, float]]:
    """The figures that take longer than in the best of the last runs, and how many times as long, the worst first."""
    found = []
    for name, n in now.items():
        before = [run[name] for run in runs[-LAST:] if name in run]
        if before and n > SLOWER * min(before):
            found.append((name, n / min(before)))
    return sorted(found, key=lambda x: -x[1])


def add(results: Mapping[str, Any], folder: Path = FOLDER) -> list[tuple[str, float]]:
    """Add a run to the file of its processor; what got slower."""
    processor = re.sub(r"[^A-Za-z0-9]+", "-", results["machine"]["processor"]).strip("-") or "unknown"
    file = folder / f"{processor}.json"
    runs: list[dict[str, float]] = json.loads(file.read_text()) if file.exists() else []
    now = times(results)
    found = slower([*runs], now)
    folder.mkdir(exist_ok=True)
    new = file.with_suffix(".new")
    new.write_text(json.dumps([*runs, now][-KEPT:], indent=0) + "\n")
    new.replace(file)
    return found
