"""The kernels of integer convolutions for Arm, emulated: the oracle's bits for every target."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from test_arm_matmul import PROCESSORS, ROWS, case_of
from test_integer_convolutions import desc_of

import emulated
from anydml.kernels.code import engine
from anydml.kernels.code.targets import Target
from emulated import Recorder
from every_kernel import SOAK
from integer_convolutions import make, random_recipe

pytestmark = emulated.needed


@pytest.fixture
def recorder(monkeypatch: pytest.MonkeyPatch) -> Recorder:
    made = Recorder()
    monkeypatch.setattr(engine, "compiled", made.compiled)
    return made


@pytest.mark.parametrize("row", ROWS)
def test_convolutions_are_exact(row: Target, recorder: Recorder, tmp_path: Path) -> None:
    rng = random.Random(row.name)
    made = [make(random_recipe(rng)) for _ in range(10 * SOAK)]
    cases = [
        case_of(f"{i}: {case.recipe}", row, desc_of(case), {name: x.tensor for name, x in case.inputs.items()})
        for i, case in enumerate(made)
    ]
    assert {case.recipe.quantized for case in made} == {True, False}
    emulated.run(emulated.build(tmp_path, row, recorder.texts), PROCESSORS[row.name], cases)
