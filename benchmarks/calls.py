"""The cost of calls besides arithmetic: check, bind, execute, the eager functions, and the import."""

from __future__ import annotations

import subprocess
import sys
import time
from typing import Any

import numpy as np

import anydml as dml
from benchmarks.timing import best

EAGER = "quantized_linear_matrix_multiply(..), the same, cached"
FIRST_MATMUL = "first matmul of a process: beyond import llvmlite"
TARGETS = {EAGER: 25, FIRST_MATMUL: 150_000}
"""The largest allowed microseconds; calls without a limit are only reported."""


def run() -> list[dict[str, Any]]:
    x = np.zeros((64, 64), np.float32)
    a, b = np.ones((1, 64), np.int8), np.ones((64, 64), np.int8)
    one = np.ones((1, 1), np.float32)

    def float32(*sizes: int) -> dml.TensorDesc:
        return dml.TensorDesc(dml.DataType.FLOAT32, sizes)

    def int8(*sizes: int) -> dml.TensorDesc:
        return dml.TensorDesc(dml.DataType.INT8, sizes)

    slice1 = dml.Slice1(
        input_tensor=float32(1, 1, 64, 64),
        output_tensor=float32(1, 1, 32, 64),
        input_window_offsets=(0, 0, 0, 0),
        input_window_sizes=(1, 1, 64, 64),
        input_window_strides=(1, 1, 2, 1),
    )
    matmul = dml.QuantizedLinearMatrixMultiply(
        a_tensor=int8(1, 64),
        a_scale_tensor=float32(1, 1),
        a_zero_point_tensor=int8(1, 1),
        b_tensor=int8(64, 64),
        b_scale_tensor=float32(1, 1),
        output_scale_tensor=float32(1, 1),
        output_zero_point_tensor=int8(1, 1),
        output_tensor=int8(1, 64),
    )
    zero = np.ones((1, 1), np.int8)
    device = dml.Device()
    bound_slice = device.compile(slice1).bind(
        input_tensor=x.reshape(1, 1, 64, 64), output_tensor=np.empty((1, 1, 32, 64), np.float32)
    )
    bound_matmul = device.compile(matmul).bind(
        a_tensor=a,
        a_scale_tensor=one,
        a_zero_point_tensor=zero,
        b_tensor=b,
        b_scale_tensor=one,
        output_scale_tensor=one,
        output_zero_point_tensor=zero,
        output_tensor=np.empty((1, 64), np.int8),
    )
    seconds = best(
        {
            "check SLICE1, 4-D": lambda: dml.check(slice1),
            "check QUANTIZED_LINEAR_MATRIX_MULTIPLY": lambda: dml.check(matmul),
            "execute SLICE1, 64 x 64 float32, every 2nd row": bound_slice.execute,
            "execute QUANTIZED_LINEAR_MATRIX_MULTIPLY, 1 x 64 x 64": bound_matmul.execute,
            "slice1(..), the same": lambda: dml.slice1(x, (0, 0), (64, 64), (2, 1)),
            EAGER: lambda: dml.quantized_linear_matrix_multiply(a, 1.0, 1, b, 1.0, None, 1.0, 1),
        }
    )
    rows: list[dict[str, Any]] = [{"what": what, "microseconds": round(s * 1e6, 2)} for what, s in seconds.items()]
    executes = list(seconds.values())[2:4]
    for (what, s), execute in zip(list(seconds.items())[4:], executes, strict=True):
        rows.append({"what": f"{what}: beyond execute", "microseconds": round((s - execute) * 1e6, 2)})
    with_numpy, with_anydml = _imports()
    rows.append({"what": "import anydml: beyond import numpy", "microseconds": round((with_anydml - with_numpy) * 1e6)})
    first, further = _compilation()
    rows.append({"what": "compile, first copy of a process: beyond import llvmlite", "microseconds": round(first * 1e6)})
    rows.append({"what": "compile, a further shape of a known kind: beyond check", "microseconds": round(further * 1e6)})
    rows.append({"what": FIRST_MATMUL, "microseconds": round(_first_matmul() * 1e6)})
    for row in rows:
        if (target := TARGETS.get(row["what"])) is not None:
            row |= {"target": target, "met": row["microseconds"] < target}
        verdict = f"  under {target}: {'met' if row['met'] else 'MISSED'}" if target is not None else ""
        print(f"{row['what']:70} {row['microseconds']:>10} us{verdict}")
    return rows


FIRST = """
import time
import llvmlite.binding
import anydml as dml

def checked(n):
    rows = dml.TensorDesc("FLOAT32", (n, n)), dml.TensorDesc("FLOAT32", (n, n // 2))
    return dml.check(dml.Slice1(input_tensor=rows[0], output_tensor=rows[1], input_window_offsets=(0, 0),
                                input_window_sizes=(n, n), input_window_strides=(1, 2)))

def compiling(desc):
    began = time.perf_counter()
    compiled = device.compile(desc)
    spent = time.perf_counter() - began
    assert compiled.kernel_name == "copy:compiled"
    return spent

device = dml.Device(threads=1)
print(compiling(checked(512)), min(compiling(checked(n)) for n in range(400, 500, 2)))
"""


def _compilation(runs: int = 5) -> tuple[float, float]:
    """Seconds to compile the first copy of a process, and a further shape of its kind: the best of several processes."""
    outputs = [subprocess.run([sys.executable, "-c", FIRST], check=True, capture_output=True, text=True) for _ in range(runs)]
    times = [tuple(map(float, done.stdout.split())) for done in outputs]
    return min(first for first, _ in times), min(further for _, further in times)


MATMUL = """
import time
import llvmlite.binding
import numpy as np
import anydml as dml

rng = np.random.default_rng(0)
a, b = (np.frombuffer(rng.bytes(256 * 256), np.int8).reshape(256, 256) for _ in "ab")
began = time.perf_counter()
dml.quantized_linear_matrix_multiply(a, 0.02, 3, b, 0.01, -2, 0.5, 1)
print(time.perf_counter() - began)
"""


def _first_matmul(runs: int = 5) -> float:
    """Seconds of the first eager matmul of a process, compiled and run: the best of several processes."""
    outputs = [subprocess.run([sys.executable, "-c", MATMUL], check=True, capture_output=True, text=True) for _ in range(runs)]
    return min(float(done.stdout) for done in outputs)


def _imports(runs: int = 15) -> tuple[float, float]:
    """Seconds of a fresh interpreter that imports NumPy, and of one that imports anydml: the best of interleaved runs."""
    smallest = {"import numpy": float("inf"), "import anydml": float("inf")}
    for _ in range(runs):
        for statement in smallest:
            began = time.perf_counter()
            subprocess.run([sys.executable, "-c", statement], check=True)
            smallest[statement] = min(smallest[statement], time.perf_counter() - began)
    return smallest["import numpy"], smallest["import anydml"]
