"""Functions, integers and networks with AVX2 alone, on one thread: part `avx2` of `make bench`.

Libraries are held to AVX2 by the variables of `matmul_peers.HELD`, in a process of its own. onnxruntime has no such variable:
it takes AVX-512 and VNNI where they are, so that its columns say little on a processor that has these.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np

import anydml as dml
from anydml.kernels.code.targets import targets
from benchmarks import convolutions, map_cases, networks
from benchmarks.convolutions import SHAPES
from benchmarks.limits import dots
from benchmarks.map_peers import peers
from benchmarks.matmul_cases import Case as Product
from benchmarks.matmul_cases import bound, data
from benchmarks.matmul_peers import HELD
from benchmarks.network_layers import CLASSES, NETWORKS
from benchmarks.onnx_session import session
from benchmarks.timing import best

ISA = "avx2"
FUNCTIONS = ("exp", "log", "tanh", "sigmoid", "erf", "gelu", "sin", "cos", "pow", "add", "relu", "cast float32 to float16")
PRODUCTS = {
    "512 cubed, u8 s8 u8": Product(512, 512, 512, ("u8", "s8", "u8")),
    "1024 cubed, u8 s8 u8": Product(1024, 1024, 1024, ("u8", "s8", "u8")),
}
Rows = list[dict[str, Any]]


def run(seconds: float = 0.2) -> Rows:
    """Every table, in a process whose libraries are held to AVX2."""
    if ISA not in {row.name for row in targets()}:
        print("no kernels are compiled for AVX2")
        return []
    if HELD[ISA].items() <= os.environ.items():
        return [*_functions(seconds), *_products(seconds), *_convolutions(seconds), *_networks(seconds)]
    code = f"import json; from benchmarks import narrow; print(json.dumps(narrow.run({seconds})))"
    done = subprocess.Popen([sys.executable, "-c", code], env=os.environ | HELD[ISA], stdout=subprocess.PIPE, text=True)
    assert done.stdout is not None
    last = ""
    for line in done.stdout:
        if last:
            print(last, flush=True)
        last = line.rstrip()
    if done.wait():
        raise RuntimeError("the process with AVX2 alone has failed")
    found: Rows = json.loads(last)
    return found


def _ratios(spent: dict[str, float]) -> tuple[float, dict[str, float]]:
    """Our seconds, and the others' over these."""
    ours = spent.pop("ours")
    return ours, {name: s / ours for name, s in spent.items()}


def _functions(seconds: float) -> Rows:
    rows = []
    print(f"{'AVX2, one thread, 256 KB':34} {'us':>10}  other's time over ours")
    for case in map_cases.CASES:
        if case.name in FUNCTIONS:
            arrays = case.inputs(map_cases.BYTES[map_cases.CACHE] // 4)
            out = np.zeros(arrays[0].shape, case.output)
            _, call = map_cases.bound(case, arrays, out, ISA)
            _, best_set = map_cases.bound(case, arrays, np.empty_like(out))
            calls = {"ours": call, "ours with all instructions": best_set, **peers(case, arrays, out)}
            ours, ratios = _ratios(best(calls, seconds=seconds, clock=time.thread_time))
            rows.append({"function": case.name, "microseconds": ours * 1e6, "x": ratios})
            print(f"{case.name:34} {ours * 1e6:10.2f}  {_shown(ratios)}", flush=True)
    return rows


def _shown(ratios: dict[str, float]) -> str:
    return "  ".join(f"{name} {ratio:.2f}" for name, ratio in ratios.items())


def _limited(name: str, macs: int, calls: dict[str, Callable[[], object]], seconds: float) -> dict[str, Any]:
    """Print and return a row of multiply-adds beside the limit of AVX2's products of pairs of 16 bits."""
    limit, of_limit = dots(ISA)
    spent = best({**calls, "limit": limit}, seconds=seconds, clock=time.thread_time)
    share = spent.pop("limit") / of_limit * macs / spent["ours"]
    ours, ratios = _ratios(spent)
    print(
        f"{name:44} {ours * 1e6:10.1f} us, {macs / ours / 1e9:6.1f} GMAC/s, {share:.2f} of the limit  {_shown(ratios)}",
        flush=True,
    )
    return {"what": name, "microseconds": ours * 1e6, "limit": share, "x": ratios}


def _products(seconds: float) -> Rows:
    rows = []
    for name, case in PRODUCTS.items():
        call, _, _ = bound(data(case), dml.Device(threads=1, isa=ISA))
        rows.append(_limited(name, case.m * case.k * case.n, {"ours": call}, seconds))
    return rows


def _convolutions(seconds: float) -> Rows:
    rows = []
    for name, s in SHAPES.items():
        inputs = convolutions.arrays(s, ("uint8", "int8"))
        output, other = (np.zeros((1, s.written, s.output, s.output), np.uint8) for _ in range(2))
        calls = {"ours": convolutions.ours(s, inputs, output, ISA)}
        if (peer := convolutions.onnxruntime(s, inputs, other)) is not None:
            calls["onnxruntime with all instructions"] = peer
        rows.append(_limited(name, s.macs, calls, seconds))
    return rows


def _networks(seconds: float) -> Rows:
    rows = []
    for name in NETWORKS:
        for quantised in (False, True):
            made = networks.network(name, quantised=quantised)
            output, other = (np.zeros(sizes, np.float32) for sizes in ((1, CLASSES, 1, 1), (1, CLASSES)))
            call = made.graph.compile(dml.Device(threads=1, isa=ISA)).bind(x=made.image, output=output).execute
            calls: dict[str, Callable[[], object]] = {"ours": call}
            peer = session(made.theirs.nodes, {"x": made.image}, {"z": other}, made.theirs.constants)
            if peer is not None:
                calls["onnxruntime with all instructions"] = peer
            ours, ratios = _ratios(best(calls, seconds=seconds, clock=time.thread_time))
            kind = f"{name}, {'int8' if quantised else 'float32'}"
            rows.append({"network": kind, "milliseconds": ours * 1e3, "x": ratios})
            print(f"{kind:44} {ours * 1e3:10.2f} ms  {_shown(ratios)}", flush=True)
    return rows
