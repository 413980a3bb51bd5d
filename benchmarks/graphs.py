"""Graphs: fused, with each operator as a call of its own, and in onnxruntime, on one thread."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

import anydml as dml
from benchmarks.onnx_session import Node, session
from benchmarks.timing import best

Array = NDArray[np.float32]


class Case(NamedTuple):
    """A function with its arguments, the names of those that are inputs, and the same in ONNX, with an output called z."""

    function: Callable[..., Any]
    arrays: dict[str, Array]
    inputs: tuple[str, ...]
    nodes: tuple[Node, ...]


def _drawn(*sizes: int, part: int = 1) -> Array:
    return (np.random.default_rng(sum(sizes)).standard_normal(sizes) / part).astype(np.float32)


def _chain(x: Any, y: Any) -> Any:
    return dml.element_wise_multiply(dml.activation_sigmoid(dml.element_wise_multiply(dml.element_wise_add(x, y), y)), y)


def _perceptron(x: Any, w: Any, b: Any, v: Any, c: Any) -> Any:
    hidden = dml.activation_gelu(dml.element_wise_add(dml.gemm(x, w), b))
    return dml.element_wise_add(dml.element_wise_add(dml.gemm(hidden, v), c), x)


def _block(x: Any, w: Any, b: Any, v: Any, c: Any) -> Any:
    once: Any = {"start_padding": (1, 1), "end_padding": (1, 1)}
    seen = dml.activation_relu(dml.convolution(x, w, b, **once))
    return dml.activation_relu(dml.element_wise_add(dml.convolution(seen, v, c, **once), x))


def _halves(x: Any) -> Any:
    sizes = (1, 32, 56, 56)
    a, b = (dml.slice1(x, (0, first, 0, 0), sizes) for first in (0, 32))
    return dml.element_wise_add(dml.join([dml.activation_relu(a), dml.activation_sigmoid(b)], axis=1), x)


def _many(x: Any) -> Any:
    for _ in range(20):
        x = dml.element_wise_identity(x)
    return x


def cases() -> dict[str, Case]:
    """The graphs by name."""
    pads = {"pads": [1, 1, 1, 1]}
    wide, narrow = _drawn(768, 3072, part=32), _drawn(3072, 768, part=64)
    filters = _drawn(64, 64, 3, 3, part=32)
    return {
        "20 identities of 16 elements": Case(
            _many,
            {"x": _drawn(16)},
            ("x",),
            tuple(("Identity", [f"t{k}" if k else "x"], [f"t{k + 1}" if k < 19 else "z"], {}) for k in range(20)),
        ),
        "sigmoid((x + y) y) y of 2^22 elements": Case(
            _chain,
            {"x": _drawn(1 << 22), "y": _drawn(1, 1 << 22)[0]},
            ("x", "y"),
            (
                ("Add", ["x", "y"], ["s"], {}), ("Mul", ["s", "y"], ["p"], {}),
                ("Sigmoid", ["p"], ["q"], {}), ("Mul", ["q", "y"], ["z"], {}),
            ),
        ),
        "halves of 64 channels, mapped and joined": Case(
            _halves,
            {"x": _drawn(1, 64, 56, 56)},
            ("x",),
            (
                ("Split", ["x"], ["a", "b"], {"axis": 1, "num_outputs": 2}), ("Relu", ["a"], ["p"], {}),
                ("Sigmoid", ["b"], ["q"], {}), ("Concat", ["p", "q"], ["r"], {"axis": 1}), ("Add", ["r", "x"], ["z"], {}),
            ),
        ),
        "perceptron, 128 x 768, 3072 hidden": Case(
            _perceptron,
            {"x": _drawn(128, 768), "w": wide, "b": _drawn(3072), "v": narrow, "c": _drawn(768)},
            ("x",),
            (
                ("MatMul", ["x", "w"], ["p"], {}), ("Add", ["p", "b"], ["q"], {}), ("Gelu", ["q"], ["h"], {}),
                ("MatMul", ["h", "v"], ["r"], {}), ("Add", ["r", "c"], ["s"], {}), ("Add", ["s", "x"], ["z"], {}),
            ),
        ),
        "residual block, 64 channels of 56 x 56": Case(
            _block,
            {
                "x": _drawn(1, 64, 56, 56), "w": filters, "v": filters[::-1].copy(),
                "b": _drawn(1, 64, 1, 1), "c": _drawn(1, 64, 1, 1),
            },
            ("x",),
            (
                ("Conv", ["x", "w", "b"], ["p"], pads), ("Relu", ["p"], ["q"], {}), ("Conv", ["q", "v", "c"], ["r"], pads),
                ("Add", ["r", "x"], ["s"], {}), ("Relu", ["s"], ["z"], {}),
            ),
        ),
    }  # fmt: skip


def calls_of(case: Case) -> dict[str, Callable[[], object]]:
    """The same computation in each way, after a check that ours have equal bits."""
    device = dml.Device(threads=1)
    described = {n: dml.TensorDesc.of(x) if n in case.inputs else x for n, x in case.arrays.items()}
    graph = dml.graph(case.function, **described)
    given = {n: case.arrays[n] for n in case.inputs}
    (sizes,) = [t.sizes for t in graph.outputs.values()]
    wanted = case.function(**case.arrays)
    made: dict[str, Callable[[], object]] = {}
    for name, fuse in (("fused", True), ("unfused", False)):
        output = np.empty(sizes, np.float32)
        made[name] = device.compile(graph.desc, fuse=fuse).bind(**given, output=output).execute
        made[name]()
        assert np.array_equal(output, wanted), name
    theirs = np.empty(sizes, np.float32)
    constants = {n: x.reshape(-1) if n in "bc" else x for n, x in case.arrays.items() if n not in case.inputs}
    try:
        peer = session(case.nodes, given, {"z": theirs}, constants)
    except ImportError:
        peer = None
    if peer is not None:
        peer()
        assert np.allclose(theirs, wanted, rtol=1e-3, atol=1e-3)
        made["onnxruntime"] = peer
    return made


def run() -> list[dict[str, Any]]:
    rows = []
    heads = ("fused us", "unfused", "onnxruntime", "x unfused", "x onnxruntime")
    print(f"\n{'graph, one thread':40} " + " ".join(f"{head:>14}" for head in heads))
    for name, case in cases().items():
        spent = best(calls_of(case))
        row: dict[str, Any] = {"graph": name, **{way: seconds * 1e6 for way, seconds in spent.items()}}
        unfused, peer = row["unfused"] / row["fused"], row.get("onnxruntime", 0) / row["fused"]
        figures = (row["fused"], row["unfused"], row.get("onnxruntime", 0), unfused, peer)
        print(f"{name:40} " + " ".join(f"{x:14.2f}" for x in figures))
        rows.append(row)
    return rows
