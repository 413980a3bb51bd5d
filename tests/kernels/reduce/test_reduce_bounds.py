"""The error bounds of rows: what kernels claim of each element, beside the exact result.

`python tests/kernels/reduce/test_reduce_bounds.py` prints the table of records.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import partial

import numpy as np
import pytest

import oracle
from anydml.kernels.code import llvm
from bound_cases import (
    Array,
    Case,
    Rng,
    about_one,
    alike,
    cancelling,
    check,
    normal,
    outlier,
    powers_of_two,
    printed,
    scaled,
    wide,
)

pytestmark = pytest.mark.skipif(llvm.unavailable() is not None, reason="there is no LLVM here")

KERNEL = "reduce:compiled"
Rows = Callable[..., Array]


def positive(make: Rows) -> Rows:
    return lambda rng, *sizes: abs(make(rng, *sizes))


def reduced(function: str, make: Rows, width: int) -> Case:
    """A row of each candidate that comes to one element."""
    return Case(
        "REDUCE", KERNEL, oracle.reduce, dict(function=function, axes=(1,)),
        lambda rng: {"input_tensor": make(rng, width)}, lambda inputs: (len(inputs["input_tensor"]), 1),
        open=0.5 if function == "LOG_SUM" else 0.1,
    )  # fmt: skip


def down(function: str, make: Rows, height: int) -> Case:
    """Columns: rows that lie beside each other, each in a lane of its own."""
    return Case(
        "REDUCE", KERNEL, oracle.reduce, dict(function=function, axes=(1,)),
        lambda rng: {"input_tensor": make(rng, 8, height).transpose(0, 2, 1).copy()},
        lambda inputs: (len(inputs["input_tensor"]), 1, 8),
    )  # fmt: skip


def softmax(name: str, make: Rows, width: int) -> Case:
    return Case(
        f"ACTIVATION_{name}1", KERNEL, oracle.activation, dict(axes=(1,)),
        lambda rng: {"input_tensor": make(rng, width)}, lambda inputs: inputs["input_tensor"].shape,
    )  # fmt: skip


def normalised(make: Rows, width: int, *, affine: bool = False, epsilon: float = 1e-5, mean: bool = True) -> Case:
    fields = dict(axes=(3,), use_mean=mean, use_variance=True, epsilon=epsilon)

    def inputs(rng: Rng) -> dict[str, Array]:
        found = {"input_tensor": make(rng, 1, 1, width)}
        if affine:
            found |= {"scale_tensor": normal(rng, 1, 1, width), "bias_tensor": normal(rng, 1, 1, width) / 4}
        return found

    name = "MEAN_VARIANCE_NORMALIZATION2"
    return Case(name, KERNEL, oracle.normalization, fields, inputs, lambda inputs: inputs["input_tensor"].shape)


def lp(make: Rows, width: int, p: int) -> Case:
    return Case(
        "LP_NORMALIZATION", KERNEL, oracle.normalization, dict(axis=3, epsilon=1e-5, p=p),
        lambda rng: {"input_tensor": make(rng, 1, 1, width)}, lambda inputs: inputs["input_tensor"].shape,
    )  # fmt: skip


LARGE, TINY = 2.0**120, 2.0**-130
CASES = {
    "sum of wide terms": reduced("SUM", wide, 33),
    "sum that cancels": reduced("SUM", partial(wide, least=-60, most=60), 300),
    "sum down": down("SUM", wide, 33),
    "long sum": reduced("SUM", partial(wide, least=-30, most=30), 5000),
    "average": reduced("AVERAGE", normal, 33),
    "average of wide terms": reduced("AVERAGE", wide, 100),
    "L1": reduced("L1", wide, 33),
    "L2": reduced("L2", normal, 33),
    "L2 of wide terms": reduced("L2", partial(wide, least=-20, most=20), 33),
    "L2 of large terms": reduced("L2", scaled(about_one, LARGE), 12),
    "L2 of tiny terms": reduced("L2", scaled(about_one, TINY), 12),
    "sum of squares": reduced("SUM_SQUARE", normal, 33),
    "sum of wide squares": reduced("SUM_SQUARE", partial(wide, least=-20, most=20), 100),
    "product": reduced("MULTIPLY", about_one, 33),
    "product of wide factors": reduced("MULTIPLY", partial(wide, least=-4, most=4), 12),
    "product down": down("MULTIPLY", about_one, 12),
    "LOG_SUM": reduced("LOG_SUM", positive(normal), 33),
    "LOG_SUM near 1": reduced("LOG_SUM", scaled(about_one, 1 / 33), 33),
    "LOG_SUM of wide terms": reduced("LOG_SUM", positive(wide), 33),
    "LOG_SUM_EXP": reduced("LOG_SUM_EXP", normal, 33),
    "LOG_SUM_EXP alike": reduced("LOG_SUM_EXP", alike, 33),
    "LOG_SUM_EXP of probabilities": reduced("LOG_SUM_EXP", lambda rng, n: np.log(abs(about_one(rng, n)) / n), 33),
    "LOG_SUM_EXP of powers": reduced("LOG_SUM_EXP", powers_of_two, 33),
    "softmax": softmax("SOFTMAX", normal, 33),
    "softmax alike": softmax("SOFTMAX", alike, 12),
    "softmax of two": softmax("SOFTMAX", scaled(normal, 4), 2),
    "softmax of far elements": softmax("SOFTMAX", scaled(normal, 30), 33),
    "softmax of large elements": softmax("SOFTMAX", lambda rng, n: 1e4 + normal(rng, n), 12),
    "long softmax": softmax("SOFTMAX", normal, 2000),
    "log-softmax": softmax("LOG_SOFTMAX", normal, 33),
    "log-softmax alike": softmax("LOG_SOFTMAX", alike, 12),
    "log-softmax of far elements": softmax("LOG_SOFTMAX", scaled(normal, 30), 33),
    "normalised": normalised(normal, 33),
    "normalised of an outlier": normalised(outlier, 97),
    "normalised alike": normalised(alike, 33),
    "normalised of wide elements": normalised(partial(wide, least=-20, most=20), 33, epsilon=1e-9),
    "normalised with a scale and a bias": normalised(normal, 33, affine=True),
    "normalised alike with a scale and a bias": normalised(partial(alike, apart=1e-2), 12, affine=True),
    "normalised without a mean": normalised(normal, 33, mean=False),
    "LP normalised": lp(normal, 33, 2),
    "LP normalised by magnitudes": lp(wide, 33, 1),
}
RECORDS: dict[str, tuple[float, ...]] = {}


@pytest.mark.parametrize("name", RECORDS)
def test_no_error_exceeds_its_bound(name: str) -> None:
    check(CASES, RECORDS, name)


def test_records_are_of_all_cases() -> None:
    assert [*RECORDS] == [*CASES]


if __name__ == "__main__":
    printed(CASES, sys.argv[1:])
