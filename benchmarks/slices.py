"""SLICE1 compared with the speed of memory, NumPy, onnxruntime and torch."""

from __future__ import annotations

import contextlib
import math
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

import anydml as dml
from benchmarks.limits import copies, runs
from benchmarks.onnx_session import session
from benchmarks.timing import best

Array = NDArray[Any]
EVERY = slice(None)
BACK = slice(None, None, -1)
N = 4096


def cases() -> dict[str, tuple[tuple[int, ...], tuple[slice, ...], tuple[int, ...] | None]]:
    """Name -> (input sizes, the slice of each dimension, the transposition of the input in memory)."""
    square = (N, N)

    def step(n: int) -> slice:
        return slice(None, None, n)

    return {
        "full copy": (square, (EVERY, EVERY), None),
        "every 2nd row": (square, (step(2), EVERY), None),
        "every 2nd column": (square, (EVERY, step(2)), None),
        "every 3rd column": (square, (EVERY, step(3)), None),
        "every 7th column": (square, (EVERY, step(7)), None),
        "reversed columns": (square, (EVERY, BACK), None),
        "reversed rows": (square, (BACK, EVERY), None),
        "page's example 2": (square, (step(-2), slice(1, None, 2)), None),
        "crop": (square, (slice(5, 4001), slice(7, 3907)), None),
        "4-D every second": ((64, 64, 64, 64), (step(2),) * 4, None),
        "14 of 16, short rows": ((256, 256, 16, 16), (EVERY, EVERY, slice(1, 15), slice(1, 15)), None),
        "rank 8, mixed signs": ((8,) * 8, (BACK, step(2)) * 4, None),
        "transposed input": (square, (EVERY, EVERY), (1, 0)),
        "64 x 64": ((64, 64), (step(2), slice(1, None, 2)), None),
    }


TITLES = {
    "GB/s out": "gigabytes_per_second",
    "of limit": "share_of_limit",
    "of runs": "share_of_runs",
    "x NumPy": "times_numpy",
    "out=": "out_times_numpy",
    "eager": "eager_times_numpy",
    "2 threads": "two_threads",
    "of limit ": "two_threads_share",
}


def run(types: tuple[str, ...] = ("float32", "uint8", "float16", "int64"), seconds: float = 0.4) -> list[dict[str, Any]]:
    rows = []
    print(f"{'':30}" + "".join(f"{title:>10}" for title in TITLES) + "  peers, x")
    for dtype in types:
        for name, (sizes, slices, order) in cases().items():
            rows.append(row := _case(name, np.dtype(dtype), sizes, slices, order, seconds))
            peers = "  ".join(f"{peer} {ratio:.2f}" for peer, ratio in row["peers"].items())
            figures = "".join(f"{'-' if row[key] is None else format(row[key], '.2f'):>10}" for key in TITLES.values())
            print(f"{dtype + ', ' + name:30}{figures}  {peers}  {row['kernel']}", flush=True)
    large = [r for r in rows if r["output_bytes"] > 4 << 20]

    def mean(key: str, of: list[dict[str, Any]]) -> float:
        return math.exp(sum(math.log(r[key]) for r in of) / len(of))

    jumping = [r for r in large if r["share_of_runs"]]
    print(
        f"of the better limit of the runs: {mean('share_of_runs', jumping):.2f} (worst "
        f"{min(r['share_of_runs'] for r in jumping):.2f}); with out= {mean('out_times_numpy', rows):.2f} x NumPy, eager "
        f"{mean('eager_times_numpy', rows):.2f} x the view's copy"
    )
    print(
        f"geometric means: {mean('times_numpy', rows):.2f} x NumPy (worst {min(r['times_numpy'] for r in rows):.2f}); "
        f"over 4 MB, {mean('share_of_limit', large):.2f} of the limit (worst {min(r['share_of_limit'] for r in large):.2f}), "
        f"two threads {mean('two_threads_share', large):.2f} (worst {min(r['two_threads_share'] for r in large):.2f}); "
        f"two threads over one: worst {min(r['two_threads'] for r in rows):.2f}"
    )
    return rows


