"""Exact contractions of FLOAT32 beside the processor's limit and beside others, which round each of their additions."""

from __future__ import annotations

import contextlib
import time
from functools import partial
from typing import Any

import numpy as np

from benchmarks import contraction_cases as cases
from benchmarks.contraction_cases import MOBILENETV2, NUMPY, ONNXRUNTIME, RESNET18, Call, Layer
from benchmarks.limits import instruction_sets, multiply_adds, reads
from benchmarks.timing import best

Rows = list[dict[str, Any]]
CUBES = (512, 1024, 2048)
THIN = ((1024, 1024), (4096, 4096))  # K and N of one row
HARD = {"integers": "integers up to 4096", "zero sums": "sums that are all zero", "wide": "range 2^(10 N(0, 1))"}
ONE, TWO, LIMIT, NORMAL, TRANSPOSED = "one thread", "two threads", "limit", "normal", "transposed"
CLOSE = 1e-3  # of the largest, between ours and another's: they are the same products


def run(seconds: float = 0.4) -> Rows:
    """Every table."""
    with _one_thread():
        return [*_cubes(seconds), *_thin(seconds), *_hard(seconds), *_layers(seconds)]


def _one_thread() -> contextlib.AbstractContextManager[object]:
    """NumPy's matmul would take all processors."""
    with contextlib.suppress(ImportError):
        from threadpoolctl import threadpool_limits

        limited: contextlib.AbstractContextManager[object] = threadpool_limits(1, "blas")
        return limited
    return contextlib.nullcontext()


def _times(one: dict[str, Call], two: dict[str, Call], seconds: float) -> tuple[dict[str, float], dict[str, float]]:
    """Calls of one thread by the time that it runs, and calls of two by the clock."""
    return best(one, seconds=seconds, clock=time.thread_time), best(two, seconds=seconds)


def _agree(one: dict[str, Call]) -> None:
    """All of them compute the same products; how exact ours are is the tests' matter."""
    outputs = {}
    for name, call in one.items():
        call()
        keywords = getattr(call, "keywords", {})
        outputs[name] = getattr(call, "output", keywords.get("out"))
    first, *others = [x for x in outputs.values() if x is not None]
    for other in others:
        assert np.abs(first - other).max() <= CLOSE * np.abs(first).max(), list(outputs)


# --- products ---


def _cubes(seconds: float) -> Rows:
    head = f"\n{'float32 products':24} {'GMAC/s':>8} {'limit':>8} {'of limit':>9} {'2 threads':>10}"
    print(f"{head}  {'NumPy':>7} {'onnxruntime':>12} {'on 2':>6}: their time over ours")
    rows = []
    for size in CUBES:
        a, b = cases.matrices(size, size, size)
        one: dict[str, Call] = {ONE: cases.product(a, b), NUMPY: cases.numpy_product(a, b), **cases.onnxruntime_product(a, b)}
        _agree(one)
        limit = multiply_adds()
        if limit is not None:
            one[LIMIT] = limit[0]
        t, of_two = _times(one, {TWO: cases.product(a, b, 2), **cases.onnxruntime_product(a, b, 2)}, seconds)
        speed = size**3 / t[ONE] / 1e9
        most = limit[1] / t[LIMIT] / 1e9 if limit is not None else float("nan")
        row = {
            "case": f"{size}^3",
            "gigamacs_per_second": speed,
            "limit": most,
            "of_limit": speed / most,
            "two_threads": t[ONE] / of_two[TWO],
            **_ratios(t, of_two),
        }
        ratios = f"{row[NUMPY]:7.2f} {row.get(ONNXRUNTIME, 0):12.2f} {row.get('two_' + ONNXRUNTIME, 0):6.2f}"
        figures = f"{speed:8.1f} {most:8.1f} {speed / most:9.2f} {row['two_threads']:10.2f}"
        print(f"{row['case']:24} {figures}  {ratios}", flush=True)
        rows.append(row)
    return rows


def _ratios(one: dict[str, float], two: dict[str, float]) -> dict[str, float]:
    """The others' times over ours."""
    found = {name: one[name] / one[ONE] for name in (NUMPY, ONNXRUNTIME) if name in one}
    return found | {f"two_{name}": two[name] / two[TWO] for name in (ONNXRUNTIME,) if name in two}


