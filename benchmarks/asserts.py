"""`assert_rounding` of results that rounding explains, in times of the operator's own call."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np

import anydml as dml
from anydml.testing import assert_rounding
from benchmarks.timing import best

F32 = np.float32


def run() -> list[dict[str, Any]]:
    rows = []
    print(f"{'':32}{'own call, ms':>14}{'assert_rounding, ms':>22}{'x':>8}")
    for name, actual, function, arrays, fields in _cases():
        result: Any = function(*arrays, **fields)
        named: dict[str, Any] = {"output": result._fields[0]} if hasattr(result, "_fields") else {}
        calls: dict[str, Callable[[], object]] = {
            "own": partial(function, *arrays, **fields),
            "assert": partial(assert_rounding, actual, function, *arrays, **fields, **named),
        }
        spent = best(calls, seconds=1.0, slow=1.0)
        ratio = spent["assert"] / spent["own"]
        print(f"{name:32}{spent['own'] * 1e3:>14.2f}{spent['assert'] * 1e3:>22.1f}{ratio:>8.1f}", flush=True)
        rows.append({"case": name, "own": spent["own"], "assert": spent["assert"]})
    return rows


def _cases() -> Iterator[tuple[str, Any, Any, tuple[Any, ...], dict[str, Any]]]:
    """Calls, and what NumPy computes in float32, or the exact result with every element one unit off."""
    random = np.random.default_rng(0)
    x, y = (random.standard_normal((1024, 1024)).astype(F32) for _ in "xy")
    yield "gemm 1024 x 1024 x 1024", x @ y, dml.gemm, (x, y), {}
    powers = np.exp(x - x.max(1, keepdims=True))
    yield "softmax 1024 x 1024", powers / powers.sum(1, keepdims=True), dml.activation_softmax1, (x,), {"axes": (1,)}
    normal = ((x - x.mean(1, keepdims=True)) / np.sqrt(x.var(1, keepdims=True) + F32(1e-5))).astype(F32)
    fields: dict[str, Any] = {"axes": (1,), "normalize_variance": True, "epsilon": 1e-5}
    yield "normalisation 1024 x 1024", normal, dml.mean_variance_normalization1, (x,), fields
    yield "tanh 1024 x 1024", np.tanh(x), dml.element_wise_tanh, (x,), {}
    yield "sums of 1024 x 1024", x.sum(1, keepdims=True), dml.reduce, (x,), {"function": "SUM", "axes": (1,)}
    a = {name: random.standard_normal((1, 64, 1, 1)).astype(F32) for name in ("mean", "scale", "bias")}
    image, variance = random.standard_normal((4, 64, 64, 64)).astype(F32), np.abs(a["mean"]) + F32(0.1)
    factor = a["scale"] / np.sqrt(variance + F32(1e-5))
    fields = {"epsilon": 1e-5}
    parameters = (a["mean"], variance, a["scale"], a["bias"])
    folded = image * factor + (a["bias"] - a["mean"] * factor)
    yield "batch normalisation, 4 x 64 x 64 x 64", folded, dml.batch_normalization, (image, *parameters), fields
    image, filters = (random.standard_normal(sizes).astype(F32) for sizes in ((1, 64, 56, 56), (64, 64, 3, 3)))
    fields = {"start_padding": (1, 1), "end_padding": (1, 1)}
    exact = dml.convolution(image, filters, **fields)
    yield "convolution 3 x 3, 64 x 56 x 56", np.nextafter(exact, F32(np.inf)), dml.convolution, (image, filters), fields
    image, fields = random.standard_normal((4, 64, 56, 56)).astype(F32), {"window_size": (3, 3)}
    exact = dml.average_pooling(image, **fields)
    yield "means 3 x 3, 4 x 64 x 56 x 56", np.nextafter(exact, F32(0)), dml.average_pooling, (image,), fields
    tokens = random.standard_normal((1, 128, 512)).astype(F32)
    fields = {"scale": 0.125, "query_head_count": 8, "key_value_head_count": 8}
    exact = dml.multihead_attention1(tokens, tokens, tokens, **fields)[0]
    yield "attention, 8 x 128 x 64", np.nextafter(exact, F32(0)), dml.multihead_attention1, (tokens,) * 3, fields
    steps = random.standard_normal((1, 32, 8, 64)).astype(F32)
    weights, recurrence = (random.standard_normal((1, 4 * 64, 64)).astype(F32) * F32(0.1) for _ in "wr")
    states: Any = dml.lstm(steps, weights, recurrence)[0]
    yield "LSTM, 32 steps of 8 x 64", np.nextafter(states, F32(0)), dml.lstm, (steps, weights, recurrence), {}
