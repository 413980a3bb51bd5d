"""Products by AMX on processors without it: its instructions are functions that compute with registers in memory."""

from __future__ import annotations

import random

import numpy as np
import pytest
from test_integer_convolutions import judge as judge_convolution
from test_recurrences import filled, plain

from agreement import bits
from anydml import Device, MatrixMultiplyInteger, QuantizedLinearMatrixMultiply
from anydml.kernels.kernel import Machine
from anydml.kernels.recurrence import tuning as recurrence_tuning
from every_kernel import SOAK, Ran, kernels_of
from hard_cases import TYPE_COMBINATIONS
from integer_convolutions import make as convolution_of
from integer_convolutions import random_recipe as random_convolution
from matmul_cases import DATA, PLACES, Recipe, make
from matmul_judge import judge
from matmul_scales import KINDS
from slices_support import NATIVE, ROW, needed, tile_registers
from tuned import tuned

pytestmark = [
    *needed,
    # emulation takes the place of instructions that test_matmul_exact.py runs where they are
    pytest.mark.skipif(NATIVE, reason="this processor has AMX, and all other tests use it"),
    pytest.mark.usefixtures("tile_registers"),
]
assert tile_registers  # a fixture


@pytest.mark.parametrize("operator", [MatrixMultiplyInteger, QuantizedLinearMatrixMultiply])
def test_products(operator: type[MatrixMultiplyInteger | QuantizedLinearMatrixMultiply], ran: Ran) -> None:
    """One tile, two, and all remainders of four; K of one register, of several, and with steps that are left."""
    (kernel,) = (k for k in kernels_of(operator) if k.name == "contract:compiled")
    rng, outputs = random.Random(operator.__name__), 0
    heights = [1, 8, 9, 16, 17, 24, 32, 33, 40, 65, 100]
    lengths = [1, 4, 20, 63, 64, 65, 68, 128, 148, 200]
    for at in range(12 * SOAK):
        recipe = Recipe(
            operator is QuantizedLinearMatrixMultiply,
            TYPE_COMBINATIONS[at % 8],
            *(heights[at % len(heights)], lengths[at * 3 % len(lengths)], rng.choice((5, 32, 33, 70))),
            data=rng.choice(DATA),
            scales=rng.choice(KINDS),
            place=rng.choice(PLACES),
        )
        outputs += judge(kernel, Machine(ROW.name, 1), make(recipe))
    ran(outputs, 5_000)


@pytest.mark.parametrize("name", ["GRU", "LSTM"])
def test_recurrences(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Sums of digits, in two registers of rows and two of terms, and of one row that has none."""
    tuned(monkeypatch, recurrence_tuning, digits=-(1 << 40))
    desc = plain(name, 2, 17, 70, 9)
    inputs, outputs = filled(desc, np.random.default_rng(8))
    inputs["input_tensor"][0, 1, 16] = 0
    made = []
    for isa in (ROW.name, "avx2"):
        compiled = Device("cpu", isa=isa, threads=1).compile(desc)
        compiled.bind(**inputs, **outputs).execute()
        made.append([bits(x).copy() for x in outputs.values()])
    for have, want in zip(*made, strict=True):
        np.testing.assert_array_equal(have, want)


def test_convolutions() -> None:
    rng = random.Random(0)
    for _ in range(6 * SOAK):
        judge_convolution(convolution_of(random_convolution(rng)), ROW.name, 1)
