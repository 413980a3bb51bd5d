"""Convolutions of 8-bit integers whose columns are filters and whose rows are positions, compared with the oracle bit by
bit."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from test_integer_convolutions import desc_of, judge

from anydml import Device, check
from anydml.kernels.code.targets import targets
from anydml.kernels.contract import tuning
from anydml.kernels.contract.dot import dot_of
from anydml.kernels.contract.places.problem import Convolved, convolved
from anydml.kernels.contract.places.tile import MOST, lines_of, serves
from anydml.kernels.match.convolution import Convolution, convolution
from anydml.kernels.problem import problem_of
from every_kernel import SOAK
from integer_convolutions import EIGHT_BIT, Case, Recipe, make, random_recipe
from tuned import tuned

# AMX multiplies panels, with few exceptions
SERVED = [target for target in targets() if serves(target) and not dot_of(target).amx]
OWNED = frozenset(("filter_tensor",))
PLAIN = Recipe((EIGHT_BIT[0], EIGHT_BIT[1], EIGHT_BIT[0]), 1, 1, 8, 32, ((20, 3, 1, 1, 1, 1), (19, 3, 1, 1, 1, 1)))
pytestmark = pytest.mark.skipif(not SERVED, reason="no instruction set of this processor has such tiles")


def found(case: Case, owned: frozenset[str] = OWNED) -> Convolved | None:
    checked = check(desc_of(case, owned))
    matched = convolution(problem_of(checked))
    assert isinstance(matched, Convolution)
    return convolved(matched)


def is_served(case: Case, owned: frozenset[str] = OWNED) -> bool:
    made = found(case, owned)
    return made is not None and made.serves(SERVED[-1])


def judge_by_places(case: Case, threads: int = 1, owned: frozenset[str] = OWNED) -> None:
    """Judge a case; if filters are owned, also with all inputs but the image owned, so that records are made once."""
    assert is_served(case, owned), case.recipe
    kept = [judge(case, SERVED[-1].name, threads, owned).built.persistent_resource_size]
    if owned:
        every = frozenset(name for name in case.inputs if name != "input_tensor")
        kept.append(judge(case, SERVED[-1].name, threads, every).built.persistent_resource_size)
        assert kept[0] < kept[1] or every == owned


def drawn(rng: random.Random) -> Recipe:
    """A recipe with channels in multiples of four and filters that nearly fill panels."""
    r = random_recipe(rng)
    layouts = dict(r.layouts, output_tensor=rng.choice(("packed", "padded")))
    return replace(r, read=4 * rng.randint(1, 6), written=rng.choice((32, 54, 61, 64)), layouts=layouts)


def test_drawn_convolutions() -> None:
    rng, count = random.Random(1), 0
    while count < 24 * SOAK:
        case = make(drawn(rng))
        if is_served(case):
            judge_by_places(case, 1 + count % 2)
            count += 1


@pytest.mark.parametrize("quantized", [False, True])
def test_lines_of_every_width(quantized: bool) -> None:
    """A tile may have several short lines, and a long line several tiles, of two heights."""
    for width in (*range(1, 17), 27, 28, 29):
        windows = (7 if width < 5 else 3, 3, 1, 1, 1, 1), (width, 3, 1, 1, 1, 1)
        judge_by_places(make(replace(PLAIN, windows=windows, quantized=quantized, seed=width)))
    assert {lines_of(w) for w in range(1, MOST + 1)} == {1, 2, 3, 4}


def test_windows_that_read_the_input_as_it_lies() -> None:
    for width, layout in ((5, "packed"), (30, "packed"), (9, "padded"), (9, "stepped")):
        windows = (9, 1, 1, 1, 0, 0), (width, 1, 1, 1, 0, 0)
        judge_by_places(make(replace(PLAIN, windows=windows, batch=2, layouts={"input_tensor": layout})))


def test_images_in_strips(monkeypatch: pytest.MonkeyPatch) -> None:
    """With strides and dilations, lines of a strip are separated into phases; the last strip may be shorter."""
    tuned(monkeypatch, tuning, strip=1 << 10)
    for taps, stride, dilation, padding in ((3, 1, 1, 1), (3, 2, 1, 1), (3, 2, 3, 4), (1, 1, 1, 0), (2, 3, 2, 0)):
        windows = ((31, taps, stride, dilation, padding, padding),) * 2
        for types in ((EIGHT_BIT[0], EIGHT_BIT[1]), (EIGHT_BIT[1], EIGHT_BIT[1])):
            judge_by_places(make(replace(PLAIN, types=(*types, EIGHT_BIT[0]), windows=windows)), 2)


def test_filters_that_pass_by_in_chunks_and_in_rounds(monkeypatch: pytest.MonkeyPatch) -> None:
    tuned(monkeypatch, tuning, filters=1, alone=0)
    r = replace(PLAIN, batch=2, groups=2, written=96)
    judge_by_places(make(r), 3)
    tuned(monkeypatch, tuning, long=1 << 9)
    for threads in (1, 3):
        judge_by_places(make(r), threads)


def test_biases_that_int32_has_no_room_for() -> None:
    for seed, bias in enumerate(("any", "ends", "ends")):
        judge_by_places(make(replace(PLAIN, bias=bias, by_channel=(seed < 2, True), seed=seed)))


def test_ties() -> None:
    """All data are ties, so that the exact rule decides nearly everything; 1 / 82 in float32 is not half of 1 / 41."""
    case = make(replace(PLAIN, by_channel=(True, True), absent=frozenset(("bias_tensor",))))
    for name, scale in (("filter", 41.0), ("input", 1.0), ("output", 82.0)):
        case.inputs[f"{name}_scale_tensor"].tensor[...] = scale
    for name in ("input", "filter"):
        case.inputs[f"{name}_zero_point_tensor"].tensor[...] = 0
        values = np.random.default_rng(0).integers(0, 3, case.inputs[f"{name}_tensor"].tensor.shape)
        case.inputs[f"{name}_tensor"].tensor[...] = values
    x, f = (case.inputs[f"{name}_tensor"].tensor.astype(np.int64) for name in ("input", "filter"))
    padded = np.pad(x, ((0, 0), (0, 0), (1, 1), (1, 1)))
    sums = sum(
        np.einsum("nchw,mc->nmhw", padded[:, :, u : u + 20, v : v + 19], f[:, :, u, v]) for u in range(3) for v in range(3)
    )
    case.inputs["output_zero_point_tensor"].tensor[...] = 100
    halves: Any = np.rint(sums / 2)  # half to even
    assert np.mean(sums % 2) > 0.4
    judge_by_places(replace(case, expected=np.clip(halves + 100, 0, 255).astype(np.uint8)))


def test_filters_bound_at_execution() -> None:
    """They are packed at each call, if there are enough positions; otherwise rows are filters."""
    windows = ((25, 3, 1, 1, 1, 1),) * 2
    for layout in ("packed", "permuted"):
        judge_by_places(make(replace(PLAIN, windows=windows, layouts={"filter_tensor": layout})), owned=frozenset())
    assert not is_served(make(PLAIN), frozenset())


def test_packed_filters_are_counted() -> None:
    operator = Device(isa=SERVED[-1].name).compile(desc_of(make(PLAIN), OWNED))
    owned, packed = 32 * 8 * 9, 32 * 8 * 9
    assert operator.binding_properties.persistent_resource_size >= owned + packed


def test_what_tiles_of_places_do_not_serve() -> None:
    for read, written in ((6, 32), (8, 24), (8, 33)):
        assert not is_served(make(replace(PLAIN, read=read, written=written)))
    assert found(make(replace(PLAIN, layouts={"output_tensor": "stepped"}))) is None
