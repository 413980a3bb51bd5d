"""Convolutions of 8-bit integers by Winograd's algorithm, compared with the oracle bit by bit."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from test_integer_convolutions import desc_of, judge

from anydml import check
from anydml.kernels.code.targets import Target, targets
from anydml.kernels.contract import tuning
from anydml.kernels.contract.dot import dot_of
from anydml.kernels.contract.winograd import plan as by_winograd
from anydml.kernels.contract.winograd.plan import IntegerWinogradPlan, squared
from anydml.kernels.match.convolution import Convolution, convolution
from anydml.kernels.problem import problem_of
from every_kernel import SOAK
from integer_convolutions import EIGHT_BIT, Case, Recipe, make
from matmul_cases import PLACES
from tuned import tuned

OWNED = frozenset(("filter_tensor", "filter_zero_point_tensor"))
NO_ZERO_POINT = frozenset(("filter_zero_point_tensor",))
UINT8, INT8 = EIGHT_BIT
PLAIN = Recipe((UINT8, INT8, UINT8), 1, 1, 16, 18, ((9, 3, 1, 1, 1, 1), (11, 3, 1, 1, 1, 1)), absent=NO_ZERO_POINT)
SERVED = [target for target in targets() if target.architecture == "x86" and dot_of(target).group == 2]
pytestmark = pytest.mark.skipif(not SERVED, reason="no instruction set of this processor multiplies pairs of 16 bits")


def is_served(case: Case, target: Target) -> bool:
    checked = check(desc_of(case, OWNED))
    matched = convolution(problem_of(checked))
    assert isinstance(matched, Convolution)
    made = squared(matched)
    return made is not None and made.serves(target)


def judged(case: Case, turn: int = 0, threads: int = 1) -> None:
    """Judge a case on one of the instruction sets, which take turns."""
    target = SERVED[-1 - turn % len(SERVED)]
    assert is_served(case, target), case.recipe
    judge(case, target.name, threads, OWNED)


def drawn(rng: random.Random) -> Recipe:
    """Windows of 3 x 3 with any layout, an even number of channels, and outputs that fill their tiles."""
    layouts = {
        x: rng.choice(("packed", "padded", "stepped", "permuted")) for x in ("input_tensor", "filter_tensor", "output_tensor")
    }
    sizes = [(rng.randint(5, 45), 3, 1, 1, rng.choice((0, 1, 1, 2)), rng.choice((0, 1, 1, 3))) for _ in range(2)]
    optional = ("input_zero_point_tensor", "filter_zero_point_tensor", "output_zero_point_tensor", "bias_tensor")
    return Recipe(
        (rng.choice(EIGHT_BIT), rng.choice(EIGHT_BIT), rng.choice(EIGHT_BIT)),
        batch=rng.choice((1, 1, 2)),
        groups=1,
        read=2 * rng.randint(8, 20),
        written=rng.randint(16, 40),
        windows=(sizes[0], sizes[1]),
        quantized=rng.random() < 0.7,
        by_channel=(rng.random() < 0.5, rng.random() < 0.7),
        absent=frozenset(x for x in optional if rng.random() < 0.25),
        bias=rng.choice(("as large as the sums", "any", "ends")),
        scales=rng.choice(("any", "any", "powers")),
        layouts=layouts,
        place=rng.choice(PLACES),
        seed=rng.getrandbits(32),
    )


def test_drawn_convolutions(ran: Callable[[int, int], None]) -> None:
    rng, count = random.Random(5), 0
    for turn in range(30 * SOAK):
        case = make(drawn(rng))
        if is_served(case, SERVED[-1]):
            judged(case, turn, 1 + turn % 2)
            count += 1
    ran(count, 20 * SOAK)


def test_the_largest_elements() -> None:
    """All of one sign, or with the signs of a row of the transform, with the largest number of channels."""
    signs = np.array([1, -1, 1])
    for turn, (x_type, f_type) in enumerate((x, f) for x in EIGHT_BIT for f in EIGHT_BIT):
        case = make(
            replace(
                PLAIN,
                types=(x_type, f_type, UINT8),
                read=by_winograd.CHANNELS[-1] // 2 * 2,
                written=16,
                windows=((4, 3, 1, 1, 0, 0), (6, 3, 1, 1, 1, 1)),
                quantized=False,
                by_channel=(False, False),
                absent=frozenset(("input_zero_point_tensor",)),
            )
        )
        x, f = (case.inputs[name].tensor for name in ("input_tensor", "filter_tensor"))
        low, high = (int(n) for n in (np.iinfo(f_type).min, np.iinfo(f_type).max))
        x[...] = np.iinfo(x_type).max if turn % 2 else np.iinfo(x_type).min
        f[::2] = high
        f[1::2] = np.where(np.outer(signs, signs) > 0, high, low)
        zero_point = low if turn < 2 else high
        case.inputs["filter_zero_point_tensor"].tensor[...] = zero_point
        padded = np.pad(x.astype(np.int64), ((0, 0), (0, 0), (0, 0), (1, 1)))
        sums = np.zeros((1, 16, 2, 6), np.int64)
        for u in range(3):
            for v in range(3):
                sums += np.einsum(
                    "ncyx,mc->nmyx", padded[:, :, u : u + 2, v : v + 6], f[:, :, u, v].astype(np.int64) - zero_point
                )
        judged(replace(case, expected=sums.astype(np.int32)), turn)


def test_rows_of_tiles_that_are_made_in_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows one after another, tiles of filters one after another, in rounds, by several threads; and a single last line."""
    tuned(monkeypatch, tuning, tiles=1, products=1, alone=0)
    r = replace(PLAIN, batch=2, written=19)
    for threads in (1, 2, 3):
        judged(make(r), threads, threads)
    tuned(monkeypatch, tuning, long=1 << 9)
    for threads in (1, 3):
        judged(make(r), threads, threads)


