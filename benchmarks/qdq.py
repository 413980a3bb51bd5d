"""Operators between DequantizeLinear and QuantizeLinear, fused and one by one, in 8 and 16 bits: one thread.

"us" is the time of the graph as it is compiled, "apart" that of its operators one by one, over the former: below 1, fusing
costs time. Their outputs must have the same bits.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np
from onnx import ModelProto, helper, numpy_helper

import anydml as dml
import anydml.onnx
from anydml.devices.graph import CompiledGraph
from benchmarks.timing import best

IMAGE, SMALL, ROWS = (1, 64, 56, 56), (1, 16, 14, 14), (128, 768)
BITS = ("uint8", "int8", "uint16", "int16")


class Layer(NamedTuple):
    """An operator, the sizes of its inputs and output, its attributes, and constants behind its inputs.

    scales: the steps of its inputs and of its output, in 8 bits. weights: the sizes of dequantised weights of 8 bits.
    """

    operator: str
    sizes: tuple[tuple[int, ...], ...]
    made: tuple[int, ...]
    attributes: Mapping[str, Any] = MappingProxyType({})
    constants: tuple[Any, ...] = ()
    weights: tuple[int, ...] = ()
    scales: tuple[float, float] = (0.0317, 0.0293)


def layers() -> dict[str, Layer]:
    """All cases by name."""
    found: dict[str, Layer] = {}
    unary = ("Relu", "LeakyRelu", "Sigmoid", "Tanh", "Gelu", "Erf", "HardSigmoid", "HardSwish", "Softplus", "Elu", "Exp", "Abs",
             "Neg", "Sqrt", "Identity")  # fmt: skip
    for operator in unary:
        for sizes in (IMAGE, SMALL):
            scales = (
                0.0317,
                1 / 255 if operator in ("Sigmoid", "HardSigmoid") else 1 / 65 if operator in ("Tanh", "Erf") else 0.0293,
            )
            found[f"{operator} {_spelled(sizes)}"] = Layer(operator, (sizes,), sizes, scales=scales)
    for operator in ("Add", "Sub", "Mul", "Div", "Max", "Min"):
        for sizes in (IMAGE, SMALL):
            found[f"{operator} {_spelled(sizes)}"] = Layer(operator, (sizes, sizes), sizes)
    found["Mul by a gate"] = Layer("Mul", (IMAGE, (1, 64, 1, 1)), IMAGE)
    found["Add of a row"] = Layer("Add", (ROWS, (768,)), ROWS)
    found["Softmax 128 x 768"] = Layer("Softmax", (ROWS,), ROWS, scales=(0.0317, 1 / 4095))
    found["LogSoftmax 128 x 768"] = Layer("LogSoftmax", (ROWS,), ROWS)
    one, none = np.ones(768, np.float32), np.zeros(768, np.float32)
    found["LayerNormalization 128 x 768"] = Layer("LayerNormalization", (ROWS,), ROWS, constants=(one, none))
    norm = (np.ones(64, np.float32), np.zeros(64, np.float32))
    found["InstanceNormalization"] = Layer("InstanceNormalization", (IMAGE,), IMAGE, constants=norm)
    found["GlobalAveragePool"] = Layer("GlobalAveragePool", (IMAGE,), (1, 64, 1, 1))
    found["GlobalAveragePool, 1,280 at 7 x 7"] = Layer("GlobalAveragePool", ((1, 1280, 7, 7),), (1, 1280, 1, 1))
    found["ReduceMean 128 x 768"] = Layer("ReduceMean", (ROWS,), (128, 1), {"keepdims": 1}, (np.array([1]),))
    found["ReduceSum down columns"] = Layer("ReduceSum", (ROWS,), (1, 768), {"keepdims": 1}, (np.array([0]),))
    window = {"kernel_shape": [2, 2], "strides": [2, 2]}
    found["MaxPool 2 x 2"] = Layer("MaxPool", (IMAGE,), (1, 64, 28, 28), window)
    found["AveragePool 2 x 2"] = Layer("AveragePool", (IMAGE,), (1, 64, 28, 28), window)
    window = {"kernel_shape": [3, 3], "strides": [1, 1], "pads": [1] * 4}
    found["MaxPool 3 x 3"] = Layer("MaxPool", (IMAGE,), IMAGE, window)
    found["AveragePool 3 x 3"] = Layer("AveragePool", (IMAGE,), IMAGE, window)
    found["Concat of channels"] = Layer("Concat", (IMAGE, IMAGE), (1, 128, 56, 56), {"axis": 1})
    found["Transpose to NHWC"] = Layer("Transpose", (IMAGE,), (1, 56, 56, 64), {"perm": [0, 2, 3, 1]})
    found["Reshape"] = Layer("Reshape", (IMAGE,), (64, 3136), constants=(np.array([64, 3136]),))
    found["DepthToSpace"] = Layer("DepthToSpace", (IMAGE,), (1, 16, 112, 112), {"blocksize": 2})
    found["Pad by 1"] = Layer("Pad", (IMAGE,), (1, 64, 58, 58), constants=(np.array([0, 0, 1, 1, 0, 0, 1, 1]),))
    twice = ("", np.array([1, 1, 2, 2], np.float32))
    found["Resize, nearest"] = Layer("Resize", (IMAGE,), (1, 64, 112, 112), {"mode": "nearest"}, twice)
    found["Resize, linear"] = Layer("Resize", (IMAGE,), (1, 64, 112, 112), {"mode": "linear"}, twice)
    found["Clip"] = Layer("Clip", (IMAGE,), IMAGE, constants=(np.float32(0), np.float32(6)))
    found["PRelu"] = Layer("PRelu", (IMAGE,), IMAGE, constants=(np.full((64, 1, 1), 0.25, np.float32),))
    for name, (read, written, size, taps, stride, groups) in {
        "Conv 3 x 3, 64 to 64 at 56": (64, 64, 56, 3, 1, 1),
        "Conv 3 x 3, 16 to 16 at 14": (16, 16, 14, 3, 1, 1),
        "Conv 3 x 3, 256 to 256 at 14": (256, 256, 14, 3, 1, 1),
        "Conv 3 x 3 by 2, 64 to 128 at 56": (64, 128, 56, 3, 2, 1),
        "Conv 1 x 1, 256 to 64 at 56": (256, 64, 56, 1, 1, 1),
        "Conv 1 x 1, 24 to 96 at 28": (24, 96, 28, 1, 1, 1),
        "Conv 1 x 1, 960 to 160 at 7": (960, 160, 7, 1, 1, 1),
        "Conv 1 x 1, 4 groups, 256 to 256 at 28": (256, 256, 28, 1, 1, 4),
        "Conv 5 x 5 by 2, 32 to 32 at 28": (32, 32, 28, 5, 2, 1),
        "Conv 7 x 7 by 2, 3 to 64 at 224": (3, 64, 224, 7, 2, 1),
        "Conv depthwise 3 x 3, 64 at 56": (64, 64, 56, 3, 1, 64),
        "Conv depthwise 3 x 3 by 2, 64 at 56": (64, 64, 56, 3, 2, 64),
        "Conv depthwise 5 x 5, 240 at 14": (240, 240, 14, 5, 1, 240),
    }.items():
        output = 1 + (size + 2 * (taps // 2) - taps) // stride
        attributes = {"pads": [taps // 2] * 4, "strides": [stride] * 2, "group": groups}
        weights = (written, read // groups, taps, taps)
        found[name] = Layer("Conv", ((1, read, size, size),), (1, written, output, output), attributes, (), weights)
    transposed = {"strides": [2, 2], "kernel_shape": [2, 2]}
    found["ConvTranspose 2 x 2"] = Layer("ConvTranspose", ((1, 64, 28, 28),), (1, 32, 56, 56), transposed, (), (64, 32, 2, 2))
    for m, k, n in ((64, 768, 768), (1, 768, 3072), (128, 64, 128), (1, 1280, 1000)):
        found[f"MatMul {m} x {k} x {n}"] = Layer("MatMul", ((m, k),), (m, n), {}, (), (k, n))
    found["MatMul of activations, 12 x 128 x 64 x 128"] = Layer("MatMul", ((12, 128, 64), (12, 64, 128)), (12, 128, 128))
    found["MatMul of activations, 12 x 128 x 128 x 64"] = Layer("MatMul", ((12, 128, 128), (12, 128, 64)), (12, 128, 64))
    return found


def _spelled(sizes: tuple[int, ...]) -> str:
    return " x ".join(map(str, sizes))


def model(layer: Layer, kind: str, to: str = "") -> tuple[ModelProto, dict[str, Any]]:
    """A layer of activations of one type, to another, and its inputs. Weights are INT8."""
    rng, to = np.random.default_rng(0), to or kind
    nodes: list[Any] = []
    arrays: dict[str, Any] = {}
    given: dict[str, Any] = {}
    names = []
    limits, of_output = np.iinfo(kind), np.iinfo(to)
    finer = [1 if np.dtype(t).itemsize == 1 else 1 / 256 for t in (kind, to)]
    terms = int(np.prod(layer.weights)) // max(layer.made[-1 if layer.operator == "MatMul" else 1], 1) if layer.weights else 0
    terms = terms or (layer.sizes[0][-1] if layer.operator == "MatMul" else 0)
    for k, sizes in enumerate(layer.sizes):
        spread = (limits.max - limits.min) / 8
        zero = int(limits.min + limits.max + 1) // 2
        x = np.clip(np.rint(rng.standard_normal(sizes) * spread) + zero, limits.min, limits.max).astype(kind)
        arrays |= {f"s{k}": np.float32(layer.scales[0] * finer[0] * (1 + 0.1 * k)), f"z{k}": np.array(zero, kind)}
        given[f"x{k}"] = x
        nodes.append(helper.make_node("DequantizeLinear", [f"x{k}", f"s{k}", f"z{k}"], [f"f{k}"]))
        names.append(f"f{k}")
    if layer.weights:
        channels = layer.weights[1 if layer.operator in ("MatMul", "ConvTranspose") else 0]
        arrays["w"] = np.clip(np.rint(rng.standard_normal(layer.weights) * 40), -127, 127).astype(np.int8)
        arrays["sw"] = rng.uniform(0.01, 0.02, channels).astype(np.float32)
        axis = 1 if layer.operator in ("MatMul", "ConvTranspose") else 0
        nodes.append(helper.make_node("DequantizeLinear", ["w", "sw"], ["fw"], axis=axis))
        names.append("fw")
    for k, c in enumerate(layer.constants):
        if isinstance(c, str):
            names.append(c)
        else:
            arrays[f"c{k}"] = c
            names.append(f"c{k}")
    zero = 0 if to.startswith("i") else (of_output.max + 1) // 2
    if layer.operator in ("Sigmoid", "Softmax", "Relu", "HardSigmoid", "Exp", "Sqrt", "Softplus"):
        zero = of_output.min
    step = layer.scales[1] * (1 if not terms else terms**0.5 * (0.6 if layer.weights else 1))
    arrays |= {"sy": np.float32(step * finer[1]), "zy": np.array(zero, to)}
    nodes.append(helper.make_node(layer.operator, names, ["f"], **layer.attributes))
    nodes.append(helper.make_node("QuantizeLinear", ["f", "sy", "zy"], ["y"]))
    value, of = helper.make_tensor_value_info, helper.np_dtype_to_tensor_dtype
    graph = helper.make_graph(
        nodes,
        "layer",
        [value(name, of(x.dtype), x.shape) for name, x in given.items()],
        [value("y", of(np.dtype(to)), layer.made)],
        [numpy_helper.from_array(np.asarray(v), name) for name, v in arrays.items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10), given


def timed(name: str, layer: Layer, kind: str, to: str = "", seconds: float = 0.1) -> dict[str, Any]:
    """One row: the times of a layer both ways, and the kernels of the fused graph."""
    proto, given = model(layer, kind, to)
    graph = anydml.onnx.load(proto).graph()
    calls: dict[str, Callable[[], object]] = {}
    made, kernels = [], ""
    for way, fuse in (("fused", True), ("apart", False)):
        compiled = graph.compile(dml.Device(threads=1), fuse=fuse)
        assert isinstance(compiled, CompiledGraph)
        made.append(np.zeros(layer.made, to or kind))
        calls[way] = compiled.bind(**given, y=made[-1]).execute
        calls[way]()
        kernels = kernels or "+".join(part.kernel_name for part in compiled.call.parts)
    assert made[0].tobytes() == made[1].tobytes(), name
    t = best(calls, seconds=seconds, clock=time.thread_time)
    types = kind if not to else f"{kind} to {to}"
    return {"layer": name, "types": types, "us": t["fused"] * 1e6, "apart": t["apart"] / t["fused"], "kernels": kernels}


def run() -> list[dict[str, Any]]:
    rows = []
    print(f"\n{'QDQ operator, one thread':46} {'types':16} {'us':>9} {'apart':>6}  kernels")
    for name, layer in layers().items():
        for kind, to in (*((kind, "") for kind in BITS), ("uint16", "uint8")):
            row = timed(name, layer, kind, to)
            rows.append(row)
            print(f"{name:46} {row['types']:16} {row['us']:9.1f} {row['apart']:6.2f}  {row['kernels']}", flush=True)
    slower = [row for row in rows if row["apart"] < 0.97]
    print(f"{len(slower)} of {len(rows)} are slower fused")
    return rows
