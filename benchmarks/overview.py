"""One row for each kind of operator, and for whole networks: anydml, the limit and other libraries, on one thread, in one run.

The limit is a bare loop of dot products of bytes or of multiply-adds of float64, or the best copy of as many bytes as are read
and written. It is a property of the processor, not of an algorithm: Winograd's needs fewer multiplications than are counted,
and operators that round, sort or wait for their own results have other limits.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from itertools import chain
from typing import Any, NamedTuple

import numpy as np

import anydml as dml
from benchmarks import (
    contraction_cases,
    convolutions,
    digits,
    map_cases,
    map_peers,
    matmul_cases,
    matmul_peers,
    network_layers,
    networks,
    rest,
    windows,
)
from benchmarks.limits import copies, dots, instruction_sets, multiply_adds
from benchmarks.onnx_session import session
from benchmarks.timing import best

Call = Callable[[], object]
OURS, LIMIT = "anydml", "limit"
PEERS = {"onnxruntime": "onnxruntime", "torch": "PyTorch", "numpy": "NumPy"}
DOTS, FLOATS, MEMORY = "dot products", "multiply-adds", "memory"
MAPS = ("add", "exp", "tanh", "gelu", "softmax 1000 x 1000")
OTHERS = (  # by the beginnings of their names
    *("padding, constant", "embedding", "DepthToSpace", "resize by 2, linear", "local response"),
    *("largest place along axis 1", "sums so far along axis 0", "the 10 largest", "layer normalisation, 1024"),
    *("batch normalisation, 8 x 256", "LSTM, 64 steps of 1 x", "attention"),
)
COMPUTED = ("LSTM", "MULTIHEAD_ATTENTION", "TOP_K1", "RESAMPLE3", "LOCAL_RESPONSE_NORMALIZATION")  # memory is not their limit


class Row(NamedTuple):
    """Calls with the same result. limit: the kind of limit; amount: multiply-adds, or bytes that are read and written."""

    name: str
    calls: Mapping[str, Call]
    limit: str = ""
    amount: int = 0


def rows() -> Iterator[Row]:
    yield from _products()
    yield from _maps()
    yield from _others()
    yield from _networks()


def _products() -> Iterator[Row]:
    case = matmul_cases.Case(1024, 1024, 1024, ("u8", "s8", "u8"))
    data = matmul_cases.data(case)
    peers, _ = matmul_peers.peers(data)
    peers.pop(matmul_peers.NUMPY)  # which computes in float32
    yield Row("matmul, uint8 x int8 to uint8, 1024^3", {OURS: matmul_cases.bound(data, _one())[0], **peers}, DOTS, case.macs)
    name = "64 to 64, 3 x 3, at 56 x 56"
    shape = convolutions.SHAPES[name]
    inputs = convolutions.arrays(shape, ("uint8", "int8"))
    y, z = (np.zeros((1, shape.written, shape.output, shape.output), np.uint8) for _ in range(2))
    calls = {OURS: convolutions.ours(shape, inputs, y), "onnxruntime": convolutions.onnxruntime(shape, inputs, z)}
    yield Row(f"convolution, uint8 x int8, {name}", _there(calls), DOTS, shape.macs)
    a, b = contraction_cases.matrices(512, 512, 512)
    calls = {OURS: contraction_cases.product(a, b), **contraction_cases.onnxruntime_product(a, b)}
    yield Row("GEMM, float32, 512^3", _there(calls), FLOATS, 512**3)
    for layer in (contraction_cases.Layer(128, 128, 3, 28, 1), contraction_cases.Layer(64, 256, 1, 56, 1)):
        x, f = contraction_cases.layer_data(layer)
        calls = {OURS: contraction_cases.convolution(layer, x, f), **contraction_cases.onnxruntime_convolution(layer, x, f)}
        yield Row(f"convolution, float32, {layer}", _there(calls), FLOATS, layer.products)


def _maps() -> Iterator[Row]:
    for case in (*map_cases.CASES, *map_cases.ROWS):
        if case.name in MAPS:
            arrays = case.inputs(1 << 16)
            out = np.zeros(arrays[0].shape, case.output)
            sizes = " x ".join(map(str, out.shape)) if out.ndim == 1 else ""
            title = ", ".join(filter(None, (case.name, "float32", sizes)))
            nbytes = out.nbytes + sum(x.nbytes for x in arrays)
            calls = {OURS: map_cases.bound(case, arrays, out)[1], **map_peers.peers(case, arrays, out)}
            yield Row(title, calls, MEMORY, nbytes)


def _others() -> Iterator[Row]:
    for case in chain.from_iterable(part.cases() for part in rest.PARTS):
        if case.name.startswith(OTHERS):
            _, calls = rest.calls(case)
            arrays = [x for x in (*case.inputs.values(), *case.outputs.values()) if isinstance(x, np.ndarray)]
            nbytes = sum(x.nbytes for x in arrays) if case.operator != "GATHER" else 2 * arrays[-1].nbytes
            bound = (
                ""
                if case.operator in ("LSTM", "MULTIHEAD_ATTENTION", "TOP_K1", "RESAMPLE3", "LOCAL_RESPONSE_NORMALIZATION")
                else MEMORY
            )
            yield Row(case.name, calls, bound, nbytes)
    window = next(w for w in windows.WINDOWS if w.width == 3)
    x = np.random.default_rng(0).standard_normal((1, window.channels, window.size, window.size), np.float32)
    y = np.empty((1, window.channels, window.output, window.output), np.float32)
    call = windows.onnxruntime(window, "MaxPool", x, np.empty_like(y))
    both = {OURS: windows.ours(window, "MAX_POOLING", False, x, y)[1], "onnxruntime": call}
    yield Row(f"largest of {window.name}", _there(both), MEMORY, x.nbytes + y.nbytes)


def _networks() -> Iterator[Row]:
    for name in network_layers.NETWORKS:
        for quantised in (False, True):
            made = networks.network(name, quantised=quantised)
            y, z = np.empty((1, network_layers.CLASSES, 1, 1), np.float32), np.empty((1, network_layers.CLASSES), np.float32)
            ours = made.graph.compile(_one()).bind(x=made.image, output=y).execute
            theirs = session(made.theirs.nodes, {"x": made.image}, {"z": z}, made.theirs.constants)
            yield Row(f"{name}, {'int8' if quantised else 'float32'}", _there({OURS: ours, "onnxruntime": theirs}))
    for name in digits.NAMES:
        calls = digits.calls(name, 1)
        yield Row(f"digits, {name}, one image", {OURS: calls["bound"], "onnxruntime": calls["onnxruntime bound"]})


def _one() -> dml.Device:
    return dml.Device("cpu", threads=1)


def _there(calls: Mapping[str, Any]) -> dict[str, Call]:
    return {name: call for name, call in calls.items() if call is not None}


def _limits(row: Row) -> tuple[dict[str, Call], float]:
    """Calls at the limit, and the number of them in a call's amount."""
    if row.limit == MEMORY:
        return {f"{LIMIT} {name}": call for name, call in copies(row.amount // 2).items()}, 1
    found = dots(instruction_sets()[-1]) if row.limit == DOTS and instruction_sets() else None
    found = multiply_adds() if row.limit == FLOATS else found
    return ({}, 1) if found is None else ({LIMIT: found[0]}, row.amount / found[1])


def _shown(microseconds: float) -> str:
    return f"{microseconds:,.0f}" if microseconds >= 100 else f"{microseconds:.1f}"


def run(seconds: float = 0.4) -> list[dict[str, Any]]:
    titles = " | ".join(f"x {title}" for title in PEERS.values())
    print(f"| one thread | us | of the limit | {titles} |\n|---|--:|---|--:|--:|--:|")
    made = []
    for row in rows():
        limits, share = _limits(row)
        spent = best({**row.calls, **limits}, seconds=seconds, slow=1.0, clock=time.thread_time)
        least = min((spent[name] for name in limits), default=None)
        of_limit = None if least is None else least * share / spent[OURS]
        ratios = {peer: spent[peer] / spent[OURS] for peer in PEERS if peer in spent}
        made.append({"case": row.name, "microseconds": spent[OURS] * 1e6, "of_limit": of_limit, "bound": row.limit, **ratios})
        of = "-" if of_limit is None else f"{of_limit:.2f} {row.limit}"
        figures = " | ".join(format(ratios[peer], ".2f") if peer in ratios else "-" for peer in PEERS)
        print(f"| {row.name} | {_shown(spent[OURS] * 1e6)} | {of} | {figures} |", flush=True)
    return made
