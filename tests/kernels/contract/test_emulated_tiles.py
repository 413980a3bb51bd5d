"""Products by AMX on processors without it: its instructions are functions that compute with registers in memory."""

from __future__ import annotations

import random
from collections.abc import Iterator

import pytest
from test_integer_convolutions import judge as judge_convolution

from anydml import MatrixMultiplyInteger, QuantizedLinearMatrixMultiply
from anydml.kernels.code import detect, engine, targets
from anydml.kernels.contract.dot import dot_of
from anydml.kernels.kernel import Machine
from emulated_tiles import emulated
from every_kernel import SOAK, Ran, kernels_of
from hard_cases import TYPE_COMBINATIONS
from integer_convolutions import make as convolution_of
from integer_convolutions import random_recipe as random_convolution
from matmul_cases import DATA, PLACES, Recipe, make
from matmul_judge import judge
from matmul_scales import KINDS

ROW = next(row for row in targets.X86 if dot_of(row).amx)
ARCHITECTURE, FEATURES = detect.features()
pytestmark = [
    pytest.mark.skipif(FEATURES.issuperset(ROW.features), reason="this processor has AMX, and all other tests use it"),
    pytest.mark.skipif(not FEATURES.issuperset({*ROW.features} - detect.AMX), reason="this processor has no AVX-512 VNNI"),
    pytest.mark.usefixtures("_by_emulation"),
]


@pytest.fixture
def _by_emulation(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    made = engine._compiled
    monkeypatch.setattr(engine, "_compiled", lambda text, target: made(emulated(text), target))
    monkeypatch.setattr(detect, "features", lambda: (ARCHITECTURE, FEATURES | detect.AMX))
    targets.targets.cache_clear()
    yield
    monkeypatch.undo()
    targets.targets.cache_clear()


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


def test_convolutions() -> None:
    rng = random.Random(0)
    for _ in range(6 * SOAK):
        judge_convolution(convolution_of(random_convolution(rng)), ROW.name, 1)
