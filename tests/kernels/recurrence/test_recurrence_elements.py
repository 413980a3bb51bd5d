"""The error bounds of a recurrence's elements: kernels' bounds of each element of a step, compared with the exact result.

LSTM computes outputs from states that it has stored, which are records in a probe; so its bounds are of states. `python
tests/kernels/recurrence/test_recurrence_elements.py` prints the table of records.
"""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
import pytest

import number_kernels
import oracle
from anydml import operators
from anydml.kernels.code import llvm
from anydml.kernels.code.targets import targets
from anydml.kernels.code.values import Value
from anydml.kernels.numbers.doubled.arithmetic import Precise
from anydml.kernels.numbers.functions.pairs import Pair
from anydml.kernels.recurrence import finer
from bound_cases import STAGES, Case, Inputs, Rng, about_one, cancelling, check, check_extent, normal, printed, wide

pytestmark = pytest.mark.skipif(llvm.unavailable() is not None, reason="there is no LLVM here")

KERNEL = "recurrence:compiled"
GATES = {"RNN": 1, "GRU": 3, "LSTM": 4}
FUNCTIONS = {"RNN": ("TANH",), "GRU": ("SIGMOID", "TANH"), "LSTM": ("SIGMOID", "TANH", "TANH")}


def step(name: str, make: Any = normal, size: float = 1.0, width: int = 9, *, hidden: int = 5, **how: Any) -> Case:
    """One step of many sequences. make, weights: functions that make the inputs and the weights; size: a factor of the
    inputs."""
    weights, functions = how.pop("weights", normal), how.pop("functions", FUNCTIONS[name])
    found: Any = operators.find
    descs = [found(f"ACTIVATION_{function}")() for function in functions]

    fields = dict(direction="FORWARD", **how)

    def inputs(rng: Rng) -> Inputs:
        found = {
            "input_tensor": (size * make(rng, width)).astype(np.float32),
            "hidden_init_tensor": normal(rng, hidden) / 2,
            "weight_tensor": weights(rng, GATES[name] * hidden, width)[:1, None],
            "recurrence_tensor": normal(rng, GATES[name] * hidden, hidden)[:1, None],
            "bias_tensor": normal(rng, 2 * GATES[name] * hidden)[:1, None, None],
        }
        return found | ({"cell_mem_init_tensor": normal(rng, hidden)} if name == "LSTM" else {})

    def shaped(inputs: Inputs) -> Inputs:
        return {field: x[None, None] for field, x in inputs.items()}

    return Case(
        name, KERNEL, oracle.lstm if name == "LSTM" else oracle.recurrent,
        fields | dict(activation_descs=descs), inputs,
        lambda inputs: (1, 1, inputs["input_tensor"].shape[2], hidden),
        kept=("weight_tensor", "recurrence_tensor", "bias_tensor"),
        open=0.8 if functions == ("RELU",) else 0.1,  # an element that is 0 is decided by its sign
        output="output_cell_single_tensor" if name == "LSTM" else "output_single_tensor", shaped=shaped,
        stages=STAGES, told=fields | dict(activation_descs=[(f"ACTIVATION_{function}", {}) for function in functions]),
    )  # fmt: skip


