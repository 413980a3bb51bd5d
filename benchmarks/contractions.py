"""Exact contractions of FLOAT32, compared with the processor's limit and with libraries that round each addition."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import numpy as np

from benchmarks import contraction_cases as cases
from benchmarks.contraction_cases import BIAS, MOBILENETV2, NUMPY, ONNXRUNTIME, RELU, RESNET18, Call, Layer
from benchmarks.limits import instruction_sets, multiply_adds, reads
from benchmarks.timing import best

Rows = list[dict[str, Any]]
Calls = Mapping[str, Callable[[], object]]
CUBES = (512, 1024, 2048)
THIN = ((1024, 1024), (4096, 4096))  # K and N of one row
HARD = {
    "integers": "integers up to 4096",
    "zero sums": "zeros, each term cancels the last",
    "zeros apart": "zeros, half cancels half",
    "wide": "range 2^(10 N(0, 1))",
    "very wide": "range 2^(20 N(0, 1))",
    "few digits": "normal as float16",
    "ReLU": "half of all elements 0",
    "one-hot": "rows with a single 1",
}
FUSED = (BIAS, RELU)
ONE, TWO, LIMIT, NORMAL, TRANSPOSED = "one thread", "two threads", "limit", "normal", "transposed"
CLOSE = 1e-3  # largest difference between our result and another's, relative to the largest element


def run(seconds: float = 0.4) -> Rows:
    """Every table."""
    with _one_thread():
        return [*_cubes(seconds), *_kinds(seconds), *_thin(seconds), *_hard(seconds), *_layers(seconds)]


def _one_thread() -> contextlib.AbstractContextManager[object]:
    """Limit NumPy's matmul to one thread; it would use all processors."""
    with contextlib.suppress(ImportError):
        from threadpoolctl import threadpool_limits

        limited: contextlib.AbstractContextManager[object] = threadpool_limits(1, "blas")
        return limited
    return contextlib.nullcontext()


def _times(one: Calls, two: Calls, seconds: float) -> tuple[dict[str, float], dict[str, float]]:
    """Calls of one thread by the time that it runs, and calls of two by the clock."""
    return best(one, seconds=seconds, clock=time.thread_time), best(two, seconds=seconds)


def _agree(one: dict[str, Call]) -> None:
    """Check that all libraries compute the same products. That ours are exact is tested elsewhere."""
    for call in one.values():
        call()
    first, *others = [call.output for call in one.values()]
    for other in others:
        assert np.abs(first - other).max() <= CLOSE * np.abs(first).max(), list(one)


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
        timed: dict[str, Callable[[], object]] = {**one, **({} if limit is None else {LIMIT: limit[0]})}
        t, of_two = _times(timed, {TWO: cases.product(a, b, 2), **cases.onnxruntime_product(a, b, 2)}, seconds)
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
    """The others' times divided by ours."""
    found = {name: one[name] / one[ONE] for name in (NUMPY, ONNXRUNTIME) if name in one}
    return found | {f"two_{name}": two[name] / two[TWO] for name in (ONNXRUNTIME,) if name in two}


def _kinds(seconds: float) -> Rows:
    """Products with fused formulas, owned factors and factors of float16, compared with plain ones of float32."""
    print(f"\n{'one thread':58} {'ms':>8} {'of plain':>9}")
    a, b = cases.matrices(512, 512, 512)
    thin, wide = cases.matrices(32, 768, 3072)
    layer = cases.Layer(64, 128, 3, 56, 2)
    data = cases.layer_data(layer)
    halves = [x.astype(np.float16) for x in (a, b)]
    tables: dict[str, dict[str, Call]] = {
        "512 cubed": {
            "": cases.product(a, b),
            **{f"with {fused}": cases.product(a, b, fused=fused) for fused in FUSED},
            "of float16": cases.product(halves[0], halves[1]),
            "B owned": cases.product(a, b, owned=("b_tensor",)),
        },
        "32 x 768 x 3072": {"": cases.product(thin, wide), "B owned": cases.product(thin, wide, owned=("b_tensor",))},
        str(layer): {
            "": cases.convolution(layer, *data),
            **{f"with {fused}": cases.convolution(layer, *data, fused=fused) for fused in FUSED},
        },
    }
    rows = []
    for case, calls in tables.items():
        t = best(calls, seconds=seconds, clock=time.thread_time)
        for kind, spent in t.items():
            row = {"case": f"{case}, {kind}" if kind else case, "milliseconds": spent * 1e3, "of_plain": spent / t[""]}
            print(f"{row['case']:58} {spent * 1e3:8.3f} {row['of_plain']:9.3f}", flush=True)
            rows.append(row)
    return rows


