"""Times of BFLOAT16 and FLOAT16 relative to FLOAT32, interleaved, on one thread: maps in cache and beyond, rows, products."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np

import anydml as dml
from anydml.functional.describing import described
from anydml.schema.field import OUTPUT
from benchmarks.timing import best

TYPES = ("float32", "float16", "bfloat16")
CASES: Mapping[str, tuple[Any, dict[str, Any], int]] = {  # function, attributes, number of inputs
    "add": (dml.element_wise_add, {}, 2),
    "multiply": (dml.element_wise_multiply, {}, 2),
    "divide": (dml.element_wise_divide, {}, 2),
    "relu": (dml.activation_relu, {}, 1),
    "exp": (dml.element_wise_exp, {}, 1),
    "sigmoid": (dml.activation_sigmoid, {}, 1),
    "tanh": (dml.element_wise_tanh, {}, 1),
    "gelu": (dml.activation_gelu, {}, 1),
    "sin": (dml.element_wise_sin, {}, 1),
    "softmax": (dml.activation_softmax1, {"axes": (1,)}, 1),
    "sum of rows": (dml.reduce, {"function": "SUM", "axes": (1,)}, 1),
}
SIZES = {"64 x 1024": (64, 1024), "4096 x 4096": (4096, 4096)}  # in a cache of 1 MB, and beyond any


def run() -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = []
    print(f"{'':28}{'float32, ns / element':>24}" + "".join(f"{t + ', x':>16}" for t in TYPES[1:]))
    for name, count, calls in _cases():
        for call in calls.values():
            call()
        spent = best(calls, seconds=0.4, clock=time.thread_time)
        ratios = {t: spent[t] / spent["float32"] for t in TYPES[1:]}
        shown = "".join(f"{ratio:>16.2f}" for ratio in ratios.values())
        print(f"{name:28}{spent['float32'] / count * 1e9:>24.3f}{shown}", flush=True)
        rows.append({"case": name, "float32": spent["float32"], **ratios})
    return rows


def _cases() -> Iterator[tuple[str, int, dict[str, Callable[[], object]]]]:
    """Each case's name, the elements of its output or, of products, their multiplications, and its call for each type."""
    device, random = dml.Device(threads=1, feature_level="EXTENDED"), np.random.default_rng(0)
    for size, sizes in SIZES.items():
        drawn = [random.standard_normal(sizes).astype(np.float32) for _ in range(2)]
        for name, (function, attributes, inputs) in CASES.items():
            yield f"{name}, {size}", drawn[0].size, {t: _bound(function, drawn[:inputs], t, device, attributes) for t in TYPES}
    drawn = [random.standard_normal((512, 512)).astype(np.float32) for _ in range(2)]
    yield "gemm, 512 x 512 x 512", 512**3, {t: _bound(dml.gemm, drawn, t, device, {}) for t in TYPES}


def _bound(
    function: Any, drawn: list[Any], data_type: str, device: dml.Device, attributes: dict[str, Any]
) -> Callable[[], object]:
    arrays = [dml.cast(x, data_type, device=device) if data_type != "float32" else x for x in drawn]
    asked = described(function, *arrays, **attributes, device=device)
    t = next(t.desc for t in asked.desc.tensors() if t.field.role == OUTPUT)
    out = {next(iter(asked.shapes)): np.zeros(t.sizes, t.data_type.dtype)}
    execute: Callable[[], object] = device.compile(asked.desc).bind_described({**asked.inputs, **out}).execute
    return execute
