"""Products of 8-bit integers whose sums become floats, compared with the oracle bit by bit."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest

import oracle
from anydml import DataType, Device, MatrixMultiplyIntegerToFloat, TensorDesc, check
from anydml.kernels.code.targets import targets
from anydml.kernels.contract.family import contraction
from anydml.kernels.kernel import Machine
from anydml.kernels.problem import problem_of
from every_kernel import run

by_target = pytest.mark.parametrize("isa", [target.name for target in targets()])


def test_the_first_example_is_compiled() -> None:
    example = MatrixMultiplyIntegerToFloat.spec.examples[0]
    assert Device().compile(MatrixMultiplyIntegerToFloat(**example.fields)).kernel_name == "contract:compiled"


def to_float(rng: np.random.Generator, dtype: Any, m: int, k: int, n: int, batch: tuple[int, ...]) -> dict[str, Any]:
    a, b = (np.dtype(t) for t in rng.choice(("u1", "i1"), 2))

    def integers(t: Any, *sizes: int) -> Any:
        return rng.integers(np.iinfo(t).min, np.iinfo(t).max, sizes, t, endpoint=True)

    ones = (1,) * len(batch)
    return dict(
        a_tensor=integers(a, *batch, m, k), a_scale_tensor=rng.normal(0, 0.01, (*ones, m, 1)).astype(dtype),
        a_zero_point_tensor=integers(a, *ones, m, 1), b_tensor=integers(b, *batch, k, n),
        b_scale_tensor=rng.normal(0, 0.01, (*ones, 1, n)).astype(dtype), b_zero_point_tensor=integers(b, *ones, 1, n),
        bias_tensor=rng.normal(0, 1, (*batch, m, n)).astype(dtype),
    )  # fmt: skip


def compared(inputs: Mapping[str, Any], output: TensorDesc, machine: Machine) -> None:
    desc = MatrixMultiplyIntegerToFloat(output_tensor=output, **{name: TensorDesc.of(x) for name, x in inputs.items()})
    operator = Device(isa=machine.isa, threads=machine.threads).compile(desc)
    assert operator.kernel_name == "contract:compiled"
    found = np.zeros(output.sizes, output.data_type.dtype)
    run(operator, inputs, found)
    wanted = oracle.compute("MATRIX_MULTIPLY_INTEGER_TO_FLOAT", {}, inputs, {"output_tensor": (found.shape, found.dtype)})
    np.testing.assert_array_equal(found, wanted["output_tensor"])


@by_target
@pytest.mark.parametrize("dtype", [np.float32, np.float16])
def test_sums_that_become_floats(isa: str, dtype: Any) -> None:
    rng = np.random.default_rng(0)
    for at, (m, k, n, batch) in enumerate(((1, 1, 1, ()), (5, 9, 40, ()), (3, 33, 7, (2,)), (2, 5, 3, (2, 2)))):
        inputs = to_float(rng, dtype, m, k, n, batch)
        if at % 2:
            del inputs["bias_tensor"], inputs["a_zero_point_tensor"]
        compared(inputs, TensorDesc(DataType.of(np.dtype(dtype)), (*batch, m, n)), Machine(isa, 1 + at % 2))


def test_ties_of_floats_are_decided_once_the_sums_are_there() -> None:
    """Every output is a tie of floats or close to one; the list of them overflows."""
    m, n = 70, 300
    inputs = dict(
        a_tensor=np.full((m, 1), 1, np.uint8), a_scale_tensor=np.ones((1, 1), np.float32),
        b_tensor=np.tile(np.arange(1, 101, dtype=np.uint8), 3).reshape(1, n),
        b_scale_tensor=np.full((1, 1), 2.0**-24, np.float32), bias_tensor=np.ones((m, n), np.float32),
    )  # fmt: skip
    compared(inputs, TensorDesc(DataType.FLOAT32, (m, n)), Machine(None, 1))


def test_sums_beyond_int32_are_no_map_of_int32() -> None:
    k = 33_026
    desc = MatrixMultiplyIntegerToFloat(
        a_tensor=TensorDesc(DataType.UINT8, (1, k)), a_scale_tensor=TensorDesc(DataType.FLOAT32, (1,)),
        b_tensor=TensorDesc(DataType.UINT8, (k, 1)), b_scale_tensor=TensorDesc(DataType.FLOAT32, (1,)),
        output_tensor=TensorDesc(DataType.FLOAT32, (1, 1)),
    )  # fmt: skip
    assert isinstance(contraction(problem_of(check(desc))), str)
    assert Device().compile(desc).kernel_name != "contract:compiled"
