"""Attention, timed together with onnxruntime and torch."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

import numpy as np

from benchmarks.rest_cases import Call, Case

HEADS, LENGTH, SIZE = 8, 256, 64
WIRES = ("query_tensor", "key_tensor", "value_tensor")


def _torch(torch: Any, inputs: Sequence[Any], _: Any) -> Call:
    by_head = [t.view(1, LENGTH, HEADS, SIZE).transpose(1, 2) for t in inputs]
    return partial(torch.nn.functional.scaled_dot_product_attention, *by_head)


def cases() -> Iterator[Case]:
    arrays = [np.random.default_rng(at).standard_normal((1, LENGTH, HEADS * SIZE), np.float32) for at in range(3)]
    yield Case(
        f"attention, {HEADS} heads of {LENGTH} x {LENGTH} x {SIZE}",
        "MULTIHEAD_ATTENTION",
        dict(zip(WIRES, arrays, strict=True)),
        {"output_tensor": np.empty_like(arrays[0])},
        dict(scale=SIZE**-0.5, head_count=HEADS, mask_type="NONE"),
        ("Attention", arrays[1:], dict(q_num_heads=HEADS, kv_num_heads=HEADS)),
        _torch,
        fed=True,
        opset=23,
    )
