"""Prints what is tested of each family, for docs/trust.md: `make trust`.

Records of bounds and results near ties are those of the tests. Faults are those that `make mutants` has tried here.
"""

from __future__ import annotations

import importlib
import sys
from collections import Counter, defaultdict
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent
TESTS = ROOT / "tests"
FOLDERS = {TESTS, *(path.parent for path in TESTS.rglob("*.py"))} - {TESTS / "oracle"}
sys.path[:0] = [str(ROOT / "tools"), *map(str, sorted(FOLDERS))]

import anydml as dml  # noqa: E402
import bound_extents  # noqa: E402
import digest_cases  # noqa: E402
import steered  # noqa: E402
from anydml.errors import Error  # noqa: E402
from mutants import __main__ as tool  # noqa: E402
from mutants import chosen, generated  # noqa: E402

LOOSE = 1 / 64


def family(name: str) -> str:
    """The family of a kernel's name."""
    return name.split(":")[0]


def ratios() -> dict[str, list[tuple[float, float, str]]]:
    """By family, the largest recorded ratios of each case: of the first stage, of the second, and the case's name."""
    found = defaultdict(list)
    for file in bound_extents.FILES:
        module: Any = importlib.import_module(file.split("/")[-1])
        for name, record in module.RECORDS.items():
            case = getattr(module, "CASES", {}).get(name)
            kernel = getattr(case, "kernel", None) or module.KERNEL
            found[family(kernel)].append((max(record[:3]), max(record[3:6], default=float("nan")), name))
    return found


def near_ties() -> dict[str, Counter[str]]:
    """By family, the results near ties and on ties that `make test` compares."""
    tests: Any = importlib.import_module("test_steered_ties")
    found: dict[str, Counter[str]] = defaultdict(Counter)
    for name in steered.FAMILIES:
        (case,) = steered.steered(name, tests.COUNT, [0])
        found[family(case.kernel)] += Counter(near=case.near, ties=case.ties)
    return found


def faults() -> dict[str, Counter[str]]:
    """By family, the outcomes of faults in its folder."""
    found: dict[str, Counter[str]] = defaultdict(Counter)
    outcomes = tool.kept()
    for fault in [*generated.mutants(), *chosen.mutants()]:
        folders = fault.path.split("/")[:-1]
        where = folders[1] if folders[:1] == ["kernels"] and len(folders) > 1 else folders[0] if folders else "anydml"
        if folders[1:3] in (["contract", "floats"], ["contract", "quantised"]):
            where = ".".join(folders[1:3])
        found[where][tool.status(fault, outcomes)] += 1
    return found


def digests() -> Counter[str]:
    """By family, the results whose digests are stored."""
    device, found = dml.Device(threads=1, feature_level="EXTENDED"), Counter[str]()
    for case in digest_cases.cases():
        try:
            found[family(device.compile(case.desc).kernel_name)] += 1
        except Error:
            found["refused"] += 1
    return found


def main() -> None:
    bounds, ties, planted, stored = ratios(), near_ties(), faults(), digests()
    print("| family | cases of bounds | largest ratio, first stage | second | near ties | on ties | faults caught | digests |")
    print("|---|--:|--:|--:|--:|--:|--:|--:|")
    for name in sorted({*bounds, *ties, *planted, *stored}):
        rows, tie, fault = bounds.get(name, []), ties[name], planted[name]
        tried = fault["caught"] + fault["survived"] + fault["late"]
        shown = [f"{max((r[k] for r in rows if r[k] == r[k]), default=0):.2g}" if rows else "" for k in (0, 1)]
        cells = [name, len(rows) or "", *shown, f"{tie['near']:,}" if tie else "", f"{tie['ties']:,}" if tie else ""]
        cells += [f"{fault['caught']} of {tried}" if tried else "", stored[name] or ""]
        print("| " + " | ".join(map(str, cells)) + " |")
    loose = sorted(name for rows in bounds.values() for first, _, name in rows if 0 < first < LOOSE)
    print(f"\nloose at the first stage, below 1/64: {', '.join(loose)}")


if __name__ == "__main__":
    main()
