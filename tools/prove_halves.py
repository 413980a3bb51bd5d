"""Compares add, multiply, divide and max of all pairs of FLOAT16 with float32 operations and one rounding.

float32 has more than twice the digits of FLOAT16 plus two, so that a sum, product or quotient of halves rounds to the same half
even if it is rounded to float32 first. `make prove` runs it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from anydml import DataType, Device, TensorDesc, operators
from anydml.devices.compiled import CompiledOperator

ROWS = 64
COUNT = 1 << 16
PARTS = 64
Halves = NDArray[np.float16]


def largest(a: NDArray[np.float32], b: NDArray[np.float32]) -> NDArray[np.float32]:
    """The larger one, NaN if either is, -0 < +0."""
    found = np.maximum(a, b)
    zeros = (a == 0) & (b == 0)
    found[zeros] = np.where(np.signbit(a) & np.signbit(b), np.float32(-0.0), np.float32(0.0))[zeros]
    return found


EXPECTED: Mapping[str, Callable[[Any, Any], Any]] = {
    "add": np.add,
    "multiply": np.multiply,
    "divide": np.divide,
    "max": largest,
}


@cache
def compiled_for(name: str, isa: str) -> CompiledOperator:
    operator: Any = operators.find(f"ELEMENT_WISE_{name.upper()}")
    t = TensorDesc(DataType.FLOAT16, (ROWS, COUNT))
    each = TensorDesc(DataType.FLOAT16, (ROWS, COUNT), strides=(1, 0))
    every = TensorDesc(DataType.FLOAT16, (ROWS, COUNT), strides=(0, 1))
    compiled = Device("cpu", isa=isa, threads=1).compile(operator(a_tensor=each, b_tensor=every, output_tensor=t))
    assert compiled.kernel_name == "elementwise:compiled", compiled.kernel_name
    return compiled


def part(name: str, isa: str, at: int) -> dict[str, Any]:
    """The counts of a part: some first elements, each with every second one."""
    numbers = np.arange(COUNT, dtype=np.uint16).view(np.float16)
    wide = numbers.astype(np.float32)
    made = np.empty((ROWS, COUNT), np.float16)
    wrong, examples = 0, list[str]()
    first_of_all = at * (COUNT // PARTS)
    for first in range(first_of_all, first_of_all + COUNT // PARTS, ROWS):
        a = numbers[first : first + ROWS].copy()
        compiled_for(name, isa).bind(a_tensor=a, b_tensor=numbers, output_tensor=made).execute()
        with np.errstate(all="ignore"):
            left = np.ascontiguousarray(np.broadcast_to(wide[first : first + ROWS, None], made.shape))
            right = np.ascontiguousarray(np.broadcast_to(wide, made.shape))
            expected = EXPECTED[name](left, right).astype(np.float16)
        bits = expected.view(np.uint16)
        bits[np.isnan(expected)] = 0x7E00
        different = np.argwhere(bits != made.view(np.uint16))
        wrong += len(different)
        examples += [f"{first + i:04x} and {j:04x}" for i, j in different[:1].tolist()]
    return {"pairs": COUNT // PARTS * COUNT, "wrong": wrong, "examples": examples}
