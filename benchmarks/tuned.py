"""Calls with the usual thresholds, and with those that `anydml tune` finds on this machine."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from anydml.cli import tune
from benchmarks.timing import best


def run() -> list[dict[str, Any]]:
    won = tune.tune(lambda found: print(tune.shown(found)))
    families: dict[str, Any] = {t.family: import_module(f"anydml.kernels.{t.family}.tuning") for t in tune.TRIALS}
    before = {family: module.TUNING for family, module in families.items()}
    rows = []
    try:
        made: dict[str, dict[str, Any]] = {}
        for kind in ("usual", "tuned"):
            for family, module in families.items():
                own = {name.rpartition(".")[2]: n for name, n in won.items() if name.rpartition(".")[0] == family}
                usual = type(module.TUNING)()
                module.TUNING = usual._replace(**own) if kind == "tuned" else usual
            for name, call, _ in tune.ready([*tune.arguments()]):
                made.setdefault(name, {})[kind] = call
        for name, calls in made.items():
            seconds = best(calls, seconds=0.2)
            rows.append({"what": name, "microseconds": {kind: s * 1e6 for kind, s in seconds.items()}})
            print(
                f"{name:20} usual {seconds['usual'] * 1e6:10.1f} us, tuned {seconds['tuned'] * 1e6:10.1f}, "
                f"{seconds['usual'] / seconds['tuned']:.2f} times as fast"
            )
    finally:
        for family, module in families.items():
            module.TUNING = before[family]
    return rows
