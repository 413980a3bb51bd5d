"""Convolutions of 8-bit integers with one channel and one filter in each group, compared with the oracle bit by bit."""

from __future__ import annotations

import random
from dataclasses import replace
from itertools import product

import numpy as np
import pytest
from test_integer_convolutions import desc_of, judge

from anydml import check
from anydml.kernels.code.targets import Target, targets
from anydml.kernels.contract import tuning
from anydml.kernels.contract.channels import taps
from anydml.kernels.contract.channels import taps_plan as by_taps
from anydml.kernels.contract.channels.plan import by_channel
from anydml.kernels.match.convolution import Convolution, convolution
from anydml.kernels.problem import problem_of
from every_kernel import SOAK
from integer_convolutions import EIGHT_BIT, Case, Recipe, make, random_recipe
from tuned import tuned

SERVED = [target for target in targets() if target.architecture == "x86"]
PLAIN = Recipe((EIGHT_BIT[0], EIGHT_BIT[1], EIGHT_BIT[0]), 1, 5, 1, 1, ((20, 3, 1, 1, 1, 1), (19, 3, 1, 1, 1, 1)))
pytestmark = pytest.mark.skipif(not SERVED, reason="no instruction set of this processor has such tiles")


def is_served(case: Case, target: Target) -> bool:
    checked = check(desc_of(case))
    matched = convolution(problem_of(checked))
    assert isinstance(matched, Convolution)
    made = by_channel(matched)
    return made is not None and (made.serves(target) or by_taps.serves(made, target))


def judge_by_channel(case: Case, threads: int = 1, turn: int = 0) -> None:
    """Judge a case on one of the instruction sets, which take turns. Those with dot products of bytes compute lines, the others
    elements of the filter. In every second turn, all inputs but the image are owned: records and weights are made once."""
    target = SERVED[-1 - turn % len(SERVED)]
    assert is_served(case, target), case.recipe
    owned = frozenset(name for name in case.inputs if name != "input_tensor" and turn % 2)
    operator = judge(case, target.name, threads, owned)
    assert (operator.built.persistent_resource_size > 0) == bool(owned)


def drawn(rng: random.Random) -> Recipe:
    """A recipe with one channel and one filter in each group."""
    r = random_recipe(rng)
    layouts = dict(r.layouts, output_tensor=rng.choice(("packed", "padded")))
    return replace(r, read=1, written=1, groups=rng.randint(2, 9), layouts=layouts)


