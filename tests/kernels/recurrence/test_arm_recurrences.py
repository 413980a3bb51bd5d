"""The kernels of recurrences for Arm, emulated: the reference's bits, in buffers between unmapped pages."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from test_arm_matmul import PROCESSORS
from test_recurrences import GATES, filled, plain

import emulated
from agreement import bits_of
from anydml import check
from anydml.kernels.code.targets import ARM
from anydml.kernels.kernel import Lowered, Machine
from anydml.kernels.problem import problem_of
from anydml.kernels.recurrence import family
from anydml.kernels.reference import evaluated
from emulated import Bytes, Case, Recorder, steps_of

pytestmark = emulated.needed
GENERIC = ARM[0]  # recurrences are the same for the other Arm targets


@pytest.fixture
def recorder(monkeypatch: pytest.MonkeyPatch) -> Recorder:
    return emulated.recording(monkeypatch, GENERIC, family)


def bytes_of(array: Any) -> Bytes:
    return np.ascontiguousarray(array).reshape(-1).view(np.uint8)


def case_of(desc: Any, seed: int) -> Case:
    """The case of a desc, with data that leave nothing undecided."""
    made = family.lower(problem_of(check(desc)), Machine(None, 1))
    assert isinstance(made, Lowered), made
    inputs, outputs = filled(desc, np.random.default_rng(seed))
    wanted = {name: bytes_of(bits_of(x)) for name, x in evaluated(desc, inputs).items()}
    buffers = {name: bytes_of(x) for name, x in (inputs | outputs).items()}
    assert made.constants is not None
    buffers |= {"scratch": np.zeros(made.scratch, np.uint8), "constants": made.constants}
    steps = steps_of(phase for rounds in made.rounds for phase in rounds.phases)
    return Case(str(desc), buffers, steps, wanted)


def test_every_recurrence(recorder: Recorder, tmp_path: Path) -> None:
    cases = []
    for seed, name in enumerate(GATES):
        for direction, sequences in (("BIDIRECTIONAL", 2), ("BACKWARD", 1)):
            cases.append(case_of(plain(name, 3, sequences, 3, 5, direction), seed))
    cases.append(case_of(plain("GRU", 2, 9, 2, 3, linear_before_reset=True), 5))
    emulated.run(emulated.build(tmp_path, GENERIC, recorder.texts), PROCESSORS[GENERIC.name], cases)
    assert len(cases) == 7
