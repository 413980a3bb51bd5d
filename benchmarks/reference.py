"""The time of the reference for a term of a long sum of products, and for an element of an element-wise operator."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np

import anydml as dml
from anydml import operators
from anydml.schema.operator import Desc
from benchmarks.timing import best

TERM = "term of a sum of 4096 products (CONVOLUTION)"
RATIONAL = "rational element (ELEMENT_WISE_ADD1)"
TRANSCENDENTAL = "transcendental element (ACTIVATION_TANH)"
TARGETS = {TERM: 3, RATIONAL: 20, TRANSCENDENTAL: 60}
"""The largest allowed microseconds, on an idle machine."""


def run() -> list[dict[str, Any]]:
    calls = {
        TERM: (_sums(channels=4096, outputs=8), 4096 * 8),
        RATIONAL: (_elements("ELEMENT_WISE_ADD1", 2000), 2000),
        TRANSCENDENTAL: (_elements("ACTIVATION_TANH", 2000), 2000),
    }
    spent = best({name: call for name, (call, _) in calls.items()}, clock=time.thread_time)
    rows = []
    print(f"\n{'the reference':52} {'us':>8} {'at most':>8}")
    for name, (_, count) in calls.items():
        microseconds = spent[name] / count * 1e6
        print(f"{name:52} {microseconds:8.2f} {TARGETS[name]:8}")
        rows.append({"what": name, "us": microseconds, "target_us": TARGETS[name]})
    return rows


def _sums(channels: int, outputs: int) -> Callable[[], object]:
    none = {"start_padding": (0, 0), "end_padding": (0, 0), "output_padding": (0, 0)}
    return _bound(
        "CONVOLUTION",
        {
            "input_tensor": _float32(1, channels, 1, outputs),
            "filter_tensor": _float32(1, channels, 1, 1),
            "output_tensor": _float32(1, 1, 1, outputs),
        },
        strides=(1, 1),
        dilations=(1, 1),
        **none,
    )


def _elements(name: str, count: int) -> Callable[[], object]:
    operator = operators.find(name)
    assert operator is not None
    return _bound(name, {f.name: _float32(count) for f in operator.spec.tensors})


def _bound(name: str, tensors: dict[str, dml.TensorDesc], **attributes: Any) -> Callable[[], object]:
    """A call of the reference with normally distributed elements."""
    operator: type[Desc] | None = operators.find(name)
    assert operator is not None
    rng = np.random.default_rng(0)
    arrays = {name: rng.standard_normal(t.sizes).astype(np.float32) for name, t in tensors.items()}
    compiled = dml.Device("reference").compile(operator(**tensors, **attributes))
    return compiled.bind(**arrays).execute


def _float32(*sizes: int) -> dml.TensorDesc:
    return dml.TensorDesc(dml.DataType.FLOAT32, sizes)
