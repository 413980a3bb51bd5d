"""Compiling a graph of 113 operators of 20 kinds: the first time in a process, and at other batch sizes."""

from __future__ import annotations

import statistics
import time
from typing import Any

import numpy as np

import anydml as dml

LAYERS, CHANNELS, SIZE = 5, 24, 20
BATCHES = range(5, 26)  # the first one compiles code; the others are timed for their median


def _layers(x: Any) -> Any:
    random = np.random.default_rng(1)
    filters, mixed = (random.normal(size=(CHANNELS, CHANNELS, n, n)).astype(np.float32) for n in (3, 1))
    positive = np.abs(random.normal(size=(1, CHANNELS, 1, 1))).astype(np.float32) + 1
    once: Any = {"start_padding": (1, 1), "end_padding": (1, 1)}
    window: Any = {"window_size": (3, 3), "strides": (1, 1), **once}
    for _ in range(LAYERS):
        y: Any = dml.activation_sigmoid(dml.element_wise_add(dml.convolution(x, filters, **once), x))
        y = dml.activation_softmax1(dml.max_pooling(y, **window), axes=(1,))
        half = (*y.sizes[:1], CHANNELS // 2, SIZE, SIZE)
        y = dml.join([dml.slice1(y, (0, CHANNELS // 2, 0, 0), half), dml.slice1(y, (0, 0, 0, 0), half)], 1)
        y = dml.mean_variance_normalization1(y, axes=(2, 3))
        y = dml.element_wise_tanh(dml.element_wise_subtract(y, dml.reduce(y, function="AVERAGE", axes=(2, 3))))
        y = dml.average_pooling(dml.activation_gelu(dml.convolution(y, mixed)), **window)
        y = dml.element_wise_clip(dml.element_wise_multiply(y, x), min=-3.0, max=3.0)
        y = dml.activation_relu(dml.batch_normalization(y, positive, positive, positive, positive))
        x = dml.element_wise_divide(dml.element_wise_exp(dml.element_wise_negate(y)), positive)
    return x


def run() -> list[dict[str, Any]]:
    device = dml.Device(threads=1)
    traced, compiled = [], []
    for batch in BATCHES:
        began = time.process_time()
        graph = dml.graph(_layers, x=dml.TensorDesc("FLOAT32", (batch, CHANNELS, SIZE, SIZE)))
        known = time.process_time()
        device.compile(graph.desc)
        traced.append(known - began)
        compiled.append(time.process_time() - known)
    operators = [type(node.desc).__name__ for node in graph.desc.nodes if isinstance(node, dml.OperatorNode)]
    rows = [
        {"what": "compile, the first time", "milliseconds": compiled[0] * 1e3},
        {"what": "compile at another batch size, the median", "milliseconds": statistics.median(compiled[1:]) * 1e3},
        {"what": "trace the function, the median", "milliseconds": statistics.median(traced[1:]) * 1e3},
    ]
    print(f"\n{len(operators)} operators of {len(set(operators))} kinds; milliseconds of processor time")
    for row in rows:
        print(f"{row['what']:50} {row['milliseconds']:10.1f}")
    return rows
