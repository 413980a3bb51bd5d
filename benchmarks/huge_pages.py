"""Packed memory and scratch in huge pages beside the usual ones: part `pages` of `make bench`.

NumPy asks for huge pages (`madvise`) for arrays of 4 MB and more, and Linux grants them where
/sys/kernel/mm/transparent_hugepage/enabled says `madvise` or `always`. Here all memory of a call is asked for either way, and
the two take turns, by the thread's own time.
"""

from __future__ import annotations

import mmap
import time
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

import numpy as np

from anydml.devices import graph_call, link
from benchmarks import threads
from benchmarks.map_cases import Array
from benchmarks.timing import best

PAGE = 2 << 20
ENABLED = Path("/sys/kernel/mm/transparent_hugepage/enabled")
CASES = ("GEMM, 1024 cubed", "integers, 1024 cubed", "3 x 3, 64 to 64, 56 x 56", *list(threads.CASES)[-4:])


def memory(advice: int, nbytes: int, dtype: Any = np.uint8) -> Array:
    """Zeroed memory from the start of a huge page on."""
    pages = mmap.mmap(-1, nbytes + 2 * PAGE, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    pages.madvise(advice)
    array = np.frombuffer(pages, np.uint8)
    first = -array.ctypes.data % PAGE
    return array[first : first + nbytes]


def run(seconds: float = 1.0) -> list[dict[str, Any]]:
    """x: the time with small pages over that with huge ones."""
    if not ENABLED.exists() or not hasattr(mmap, "MADV_HUGEPAGE"):
        print("this system has no transparent huge pages")
        return []
    print(f"{ENABLED}: {ENABLED.read_text().strip()}")
    rows = []
    for name in CASES:
        calls = {}
        for kind, advice in (("huge", mmap.MADV_HUGEPAGE), ("small", mmap.MADV_NOHUGEPAGE)):
            given = partial(memory, advice)
            only = SimpleNamespace(**{x: getattr(np, x) for x in dir(np)} | {"empty": given, "zeros": given})
            with patch.object(graph_call, "np", only), patch.object(link, "np", only):
                calls[kind] = threads.CASES[name][1](1)
                calls[kind]()
        spent = best(calls, seconds=seconds, clock=time.thread_time)
        rows.append({"case": name, "us": {k: s * 1e6 for k, s in spent.items()}, "x": spent["small"] / spent["huge"]})
        print(f"{name:32} {spent['huge'] * 1e6:10.1f} us with huge pages, x {rows[-1]['x']:.3f}", flush=True)
    return rows
