"""Outputs of convolutions of integers, fetched for writing where several threads compute them."""

from __future__ import annotations

import random
from dataclasses import replace

import numpy as np
import pytest
from test_integer_convolutions import desc_of, judge

from anydml import check
from anydml.kernels.call.steps import At, Step, prepared, table
from anydml.kernels.code import engine
from anydml.kernels.code.targets import targets
from anydml.kernels.contract import tuning, written
from anydml.kernels.contract.channels.plan import ChannelPlan, by_channel
from anydml.kernels.contract.places import tile as places
from anydml.kernels.contract.places.plan import PlacePlan
from anydml.kernels.contract.places.problem import convolved
from anydml.kernels.match.convolution import Convolution, convolution
from anydml.kernels.problem import problem_of
from integer_convolutions import EIGHT_BIT, Case, Recipe, make
from tuned import tuned

TARGET = targets()[-1]
TYPES = EIGHT_BIT[0], EIGHT_BIT[1], EIGHT_BIT[0]
BY_CHANNEL = Recipe(TYPES, 1, 6, 1, 1, ((7, 3, 1, 1, 1, 1), (7, 3, 1, 1, 1, 1)))
BY_PLACE = Recipe(TYPES, 1, 1, 8, 256, ((7, 1, 1, 1, 0, 0), (7, 1, 1, 1, 0, 0)))


def ranges(case: Case, threads: int) -> list[tuple[int, int]]:
    """The bytes of the output that each thread fetches: the first, and the end."""
    matched = convolution(problem_of(check(desc_of(case, frozenset(("filter_tensor",))))))
    assert isinstance(matched, Convolution)
    if case.recipe.groups > 1:
        lines = by_channel(matched)
        assert lines is not None
        plan: ChannelPlan | PlacePlan = ChannelPlan(lines, TARGET, threads)
    else:
        filters = convolved(matched)
        assert filters is not None
        plan = PlacePlan(filters, TARGET, threads)
    code = engine.compiled(written.fetch, TARGET)
    found = []
    for piece in plan.rounds[-1].phases[-1]:
        for step in piece:
            if isinstance(step, Step) and step.code is code:
                at, count = step.arguments
                assert isinstance(at, At)
                assert isinstance(count, int)
                assert at.base == "output_tensor"
                found.append((at.offset, at.offset + count))
    return found


def test_bytes_keep_their_values() -> None:
    code, rng = engine.compiled(written.fetch, TARGET), np.random.default_rng(1)
    for count in (1, 2, 63, 64, 65, 128, 1000):
        memory = rng.integers(0, 256, 1200, np.uint8)
        before = memory.copy()
        arguments = np.array([(memory.ctypes.data + 7 * i, count) for i in range(2)], np.int64)
        prepared([table(code, arguments[i : i + 1]) for i in range(2)], TARGET, memory)()
        assert np.array_equal(memory, before)


@pytest.mark.skipif(not places.serves(TARGET), reason="the instruction set has no such tiles")
@pytest.mark.parametrize("recipe", [BY_CHANNEL, BY_PLACE], ids=["by channel", "by place"])
def test_each_thread_fetches_what_it_writes(recipe: Recipe, monkeypatch: pytest.MonkeyPatch) -> None:
    tuned(monkeypatch, tuning, alone=0)
    case = make(recipe)
    first, second = ranges(case, 2)
    assert [*first, *second] == [0, first[1], first[1], recipe.groups * recipe.written * 49]
    assert ranges(case, 1) == []  # no other thread has read them
    assert ranges(make(replace(recipe, batch=4)), 2) == []  # each thread has images of its own
    assert ranges(make(replace(recipe, layouts={"output_tensor": "padded"})), 2) == []  # bytes between them are not ours
    tuned(monkeypatch, tuning, written=100)
    assert ranges(case, 2) == []


@pytest.mark.skipif(not places.serves(TARGET), reason="the instruction set has no such tiles")
def test_results_are_those_of_one_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    tuned(monkeypatch, tuning, alone=0)
    rng = random.Random(3)
    for recipe in (BY_CHANNEL, BY_PLACE):
        for seed in range(3):
            quantized = seed < 2
            case = make(replace(recipe, quantized=quantized, seed=rng.randrange(1 << 30)))
            judge(case, TARGET.name, 2, frozenset(("filter_tensor",)))
