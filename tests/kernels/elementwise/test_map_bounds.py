"""The error bounds of maps: kernels' bounds of each element, compared with the exact result.

Functions alone are proven for all of their arguments by `tools/prove.py`; these are formulas with several operations. `python
tests/kernels/elementwise/test_map_bounds.py` prints the table of records.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import pytest

import oracle
from anydml.kernels.code import llvm
from bound_cases import Array, Case, Inputs, Rng, about_one, check, halves, normal, printed, scaled, wide

pytestmark = pytest.mark.skipif(llvm.unavailable() is not None, reason="there is no LLVM here")

KERNEL = "elementwise:compiled"
WIDTH = 64


def of_one(name: str, make: Callable[..., Array] = normal, *, module: Any = oracle.unary, **fields: Any) -> Case:
    def inputs(rng: Rng) -> Inputs:
        return {"input_tensor": make(rng, WIDTH)}

    return Case(name, KERNEL, module, fields, inputs, lambda x: x["input_tensor"].shape, open=0.6, all_extents=True)


def of_two(
    name: str,
    a: Callable[..., Array],
    b: Callable[..., Array],
    first: str = "a",
    second: str = "b",
    module: Any = oracle.two_inputs,
) -> Case:
    def inputs(rng: Rng) -> Inputs:
        return {f"{first}_tensor": a(rng, WIDTH), f"{second}_tensor": b(rng, WIDTH)}

    return Case(name, KERNEL, module, {}, inputs, lambda x: x[f"{first}_tensor"].shape, open=0.6, all_extents=True)


CASES = {
    **{name.lower(): of_one(f"ELEMENT_WISE_{name}") for name in ("SIN", "COS", "TANH", "ERF", "ATAN", "SINH")},
    "acosh": of_one("ELEMENT_WISE_ACOSH", lambda rng, n: 2 + abs(normal(rng, n))),
    "exp": of_one("ELEMENT_WISE_EXP", scaled(normal, 20.0), module=oracle.elementwise),
    "log near 1": of_one("ELEMENT_WISE_LOG", about_one),
    "log": of_one("ELEMENT_WISE_LOG", lambda rng, n: abs(wide(rng, n))),
    "tan": of_one("ELEMENT_WISE_TAN", wide),
    "sigmoid": of_one("ACTIVATION_SIGMOID", scaled(normal, 8.0), module=oracle.activation),
    "softplus": of_one("ACTIVATION_SOFTPLUS", module=oracle.activation, steepness=1.5),
    "gelu": of_one("ACTIVATION_GELU", module=oracle.activation),
    "quotient": of_two("ELEMENT_WISE_DIVIDE", normal, wide),
    "tanh of FLOAT16": halves(of_one("ELEMENT_WISE_TANH")),
    "exp of FLOAT16": halves(of_one("ELEMENT_WISE_EXP", module=oracle.elementwise)),
    "gelu of FLOAT16": halves(of_one("ACTIVATION_GELU", module=oracle.activation)),
    "power": of_two("ELEMENT_WISE_POW", lambda rng, n: abs(wide(rng, n)), normal, "input", "exponent", oracle.unary),
}
# by stage, the first and the second, in vectors of 2, 4 and 8 float64
RECORDS: dict[str, tuple[float, ...]] = {
    "sin": (0.184, 0.48, 0.397, 0.00134, 0.00134, 0.00134),
    "cos": (0.173, 0.402, 0.359, 0.00146, 0.00146, 0.00146),
    "tanh": (0.426, 0.369, 0.279, 0.000634, 0.000634, 0.000634),
    "erf": (0.275, 0.919, 0.919, 0.00242, 0.00242, 0.00242),
    "atan": (0.458, 0.458, 0.458, 0.000849, 0.000849, 0.000849),
    "sinh": (0.568, 0.479, 0.479, 0.000795, 0.000795, 0.000795),
    "acosh": (0.098, 0.0681, 0.0681, 0.000167, 0.000167, 0.000167),
    "exp": (0.566, 0.642, 0.547, 0.000305, 0.000305, 0.000305),
    "log near 1": (0.3, 0.311, 0.311, 0.000317, 0.000317, 0.000317),
    "log": (0.202, 0.167, 0.167, 0.000292, 0.000292, 0.000292),
    "tan": (0.505, 0.505, 0.505, 0.0314, 0.0314, 0.0314),
    "sigmoid": (0.434, 0.633, 0.396, 0.624, 0.0719, 0.0719),
    "softplus": (0.548, 0.548, 0.548, 0.000675, 0.000675, 0.000675),
    "gelu": (0.446, 0.931, 0.931, 0.00151, 0.00151, 0.00151),
    "quotient": (0, 0, 0, 0.000463, 0.000463, 0.000463),
    "tanh of FLOAT16": (0.413, 0.503, 0.208, 0.000793, 0.000793, 0.000793),
    "exp of FLOAT16": (0.555, 0.545, 0.398, 0.000321, 0.000256, 0.000256),
    "gelu of FLOAT16": (0.458, 0.931, 0.931, 0.0022, 0.0022, 0.0022),
    "power": (0.0374, 0.0628, 0.402, 9.74e-05, 9.74e-05, 9.74e-05),
}


@pytest.mark.parametrize("name", RECORDS)
def test_no_error_exceeds_its_bound(name: str) -> None:
    check(CASES, RECORDS, name)


def test_records_are_of_all_cases() -> None:
    assert [*RECORDS] == [*CASES]


if __name__ == "__main__":
    printed(CASES, sys.argv[1:])
