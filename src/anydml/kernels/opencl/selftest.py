"""The arithmetic that kernels rely on, computed on a device with literal operands and with operands from memory."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from anydml.kernels.code.opencl import PRELUDE


class Check(NamedTuple):
    """An expression of a, b and c, its operands and its results, all of one dtype. name: the words of a refusal."""

    name: str
    expression: str
    dtype: str
    operands: Sequence[Sequence[float]]
    results: Sequence[float]


_F, _D = "float32", "float64"
_NAN, _INF, _TINY, _LEAST = float("nan"), float("inf"), 2.0**-149, 2.0**-1074
# 2^-149 + 2^-170 and the like are not float32 numbers: operands are rounded to the dtype, results are given exactly
CHECKS = (
    Check("a fused multiply-add of float64", "fma(a, b, c)", _D, [(1 + 2.0**-52, 1 + 2.0**-52, -1 - 2.0**-51)], [2.0**-104]),
    Check("a fused multiply-add of float32", "fma(a, b, c)", _F, [(1 + 2.0**-23, 1 + 2.0**-23, -1 - 2.0**-22)], [2.0**-46]),
    Check("products that are not fused with sums", "a * b + c", _D, [(1 + 2.0**-52, 1 + 2.0**-52, -1 - 2.0**-51)], [0.0]),
    Check("products of float32 that are not fused", "a * b + c", _F, [(1 + 2.0**-23, 1 + 2.0**-23, -1 - 2.0**-22)], [0.0]),
    Check(
        "subnormal numbers of float64",
        "a * b + c",
        _D,
        [(2.0**-1000, 2.0**-74, 0), (2.0**-1000, 2.0**-74, _LEAST)],
        [_LEAST, 2 * _LEAST],
    ),
    Check(
        "subnormal numbers of float32",
        "a * b + c",
        _F,
        [(2.0**-100, 2.0**-49, 0), (2.0**-100, 2.0**-49, _TINY)],
        [_TINY, 2 * _TINY],
    ),
    Check(
        "division of float64",
        "a / b",
        _D,
        [(1, 3, 0), (1, 49, 0), (5, _LEAST, 0), (2.0**-1073, 3, 0)],
        [1 / 3, 1 / 49, _INF, _LEAST],
    ),
    Check(
        "division of float32",
        "QUOTIENT(a, b)",
        _F,
        [(1, 3, 0), (1, 41, 0), (7, 10, 0), (3 * _TINY, 2, 0)],
        [11184811 * 2.0**-25, 13094412 * 2.0**-29, 11744051 * 2.0**-24, 2 * _TINY],
    ),
    Check("square roots of float64", "sqrt(a)", _D, [(2, 0, 0), (3, 0, 0), (_LEAST, 0, 0)], [2**0.5, 3**0.5, 2.0**-537]),
    Check(
        "square roots of float32",
        "ROOT(a)",
        _F,
        [(2, 0, 0), (3, 0, 0), (7, 0, 0)],
        [11863283 * 2.0**-23, 14529495 * 2.0**-23, 11097085 * 2.0**-22],
    ),
    Check("-0 + 0", "a + as_float(0u)", _F, [(-0.0, 0, 0), (_TINY, 0, 0)], [0.0, _TINY]),
    Check("-0 + 0 in float64", "a + as_double(0UL)", _D, [(-0.0, 0, 0), (_LEAST, 0, 0)], [0.0, _LEAST]),
    Check("0 - 0 and the sign of zeros", "a - b", _F, [(0, 0, 0), (-0.0, 0, 0), (1, 1, 0)], [0.0, -0.0, 0.0]),
    Check(
        "a maximum of NaN",
        "maximum(a, b)",
        _F,
        [(_NAN, 1, 0), (1, _NAN, 0), (-0.0, 0, 0), (0, -0.0, 0)],
        [_NAN, _NAN, 0.0, 0.0],
    ),
    Check(
        "a minimum of NaN",
        "minimum(a, b)",
        _D,
        [(_NAN, 1, 0), (1, _NAN, 0), (-0.0, 0, 0), (0, -0.0, 0)],
        [_NAN, _NAN, -0.0, -0.0],
    ),
    Check("comparisons with NaN", "!(a < b) && !(a >= b) ? 1 : 0", _F, [(_NAN, 1, 0), (1, 1, 0)], [1, 0]),
    Check(
        "rounding to float32",
        "(double)(float)a",
        _D,
        [(1 + 2.0**-24, 0, 0), (1 + 2.0**-24 + 2.0**-50, 0, 0), (1.5 * _TINY, 0, 0), (1e39, 0, 0)],
        [1, 1 + 2.0**-23, 2 * _TINY, _INF],
    ),
    Check(
        "rounding to integers",
        "nearest_integer(a)",
        _D,
        [(0.5, 0, 0), (1.5, 0, 0), (-2.5, 0, 0), (2.0**52 + 1, 0, 0)],
        [0, 2, -2, 2.0**52 + 1],
    ),
    Check(
        "64-bit integers",
        "(double)(((long)a * (long)b) / (long)c)",
        _D,
        [(2.0**40 + 1, 3, -2), (-(2.0**52), 512, 7)],
        [-1649267441665, float(-(2**61 // 7))],
    ),
)
COUNTED = 4096  # work items that count together


def text() -> str:
    """The program of all checks, a kernel for those of each dtype, and of the count. `a`, `b` and `c` come from memory."""
    made = [PRELUDE]
    for dtype, kind in ((_F, "float"), (_D, "double")):
        body = []
        first = 0
        for check in CHECKS:
            if check.dtype == dtype:
                past = first + len(check.operands)
                line = f"{kind} a = x[3 * i], b = x[3 * i + 1], c = x[3 * i + 2]; y[i] = {check.expression};"
                body.append(f"  for (int i = {first}; i < {past}; ++i) {{ {line} }}")
                first = past
        made += [f"kernel void of_{dtype}(global const {kind} *x, global {kind} *y) {{", *body, "}"]
    made.append("kernel void counted(global int *n) { atomic_inc((volatile global int *)n); }")
    return "\n".join(made)


def failures(run: Callable[[str, NDArray[Any], NDArray[Any], int], None]) -> list[str]:
    """The names of the checks that fail. run: a kernel by name, its input, its output, and the number of work items."""
    found = []
    for dtype in (_F, _D):
        checks = [check for check in CHECKS if check.dtype == dtype]
        operands = np.array([x for check in checks for x in check.operands], dtype)
        wanted = np.array([x for check in checks for x in check.results], dtype)
        made = np.full(len(wanted), 7, dtype)
        if checks:
            run(f"of_{dtype}", operands, made, 1)
        bits = f"u{wanted.itemsize}"
        right = (made.view(bits) == wanted.view(bits)) | (np.isnan(made) & np.isnan(wanted))
        first = 0
        for check in checks:
            past = first + len(check.operands)
            found += [] if right[first:past].all() else [check.name]
            first = past
    count = np.zeros(1, np.int32)
    run("counted", count[:0], count, COUNTED)
    return [*found, "atomic counts"] if count[0] != COUNTED else found
