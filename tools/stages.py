"""Prints how many elements each stage decides, over the table of data of `python -m benchmarks cliffs`: `make stages`.

Every case is called once with each kind of data, on one thread. A call that takes longer than PATIENCE is ended and named; what
it counted until then is in the sums.
"""

from __future__ import annotations

import sys
from collections import defaultdict
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT))

from benchmarks import cliffs  # noqa: E402
from benchmarks.cliff_cases import ALL_KINDS, CASES, Call, Data  # noqa: E402

import anydml as dml  # noqa: E402

MOST = 1e-9  # of all elements that Python may decide
PATIENCE = 2.0  # seconds of processor time for a call
TYPES = (np.float32, np.float16)


class Counted(NamedTuple):
    """elements: of all calls. undecided: those that machine code reported: what kernels' stages left, or the first of maps
    and recurrences. exact: those of them that Python decided. ended: calls."""

    elements: int = 0
    undecided: int = 0
    exact: int = 0
    ended: int = 0

    def plus(self, other: Counted) -> Counted:
        return Counted(*(a + b for a, b in zip(self, other, strict=True)))


def counted(call: Call, kinds: tuple[str, ...], dtype: Any) -> tuple[str, dict[str, Counted]]:
    """A kernel's name, and the counts of a call for each kind of data."""
    compiled, found, name = None, {}, ""
    for kind in kinds:
        desc, inputs, outputs = call(Data(kind, np.dtype(dtype)))
        compiled = compiled or dml.Device("cpu", threads=1).compile(desc)
        each = [o for several in outputs if several is not None for o in (several if isinstance(several, list) else [several])]
        made = {name: np.empty(d.sizes, d.data_type.dtype) for name, d, _ in each}
        execute, before = compiled.bind_described({**inputs, **made}).execute, compiled.counters()
        ended = not cliffs.within(execute, PATIENCE)
        after = compiled.counters()
        found[kind] = Counted(after.elements, after.undecided - before.undecided, after.exact - before.exact, int(ended))
        name = compiled.kernel_name
    return name, found


def main(names: list[str]) -> int:
    families: dict[str, Counted] = defaultdict(Counted)
    total, python = Counted(), []
    for dtype in TYPES:
        for name, call in CASES.items():
            if names and not any(name.startswith(asked) for asked in names):
                continue
            kernel, found = counted(call, ALL_KINDS, dtype)
            for kind, one in found.items():
                families[kernel] = families[kernel].plus(one)
                total = total.plus(one)
                if one.exact or one.ended:
                    ended = ", ended" if one.ended else ""
                    python.append((one.exact, f"{name} of {np.dtype(dtype).name}, {kind}{ended} ({kernel})"))
    print(f"| kernel | elements | reported by machine code | decided in Python | calls ended after {PATIENCE:g} s |")
    print("|---|--:|--:|--:|--:|")
    for kernel, one in [*sorted(families.items()), ("all", total)]:
        print(f"| {kernel} | {one.elements:,} | {one.undecided:,} | {one.exact:,} | {one.ended} |")
    for exact, where in sorted(python, reverse=True):
        print(f"{exact:>12,} in Python: {where}")
    share = total.exact / max(total.elements, 1)
    print("Elements that are reported and not decided in Python were decided by the third stage, or the second of a map.")
    print(f"{share:.2g} of all elements were decided in Python; asked: at most {MOST:g}")
    return int(share > MOST)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