def test_drawn_convolutions() -> None:
    rng, count = random.Random(2), 0
    while count < 40 * SOAK:
        case = make(drawn(rng))
        if is_served(case, SERVED[-1 - count // 2 % len(SERVED)]):
            judge_by_channel(case, 1 + count % 2, count // 2)
            count += 1


@pytest.mark.parametrize("quantized", [False, True])
def test_lines_of_every_width(quantized: bool) -> None:
    """Two short lines share a tile; the last positions of a line are masked; the last line may be alone."""
    for turn, (width, height) in enumerate(product((1, 2, 7, 15, 16, 17, 31, 32, 33, 70), (1, 3, 8, 9))):
        windows = (height, 3, 1, 1, 1, 1), (width, 3, 1, 1, 1, 1)
        shifted = turn + turn // 4  # so that every instruction set has lines of every height
        judge_by_channel(make(replace(PLAIN, windows=windows, quantized=quantized, seed=width)), turn=shifted)


def test_filters_of_every_width_and_pace() -> None:
    for turn, (high, stride, dilation) in enumerate(product((1, 2, 4, 5, 9), (1, 2), (1, 2, 3))):
        windows = ((25, high, stride, dilation, 4, 4), (40, high, stride, dilation, 4, 4))
        judge_by_channel(make(replace(PLAIN, windows=windows, seed=high)), turn=turn)


def test_weights_of_more_than_eight_bits() -> None:
    """Elements minus zero points over their whole range: one, two and three passes."""
    for of_x, of_filters in product(EIGHT_BIT, repeat=2):
        low, high = (int(n) for n in (np.iinfo(of_filters).min, np.iinfo(of_filters).max))
        for seed, zero_point in enumerate((low, low + 1, low + 128, high)):
            r = replace(PLAIN, types=(of_x, of_filters, of_x), quantized=False, by_channel=(False, False), seed=seed)
            case = make(r)
            filters = case.inputs["filter_tensor"].tensor
            filters[...] = np.random.default_rng(seed).choice((low, high, low + 3), filters.shape)
            case.inputs["filter_zero_point_tensor"].tensor[...] = zero_point
            x, centre = (case.inputs[f"input_{x}"].tensor.astype(np.int64) for x in ("tensor", "zero_point_tensor"))
            padded = np.pad(x - centre, ((0, 0), (0, 0), (1, 1), (1, 1)))
            f = filters.astype(np.int64)[None, :, 0, :, :, None, None] - zero_point
            sums = sum(padded[:, :, u : u + 20, v : v + 19] * f[:, :, u, v] for u in range(3) for v in range(3))
            judge_by_channel(replace(case, expected=np.asarray(sums, np.int32)), turn=seed)


def test_biases_that_int32_has_no_room_for() -> None:
    for seed, bias in enumerate(("any", "ends", "ends")):
        judge_by_channel(make(replace(PLAIN, bias=bias, seed=seed)), turn=seed)


@pytest.mark.parametrize(("width", "turn"), [(12, 0), (40, 1), (40, 2)])
def test_ties(width: int, turn: int) -> None:
    """All data are ties, so that the exact rule decides nearly everything; 1 / 82 in float32 is not half of 1 / 41."""
    r = replace(PLAIN, windows=((9, 1, 1, 1, 0, 0), (width, 1, 1, 1, 0, 0)), absent=frozenset(("bias_tensor",)))
    case = make(replace(r, by_channel=(False, True)))
    for name, scale in (("filter", 1.0), ("input", 41.0), ("output", 82.0)):
        case.inputs[f"{name}_scale_tensor"].tensor[...] = scale
    for name in ("input", "filter"):
        case.inputs[f"{name}_zero_point_tensor"].tensor[...] = 0
    case.inputs["filter_tensor"].tensor[...] = 1
    x = case.inputs["input_tensor"].tensor
    x[...] = 2 * (x // 2) + 1
    case.inputs["output_zero_point_tensor"].tensor[...] = 100
    halves = np.rint(x / 2).astype(np.int64)  # half to even
    judge_by_channel(replace(case, expected=np.clip(halves + 100, 0, 255).astype(np.uint8)), turn=turn)


def test_channels_that_are_made_in_chunks_and_in_rounds(monkeypatch: pytest.MonkeyPatch) -> None:
    tuned(monkeypatch, tuning, fours=1, images=1, alone=0)
    r = replace(PLAIN, batch=3, groups=7)
    for threads in (1, 2, 3):
        judge_by_channel(make(r), threads, threads)
    tuned(monkeypatch, tuning, long=1 << 9)
    for threads in (1, 3):
        judge_by_channel(make(r), threads, threads)


@pytest.mark.parametrize("places", [8, 16, 32])
def test_sums_are_put_in_the_order_of_places(places: int) -> None:
    """With vectors of every length, also those that this processor does not have."""
    apart = [x for half in (0, 1) for x in taps.side_by_side(places, half)[::2]]
    assert [apart[i] for half in (0, 1) for i in taps.in_order(places, half)] == [*range(places)]


def test_what_is_not_by_channel() -> None:
    for target in SERVED:
        assert not is_served(make(replace(PLAIN, written=2)), target)
        assert not is_served(make(replace(PLAIN, read=2)), target)
        assert not is_served(make(replace(PLAIN, layouts={"output_tensor": "stepped"})), target)