def _thin(seconds: float) -> Rows:
    print(f"\n{'one row':24} {'us':>8} {'GB/s':>8} {'of reads':>9}  {'NumPy':>7} {'onnxruntime':>12}: their time over ours")
    rows = []
    for k, n in THIN:
        a, b = cases.matrices(1, k, n)
        one: dict[str, Call] = {ONE: cases.product(a, b), TRANSPOSED: cases.product(a, b, transposed=True)}
        one |= {NUMPY: cases.numpy_product(a, b), **cases.onnxruntime_product(a, b)}
        _agree(one)
        for name in instruction_sets()[-1:]:
            one |= reads(b.nbytes, name)
        t = best(one, seconds=seconds / 2, clock=time.thread_time)
        reading = min((s for name, s in t.items() if name.startswith("read")), default=float("nan"))
        for ours, label in ((ONE, ""), (TRANSPOSED, ", " + TRANSPOSED)):
            spent = t[ours]
            row = {"case": f"1 x {k} x {n}{label}", "microseconds": spent * 1e6, "of_reads": reading / spent}
            row |= _ratios(t | {ONE: spent}, {}) | {"gigabytes_per_second": b.nbytes / spent / 1e9}
            figures = f"{spent * 1e6:8.0f} {row['gigabytes_per_second']:8.1f} {row['of_reads']:9.2f}"
            print(f"{row['case']:24} {figures}  {row[NUMPY]:7.2f} {row.get(ONNXRUNTIME, 0):12.2f}", flush=True)
            rows.append(row)
    return rows


def _hard(seconds: float) -> Rows:
    print(f"\n{'512^3, one thread':32} {'ms':>8} {'x normal data':>14}")
    size = 512
    calls = {data: cases.product(*cases.matrices(size, size, size, data)) for data in (NORMAL, *HARD)}
    t = best(calls, seconds=seconds, slow=2, clock=time.thread_time)
    rows = []
    for data, label in {NORMAL: "normal", **HARD}.items():
        row = {"case": label, "milliseconds": t[data] * 1e3, "of_normal": t[data] / t[NORMAL]}
        print(f"{label:32} {t[data] * 1e3:8.2f} {row['of_normal']:14.2f}", flush=True)
        rows.append(row)
    return rows


# --- convolutions ---


def _layers(seconds: float) -> Rows:
    rows = []
    for network, layers in {"ResNet-18": RESNET18, "MobileNetV2": MOBILENETV2}.items():
        print(f"\n{network:42} {'ms':>8} {'GMAC/s':>8} {'2 threads':>10}  {ONNXRUNTIME:>12} {'on 2':>6}: its time over ours")
        of_network = [_layer(network, layer, seconds / 2) for layer in layers]
        rows += of_network
        total = {key: sum(row[key] for row in of_network) for key in ("milliseconds", "products")}
        others = sum(row["milliseconds"] * row.get(ONNXRUNTIME, 0) for row in of_network)
        speed = total["products"] / total["milliseconds"] / 1e6
        print(f"{'together':42} {total['milliseconds']:8.2f} {speed:8.1f} {'':10}  {others / total['milliseconds']:12.2f}")
    return rows


def _layer(network: str, layer: Layer, seconds: float) -> dict[str, Any]:
    x, f = cases.layer_data(layer)
    make, other = partial(cases.convolution, layer, x, f), partial(cases.onnxruntime_convolution, layer, x, f)
    one: dict[str, Call] = {ONE: make(), **other()}
    _agree(one)
    t, two = _times(one, {TWO: make(2), **other(2)}, seconds)
    row = {
        "case": f"{network}: {layer}",
        "milliseconds": t[ONE] * 1e3,
        "products": layer.products,
        "gigamacs_per_second": layer.products / t[ONE] / 1e9,
        "two_threads": t[ONE] / two[TWO],
        **_ratios(t, two),
    }
    ratios = f"{row.get(ONNXRUNTIME, 0):12.2f} {row.get('two_' + ONNXRUNTIME, 0):6.2f}"
    figures = f"{row['milliseconds']:8.3f} {row['gigamacs_per_second']:8.1f} {row['two_threads']:10.2f}"
    print(f"{layer!s:42} {figures}  {ratios}", flush=True)
    return row
