"""Every FLOAT16 with every other through add, multiply, divide and max, beside float32 and one rounding.

float32 has more than twice the digits of FLOAT16 and two more, so that a sum, product or quotient of halves that is rounded
to float32 first rounds to the same half. `make prove` runs this; by name: python tools/prove_halves.py ADD MAX
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from anydml import DataType, Device, TensorDesc, operators

ROWS = 64
COUNT = 1 << 16
Halves = NDArray[np.float16]


def largest(a: NDArray[np.float32], b: NDArray[np.float32]) -> NDArray[np.float32]:
    """The larger one, NaN if either is, -0 < +0."""
    found = np.maximum(a, b)
    zeros = (a == 0) & (b == 0)
    found[zeros] = np.where(np.signbit(a) & np.signbit(b), np.float32(-0.0), np.float32(0.0))[zeros]
    return found


EXPECTED: Mapping[str, Callable[[Any, Any], Any]] = {
    "ADD": np.add,
    "MULTIPLY": np.multiply,
    "DIVIDE": np.divide,
    "MAX": largest,
}


def prove(name: str) -> int:
    """Count those of the 2^32 results that differ."""
    operator: Any = operators.find(f"ELEMENT_WISE_{name}")
    assert operator is not None
    t = TensorDesc(DataType.FLOAT16, (ROWS, COUNT))
    each = TensorDesc(DataType.FLOAT16, (ROWS, COUNT), strides=(1, 0))
    every = TensorDesc(DataType.FLOAT16, (ROWS, COUNT), strides=(0, 1))
    compiled = Device("cpu").compile(operator(a_tensor=each, b_tensor=every, output_tensor=t))
    assert compiled.kernel_name == "elementwise:compiled", compiled.kernel_name
    numbers = np.arange(COUNT, dtype=np.uint16).view(np.float16)
    wide = numbers.astype(np.float32)
    made = np.empty((ROWS, COUNT), np.float16)
    wrong = 0
    for first in range(0, COUNT, ROWS):
        a = numbers[first : first + ROWS].copy()
        compiled.bind(a_tensor=a, b_tensor=numbers, output_tensor=made).execute()
        with np.errstate(all="ignore"):
            left = np.ascontiguousarray(np.broadcast_to(wide[first : first + ROWS, None], made.shape))
            right = np.ascontiguousarray(np.broadcast_to(wide, made.shape))
            expected = EXPECTED[name](left, right).astype(np.float16)
        bits = expected.view(np.uint16)
        bits[np.isnan(expected)] = 0x7E00
        wrong += int(np.count_nonzero(bits != made.view(np.uint16)))
    return wrong


def main(names: list[str]) -> None:
    failed = False
    for name in names or EXPECTED:
        wrong = prove(name)
        failed = failed or bool(wrong)
        print(f"{name} of FLOAT16: {COUNT * COUNT} pairs, {wrong} wrong", flush=True)
    sys.exit(failed)


if __name__ == "__main__":
    main(sys.argv[1:])
