"""The time that others take for the same map on one thread, configured as they advise."""

from __future__ import annotations

import contextlib
import importlib
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from benchmarks.map_cases import NUMPY, ONNXRUNTIME, TORCH, Array, Case

Calls = dict[str, Callable[[], object]]


def peers(case: Case, arrays: tuple[Array, ...], out: Array) -> Calls:
    """The calls to be timed; each writes to memory of its own, which it keeps."""
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
    """A model of one node; inputs and output are bound, so that nothing is copied."""
    import onnxruntime as ort
    from onnx import helper, numpy_helper

    result = np.empty(out.shape, np.bool_ if case.onnx in ("Less", "Equal") else out.dtype)

    def value(name: str, array: Array) -> Any:
        return helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(array.dtype), array.shape)

    names = [f"x{k}" for k in range(len(arrays))]
    constants = {f"c{k}": c for k, c in enumerate(case.constants)}
    attributes = {"to": helper.np_dtype_to_tensor_dtype(out.dtype)} if case.onnx == "Cast" else case.node
    graph = helper.make_graph(
        [helper.make_node(case.onnx or "", [*names, *constants], ["y"], **attributes)],
        "map",
        [value(name, x) for name, x in zip(names, arrays, strict=True)],
        [value("y", result)],
        [numpy_helper.from_array(c, name) for name, c in constants.items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
    options = ort.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.log_severity_level = 4  # a refusal is a result here
    try:
        session = ort.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    except Exception:  # its exceptions share no other base
        return None
    binding = session.io_binding()
    for name, x in zip(names, arrays, strict=True):
        binding.bind_cpu_input(name, x)
    binding.bind_output("y", "cpu", 0, result.dtype.type, result.shape, result.ctypes.data)
    call = partial(session.run_with_iobinding, binding)
    call.keep = result, arrays  # type: ignore[attr-defined]  # the binding knows no more of them than addresses
    return call


def _torch(case: Case, arrays: tuple[Array, ...], out: Array) -> Callable[[], object]:
    torch: Any = importlib.import_module("torch")  # whose types differ where it is installed
    torch.set_num_threads(1)
    torch.set_grad_enabled(False)
    tensors = [torch.from_numpy(x) for x in arrays]
    if case.torch == "softmax":
        return partial(torch.softmax, *tensors, 1, out=torch.empty(out.shape))
    if case.torch == "relu":
        return partial(torch.clamp_min, *tensors, 0, out=torch.empty(out.shape))
    kind = torch.bool if case.torch in ("lt", "eq") else torch.from_numpy(out).dtype
    return partial(getattr(torch, case.torch or ""), *tensors, out=torch.empty(out.shape, dtype=kind))
