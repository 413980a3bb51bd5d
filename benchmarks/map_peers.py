"""The times of other libraries for the same map on one thread, configured as they recommend."""

from __future__ import annotations

import contextlib
import importlib
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from benchmarks.map_cases import NUMPY, ONNXRUNTIME, TORCH, Array, Case
from benchmarks.onnx_session import session

Calls = dict[str, Callable[[], object]]


def peers(case: Case, arrays: tuple[Array, ...], out: Array) -> Calls:
    """The calls to be timed; each has its own output, which it keeps."""
    calls: Calls = {}
    if case.numpy is not None:
        calls[NUMPY] = partial(case.numpy, *arrays, out=np.empty_like(out))
    if case.onnx is not None:
        with contextlib.suppress(ImportError):
            if (call := _onnxruntime(case, arrays, out)) is not None:
                calls[ONNXRUNTIME] = call
    if case.torch is not None:
        with contextlib.suppress(ImportError):
            calls[TORCH] = _torch(case, arrays, out)
    return calls


def _onnxruntime(case: Case, arrays: tuple[Array, ...], out: Array) -> Callable[[], object] | None:
    """A model of one node."""
    from onnx import helper

    result = np.empty(out.shape, np.bool_ if case.onnx in ("Less", "Equal") else out.dtype)
    inputs = {f"x{k}": x for k, x in enumerate(arrays)}
    constants = {f"c{k}": c for k, c in enumerate(case.constants)}
    attributes = {"to": helper.np_dtype_to_tensor_dtype(out.dtype)} if case.onnx == "Cast" else case.node
    return session([(case.onnx or "", [*inputs, *constants], ["y"], attributes)], inputs, {"y": result}, constants)


def _torch(case: Case, arrays: tuple[Array, ...], out: Array) -> Callable[[], object]:
    torch: Any = importlib.import_module("torch")  # its types depend on whether it is installed
    torch.set_num_threads(1)
    torch.set_grad_enabled(False)
    tensors = [torch.from_numpy(x) for x in arrays]
    if case.torch == "softmax":
        return partial(torch.softmax, *tensors, 1, out=torch.empty(out.shape))
    if case.torch == "relu":
        return partial(torch.clamp_min, *tensors, 0, out=torch.empty(out.shape))
    kind = torch.bool if case.torch in ("lt", "eq") else torch.from_numpy(out).dtype
    return partial(getattr(torch, case.torch or ""), *tensors, out=torch.empty(out.shape, dtype=kind))
