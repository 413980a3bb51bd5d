"""The error bounds of running sums and products: what kernels claim of each element, beside the exact result.

A sum that is stored as exact claims a bound of 0. `python tests/kernels/scan/test_scan_bounds.py` prints the table of records.
"""

from __future__ import annotations

import sys
from collections.abc import Callable

import numpy as np
import pytest

import oracle
from anydml.kernels.code import llvm
from bound_cases import Array, Case, Inputs, Rng, about_one, cancelling, check, normal, outlier, printed, wide

pytestmark = pytest.mark.skipif(llvm.unavailable() is not None, reason="there is no LLVM here")

Rows = Callable[..., Array]
KINDS = {"SUMMATION": "sum", "PRODUCT": "product"}


def running(name: str, make: Rows, *sizes: int, exclusive: bool = False, back: bool = False, half: bool = False) -> Case:
    """Lines along the first of a candidate's sizes."""
    fields = {
        "axis": 1, "axis_direction": "DECREASING" if back else "INCREASING", f"has_exclusive_{KINDS[name]}": exclusive,
    }  # fmt: skip

    def inputs(rng: Rng) -> Inputs:
        x = make(rng, *sizes)
        return {"input_tensor": x.astype(np.float16) if half else x}

    return Case(
        f"CUMULATIVE_{name}", "scan:compiled", oracle.cumulative, fields, inputs, lambda x: x["input_tensor"].shape,
        stages=("first",), rounds=1,
    )  # fmt: skip


def far(rng: Rng, *sizes: int) -> Array:
    """Of sizes too different for float64 to hold the sum."""
    return wide(rng, *sizes, least=-60, most=60)


def behind(rng: Rng, *sizes: int) -> Array:
    """Elements of one size behind one so large that two float64 hold the sum."""
    found = cancelling(rng, *sizes)
    found[..., 0] *= 2.0**31
    return found


def rising(rng: Rng, *sizes: int) -> Array:
    """Elements of one size, then of a larger one, so that float64 holds the sums of a block and not those of a line."""
    found: Array = (normal(rng, *sizes) * 2.0 ** (16 * (np.arange(sizes[0]) * 3 // sizes[0]))).astype(np.float32)
    return found


CASES = {
    "contiguous": running("SUMMATION", normal, 100),
    "contiguous of wide elements": running("SUMMATION", wide, 100),
    "contiguous of far elements": running("SUMMATION", far, 100),
    "contiguous behind an outlier": running("SUMMATION", outlier, 100),
    "contiguous in two float64": running("SUMMATION", behind, 300),
    "contiguous of rising elements": running("SUMMATION", rising, 300),
    "contiguous that cancel": running("SUMMATION", cancelling, 100),
    "from the end": running("SUMMATION", wide, 70, back=True),
    "exclusive": running("SUMMATION", far, 70, exclusive=True),
    "short": running("SUMMATION", far, 9),
    "side by side": running("SUMMATION", normal, 30, 9),
    "side by side of wide elements": running("SUMMATION", wide, 30, 9),
    "side by side of far elements": running("SUMMATION", far, 30, 9, exclusive=True),
    "of FLOAT16": running("SUMMATION", normal, 60, half=True),
    "products": running("PRODUCT", about_one, 40),
    "products of wide factors": running("PRODUCT", lambda rng, n: wide(rng, n, least=-4, most=4), 40),
    "products side by side": running("PRODUCT", normal, 30, 9),
    "products of FLOAT16": running("PRODUCT", about_one, 40, half=True),
}
# of the first stage, in vectors of 2, 4 and 8 float64
RECORDS: dict[str, tuple[float, ...]] = {
    "contiguous": (0, 0, 0),
    "contiguous of wide elements": (1, 1, 1),
    "contiguous of far elements": (1, 1, 1),
    "contiguous behind an outlier": (0, 0, 0),
    "contiguous in two float64": (0, 0, 0),
    "contiguous of rising elements": (0, 0, 0),
    "contiguous that cancel": (0, 0, 0),
    "from the end": (1, 1, 1),
    "exclusive": (1, 1, 1),
    "short": (1, 1, 1),
    "side by side": (0, 0, 0),
    "side by side of wide elements": (1, 1, 1),
    "side by side of far elements": (1, 1, 1),
    "of FLOAT16": (0, 0, 0),
    "products": (0.426, 0.426, 0.426),
    "products of wide factors": (0.487, 0.487, 0.487),
    "products side by side": (0.471, 0.471, 0.471),
    "products of FLOAT16": (0.226, 0.226, 0.226),
}


@pytest.mark.parametrize("name", RECORDS)
def test_no_error_exceeds_its_bound(name: str) -> None:
    check(CASES, RECORDS, name)


def test_records_are_of_all_cases() -> None:
    assert [*RECORDS] == [*CASES]


if __name__ == "__main__":
    printed(CASES, sys.argv[1:])
