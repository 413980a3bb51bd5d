"""Results that are steered to within 2^-50 of ties, and to ties: 10^4 in each family, and 10^6 in `make soak-ties`."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import anydml as dml
import steered
from anydml import DataType, TensorDesc, operators
from anydml.kernels.code import llvm
from every_kernel import SOAK, Compared, without_dot_products

pytestmark = pytest.mark.skipif(llvm.unavailable() is not None, reason="without LLVM there are no kernels that could be wrong")

COUNT, NEAR = 13_600, 10_000  # results of each family, and how many of them are near ties, or on one, at least
EXACT_TIES = {"GEMM", "convolution", "sum", "average", "pooling", "running sum"} | {
    name for name in steered.FAMILIES if "FLOAT16" in name and "attention" not in name
}


def described(case: steered.Steered) -> Any:
    """The desc of a case; activations are given by name."""

    def of(value: Any) -> Any:
        if isinstance(value, str) and value.startswith("ACTIVATION_"):
            kind: Any = operators.find(value)
            return kind()
        return [of(v) for v in value] if isinstance(value, list) else value

    kind: Any = operators.find(case.operator)
    types = {x.dtype: DataType[x.dtype.name.upper()] for x in case.inputs.values()}
    tensors = {name: TensorDesc(types[x.dtype], x.shape) for name, x in case.inputs.items()}
    made = TensorDesc(next(iter(types.values())), case.sizes)
    return kind(**tensors, **{case.output: made}, **{name: of(value) for name, value in case.fields.items()})


@pytest.mark.parametrize("name", steered.FAMILIES)
def test_results_beside_ties(name: str, compared: Compared) -> None:
    near = ties = outputs = 0
    rows = [row.name for row in without_dot_products()]
    for case in steered.steered(name, COUNT, range(SOAK)):
        desc = described(case)
        for isa in rows if SOAK > 1 else [rows[list(steered.FAMILIES).index(name) % len(rows)]]:
            compiled = dml.Device("cpu", isa=isa, threads=1, feature_level="EXTENDED").compile(desc)
            assert compiled.kernel_name == case.kernel
            y = np.zeros(case.sizes, next(iter(case.inputs.values())).dtype)
            compiled.bind(**case.inputs, **{case.output: y}).execute()
            found = y[case.at].ravel().view(f"u{y.itemsize}")
            wrong = np.flatnonzero((found != case.bits) & (case.bits != steered.ZERO))
            assert not wrong.size, f"{wrong.size} of {found.size} on {isa}: {found[wrong[0]]:#x}, not {case.bits[wrong[0]]:#x}"
        near, ties, outputs = near + case.near, ties + case.ties, outputs + case.bits.size
    assert near >= NEAR * SOAK, f"{near} of {outputs} are near ties"
    assert (ties > outputs // 10) == (name in EXACT_TIES)
    compared("outputs within 2^-50 of ties", near, NEAR * SOAK)