def _case(
    name: str,
    dtype: np.dtype[Any],
    sizes: tuple[int, ...],
    slices: tuple[slice, ...],
    order: tuple[int, ...] | None,
    seconds: float,
) -> dict[str, Any]:
    x: Array = (np.arange(math.prod(sizes)) % 251).astype(dtype).reshape(sizes)
    if order:
        x = x.transpose(order)
    view = x[slices]
    out: Array = np.zeros(view.shape, dtype)
    windows: list[tuple[int, int, int]] = [s.indices(n) for s, n in zip(slices, x.shape, strict=True)]
    counts: tuple[int, ...] = view.shape
    spans = [(min(a, a + (k - 1) * t), (k - 1) * abs(t) + 1, t) for (a, _, t), k in zip(windows, counts, strict=True)]
    desc = dml.Slice1(
        input_tensor=dml.TensorDesc.of(x),
        output_tensor=dml.TensorDesc.of(out),
        input_window_offsets=tuple(offset for offset, _, _ in spans),
        input_window_sizes=tuple(size for _, size, _ in spans),
        input_window_strides=tuple(stride for _, _, stride in spans),
    )
    one = dml.Device(threads=1)
    compiled = one.compile(desc)
    window = desc.input_window_offsets, desc.input_window_sizes, desc.input_window_strides
    along, run_bytes = runs(view)
    read = _lines_read(view) * 64
    half = (read + view.nbytes) // 2
    calls: dict[str, Callable[[], object]] = {
        "anydml": compiled.bind(input_tensor=x, output_tensor=out).execute,
        "numpy": partial(np.copyto, out, view),
        "out": partial(dml.slice1, x, *window, out=out, device=one),
        "eager": partial(dml.slice1, x, *window, device=one),
        "numpy fresh": partial(view.copy, "C"),
        **along,
        **copies(half),
        **_peers(x, view, slices),
    }
    calls["anydml"]()
    np.testing.assert_array_equal(out, view)
    # by a clock that stops while other processes run; with two threads, by the wall clock
    t = best(calls, seconds=seconds, clock=time.thread_time)
    both: dict[str, Callable[[], object]] = {
        "one": calls["anydml"],
        "two": dml.Device(threads=2).compile(desc).bind(input_tensor=x, output_tensor=out).execute,
        **{f"limit {count} {k}": v for count in (1, 2) for k, v in copies(half, count).items()},
    }
    beside = best(both, seconds=seconds)
    rate = max(2 * half / s for k, s in t.items() if k.startswith("limit"))
    rate_two = max(2 * half / s for k, s in beside.items() if k.startswith("limit"))
    run_rate = max((2 * run_bytes / s for k, s in t.items() if k.startswith("runs")), default=None)
    return {
        "case": name,
        "type": dtype.name,
        "kernel": compiled.kernel_name,
        "output_bytes": view.nbytes,
        "gigabytes_per_second": view.nbytes / t["anydml"] / 1e9,
        "share_of_limit": 2 * half / rate / t["anydml"],
        "share_of_runs": 2 * half / run_rate / t["anydml"] if run_rate else None,
        "times_numpy": t["numpy"] / t["anydml"],
        "out_times_numpy": t["numpy"] / t["out"],
        "eager_times_numpy": t["numpy fresh"] / t["eager"],
        "two_threads": beside["one"] / beside["two"],
        "two_threads_share": 2 * half / rate_two / beside["two"],
        "peers": {k.removeprefix("peer "): s / t["anydml"] for k, s in t.items() if k.startswith("peer")},
    }


def _lines_read(view: Array) -> int:
    """The 64-byte lines that hold at least one element of the view."""
    low, high = np.lib.array_utils.byte_bounds(view)
    offsets = np.zeros((), np.int64) + (view.ctypes.data - low + low % 64)
    for n, stride in zip(view.shape, view.strides, strict=True):
        offsets = offsets[..., None] + stride * np.arange(n)
    lines = np.zeros((high - low + 127) // 64, bool)
    lines[offsets >> 6] = True
    return int(lines.sum())


def _peers(x: Array, view: Array, slices: tuple[slice, ...]) -> dict[str, Callable[[], object]]:
    """onnxruntime's Slice and torch's copy of a strided view, on one thread, if they are installed and support the case."""
    peers: dict[str, Callable[[], object]] = {}
    with contextlib.suppress(ImportError):
        import torch

        torch.set_num_threads(1)
        if all((s.step or 1) > 0 for s in slices):
            source, target = torch.from_numpy(x)[slices], torch.empty(view.shape, dtype=torch.from_numpy(x).dtype)
            peers["peer torch"] = partial(target.copy_, source)
    if x.flags.c_contiguous:
        with contextlib.suppress(ImportError):
            if (call := _onnxruntime(x, slices)) is not None:
                peers["peer onnxruntime"] = call
    return peers


def _onnxruntime(x: Array, slices: tuple[slice, ...]) -> Callable[[], object] | None:
    windows = [s.indices(n) for s, n in zip(slices, x.shape, strict=True)]
    parts = {
        "starts": [a for a, _, _ in windows],
        "ends": [e if e >= 0 else -(2**31) for _, e, _ in windows],
        "axes": list(range(x.ndim)),
        "steps": [t for _, _, t in windows],
    }
    constants = {name: np.array(part, np.int64) for name, part in parts.items()}
    return session([("Slice", ["x", *constants], ["y"], {})], {"x": x}, {"y": np.empty_like(x[slices], order="C")}, constants)
