"""Every operator of TensorFlow Lite against fractions and gmpy2, and the operators that DirectML lacks."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import anydml as dml
import anydml.tflite
from anydml.tflite.mapping import MAPPINGS
from anydml.tflite.operators import OPERATORS
from every_kernel import SOAK, Ran
from lite_cases import CASES, Case


@pytest.mark.parametrize("group", range(8))
def test_results_are_the_mathematics_rounded_once(group: int, ran: Ran) -> None:
    """Cases share compiled kernels, so that a test has many."""
    mine = CASES[group * len(CASES) // 8 : (group + 1) * len(CASES) // 8]
    for case in mine:
        for seed in range(SOAK):
            check(case, seed)
    ran(len(mine) * SOAK, 16 * SOAK)


def check(case: Case, seed: int) -> None:
    file, inputs, due = case.made(seed)
    found = anydml.tflite.load(file).run(inputs)
    for name, x in due.items():
        assert found[name].dtype == x.dtype, case.name
        np.testing.assert_array_equal(found[name], x, case.name)


def test_most_operators_have_a_case() -> None:
    lacking = MAPPINGS.keys() - {case.operator for case in CASES}
    assert len(lacking) < 40, sorted(lacking)


@pytest.mark.parametrize("desc", OPERATORS, ids=lambda cls: str(cls.__name__))
def test_the_examples_of_operators_that_directml_lacks(desc: Any) -> None:
    for example in desc.spec.examples:
        for name in ("cpu", "reference"):
            out = np.zeros(example.output.shape, example.output.dtype)
            compiled = dml.Device(name).compile(desc(**example.fields))
            compiled.bind(**example.inputs, output_tensor=out).execute()
            np.testing.assert_array_equal(out, example.output, f"{name}: {example.title}")
