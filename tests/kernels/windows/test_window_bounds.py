"""The error bounds of windows and of nests: kernels' bounds of each element, compared with the exact result.

Sums that windows find to be exact are stored without a bound. `python tests/kernels/windows/test_window_bounds.py` prints the
table of records.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import oracle
from anydml.kernels.code import llvm
from anydml.kernels.reduce import tuning
from bound_cases import Array, Case, Rng, about_one, check, halves, normal, printed, scaled, wide

pytestmark = pytest.mark.skipif(llvm.unavailable() is not None, reason="there is no LLVM here")

KERNEL = "windows:compiled"
NESTS = "nests:compiled"
Rows = Callable[..., Array]


def pooled(name: str, make: Rows, size: int, window: int, **fields: Any) -> Case:
    side = size - window + 1
    own = dict(strides=(1, 1), window_size=(window, window), start_padding=(0, 0), end_padding=(0, 0), **fields)
    return Case(
        name, KERNEL, oracle.pooling, own, lambda rng: {"input_tensor": make(rng, 1, size, size)},
        lambda inputs: (len(inputs["input_tensor"]), 1, side, side), rounds=1, open=0.6,
    )  # fmt: skip


def far(rng: Rng, *sizes: int) -> Array:
    """Of sizes too different for float64 to hold their sum."""
    return wide(rng, *sizes, least=-60, most=60)


def opposite(rng: Rng, *sizes: int) -> Array:
    """Pairs that cancel, but for those of small elements, which roundings of sums are large beside."""
    half = far(rng, *sizes[:-1], sizes[-1] // 2)
    found: Array = np.concatenate([half, np.where(abs(half) < 1, half, -half)], axis=-1)
    return np.ascontiguousarray(found[..., rng.permutation(sizes[-1])])


def resampled(mode: str, make: Rows, scale: float) -> Case:
    size = int(7 * scale)
    fields = dict(
        interpolation_mode=mode, scales=(1.0, 1.0, scale, scale), input_pixel_offsets=(0.5,) * 4,
        output_pixel_offsets=(-0.5,) * 4,
    )  # fmt: skip
    return Case(
        "RESAMPLE1", NESTS, oracle.resampling, fields, lambda rng: {"input_tensor": make(rng, 1, 7, 7)},
        lambda inputs: (len(inputs["input_tensor"]), 1, size, size), rounds=1, open=1.0,  # small outputs have no second stage
    )  # fmt: skip


def beside(make: Rows, *, across: bool) -> Case:
    """Local response normalisation."""
    fields = dict(cross_channel=across, local_size=3, alpha=0.5, beta=0.75, bias=1.0)
    return Case(
        "LOCAL_RESPONSE_NORMALIZATION", NESTS, oracle.normalization, fields,
        lambda rng: {"input_tensor": make(rng, 4, 3, 3)}, lambda inputs: inputs["input_tensor"].shape,
        rounds=1, stages=("first",),
    )  # fmt: skip


LONG = tuning.TUNING._replace(longest=1)  # rows of more elements are nests


def row(function: str, make: Rows) -> Case:
    """Rows that are too long for the family of rows."""
    return Case(
        "REDUCE", NESTS, oracle.reduce, dict(function=function, axes=(1,)), lambda rng: {"input_tensor": make(rng, 33)},
        lambda inputs: (len(inputs["input_tensor"]), 1), stages=("first",), patched=((tuning, "TUNING", LONG),),
    )  # fmt: skip


CASES = {
    "lengths": pooled("LP_POOLING", normal, 8, 3, p=2),
    "lengths of wide elements": pooled("LP_POOLING", wide, 8, 3, p=2),
    "lengths of large elements": pooled("LP_POOLING", scaled(about_one, 2.0**120), 8, 3, p=2),
    "lengths of FLOAT16": halves(pooled("LP_POOLING", normal, 8, 3, p=2)),
    "means": pooled("AVERAGE_POOLING", normal, 8, 3, include_padding=False),
    "means of four": pooled("AVERAGE_POOLING", normal, 8, 2, include_padding=False),
    "means of wide elements": pooled("AVERAGE_POOLING", wide, 8, 3, include_padding=False),
    "means of far elements": pooled("AVERAGE_POOLING", far, 8, 3, include_padding=False),
    "means of whole images": pooled("AVERAGE_POOLING", opposite, 8, 8, include_padding=False),
    "means of FLOAT16": halves(pooled("AVERAGE_POOLING", normal, 8, 3, include_padding=False)),
    "resampled": resampled("LINEAR", normal, 1.625),
    "resampled wide elements": resampled("LINEAR", wide, 1.625)._replace(all_extents=True),
    "beside channels": beside(normal, across=True),
    "beside wide channels": beside(wide, across=True),
    "beside places": beside(normal, across=False),
    "rows": row("SUM", wide),
    "roots of rows": row("L2", normal),
}
# by stage, the first and the second, in vectors of 2, 4 and 8 float64
RECORDS: dict[str, tuple[float, ...]] = {
    "lengths": (0.159, 0.159, 0.159, 0.306, 0.306, 0.306),
    "lengths of wide elements": (0.204, 0.204, 0.204, 0.345, 0.345, 0.345),
    "lengths of large elements": (0.0831, 0.0831, 0.0831, 0.167, 0.167, 0.167),
    "lengths of FLOAT16": (0.122, 0.122, 0.122, 0.228, 0.228, 0.228),
    "means": (0, 0, 0, 0, 0, 0),
    "means of four": (0, 0, 0, 0, 0, 0),
    "means of wide elements": (0.391, 0.391, 0.391, 0.391, 0.391, 0.391),
    "means of far elements": (0.396, 0.396, 0.396, 0.396, 0.396, 0.396),
    "means of whole images": (0.153, 0.164, 0.0814, 0.153, 0.164, 0.0814),
    "means of FLOAT16": (0, 0, 0, 0, 0, 0),
    "resampled": (0, 0, 0.462, 0.491, 0.491, 0.491),
    "resampled wide elements": (0.031, 0.031, 0.623, 0.808, 0.808, 0.808),
    "beside channels": (0.0363, 0.0427, 0.0427),
    "beside wide channels": (0.0326, 0.0326, 0.0326),
    "beside places": (0.0383, 0.0327, 0.0327),
    "rows": (0.358, 0.358, 0.358),
    "roots of rows": (0.304, 0.304, 0.304),
}


@pytest.mark.parametrize("name", RECORDS)
def test_no_error_exceeds_its_bound(name: str) -> None:
    check(CASES, RECORDS, name)


def test_records_are_of_all_cases() -> None:
    assert [*RECORDS] == [*CASES]


if __name__ == "__main__":
    printed(CASES, sys.argv[1:])