def _thin(seconds: float) -> Rows:
    print(f"\n{'one row':24} {'us':>8} {'GB/s':>8} {'of reads':>9}  {'NumPy':>7} {'onnxruntime':>12}: their time over ours")
    rows = []
    for k, n in THIN:
        a, b = cases.matrices(1, k, n)
        one: dict[str, Call] = {ONE: cases.product(a, b), TRANSPOSED: cases.product(a, b, transposed=True)}
        one |= {NUMPY: cases.numpy_product(a, b), **cases.onnxruntime_product(a, b)}
        _agree(one)
        timed: dict[str, Callable[[], object]] = {**one}
        for name in instruction_sets()[-1:]:
            timed |= reads(b.nbytes, name)
        t = best(timed, seconds=seconds / 2, clock=time.thread_time)
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
    print(f"\n{'512^3, one thread':36} {'ms':>8} {'x normal data':>14}")
    size = 512
    calls = {data: cases.product(*cases.matrices(size, size, size, data)) for data in (NORMAL, *HARD)}
    t = best(calls, seconds=seconds, slow=2, clock=time.thread_time)
    rows = []
    for data, label in {NORMAL: "normal", **HARD}.items():
        row = {"case": label, "milliseconds": t[data] * 1e3, "of_normal": t[data] / t[NORMAL]}
        print(f"{label:36} {t[data] * 1e3:8.2f} {row['of_normal']:14.2f}", flush=True)
        rows.append(row)
    return rows


# --- convolutions ---


def _layers(seconds: float) -> Rows:
    rows = []
    for network, layers in {"ResNet-18": RESNET18, "MobileNetV2": MOBILENETV2}.items():
        head = f"\n{network:42} {'ms':>8} {'GMAC/s':>8} {'2 threads':>10} {'x filters':>10}"
        print(f"{head}  {ONNXRUNTIME:>12} {'on 2':>6}: its time over ours; x filters: persistent memory")
        of_network = [_layer(network, layer, seconds / 2) for layer in layers]
        rows += of_network
        total = {key: sum(row[key] for row in of_network) for key in ("milliseconds", "products", "persistent", "filters")}
        others = sum(row["milliseconds"] * row.get(ONNXRUNTIME, 0) for row in of_network)
        speed = total["products"] / total["milliseconds"] / 1e6
        figures = f"{total['milliseconds']:8.2f} {speed:8.1f} {'':10} {total['persistent'] / total['filters']:10.2f}"
        print(f"{'together':42} {figures}  {others / total['milliseconds']:12.2f}")
    return rows


def _layer(network: str, layer: Layer, seconds: float) -> dict[str, Any]:
    x, f = cases.layer_data(layer)
    make, other = partial(cases.convolution, layer, x, f), partial(cases.onnxruntime_convolution, layer, x, f)
    one: dict[str, Call] = {ONE: make(), **other()}
    _agree(one)
    t, two = _times(one, {TWO: make(2), **other(2)}, seconds)
    row: dict[str, Any] = {
        "case": f"{network}: {layer}",
        "milliseconds": t[ONE] * 1e3,
        "products": layer.products,
        "persistent": one[ONE].persistent,
        "filters": f.nbytes,
        "gigamacs_per_second": layer.products / t[ONE] / 1e9,
        "two_threads": t[ONE] / two[TWO],
        **_ratios(t, two),
    }
    ratios = f"{row.get(ONNXRUNTIME, 0):12.2f} {row.get('two_' + ONNXRUNTIME, 0):6.2f}"
    figures = f"{row['milliseconds']:8.3f} {row['gigamacs_per_second']:8.1f} {row['two_threads']:10.2f}"
    print(f"{layer!s:42} {figures} {row['persistent'] / f.nbytes:10.2f}  {ratios}", flush=True)
    return row
