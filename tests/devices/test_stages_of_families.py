"""Later stages in each family: over threads, with lists that are full, in place, and after an interruption.

The results are steered to ties and next to them, so that each has the bits that are known from how it was made.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import pytest
from test_steered_ties import described

import anydml as dml
import steered
from anydml.kernels.code import llvm
from anydml.kernels.elementwise import tuning as maps
from anydml.kernels.evaluate.tally import TALLY
from anydml.kernels.nests import tuning as nests
from anydml.kernels.reduce import tuning as rows
from anydml.kernels.scan import exact as sums
from anydml.kernels.undecided.decision import Decision
from anydml.kernels.windows import tuning as windows
from every_kernel import SOAK, Ran
from tuned import tuned

pytestmark = pytest.mark.skipif(llvm.unavailable() is not None, reason="there is no LLVM here")

COUNT = 160 * SOAK
STAGES = ("second", "third", "exact")
Array = Any
IN_PLACE = ("running sum", "tanh of a sum")
DECIDED = ("sum of FLOAT16",)  # float64 holds all of these sums
LONG = [name for name in steered.FAMILIES if "FLOAT16" not in name or name in DECIDED]
# types of few bits begin at one of the stages each, in `make soak` at all
BEGUN = [
    (name, stage) for at, name in enumerate(steered.FAMILIES) for k, stage in enumerate(STAGES)
    if SOAK > 1 or name in LONG or at % len(STAGES) == k
]  # fmt: skip


@cache
def case_of(name: str) -> steered.Steered:
    return next(steered.steered(name, COUNT, [11]))


class Call:
    """A bound operator, and what it must store."""

    def __init__(self, name: str, stage: str, threads: int, *, in_place: bool = False) -> None:
        self.case = case = case_of(name)
        self.inputs = {name: x.copy() for name, x in case.inputs.items()}
        compiled = dml.Device("cpu", threads=threads, stage=stage, feature_level="EXTENDED").compile(described(case))
        assert compiled.kernel_name == case.kernel
        self.first = next(iter(self.inputs))
        self.output = self.inputs[self.first] if in_place else np.zeros(case.sizes, self.inputs[self.first].dtype)
        self.bound = compiled.bind(**self.inputs, **{case.output: self.output})

    def again(self) -> None:
        """Execute it, and compare the results."""
        self.inputs[self.first][...] = self.case.inputs[self.first]
        self.bound.execute()
        found = self.output[self.case.at].ravel().view(f"u{self.output.itemsize}")
        wrong = np.flatnonzero((found != self.case.bits) & (self.case.bits != steered.ZERO))
        assert not wrong.size, f"{wrong.size} of {found.size} are wrong"


@pytest.fixture
def short_lists(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lists that are full after a few elements, and pieces for threads of little work."""
    tuned(monkeypatch, windows, listed=1)
    for module in (maps, nests, rows):
        tuned(monkeypatch, module, room=8, alone=0)


@pytest.mark.usefixtures("short_lists")
@pytest.mark.parametrize(("name", "stage"), BEGUN)
def test_full_lists_are_decided_and_emptied(name: str, stage: str, ran: Ran) -> None:
    turn = list(steered.FAMILIES).index(name) + STAGES.index(stage)
    for threads in (1, 3) if SOAK > 1 else (1 + 2 * (turn % 2),):
        call = Call(name, stage, threads)
        call.again()
        call.again()
        ran(2 * COUNT, 2 * COUNT)


@pytest.mark.usefixtures("short_lists")
@pytest.mark.parametrize("stage", STAGES)
@pytest.mark.parametrize("name", IN_PLACE)
def test_elements_in_place_are_decided_from_what_was_there(name: str, stage: str) -> None:
    call = Call(name, stage, 2, in_place=True)
    call.again()
    call.again()


class Interrupted:
    """A function that is interrupted when it is first called."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self.function, self.calls = function, 0

    def __call__(self, *args: Any, **named: Any) -> Any:
        self.calls += 1
        if self.calls == 1:
            raise KeyboardInterrupt
        return self.function(*args, **named)


@pytest.mark.usefixtures("short_lists")
@pytest.mark.parametrize("name", LONG)
def test_a_call_after_an_interruption_has_its_results(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Decisions in Python, or in the third stage, are where a call may be interrupted."""
    call = Call(name, "exact", 2)
    with monkeypatch.context() as patch:
        stopped = [Interrupted(Decision.at), Interrupted(sums.sums)]
        patch.setattr(Decision, "at", lambda *args: stopped[0](*args))
        patch.setattr(sums, "sums", stopped[1])
        call.inputs[call.first][...] = call.case.inputs[call.first]
        if name in DECIDED:
            call.bound.execute()
        else:
            with pytest.raises(KeyboardInterrupt):
                call.bound.execute()
    call.again()


@pytest.mark.parametrize("name", LONG)
def test_elements_begin_at_the_last_stage(name: str) -> None:
    """All of them are evaluated in Python; but of means and running sums, those that float64 does not hold."""
    call = Call(name, "exact", 1)
    before = TALLY.elements
    call.again()
    evaluated = TALLY.elements - before
    if name in DECIDED:
        assert evaluated == 0
    elif name in ("pooling", "running sum"):
        assert COUNT // 5 <= evaluated <= call.output.size
    else:
        assert evaluated >= call.output.size


@pytest.mark.parametrize("stage", STAGES)
def test_what_is_fused_is_rounded_between(stage: str) -> None:
    """The exponential of a product, which is rounded first: at every stage as by two operators one after another."""
    t = dml.TensorDesc("FLOAT32", (100,))
    product, power = (
        dml.ElementWiseMultiply(a_tensor=t, b_tensor=t, output_tensor=t),
        dml.ElementWiseExp(input_tensor=t, output_tensor=t),
    )
    graph = dml.GraphDesc(
        (dml.OperatorNode(product), dml.OperatorNode(power)),
        (dml.InputEdge(0, 0, 0, "a"), dml.InputEdge(1, 0, 1, "b")),
        (dml.OutputEdge(1, 0, 0, "y"),),
        (dml.IntermediateEdge(0, 0, 1, 0),),
    )
    rng = np.random.RandomState(1)
    a, b = (rng.uniform(1, 4, 100).astype(np.float32) for _ in range(2))
    compiled: Any = dml.Device("cpu", threads=1, stage=stage).compile(graph)
    assert len(compiled.call.parts) == 1
    y, between, wanted = (np.zeros(100, np.float32) for _ in range(3))
    compiled.bind(a=a, b=b, y=y).execute()
    dml.Device().compile(product).bind(a_tensor=a, b_tensor=b, output_tensor=between).execute()
    dml.Device().compile(power).bind(input_tensor=between, output_tensor=wanted).execute()
    assert y.tobytes() == wanted.tobytes()
