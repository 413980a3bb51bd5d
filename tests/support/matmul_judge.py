"""Runs cases of matrix products on a kernel, by the library's own sequence, and checks every byte near the output."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import replace
from itertools import islice
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from anydml import DataType, MatrixMultiplyInteger, QuantizedLinearMatrixMultiply, TensorDesc, TensorFlags, check
from anydml.devices.compiled import BoundOperator, CompiledOperator
from anydml.kernels.kernel import Machine
from every_kernel import SOAK, Kernel, Operator, Ran, compiled_by, kernels_of, machines_for
from matmul_cases import Case, Placed, Recipe, fitting, make

OUTPUTS = int(os.environ.get("ANYDML_MATMUL_OUTPUTS", "60000"))
SOAKING = SOAK > 1 or OUTPUTS > 60_000
OPERATORS: tuple[Operator, ...] = (QuantizedLinearMatrixMultiply, MatrixMultiplyInteger)


def by_kernel(*operators: Operator) -> pytest.MarkDecorator:
    """Parametrizes a test with every kernel of the operators, on every instruction set of this processor."""
    return pytest.mark.parametrize(
        ("kernel", "machine"),
        [
            pytest.param(k, m, id="-".join(filter(None, (o.spec.name, k.name, m.isa))))
            for o in operators
            for k in kernels_of(o)
            for m in machines_for(k)
        ],
    )


by_any_kernel = by_kernel(*OPERATORS)
by_quantized_kernel = by_kernel(QuantizedLinearMatrixMultiply)


def is_quantized(kernel: Kernel) -> bool:
    return kernel.implements is QuantizedLinearMatrixMultiply


def is_slow(kernel: Kernel) -> bool:
    """Whether a kernel works element by element in Python, and gets fewer cases."""
    return kernel.name == "reference"


def is_shared(kernel: Kernel) -> bool:
    """Whether instruction sets share the cases of a kernel, because it compiles nearly every case anew."""
    return kernel.name.endswith(":compiled") and not SOAKING


def shared(kernel: Kernel, machine: Machine, cases: Iterator[Recipe]) -> Iterator[Recipe]:
    """A kernel's share of the cases, with their numbers as seeds: all of them, unless that would take too long.

    The reference gets few cases, and NumPy's kernels some. Instruction sets take turns with the cases of a compiled kernel,
    most of them on the widest. In `make soak`, every kernel gets all cases. Consecutive recipes alternate between kinds, so the
    steps of shares are prime numbers.
    """
    machines = machines_for(kernel)
    widest = machine == machines[-1]
    step = 1 if SOAKING else 61 if is_slow(kernel) else (47 if widest else 97) if is_shared(kernel) else 23
    first = machines.index(machine) % step
    numbered = (fitting(replace(recipe, seed=seed)) for seed, recipe in enumerate(cases))
    return islice(numbered, first, None, step)


def judge_all(kernel: Kernel, machine: Machine, cases: Iterator[Recipe], ran: Ran, at_least: int) -> None:
    """Judge a kernel's share of the cases. It must take at least `at_least` percent of them."""
    judged = [judge(kernel, machine, make(recipe)) for recipe in shared(kernel, machine, cases)]
    print(f"{sum(judged)} outputs")
    ran(sum(outputs > 0 for outputs in judged), max(len(judged) * at_least // 100, 1))


def desc_of(case: Case) -> QuantizedLinearMatrixMultiply | MatrixMultiplyInteger:
    """The desc of a case."""

    def described(name: str, placed: Placed) -> TensorDesc:
        flags = TensorFlags.OWNED_BY_DML if name in case.recipe.owned else TensorFlags.NONE
        return TensorDesc(DataType.of(placed.tensor.dtype), placed.tensor.shape, strides=placed.strides, flags=flags)

    tensors = {name: described(name, x) for name, x in (*case.inputs.items(), ("output_tensor", case.output))}
    return QuantizedLinearMatrixMultiply(**tensors) if case.recipe.quantized else MatrixMultiplyInteger(**tensors)


def compiled(kernel: Kernel, machine: Machine, case: Case) -> CompiledOperator | None:
    """The case's operator, compiled by this kernel for the recipe's number of threads; None if it refuses."""
    if kernel.name.endswith(":compiled"):
        machine = machine._replace(threads=case.recipe.threads)
    operator = compiled_by(kernel, machine, check(desc_of(case)))
    assert operator is None or operator.kernel_name == kernel.name
    return operator


def bound(operator: CompiledOperator, case: Case) -> BoundOperator:
    """The operator, initialized and bound; owned inputs are overwritten after initialize, because it keeps a copy."""
    owned = {name: x for name, x in case.inputs.items() if name in case.recipe.owned}
    if owned:
        operator.initialize(**{name: x.tensor for name, x in owned.items()})
        for x in owned.values():
            x.memory[...] = 0x5A
    others = {name: x.tensor for name, x in case.inputs.items() if name not in owned}
    return operator.bind(**others, output_tensor=case.output.tensor)


def memory_of(case: Case) -> dict[str, NDArray[np.uint8]]:
    """Copies of all bytes near the inputs."""
    return {name: x.memory.copy() for name, x in case.inputs.items()}


def assert_exact(case: Case, before: Mapping[str, NDArray[np.uint8]]) -> None:
    """Assert that every output is exact, and that neither bytes beside it nor inputs were written."""
    np.testing.assert_array_equal(case.output.tensor, case.expected, err_msg=str(case))
    wanted = np.full_like(case.output.memory, 0xA5)
    shift = case.output.tensor.ctypes.data - case.output.memory.ctypes.data
    elements: NDArray[Any] = np.ndarray(
        case.expected.shape, case.expected.dtype, wanted.data, shift, case.output.tensor.strides
    )
    elements[...] = case.expected
    np.testing.assert_array_equal(case.output.memory, wanted, err_msg=f"beside the output: {case}")
    for name, memory in before.items():
        if name not in case.recipe.owned:
            np.testing.assert_array_equal(case.inputs[name].memory, memory, err_msg=f"{name} was written: {case}")


def judge(kernel: Kernel, machine: Machine, case: Case) -> int:
    """The number of outputs, after a check that all of them are exact; 0 if the kernel refuses the desc."""
    operator = compiled(kernel, machine, case)
    if operator is None:
        return 0
    before = memory_of(case)
    bound(operator, case).execute()
    assert_exact(case, before)
    return case.expected.size
