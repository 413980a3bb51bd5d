"""The error bounds of rows: kernels' bounds of each element, compared with the exact result.

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
    check,
    halves,
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
    """A reduction to one element, with a row for each candidate."""
    return Case(
        "REDUCE", KERNEL, oracle.reduce, dict(function=function, axes=(1,)),
        lambda rng: {"input_tensor": make(rng, width)}, lambda inputs: (len(inputs["input_tensor"]), 1),
        open=0.5 if function == "LOG_SUM" else 0.1,
    )  # fmt: skip


def down(function: str, make: Rows, height: int) -> Case:
    """Columns: adjacent rows, each in its own lane."""
    return Case(
        "REDUCE", KERNEL, oracle.reduce, dict(function=function, axes=(1,)),
        lambda rng: {"input_tensor": make(rng, 8, height).transpose(0, 2, 1).copy()},
        lambda inputs: (len(inputs["input_tensor"]), 1, 8),
    )  # fmt: skip


def adding_up(rng: Rng, width: int, more: Array | float = 2.0**-26) -> Array:
    """Rows whose sums are close to 1. more: how much larger they are."""
    found = abs(about_one(rng, width)) / width
    found[:, -1] = 1 - found[:, :-1].sum(axis=1, dtype=np.float64) + more
    return found.astype(np.float32)


def around_the_limit(rng: Rng, width: int) -> Array:
    """Rows whose sums are 2^-23 to 2^-17 above 1: from 2^-20 on, logarithms are computed in another way."""
    return adding_up(rng, width, 2.0 ** np.linspace(-23, -17, len(about_one(rng, width))))


def softmax(name: str, make: Rows, width: int) -> Case:
    return Case(
        f"ACTIVATION_{name}1", KERNEL, oracle.rows, dict(axes=(1,)),
        lambda rng: {"input_tensor": make(rng, width)}, lambda inputs: inputs["input_tensor"].shape,
        open=0.7,  # shares below 2^-420 are 0, without a finer bound
    )  # fmt: skip


def normalised(make: Rows, width: int, *, affine: bool = False, epsilon: float = 2**-17, mean: bool = True) -> Case:
    fields = dict(axes=(3,), use_mean=mean, use_variance=True, epsilon=epsilon)

    def inputs(rng: Rng) -> dict[str, Array]:
        found = {"input_tensor": make(rng, 1, 1, width)}
        if affine:
            found |= {"scale_tensor": normal(rng, 1, 1, width), "bias_tensor": normal(rng, 1, 1, width) / 4}
        return found

    name = "MEAN_VARIANCE_NORMALIZATION2"
    return Case(name, KERNEL, oracle.normalization, fields, inputs, lambda inputs: inputs["input_tensor"].shape)


def cancelled() -> Case:
    """Biases that nearly cancel the elements that they are added to."""
    case = normalised(normal, 33, affine=True)

    def inputs(rng: Rng) -> dict[str, Array]:
        found = case.inputs(rng)
        x = found["input_tensor"].astype(np.float64)
        x -= x.mean(axis=3, keepdims=True)
        x /= np.sqrt((x * x).mean(axis=3, keepdims=True) + 2**-17)
        return found | {"bias_tensor": (-x * found["scale_tensor"]).astype(np.float32)}

    return case._replace(inputs=inputs)


def lp(make: Rows, width: int, p: int) -> Case:
    return Case(
        "LP_NORMALIZATION", KERNEL, oracle.normalization, dict(axis=3, epsilon=2**-17, p=p),
        lambda rng: {"input_tensor": make(rng, 1, 1, width)}, lambda inputs: inputs["input_tensor"].shape,
    )  # fmt: skip


def training(x: Rows, g: Rows, width: int, *, output: str = "") -> Case:
    """The gradients of a batch normalisation in training, of which each candidate is a channel. output: of its parameters."""
    wanted = f"output_{output}gradient_tensor"

    def inputs(rng: Rng) -> dict[str, Array]:
        found = {"input_tensor": x(rng, width), "input_gradient_tensor": g(rng, width)}
        return found | {"variance_tensor": abs(about_one(rng, 1)), "scale_tensor": normal(rng, 1)}

    def shaped(inputs: dict[str, Array]) -> dict[str, Array]:
        channels = {name: x[None, :, None] for name, x in inputs.items()}
        return channels | {"mean_tensor": np.zeros_like(channels["scale_tensor"])}

    def sizes(inputs: dict[str, Array]) -> dict[str, tuple[int, ...]]:
        names = {"": "input", "scale_": "scale", "bias_": "scale"}
        return {f"output_{name}gradient_tensor": inputs[f"{like}_tensor"].shape for name, like in names.items()}

    return Case(
        "BATCH_NORMALIZATION_TRAINING_GRAD", KERNEL, oracle.normalization, dict(epsilon=2**-17), inputs,
        lambda inputs: sizes(inputs)[wanted], output=wanted, shaped=shaped,
        beside=lambda inputs: {name: n for name, n in sizes(inputs).items() if name != wanted},
    )  # fmt: skip


LARGE, TINY = 2.0**120, 2.0**-130
CASES = {
    "sum of wide terms": reduced("SUM", wide, 33),
    "sum down": down("SUM", wide, 33),
    "long sum": reduced("SUM", partial(wide, least=-30, most=30), 5000),
    "average of wide terms": reduced("AVERAGE", wide, 100),
    "L1": reduced("L1", wide, 33),
    "L2": reduced("L2", normal, 33),
    "L2 of large terms": reduced("L2", scaled(about_one, LARGE), 12),
    "L2 of tiny terms": reduced("L2", scaled(about_one, TINY), 12),
    "sum of squares": reduced("SUM_SQUARE", normal, 33),
    "sum of wide squares": reduced("SUM_SQUARE", partial(wide, least=-20, most=20), 100),
    "product": reduced("MULTIPLY", about_one, 33),
    "product of wide factors": reduced("MULTIPLY", partial(wide, least=-4, most=4), 12),
    "product down": down("MULTIPLY", about_one, 12),
    "LOG_SUM": reduced("LOG_SUM", positive(normal), 33),
    "LOG_SUM near 1": reduced("LOG_SUM", scaled(about_one, 1 / 33), 33),
    "LOG_SUM beside 1": reduced("LOG_SUM", adding_up, 4),
    "LOG_SUM close to 1": reduced("LOG_SUM", around_the_limit, 4),
    "LOG_SUM_EXP": reduced("LOG_SUM_EXP", normal, 33),
    "LOG_SUM_EXP alike": reduced("LOG_SUM_EXP", alike, 33),
    "LOG_SUM_EXP of probabilities": reduced("LOG_SUM_EXP", lambda rng, n: np.log(abs(about_one(rng, n)) / n), 33),
    "LOG_SUM_EXP of powers": reduced("LOG_SUM_EXP", powers_of_two, 33),
    "LOG_SUM_EXP of far elements": reduced("LOG_SUM_EXP", scaled(normal, 60), 4),
    "LOG_SUM_EXP of huge elements": reduced("LOG_SUM_EXP", lambda rng, n: 1e6 + 60 * normal(rng, n), 4),
    "softmax": softmax("SOFTMAX", normal, 33),
    "softmax of two": softmax("SOFTMAX", scaled(normal, 4), 2),
    "softmax of far elements": softmax("SOFTMAX", scaled(normal, 30), 33),
    "softmax of large elements": softmax("SOFTMAX", lambda rng, n: 1e4 + normal(rng, n), 12),
    "long softmax": softmax("SOFTMAX", normal, 300),
    "log-softmax": softmax("LOG_SOFTMAX", normal, 33),
    "log-softmax alike": softmax("LOG_SOFTMAX", alike, 12),
    "log-softmax of far elements": softmax("LOG_SOFTMAX", scaled(normal, 30), 33),
    "normalised": normalised(normal, 33),
    "normalised of an outlier": normalised(outlier, 97),
    "normalised alike": normalised(alike, 33),
    "normalised of wide elements": normalised(partial(wide, least=-20, most=20), 33, epsilon=2**-30),
    "normalised with a scale and a bias": normalised(normal, 33, affine=True),
    "normalised alike with a scale and a bias": normalised(partial(alike, apart=1e-2), 12, affine=True),
    "normalised with a bias that cancels": cancelled(),
    "normalised without a mean": normalised(normal, 33, mean=False),
    "LP normalised": lp(normal, 33, 2),
    "LP normalised by magnitudes": lp(wide, 33, 1),
    "training": training(normal, normal, 33),
    "training alike": training(alike, alike, 33),
    "training of a scale": training(normal, alike, 33, output="scale_"),
    "L2 of FLOAT16": halves(reduced("L2", normal, 33)),
    "LOG_SUM_EXP of FLOAT16": halves(reduced("LOG_SUM_EXP", normal, 33)),
    "softmax of FLOAT16": halves(softmax("SOFTMAX", normal, 33)),
    "log-softmax of FLOAT16": halves(softmax("LOG_SOFTMAX", normal, 33)),
    "normalised FLOAT16": halves(normalised(normal, 33, affine=True)),
    "normalised FLOAT16 alone": halves(normalised(normal, 33)),
    "normalised FLOAT16 alike": halves(normalised(partial(alike, apart=0.25), 12, affine=True)),
    "normalised FLOAT16 alike, alone": halves(normalised(partial(alike, apart=0.25), 12)),
}
# by stage, the first and the second, in vectors of 2, 4 and 8 float64
RECORDS: dict[str, tuple[float, ...]] = {
    "sum of wide terms": (0.0469, 0.0469, 0.0449, 0, 0, 0),
    "sum down": (0.016, 0.016, 0.016, 0, 0, 0),
    "long sum": (0.0039, 0.00326, 0.00653, 0, 0, 0),
    "average of wide terms": (0.0564, 0.0511, 0.0534, 0.24, 0.24, 0.24),
    "L1": (0.0901, 0.0615, 0.0615, 0, 0, 0),
    "L2": (0.0954, 0.0702, 0.0702, 0.245, 0.232, 0.232),
    "L2 of large terms": (0.0723, 0.0348, 0.0348, 0.135, 0.262, 0.262),
    "L2 of tiny terms": (0.0701, 0.0336, 0.0336, 0.149, 0.162, 0.162),
    "sum of squares": (0.0533, 0.108, 0.0712, 0, 0, 0),
    "sum of wide squares": (0.0541, 0.0732, 0.0717, 0, 0, 0),
    "product": (0.0566, 0.0804, 0.0479, 0.000203, 0.000213, 0.000141),
    "product of wide factors": (0.122, 0.122, 0.122, 0.00233, 0.000989, 0.000989),
    "product down": (0.194, 0.194, 0.194, 0.0028, 0.0028, 0.0028),
    "LOG_SUM": (0.0242, 0.0242, 0.0233, 0.047, 0.047, 0.047),
    "LOG_SUM near 1": (0.0076, 0.0076, 0.0073, 0.247, 0.247, 0.247),
    "LOG_SUM beside 1": (0.00488, 0.00474, 0.00457, 0.181, 0.181, 0.181),
    "LOG_SUM close to 1": (0.00614, 0.00592, 0.00572, 0.25, 0.25, 0.25),
    "LOG_SUM_EXP": (0.0462, 0.034, 0.108, 0.000325, 0.000314, 0.000314),
    "LOG_SUM_EXP alike": (0.222, 0.222, 0.0891, 0.000155, 0.000154, 0.000154),
    "LOG_SUM_EXP of probabilities": (0.0876, 0.075, 0.12, 5.12e-06, 4.31e-07, 4.31e-07),
    "LOG_SUM_EXP of powers": (0.245, 0.245, 0.245, 2.25e-08, 3.15e-08, 3.15e-08),
    "LOG_SUM_EXP of far elements": (0.219, 0.219, 0.219, 0.0125, 0.0125, 0.0125),
    "LOG_SUM_EXP of huge elements": (0.0897, 0.0897, 0.0897, 0.292, 0.292, 0.292),
    "softmax": (0.122, 0.129, 0.278, 7.56e-05, 6.95e-05, 6.95e-05),
    "softmax of two": (0.112, 0.0964, 0.342, 8.93e-05, 8.7e-05, 8.7e-05),
    "softmax of far elements": (0.134, 0.158, 0.522, 8.86e-05, 9.74e-05, 9.74e-05),
    "softmax of large elements": (0.158, 0.117, 0.44, 8.06e-05, 8.79e-05, 8.79e-05),
    "long softmax": (0.0933, 0.1, 0.227, 0.00011, 9.84e-05, 9.84e-05),
    "log-softmax": (0.0391, 0.0289, 0.0924, 0.0416, 0.0383, 0.0949),
    "log-softmax alike": (0.0397, 0.0275, 0.047, 0.0392, 0.0174, 0.0471),
    "log-softmax of far elements": (0.116, 0.116, 0.294, 0.115, 0.117, 0.321),
    "normalised": (0.0221, 0.0186, 0.0182, 0.00151, 0.00139, 0.00139),
    "normalised of an outlier": (0.0133, 0.00459, 0.00723, 1.54e-05, 0.000179, 0.000179),
    "normalised alike": (0.378, 0.678, 0.678, 0.993, 0.993, 0.993),
    "normalised of wide elements": (0.0171, 0.0152, 0.0149, 0.000327, 0.000474, 0.000574),
    "normalised with a scale and a bias": (0.016, 0.0114, 0.0112, 0.00195, 0.00635, 0.00635),
    "normalised alike with a scale and a bias": (0.287, 0.42, 0.42, 0.786, 0.786, 0.786),
    "normalised with a bias that cancels": (0.0195, 0.0183, 0.0179, 0.0014, 0.0014, 0.0014),
    "normalised without a mean": (0.15, 0.15, 0.105, 0.00192, 0.00137, 0.00137),
    "LP normalised": (0.0782, 0.118, 0.118, 0.00163, 0.000937, 0.000937),
    "LP normalised by magnitudes": (0.0893, 0.0829, 0.0829, 0.00305, 0.00226, 0.00226),
    "training": (0.037, 0.0362, 0.0355, 0.0023, 0.00217, 0.00217),
    "training alike": (0.579, 0.579, 0.579, 0.00104, 0.00104, 0.00104),
    "training of a scale": (0.00471, 0.00357, 0.00347, 0.000994, 0.00115, 0.00115),
    "L2 of FLOAT16": (0.0432, 0.0432, 0.0432, 0.213, 0.201, 0.201),
    "LOG_SUM_EXP of FLOAT16": (0.0537, 0.0563, 0.0949, 0.000245, 0.000283, 0.000283),
    "softmax of FLOAT16": (0.12, 0.148, 0.275, 0.000114, 8.24e-05, 8.24e-05),
    "log-softmax of FLOAT16": (0.0472, 0.035, 0.0916, 0.0368, 0.0429, 0.0892),
    "normalised FLOAT16": (0.496, 0.514, 0.514, 0.00431, 0.00431, 0.00431),
    "normalised FLOAT16 alone": (0.536, 0.47, 0.47, 0.00167, 0.00125, 0.00125),
    "normalised FLOAT16 alike": (0.575, 0.576, 0.576, 0.0874, 0.0875, 0.0875),
    "normalised FLOAT16 alike, alone": (0.577, 0.457, 0.457, 0.0872, 0.0872, 0.0872),
}


@pytest.mark.parametrize("name", RECORDS)
def test_no_error_exceeds_its_bound(name: str) -> None:
    check(CASES, RECORDS, name)


def test_records_are_of_all_cases() -> None:
    assert [*RECORDS] == [*CASES]


if __name__ == "__main__":
    printed(CASES, sys.argv[1:])
