"""Maps on one thread, compared with NumPy, onnxruntime and torch: on any layout, with hostile data, and the cost of calls."""

from __future__ import annotations

import contextlib
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np

import anydml as dml
from benchmarks import map_cases, map_chain, map_hard
from benchmarks.map_cases import (
    BEST,
    BYTES,
    CACHE,
    CASES,
    MEMORY,
    MOST_HOSTILE,
    NUMPY,
    ONNXRUNTIME,
    ROWS,
    Array,
    Case,
    bound,
    hostile,
    layouts,
    left,
    mean,
)
from benchmarks.map_peers import peers
from benchmarks.timing import best

Rows = list[dict[str, Any]]
OURS, COMPILED = "anydml", ":compiled"
FUSED = 2.5  # times faster than NumPy, for four maps in one kernel
LEAST_MEAN, LEAST = 1.5, 0.9  # times faster than NumPy, for inputs that are not contiguous
MOST_LEFT = 1e-6  # the share of outputs that are decided in Python
EAGER, FURTHER, FIRST = 6, 200, 60_000  # microseconds


def run(names: list[str] | None = None, sizes: tuple[str, ...] = (CACHE, MEMORY), seconds: float = 0.4) -> Rows:
    """Every table. names: only these functions, compared with other libraries only."""
    rows = _against_peers(names, sizes, seconds)
    if not names:
        rows += _chains(sizes, seconds) + _layouts(seconds) + _hostile(seconds) + map_hard.run(seconds / 4) + _latencies()
    missed = [row for row in rows if not row.get("met", True)]
    print(f"{len(rows)} rows, {len(missed)} of them missed")
    return rows


def _verdict(met: bool) -> str:
    return "" if met else "  MISSED"


# --- against peers ---


def _against_peers(names: list[str] | None, sizes: tuple[str, ...], seconds: float) -> Rows:
    print(f"{'one thread':26} {'size':8} {'us':>10}  other's time over ours (asked)")
    cases = [(size, case) for size in sizes for case in (*CASES, *(ROWS if size == CACHE else ()))]
    return [_one(case, size, seconds) for size, case in cases if not names or case.name in names]


