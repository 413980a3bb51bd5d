"""Integer convolutions with one output of each filter and image, whose filters are columns, compared with the oracle bit by
bit."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest
from test_integer_convolutions import desc_of, judge

from anydml import check
from anydml.kernels.code.targets import targets
from anydml.kernels.contract import tuning
from anydml.kernels.contract.problem import IntegerProblem, of_one_place
from anydml.kernels.match.convolution import Convolution, convolution
from anydml.kernels.problem import problem_of
from every_kernel import SOAK
from integer_convolutions import EIGHT_BIT, Case, Recipe, make, random_recipe
from tuned import tuned

OWNED = frozenset(("filter_tensor",))
ISAS = [target.name for target in targets()]
POINT = ((1, 1, 1, 1, 0, 0),) * 2
PLAIN = Recipe((EIGHT_BIT[0], EIGHT_BIT[1], EIGHT_BIT[0]), 1, 1, 70, 45, POINT)


def found(case: Case, owned: frozenset[str] = OWNED) -> IntegerProblem | None:
    matched = convolution(problem_of(check(desc_of(case, owned))))
    assert isinstance(matched, Convolution)
    return of_one_place(matched)


def drawn(rng: random.Random) -> Recipe:
    """A recipe with one output of each filter; the image may go on behind the window."""
    windows = []
    for _ in range(rng.choice((1, 2, 2))):
        taps, dilation = rng.choice((1, 1, 2, 3)), rng.choice((1, 2))
        stride = rng.choice((1, 3))
        size = 1 + (taps - 1) * dilation + rng.randint(0, stride - 1)
        windows.append((size, taps, stride, dilation, 0, 0))
    r = replace(random_recipe(rng), windows=tuple(windows), written=rng.choice((2, 15, 16, 33, 70)))
    return replace(r, read=rng.choice((1, 7, 64, 130)), batch=rng.choice((1, 1, 2, 9)))


def test_drawn_convolutions() -> None:
    rng, count = random.Random(5), 0
    while count < 24 * SOAK:
        case = make(drawn(rng))
        if found(case) is not None:
            for isa in ISAS if SOAK > 1 else ISAS[count % len(ISAS) :][:1]:
                judge(case, isa, 1 + count % 2, OWNED)
            count += 1


@pytest.mark.parametrize("isa", ISAS)
def test_biases_that_int32_has_no_room_for(isa: str) -> None:
    for seed, bias in enumerate(("any", "ends", "as large as the sums")):
        for by_channel in ((False, True), (True, False)):
            case = make(replace(PLAIN, bias=bias, by_channel=by_channel, batch=2, groups=2, seed=seed))
            assert found(case) is not None
            judge(case, isa, 1, OWNED)
            judge(case, isa, 1, OWNED | {"bias_tensor"})


def test_panels_of_several_threads_and_rounds(monkeypatch: pytest.MonkeyPatch) -> None:
    tuned(monkeypatch, tuning, alone=0, chunk=1, long=1 << 9)
    case = make(replace(PLAIN, written=150, batch=5, bias="ends"))
    for threads in (1, 3):
        judge(case, "avx2" if "avx2" in ISAS else None, threads, OWNED)


def test_what_has_filters_as_rows() -> None:
    assert found(make(PLAIN)) is not None
    assert found(make(PLAIN), frozenset()) is None
    for windows in (((1, 3, 1, 1, 1, 1),) * 2, ((1, 3, 1, 1, 0, 2),) * 2, ((2, 1, 1, 1, 0, 0),) * 2):
        assert found(make(replace(PLAIN, windows=windows))) is None
    assert found(make(replace(PLAIN, written=1))) is None
    assert found(make(replace(PLAIN, read=33_026, written=2))) is None
