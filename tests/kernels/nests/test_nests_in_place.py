"""Nests whose outputs lie where inputs were: no piece of a call is computed twice, whichever pieces have undecided elements."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import anydml as dml
import nest_cases
from agreement import expected
from anydml import TensorDesc
from anydml.kernels.code import llvm
from anydml.kernels.nests import tuning
from anydml.kernels.undecided.decision import Decision
from tuned import tuned

pytestmark = pytest.mark.skipif(llvm.unavailable() is not None, reason="there is no LLVM here")

Array = NDArray[Any]
THREADS, ROWS, WIDTH = 3, 6, 32
OUTPUTS = ("output_parameters_tensor", "output_first_moment_tensor", "output_second_moment_tensor")
ONTO = dict(zip(OUTPUTS, nest_cases.MOMENTS, strict=False))


class Step:
    """A step of Adam in place, over three threads of two rows each.

    hostile: the rows whose parameters are on ties, of 1 - 2^-25, by way of a root, so that kernels leave them undecided.
    """

    def __init__(self, hostile: slice) -> None:
        rng = np.random.RandomState(3)
        self.inputs: dict[str, Array] = {
            name: rng.uniform(0.5, 1, (ROWS, WIDTH)).astype(np.float32) for name in nest_cases.MOMENTS
        }
        for name, value in zip(nest_cases.MOMENTS, (1, 2.0**-22 - 1, 1, 1), strict=True):
            self.inputs[name][hostile] = value
        tensor, one = TensorDesc("FLOAT32", (ROWS, WIDTH)), TensorDesc("UINT32", (1, 1))
        self.desc = dml.AdamOptimizer(
            **dict.fromkeys((*nest_cases.MOMENTS, *OUTPUTS), tensor),
            training_step_tensor=one, learning_rate=0.5, beta1=0.5, beta2=0.75, epsilon=1.0,
        )  # fmt: skip
        step = {"training_step_tensor": np.ones((1, 1), np.uint32)}
        self.wanted = expected(self.desc, {**self.inputs, **step})
        self.arrays = {name: x.copy() for name, x in self.inputs.items()}
        self.compiled = dml.Device("cpu", threads=THREADS).compile(self.desc)
        assert self.compiled.kernel_name == "nests:compiled"
        self.bound = self.compiled.bind(**self.arrays, **step, **{name: self.arrays[own] for name, own in ONTO.items()})

    def execute(self) -> None:
        for name, x in self.inputs.items():
            self.arrays[name][...] = x
        self.bound.execute()

    def compare(self) -> None:
        for name, own in ONTO.items():
            np.testing.assert_array_equal(self.arrays[own].view("u4"), self.wanted[name].view("u4"), err_msg=name)


@pytest.fixture(params=[slice(0, 2), slice(2, 4), slice(4, 6), slice(0, 6, 2)], ids=["first", "second", "third", "each"])
def step(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Step:
    tuned(monkeypatch, tuning, alone=0, room=8)
    return Step(request.param)


def test_a_piece_that_has_ended_is_not_computed_again(step: Step) -> None:
    for _ in range(2):
        step.execute()
        step.compare()
    assert step.compiled.counters().undecided > 0


@pytest.mark.parametrize("error", [KeyboardInterrupt, MemoryError])
def test_an_error_between_pieces_is_raised_and_the_next_call_begins_anew(
    step: Step, error: type[BaseException], monkeypatch: pytest.MonkeyPatch
) -> None:
    def raised(*_: object) -> None:
        raise error

    with monkeypatch.context() as patch:
        patch.setattr(Decision, "at", raised)
        with pytest.raises(error):
            step.execute()
    step.execute()
    step.compare()
