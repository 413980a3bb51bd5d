"""The times of other libraries for the same matmuls on one thread, configured as they recommend."""

from __future__ import annotations

import contextlib
import importlib
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.matmul_cases import TYPES, Data
from benchmarks.onnx_session import session

Calls = dict[str, Callable[[], object]]
ONNXRUNTIME, TORCH, NUMPY = "onnxruntime", "torch", "numpy float32"


def _beyond_avx2() -> str:
    """The features that NumPy's kernels choose at run time, of AVX-512."""
    umath: Any = importlib.import_module("numpy._core._multiarray_umath")
    return " ".join(name for name in umath.__cpu_dispatch__ if name == "X86_V4" or name.startswith("AVX512"))


# The variables that limit oneDNN, OpenBLAS, torch and NumPy to an instruction set when they are loaded; onnxruntime has none.
HELD = {
    "generic": {"ONEDNN_MAX_CPU_ISA": "SSE41", "OPENBLAS_CORETYPE": "Nehalem"},
    "avx2": {
        "ONEDNN_MAX_CPU_ISA": "AVX2",
        "OPENBLAS_CORETYPE": "Haswell",
        "ATEN_CPU_CAPABILITY": "avx2",
        "NPY_DISABLE_CPU_FEATURES": _beyond_avx2(),
    },
    "avx512bw": {"ONEDNN_MAX_CPU_ISA": "AVX512_CORE", "OPENBLAS_CORETYPE": "SkylakeX"},
    "avx_vnni": {"ONEDNN_MAX_CPU_ISA": "AVX2_VNNI", "OPENBLAS_CORETYPE": "Haswell"},
    "avx512_vnni": {"ONEDNN_MAX_CPU_ISA": "AVX512_CORE_VNNI", "OPENBLAS_CORETYPE": "SkylakeX"},
    "amx_int8": {"ONEDNN_MAX_CPU_ISA": "AVX512_CORE_AMX", "OPENBLAS_CORETYPE": "SkylakeX"},
}


def peers(d: Data, *, onnxruntime: bool = True) -> tuple[Calls, list[str]]:
    """The calls to be timed, and the libraries that refuse the case. torch has no equivalent of many cases."""
    calls: Calls = {NUMPY: _numpy(d)}
    refused = []
    with contextlib.suppress(ImportError):
        if call := _torch(d):
            calls[TORCH] = call
    if onnxruntime:
        with contextlib.suppress(ImportError):
            if call := _onnxruntime(d):
                calls[ONNXRUNTIME] = call
            else:
                refused.append(ONNXRUNTIME)
    return calls, refused


def _numpy(d: Data) -> Callable[[], object]:
    a, b = (d.inputs[name].astype(np.float32) for name in ("a_tensor", "b_tensor"))
    return partial(np.matmul, a, b, out=np.empty((*a.shape[:-1], b.shape[-1]), np.float32))


def _torch(d: Data) -> Callable[[], object] | None:
    """If B is owned, a linear layer of prepacked weights, uint8 by int8; else int8 by int8 to int32. Both use oneDNN.

    Neither supports zero points of B, nor batches, which are separate calls.
    """
    import torch

    torch.set_num_threads(1)
    torch.set_grad_enabled(False)
    case = d.case
    a, b = (torch.from_numpy(d.inputs[name]) for name in ("a_tensor", "b_tensor"))
    pairs = list(zip(a, b, strict=True)) if case.batch > 1 else [(a, b)]
    calls: list[Callable[[], object]] = []
    if not case.owned and case.types[:2] == ("s8", "s8"):
        out = torch.empty((case.m, case.n), dtype=torch.int32)
        calls = [partial(torch._int_mm, x, y, out=out) for x, y in pairs]
    elif case.owned and case.types[:2] == ("u8", "s8") and case.quantized:
        scales, zeros = torch.full((case.n,), d.scalar("b_scale_tensor")), torch.zeros(case.n, dtype=torch.int32)
        output = torch.uint8 if case.types[2] == "u8" else torch.int8
        scale_and_zero_point = d.scalar("output_scale_tensor"), d.scalar("output_zero_point_tensor")
        for x, y in pairs:
            packed = torch.ops.onednn.qlinear_prepack(y.t().contiguous(), [case.m, case.k])
            of_a = x, d.scalar("a_scale_tensor"), d.scalar("a_zero_point_tensor")
            of_b_and_output = scales, zeros, None, *scale_and_zero_point, output
            calls.append(partial(torch.ops.onednn.qlinear_pointwise, *of_a, packed, *of_b_and_output, "none", [], ""))
    else:
        return None
    return _all(calls)


def _all(calls: list[Callable[[], object]]) -> Callable[[], object]:
    if len(calls) == 1:
        return calls[0]

    def each() -> None:
        for call in calls:
            call()

    return each


def _onnxruntime(d: Data) -> Callable[[], object] | None:
    """QLinearMatMul or MatMulInteger. An owned B is an initializer, which is packed when the session is made."""
    case, inputs = d.case, d.inputs
    if case.quantized:
        names = [f"{of}_{what}" for of in ("a", "b") for what in ("tensor", "scale_tensor", "zero_point_tensor")]
        names += ["output_scale_tensor", "output_zero_point_tensor"]
    else:
        names = ["a_tensor", "b_tensor", "a_zero_point_tensor", "b_zero_point_tensor"]
    fed = ["a_tensor"] if case.owned else ["a_tensor", "b_tensor"]

    def constant(name: str) -> NDArray[Any]:
        return inputs[name].reshape(()) if inputs[name].size == 1 else inputs[name]

    output = np.empty((*inputs["a_tensor"].shape[:-1], case.n), TYPES[case.types[2]])
    return session(
        [("QLinearMatMul" if case.quantized else "MatMulInteger", names, ["output"], {})],
        {name: inputs[name] for name in fed},
        {"output": output},
        {name: constant(name) for name in names if name not in fed},
    )
