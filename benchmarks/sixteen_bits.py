"""Convolutions and products between quantised tensors of 16 bits, whose weights have 8, beside 8 bits: one thread.

As ONNX's quantisers write them: DequantizeLinear of x and of the weights, the operator, QuantizeLinear. "operators" is the time
of the same nodes one by one, on floats, over ours; their outputs must have the same bits.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np
from onnx import ModelProto, helper, numpy_helper

import anydml as dml
import anydml.onnx
from anydml.devices.graph import CompiledGraph
from benchmarks.convolutions import SHAPES, Shape
from benchmarks.timing import best

KINDS = (("uint16", "uint16"), ("uint16", "uint8"), ("uint8", "uint8"))  # of x and the output
PRODUCTS: dict[str, tuple[int, int, int]] = {"64 x 768 x 768": (64, 768, 768), "1 x 768 x 3072": (1, 768, 3072)}


def model(s: Shape | tuple[int, int, int], of_x: str, of_y: str) -> tuple[ModelProto, Any, tuple[int, ...]]:
    """A layer, an input and the sizes of its output. Elements of x are normal, and outputs use a quarter of their range."""
    sizes: tuple[int, ...]
    made: tuple[int, ...]
    filters: tuple[int, ...]
    rng, (ends, limits) = np.random.default_rng(0), (np.iinfo(kind) for kind in (of_x, of_y))
    if isinstance(s, Shape):
        sizes, made = (1, s.read, s.size, s.size), (1, s.written, s.output, s.output)
        filters, channels = (s.written, s.read // s.groups, s.taps, s.taps), s.written
        pads = [s.taps // 2] * 4
        node = helper.make_node("Conv", ["fx", "fw"], ["f"], group=s.groups, pads=pads, strides=[s.stride] * 2)
    else:
        m, k, channels = s
        sizes, made, filters = (m, k), (m, channels), (k, channels)
        node = helper.make_node("MatMul", ["fx", "fw"], ["f"])
    axis, terms = 0 if isinstance(s, Shape) else 1, int(np.prod(filters)) // channels
    zx, zy = ((e.max + 1) // 2 for e in (ends, limits))
    x = np.clip(np.rint(rng.standard_normal(sizes) * ends.max / 6) + zx, 0, ends.max).astype(of_x)
    scale = rng.uniform(0.01, 0.02, channels).astype(np.float32)
    sy = ends.max / 6 * 1e-4 * 0.015 * 40 * terms**0.5 / (limits.max / 8)
    arrays = {
        "w": np.clip(np.rint(rng.standard_normal(filters) * 40), -127, 127).astype(np.int8),
        "sw": scale, "sx": np.float32(1e-4), "sy": np.float32(sy), "zx": np.array(zx, of_x), "zy": np.array(zy, of_y),
    }  # fmt: skip
    nodes = [
        helper.make_node("DequantizeLinear", ["x", "sx", "zx"], ["fx"]),
        helper.make_node("DequantizeLinear", ["w", "sw"], ["fw"], axis=axis),
        node,
        helper.make_node("QuantizeLinear", ["f", "sy", "zy"], ["y"]),
    ]
    types = [helper.np_dtype_to_tensor_dtype(np.dtype(kind)) for kind in (of_x, of_y)]
    graph = helper.make_graph(
        nodes,
        "layer",
        [helper.make_tensor_value_info("x", types[0], sizes)],
        [helper.make_tensor_value_info("y", types[1], made)],
        [numpy_helper.from_array(np.asarray(v), name) for name, v in arrays.items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)]), x, made


def run(seconds: float = 0.3) -> list[dict[str, Any]]:
    rows = []
    print(f"\n{'QDQ layer, one thread':46} {'x, y':16} {'ms':>8} {'x 8 bits':>9} {'operators':>10}  kernel")
    layers: dict[str, Shape | tuple[int, int, int]] = {**PRODUCTS, **SHAPES}
    for name, s in layers.items():
        calls: dict[str, Callable[[], object]] = {}
        kernels = {}
        for kinds in KINDS:
            proto, x, sizes = model(s, *kinds)
            graph, made = anydml.onnx.load(proto).graph(), []
            for way, fuse in (("ours", True), ("operators", False)):
                compiled = graph.compile(dml.Device(threads=1), fuse=fuse)
                assert isinstance(compiled, CompiledGraph)
                made.append(np.zeros(sizes, kinds[1]))
                calls[f"{way} {kinds}"] = compiled.bind(x=x, y=made[-1]).execute
                calls[f"{way} {kinds}"]()
                if fuse:
                    kernels[kinds] = "+".join(dict.fromkeys(part.kernel_name for part in compiled.call.parts))
            assert made[0].tobytes() == made[1].tobytes()
        t = best(calls, seconds=seconds, clock=time.thread_time)
        for kinds in KINDS:
            ours, alone = (t[f"{way} {kinds}"] for way in ("ours", "operators"))
            times = {"ms": ours * 1e3, "x 8 bits": ours / t[f"ours {KINDS[-1]}"], "operators": alone / ours}
            rows.append({"layer": name, "types": kinds, **times})
            shown = f"{times['ms']:8.3f} {times['x 8 bits']:9.2f} {times['operators']:10.2f}"
            print(f"{name:46} {', '.join(kinds):16} {shown}  {kernels[kinds]}", flush=True)
    return rows
