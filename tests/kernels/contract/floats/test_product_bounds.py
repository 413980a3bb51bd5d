"""The error bounds of products of floats: kernels' bounds of each element, compared with the exact result.

`python tests/kernels/contract/floats/test_product_bounds.py` prints the table of records.
"""

from __future__ import annotations

import sys
from collections.abc import Callable

import numpy as np
import pytest

import oracle
from anydml.kernels.code import llvm
from bound_cases import Array, Case, Inputs, Rng, about_one, check, halves, normal, printed, wide

pytestmark = pytest.mark.skipif(llvm.unavailable() is not None, reason="there is no LLVM here")

KERNEL = "contract.floats:compiled"
Rows = Callable[..., Array]


def product(a: Rows, b: Rows, rows: int, terms: int, columns: int, *, bias: bool = False, alpha: float = 1.0) -> Case:
    """Products of the candidates' rows with one matrix; the sizes determine which kernel computes them."""

    def inputs(rng: Rng) -> Inputs:
        found = {"a_tensor": a(rng, 1, rows, terms), "b_tensor": b(rng, 1, columns, terms).transpose(0, 1, 3, 2)}
        return found | ({"c_tensor": normal(rng, 1, rows, columns)} if bias else {})

    def sizes(inputs: Inputs) -> tuple[int, ...]:
        return (*inputs["a_tensor"].shape[:3], inputs["b_tensor"].shape[3])

    fields = dict(alpha=alpha, beta=0.75 if bias else 0.0, trans_a="NONE", trans_b="NONE")
    made = dict(alpha=alpha, beta=0.75 if bias else 0.0)
    return Case(
        "GEMM", KERNEL, oracle.contractions, made, inputs, sizes, told=fields,
        shaped=lambda inputs: {name: np.ascontiguousarray(x) for name, x in inputs.items()}, rounds=1,
    )  # fmt: skip


def convolution(
    x: Rows, f: Rows, channels: int, size: int, window: int, *, outputs: int = 4, groups: int = 1, top: int = 1
) -> Case:
    """top: lines of padding above; there is one on each other side."""
    fields = dict(
        mode="CROSS_CORRELATION", direction="FORWARD", strides=(1, 1), dilations=(1, 1), start_padding=(top, 1),
        end_padding=(1, 1), output_padding=(0, 0), group_count=groups,
    )  # fmt: skip

    def inputs(rng: Rng) -> Inputs:
        return {
            "input_tensor": x(rng, channels, size, size),
            "filter_tensor": f(rng, channels // groups, window, window)[:outputs],
        }

    def sizes(inputs: Inputs) -> tuple[int, ...]:
        side = size + 3 - window
        return (len(inputs["input_tensor"]), len(inputs["filter_tensor"]), side + top - 1, side)

    return Case(
        "CONVOLUTION", KERNEL, oracle.convolution, fields, inputs, sizes, kept=("filter_tensor",), rounds=1,
    )  # fmt: skip


def planes(x: Rows, f: Rows, window: int, **more: int) -> Case:
    """A filter for each channel: the windows of a plane, with a bound for each band of lines, and one for each element."""
    return convolution(x, f, 3, 9, window, outputs=3, groups=3, **more)._replace(stages=("first", "careful"))


CASES = {
    "matrices": product(normal, normal, 6, 40, 20),
    "matrices of wide elements": product(wide, wide, 6, 40, 20),
    "matrices with a term": product(normal, normal, 6, 40, 20, bias=True),
    "matrices with a factor": product(normal, normal, 6, 40, 20, alpha=0.625),
    "matrices of a few columns": product(normal, normal, 12, 40, 3),
    "a row": product(normal, normal, 1, 100, 40),
    "a column": product(normal, normal, 12, 100, 1),
    "long rows": product(normal, normal, 2, 1500, 8),
    "many columns": product(normal, normal, 2, 24, 200),
    "matrices stored at once": product(normal, normal, 17, 12, 24),
    "convolution": convolution(normal, normal, 3, 9, 3),
    "convolution of many channels": convolution(normal, normal, 24, 6, 3, outputs=8),
    "convolution of wide elements": convolution(wide, wide, 3, 8, 5),
    "planes": planes(normal, normal, 3),
    "planes of wide elements": planes(wide, wide, 3),
    "planes of larger windows": planes(about_one, normal, 5),
    "planes below much padding": planes(normal, normal, 3, top=4)._replace(stages=("first",)),
    "planes of FLOAT16": halves(planes(normal, normal, 3)),
    "matrices of FLOAT16": halves(product(normal, normal, 6, 40, 20)),
    "convolution of FLOAT16": halves(convolution(normal, normal, 3, 9, 3)),
}
# by stage, the first and the second, or the narrower bound of planes' first stage, in vectors of 2, 4 and 8 float64
RECORDS: dict[str, tuple[float, ...]] = {
    "matrices": (0.0119, 0.0119, 0.0119, 0, 0, 0),
    "matrices of wide elements": (0.0702, 0.0702, 0.0702, 0, 0, 0),
    "matrices with a term": (0.0117, 0.0117, 0.0117, 0.727, 0.727, 0.727),
    "matrices with a factor": (0.0125, 0.0125, 0.0125, 0.406, 0.406, 0.406),
    "matrices of a few columns": (0.0175, 0.00921, 0.00921, 0, 0, 0),
    "a row": (0.00726, 0.00726, 0.00723, 0, 0, 0),
    "a column": (0.0029, 0.00512, 0.00622, 0, 0, 0),
    "long rows": (0.000618, 0.000618, 0.000618, 0, 0, 0),
    "many columns": (0.0142, 0.0142, 0.0142, 0, 0, 0),
    "matrices stored at once": (0.0686, 0.0375, 0.0312, 0, 0, 0),
    "convolution": (0.0378, 0.0378, 0.0378, 0, 0, 0),
    "convolution of many channels": (0.00546, 0.00546, 0.00546, 0, 0, 0),
    "convolution of wide elements": (0.0664, 0.0664, 0.0664, 0, 0, 0),
    "planes": (0.0308, 0.0308, 0.0308, 0.0625, 0.0625, 0.0625),
    "planes of wide elements": (0.0838, 0.0838, 0.0838, 0.144, 0.144, 0.144),
    "planes of larger windows": (0.0137, 0.0137, 0.0137, 0.0214, 0.0214, 0.0214),
    "planes below much padding": (0.0308, 0.0308, 0.0308),
    "planes of FLOAT16": (0.0244, 0.0244, 0.0244, 0, 0, 0),
    "matrices of FLOAT16": (0, 0, 0, 0, 0, 0),
    "convolution of FLOAT16": (0, 0, 0, 0, 0, 0),
}


@pytest.mark.parametrize("name", RECORDS)
def test_no_error_exceeds_its_bound(name: str) -> None:
    check(CASES, RECORDS, name)


def test_records_are_of_all_cases() -> None:
    assert [*RECORDS] == [*CASES]


if __name__ == "__main__":
    printed(CASES, sys.argv[1:])