def test_ties() -> None:
    """Every output is a tie, which the exact rule decides; 1 / 82 in float32 is not half of 1 / 41."""
    case = make(replace(PLAIN, by_channel=(False, True), absent=NO_ZERO_POINT | {"bias_tensor"}))
    for name, scale in (("filter", 1.0), ("input", 41.0), ("output", 82.0)):
        case.inputs[f"{name}_scale_tensor"].tensor[...] = scale
    case.inputs["input_zero_point_tensor"].tensor[...] = 0
    f, x = (case.inputs[f"{name}_tensor"].tensor for name in ("filter", "input"))
    f[...] = 0
    f[:, 3, 1, 1] = 1
    x[...] = 2 * (x // 2) + 1
    case.inputs["output_zero_point_tensor"].tensor[...] = 100
    halves = np.rint(x[:, [3]] / 2).astype(np.int64)  # half to even
    wanted = np.broadcast_to(np.clip(halves + 100, 0, 255).astype(np.uint8), case.expected.shape)
    judged(replace(case, expected=wanted))


def test_what_goes_another_way() -> None:
    for target in SERVED:
        assert is_served(make(PLAIN), target)
        assert not is_served(make(replace(PLAIN, read=17)), target)
        assert not is_served(make(replace(PLAIN, groups=2)), target)
        assert is_served(make(replace(PLAIN, absent=frozenset())), target)
        for window in ((9, 3, 2, 1, 1, 1), (9, 3, 1, 2, 2, 2), (9, 5, 1, 1, 2, 2), (3, 3, 1, 1, 0, 0)):
            assert not is_served(make(replace(PLAIN, windows=(window, window))), target)
    for owned in ((), ("filter_tensor",)):  # filters or their zero points are bound at execution
        checked = check(desc_of(make(replace(PLAIN, absent=frozenset())), frozenset(owned)))
        matched = convolution(problem_of(checked))
        assert isinstance(matched, Convolution)
        assert squared(matched) is None


def test_filters_of_every_height_are_packed() -> None:
    """Tiles have two heights: each number of filters has its own tiles."""
    for written in (16, 17, 24, 25):
        case = make(replace(PLAIN, written=written, seed=written))
        checked = check(desc_of(case, OWNED))
        matched = convolution(problem_of(checked))
        assert isinstance(matched, Convolution)
        made = squared(matched)
        assert made is not None
        plan = IntegerWinogradPlan(made, SERVED[-1], 1)
        assert sum(height * count for height, count, _ in plan.heights) == written
        judged(case)