CASES = {
    "RNN": step("RNN"),
    "RNN of many inputs": step("RNN", size=0.1, width=300),
    "RNN of small sums": step("RNN", size=1e-6),
    "RNN of large sums": step("RNN", size=3.0),
    "RNN of sums that cancel": step("RNN", cancelling, weights=about_one, width=40),
    "RNN of wide inputs": step("RNN", wide),
    "RNN with a ReLU": step("RNN", functions=("RELU",)),
    "RNN with a softsign": step("RNN", functions=("SOFTSIGN",)),
    "GRU": step("GRU", linear_before_reset=False),
    "GRU of sums that cancel": step("GRU", cancelling, weights=about_one, width=40, linear_before_reset=False),
    "GRU with a linear reset": step("GRU", linear_before_reset=True),
    "GRU of large sums": step("GRU", size=3.0, linear_before_reset=True),
    "LSTM": step("LSTM"),
    "LSTM of sums that cancel": step("LSTM", cancelling, weights=about_one, width=40),
    "LSTM of large sums": step("LSTM", size=3.0),
}
# of which only the claims are compared: in shorter sums, their errors are hidden by those of functions
FORMS = {"GRU of 3,000 inputs": step("GRU", size=0.03, width=3000, linear_before_reset=False)}
# by stage, in vectors of 2, 4 and 8 float64
RECORDS: dict[str, tuple[float, ...]] = {
    "RNN": (0.031, 0.0182, 0.0182, 0.0669, 0.0669, 0.0669, 0.0186, 0.0186, 0.0186),
    "RNN of many inputs": (0.013, 0.013, 0.013, 0.000199, 0.000199, 0.000199, 0.002, 0.002, 0.002),
    "RNN of small sums": (0.0431, 0.0431, 0.0431, 0.000179, 0.000179, 0.000179, 0.0308, 0.0308, 0.0308),
    "RNN of large sums": (0.0201, 0.0201, 0.0201, 1, 1, 1, 0.0161, 0.0161, 0.0161),
    "RNN of sums that cancel": (0.0152, 0.0152, 0.0152, 0.00025, 0.00025, 0.00025, 0.000274, 0.000274, 0.000274),
    "RNN of wide inputs": (0.0149, 0.0149, 0.0149, 1, 1, 1, 0.0186, 0.0186, 0.0186),
    "RNN with a ReLU": (0.0357, 0.0357, 0.0357, 0, 0, 0, 0.0188, 0.0188, 0.0188),
    "RNN with a softsign": (0.0134, 0.0134, 0.0134, 0.00222, 0.00222, 0.00222, 0.0373, 0.0373, 0.0373),
    "GRU": (0.105, 0.105, 0.105, 0.000196, 0.000196, 0.000196, 0.018, 0.018, 0.018),
    "GRU of sums that cancel": (0.0236, 0.0236, 0.0236, 0.00018, 0.00018, 0.00018, 0.000328, 0.000545, 0.000545),
    "GRU with a linear reset": (0.094, 0.094, 0.094, 0.00014, 0.00014, 0.00014, 0.0179, 0.0179, 0.0179),
    "GRU of large sums": (0.113, 0.113, 0.113, 0.405, 0.405, 0.405, 0.016, 0.016, 0.016),
    "LSTM": (0.0395, 0.0395, 0.0395, 5.06e-05, 5.06e-05, 5.06e-05, 0.00379, 0.00379, 0.00379),
    "LSTM of sums that cancel": (0.0209, 0.0156, 0.0156, 0.000122, 0.000122, 0.000122, 0.000238, 0.000238, 0.000238),
    "LSTM of large sums": (0.108, 0.108, 0.108, 0.00363, 0.00375, 0.00375, 0.0117, 0.0117, 0.0117),
}


@pytest.mark.parametrize("name", RECORDS)
def test_no_error_exceeds_its_bound(name: str) -> None:
    check(CASES, RECORDS, name)


@pytest.mark.parametrize("name", FORMS)
def test_the_claims_of_long_sums_have_their_widths(name: str) -> None:
    check_extent(FORMS[name], name)


@pytest.mark.parametrize("guarded", [False, True])
def test_factors_are_undecided_where_sums_of_their_products_might_overflow(guarded: bool) -> None:
    """Numbers of 2^400 and more, or with such bounds, whether or not others of the same kernel are undecided."""

    def undecided(x: Value) -> Value:
        """The lanes of a number, and those of a 1 with a bound that is as large, as bits 0 and 1."""
        zero, one = x.lift(0.0), x.lift(1.0)
        guard = x.compared("olt", 0.0) if guarded else None
        found = [finer.as_factor(Precise(Pair(v, zero), err, guard))[1] for v, err in ((x, zero), (one, x.magnitude()))]
        return x.body.chosen(found[0], 1.0, zero) + x.body.chosen(found[1], 2.0, zero)

    x = np.array([0.0, 1.0, 2.0**399, 2.0**400, 2.0**500, np.inf, -1.0, -(2.0**400)])
    made = number_kernels.applied(targets()[-1], undecided, ("double", "double"), x)
    assert made.tolist() == [0, 0, 0, 3, 3, 2, 3 if guarded else 0, 3]


def test_records_are_of_all_cases() -> None:
    assert [*RECORDS] == [*CASES]


if __name__ == "__main__":
    printed(CASES, sys.argv[1:])
