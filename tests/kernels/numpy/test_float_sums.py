"""Exact sums of floats in NumPy, and expanded squares of differences from a mean: compared with fractions and the oracle."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pytest

import anydml as dml
import hostile_data
from agreement import SOAK, expected
from anydml import TensorDesc, operators
from anydml.kernels.evaluate.expanded import expanded
from anydml.kernels.evaluate.float_sums import total
from anydml.schema.expression import Mean, Tensor, each, over
from anydml.schema.traversal import walk
from anydml.tensor import DataType


def test_a_sum_is_that_of_fractions(ran: Any) -> None:
    count = 0
    for case in range(60 * SOAK):
        rng = np.random.default_rng(case)
        x = hostile_data.values(
            ("FLOAT32", "FLOAT16")[case % 2], int(rng.choice((1, 70, 900))), rng, hostile_data.KINDS[case % 6]
        )
        wide = x[np.isfinite(x)].astype(np.float64)
        for values, places in ((wide, 149), (wide * wide, 298)):
            if len(values):
                assert total(values, places) == sum(map(Fraction, values.tolist())) * 2**places
                count += 1
    ran(count, 100)


def test_squares_about_a_number_are_multiplied_out_where_it_is_the_same_for_all() -> None:
    i = each((3, 80))
    x, m = (Tensor(name, (3, 80), DataType.FLOAT32) for name in "xm")
    k = over(i, (3, 80), (1,))
    mean = Mean(k, x[k])
    assert sum(e.op == "reduce" for e in walk(expanded(Mean(k, (x[k] - mean) * (x[k] - mean))))) == 2
    for body in ((x[k] - m[k]) * (x[k] - m[k]), (x[k] - mean) * (x[k] + mean), (x[i] - mean) * (x[i] - mean)):
        assert expanded(Mean(k, body)) is Mean(k, body)


@pytest.mark.parametrize("kind", hostile_data.KINDS)
def test_a_normalisation_by_the_reference_is_the_oracle_s(kind: str, ran: Any) -> None:
    """Rows that are long enough for sums in NumPy, some with infinities and NaN, and rows of zeros."""
    operator: Any = operators.find("MEAN_VARIANCE_NORMALIZATION1")
    rng = np.random.default_rng(len(kind))
    t, one = TensorDesc(DataType.FLOAT32, (4, 90)), TensorDesc(DataType.FLOAT32, (1, 90))
    desc = operator(
        input_tensor=t, scale_tensor=one, bias_tensor=one, output_tensor=t, axes=(1,), normalize_variance=True, epsilon=1e-5
    )
    inputs = {"input_tensor": hostile_data.values("FLOAT32", t.sizes, rng, kind)}
    inputs["input_tensor"][0] = (-0.0, 0.0)[len(kind) % 2]
    inputs |= {name: hostile_data.values("FLOAT32", one.sizes, rng, "ordinary") for name in ("scale_tensor", "bias_tensor")}
    output = np.empty(t.sizes, np.float32)
    dml.Device("reference").compile(desc).bind(**inputs, output_tensor=output).execute()
    np.testing.assert_array_equal(output.view(np.uint32), expected(desc, inputs)["output_tensor"].view(np.uint32))
    ran(output.size, 360)