def _one(case: Case, size: str, seconds: float) -> dict[str, Any]:
    arrays = case.inputs(BYTES[size] // np.dtype(np.float32).itemsize)
    out = np.zeros(arrays[0].shape, case.output)
    kernel, call = bound(case, arrays, out)
    if not kernel.endswith(COMPILED):
        print(f"{case.name:26} {size:8} {'':10}  by {kernel}  MISSED", flush=True)
        return {"case": case.name, "size": size, "kernel": kernel, "met": False}
    spent = best({OURS: call, **peers(case, arrays, out)}, seconds=seconds, clock=time.thread_time)
    ours = spent.pop(OURS)
    ratios = {peer: s / ours for peer, s in spent.items()}
    asked = dict(case.asked.get(size, {}))
    if BEST in asked and ratios:
        asked[min(ratios, key=lambda peer: ratios[peer])] = asked.pop(BEST)
    met = all(ratios[peer] >= least for peer, least in asked.items() if peer in ratios)
    figures = "  ".join(f"{peer} {r:.2f}" + (f" ({asked[peer]})" if peer in asked else "") for peer, r in ratios.items())
    print(f"{case.name:26} {size:8} {ours * 1e6:10.2f}  {figures}{_verdict(met)}", flush=True)
    return {
        "case": case.name,
        "size": size,
        "kernel": kernel,
        "microseconds": ours * 1e6,
        "peers": ratios,
        "asked": asked,
        "met": met,
    }


# --- chains ---


def _chains(sizes: tuple[str, ...], seconds: float) -> Rows:
    rows: Rows = []
    asked = {NUMPY: FUSED, ONNXRUNTIME: 1.0}
    for size in sizes:
        x, y = map_cases.normal(BYTES[size] // np.dtype(np.float32).itemsize, 2)
        for name, steps in map_chain.CHAINS.items():
            calls = {OURS: map_chain.fused_call(steps, x, y, np.empty_like(x)), NUMPY: map_chain.numpy_call(steps, x, y)}
            with contextlib.suppress(ImportError):
                if (call := map_chain.onnxruntime_call(steps, x, y)) is not None:
                    calls[ONNXRUNTIME] = call
            spent = best(calls, seconds=seconds, clock=time.thread_time)
            ours = spent.pop(OURS)
            ratios = {peer: s / ours for peer, s in spent.items()}
            met = all(ratio >= asked[peer] for peer, ratio in ratios.items())
            figures = "  ".join(f"{peer} {r:.2f} ({asked[peer]})" for peer, r in ratios.items())
            print(f"{name:30} {size:8} {ours * 1e6:10.2f}  {figures}{_verdict(met)}", flush=True)
            rows.append({"case": name, "size": size, "microseconds": ours * 1e6, "peers": ratios, "asked": asked, "met": met})
    return rows


# --- layouts ---


def _layouts(seconds: float) -> Rows:
    print(f"\n{'inputs that do not run on':26} {'us':>10} {'x NumPy':>8}")
    by = {case.name: case for case in CASES}
    rows: Rows = []
    for layout, (a, b) in layouts().items():
        for name in ("add", "max", "relu"):
            if name == "relu" and a.flags.c_contiguous:
                continue  # contiguous
            case = by[name]
            arrays = (a, b)[: len(case.operator.spec.inputs)]
            out = np.empty(a.shape, np.float32)
            kernel, call = bound(case, arrays, out)
            assert case.numpy is not None
            calls = {OURS: call, NUMPY: _numpy(case, arrays, np.empty_like(out))}
            spent = best(calls, seconds=seconds / 2, clock=time.thread_time)
            ratio = spent[NUMPY] / spent[OURS]
            met = ratio >= LEAST
            rows.append({"layout": layout, "case": name, "kernel": kernel, "times_numpy": ratio, "met": met})
            print(f"{name + ', ' + layout:26} {spent[OURS] * 1e6:10.1f} {ratio:8.2f}{_verdict(met)}", flush=True)
    average = mean([row["times_numpy"] for row in rows])
    rows.append({"layout": "all", "times_numpy": average, "met": average >= LEAST_MEAN})
    print(f"geometric mean {average:.2f} (asked: {LEAST_MEAN}, and none under {LEAST}){_verdict(average >= LEAST_MEAN)}")
    return rows


def _numpy(case: Case, arrays: tuple[Array, ...], out: Array) -> Callable[[], object]:
    function = case.numpy
    assert function is not None
    return lambda: function(*arrays, out=out)


# --- hostile data ---


def _hostile(seconds: float) -> Rows:
    print(f"\n{'hostile data':36} {'x normal':>9} {'in Python':>10}")
    rows: Rows = []
    for name, (case, normal, other) in hostile().items():
        out = np.empty(normal[0].shape, case.output)
        calls, undone = {}, 0
        for key, arrays in (("normal", normal), ("hostile", other)):
            kernel, calls[key] = bound(case, arrays, out)
            if not kernel.endswith(COMPILED):
                break
            undone = max(undone, left(calls[key]))
        else:
            rows.append(_hostile_row(name, kernel, calls, undone, out.size, seconds))
            continue
        print(f"{name:36} {'':9} {'':10}  by {kernel}  MISSED", flush=True)
        rows.append({"case": name, "kernel": kernel, "met": False})
    return rows


def _hostile_row(
    name: str, kernel: str, calls: dict[str, Callable[[], object]], left: int, size: int, seconds: float
) -> dict[str, Any]:
    spent = best(calls, seconds=seconds / 2, slow=1, clock=time.thread_time)
    ratio, share = spent["hostile"] / spent["normal"], left / size
    met = ratio <= MOST_HOSTILE and share <= MOST_LEFT
    print(f"{name:36} {ratio:9.2f} {left:10}{_verdict(met)}", flush=True)
    return {"case": name, "kernel": kernel, "times_normal": ratio, "share_in_python": share, "met": met}


# --- the cost of calls ---


def _latencies() -> Rows:
    a, b = normal16(), normal16()
    calls: dict[str, Callable[[], object]] = {
        "element_wise_add(a, b)": lambda: dml.element_wise_add(a, b),
        "element_wise_add(a, 1.0)": lambda: dml.element_wise_add(a, 1.0),
        "activation_relu(x)": lambda: dml.activation_relu(a),
        "element_wise_exp(x)": lambda: dml.element_wise_exp(a),
    }
    print(f"\n{'calls':50} {'us':>10} {'under':>8}")
    spent = {f"{name}, 16 elements, cached": (s * 1e6, EAGER) for name, s in best(calls).items()}
    spent |= {f"compile, a further shape: {name}": (s * 1e6, FURTHER) for name, s in _further().items()}
    spent |= {f"first use of a function: {name}": (s * 1e6, FIRST) for name, s in _first().items()}
    rows = []
    for name, (us, under) in spent.items():
        rows.append({"what": name, "microseconds": us, "under": under, "met": us < under})
        print(f"{name:50} {us:10.2f} {under:8}{_verdict(us < under)}")
    return rows


def normal16() -> Array:
    return np.random.default_rng(0).standard_normal(16).astype(np.float32)


def _further() -> dict[str, float]:
    """Seconds to compile a further shape of a known function, without its check, by the thread's own clock."""
    device, found = dml.Device(threads=1), {}
    by = {case.name: case for case in CASES}
    for name in ("add", "relu", "exp", "gelu"):
        case = by[name]
        times = []
        for count in range(1000, 1100):
            arrays = case.inputs(count)
            checked = dml.check(case.desc(arrays, np.empty(count, case.output)))
            began = time.thread_time()
            device.compile(checked)
            times.append(time.thread_time() - began)
        found[name] = min(times)
    return found


FRESH = """
import time
import numpy as np
import anydml as dml

x = np.ones(16, np.float32)
dml.element_wise_add(x, x)
for name in ("activation_relu", "element_wise_exp", "element_wise_log", "element_wise_sin", "activation_gelu"):
    began = time.thread_time()
    getattr(dml, name)(x)
    print(name, time.thread_time() - began)
"""


def _first(runs: int = 5) -> dict[str, float]:
    """Seconds of the first call of a function in a process that has called another one: the best of several processes.

    By the thread's own clock, which stops while other processes run.
    """
    found: dict[str, float] = {}
    for _ in range(runs):
        done = subprocess.run([sys.executable, "-c", FRESH], check=True, capture_output=True, text=True)
        for line in done.stdout.splitlines():
            name, spent = line.split()
            found[name] = min(found.get(name, float("inf")), float(spent))
    return found
