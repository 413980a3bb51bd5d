"""Operators that move elements, and those along an axis, compared with onnxruntime and torch, on one thread."""

from __future__ import annotations

import contextlib
import time
from itertools import chain
from typing import Any

import numpy as np

import anydml as dml
from anydml import TensorDesc, operators
from benchmarks import attention_cases, norm_cases, recurrent_cases, rest_cases, sampled_cases
from benchmarks.onnx_session import session
from benchmarks.rest_cases import Call, Case
from benchmarks.timing import best

PARTS = (rest_cases, norm_cases, recurrent_cases, sampled_cases, attention_cases)


def run(seconds: float = 0.3) -> list[dict[str, Any]]:
    rows = []
    print(f"{'':44}{'us':>9}{'onnxruntime, x':>16}{'torch, x':>10}  kernel")
    for case in chain.from_iterable(part.cases() for part in PARTS):
        rows.append(row := _row(case, seconds))
        ratios = ["-" if row[peer] is None else format(row[peer], ".2f") for peer in ("onnxruntime", "torch")]
        print(f"{case.name:44}{row['microseconds']:>9.1f}{ratios[0]:>16}{ratios[1]:>10}  {row['kernel']}", flush=True)
    return rows


def calls(case: Case) -> tuple[str, dict[str, Call]]:
    """The name of the kernel, and the calls of it and of other libraries."""
    operator: Any = operators.find(case.operator)
    arrays = {**case.inputs, **case.outputs}
    described = {name: [TensorDesc.of(a) for a in x] if isinstance(x, list) else TensorDesc.of(x) for name, x in arrays.items()}
    desc = operator(**described, **case.fields)
    compiled = dml.Device("cpu", threads=1).compile(desc)
    return compiled.kernel_name, {"anydml": compiled.bind(**arrays).execute, **_peers(case)}


def _row(case: Case, seconds: float) -> dict[str, Any]:
    kernel, timed = calls(case)
    # by a clock that stops while other processes run
    spent = best(timed, seconds=seconds, slow=1.0, clock=time.thread_time)
    ratios = {peer: spent[peer] / spent["anydml"] if peer in spent else None for peer in ("onnxruntime", "torch")}
    return {"case": case.name, "kernel": kernel, "microseconds": spent["anydml"] * 1e6, **ratios}


def _peers(case: Case) -> dict[str, Call]:
    found: dict[str, Call] = {}
    first = next(iter(case.inputs.values())) if case.first is None else case.first
    if case.node is not None:
        node, others, attributes = case.node
        constants = {f"c{i}": x for i, x in enumerate(others)}
        made = list(case.outputs.values()) if case.made is None else case.made
        outputs = {f"y{i}": np.empty_like(y) for i, y in enumerate(made)}
        if node == "TopK":
            outputs["y1"] = outputs["y1"].astype(np.int64)
        with contextlib.suppress(ImportError):
            nodes = [(node, ["x", *constants], list(outputs), attributes)]
            given, known = ({"x": first, **constants}, {}) if case.fed else ({"x": first}, constants)
            call = session(nodes, given, outputs, known, opset=case.opset)
            if call is not None:
                found["onnxruntime"] = call
    if case.torch is not None:
        with contextlib.suppress(ImportError):
            import torch

            torch.set_num_threads(1)
            inputs = [torch.from_numpy(x) for x in case.inputs.values()]
            output = torch.from_numpy(np.empty_like(next(iter(case.outputs.values()))))
            found["torch"] = case.torch(torch, inputs, output)
    return found
