"""Maps of FLOAT16 and BFLOAT16 by operations and pairs of float32: of all arguments, or beside the oracle."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import anydml as dml
from agreement import SOAK, expected
from anydml import DataType, TensorDesc
from anydml.kernels.code import targets
from every_kernel import Ran, run

ISAS = [target.name for target in targets.targets()]
TYPES = (DataType.FLOAT16, DataType.BFLOAT16)
FUNCTIONS: list[Any] = [
    dml.element_wise_exp,
    dml.element_wise_tanh,
    dml.activation_sigmoid,
    dml.element_wise_log,
    dml.element_wise_erf,
    dml.activation_gelu,
    dml.activation_swish,
    dml.element_wise_sqrt,
    dml.element_wise_recip,
    dml.element_wise_sin,
]
SAMPLED = (1, 2, 5, 9, 16)  # of functions and types; EXP and the sigmoid of BFLOAT16 begin with less than a pair
OPERATORS: list[Any] = [dml.ElementWiseAdd, dml.ElementWiseSubtract, dml.ElementWiseMultiply, dml.ElementWiseDivide]


@pytest.mark.filterwarnings("ignore::anydml.PerformanceWarning")  # of elements that the second stage leaves
def test_functions_of_all_arguments_are_those_of_the_second_stage(ran: Ran) -> None:
    """By default, a few functions of each type; in `make soak`, all on every instruction set."""
    every, outputs = np.arange(1 << 16, dtype=np.uint16), 0
    for turn, (data_type, function) in enumerate((t, f) for f in FUNCTIONS for t in TYPES):
        if SOAK == 1 and turn not in SAMPLED:
            continue
        x = every.view(data_type.name.lower())
        second = dml.Device(threads=1, stage="second", feature_level="EXTENDED")
        wanted = function(x, device=second).view(np.uint16)
        for isa in ISAS if SOAK > 1 else ISAS[-1:]:
            made = function(x, device=dml.Device(threads=1, isa=isa, feature_level="EXTENDED")).view(np.uint16)
            assert np.array_equal(made, wanted), (data_type, function.__name__, isa)
            outputs += x.size
    ran(outputs, len(SAMPLED) << 16)


def _operands(rng: np.random.Generator, count: int) -> tuple[Any, Any]:
    """Any bits; numbers near each other; small ones with any others; numbers of few digits, for ties."""
    a, b = (rng.integers(0, 1 << 16, count, np.uint16, endpoint=False) for _ in "ab")
    near = a + rng.integers(0, 1 << 12, count, np.uint16) - np.uint16(1 << 11) ^ rng.choice([0, 1 << 15], count).astype(
        np.uint16
    )
    small, few = (rng.integers(0, 700, (2, count))).astype(np.uint16), (b & 0xFFE0)
    return np.concatenate([a, a, small[0], small[0], few]), np.concatenate([b, near, small[1], b, a & 0xFFE0])


@pytest.mark.parametrize("data_type", TYPES)
def test_operations_are_rounded_once(data_type: DataType, ran: Ran) -> None:
    outputs = 0
    for number, operator in enumerate(OPERATORS):
        for turn in range(SOAK):
            one, two = _operands(np.random.default_rng([number, turn]), 300)
            t = TensorDesc(data_type, one.shape)
            desc = operator(a_tensor=t, b_tensor=t, output_tensor=t)
            dtype = data_type.dtype
            inputs = {"a_tensor": one.view(dtype), "b_tensor": two.view(dtype)}
            isa = ISAS[(number + turn) % len(ISAS)]
            made = {"output_tensor": np.zeros(one.shape, dtype)}
            run(dml.Device(isa=isa, feature_level="EXTENDED").compile(desc), inputs, made)
            assert made["output_tensor"].tobytes() == expected(desc, inputs)["output_tensor"].tobytes(), (operator, isa)
            outputs += one.size
    ran(outputs, 6000)
