"""Claims on both sides of a limit: an operand beside it has the bound that is recorded there, and the bound holds.

Numbers rarely come near these limits, so that `test_doubled.py` and `test_bounded.py`, whose operands are drawn, do not find a
limit that has moved.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Any

import gmpy2
import numpy as np
import pytest
import test_bounded
import test_doubled
from gmpy2 import mpfr
from numpy.typing import NDArray

from anydml.kernels.code import engine
from anydml.kernels.code.targets import targets
from anydml.kernels.code.values import Value
from anydml.kernels.numbers.doubled.arithmetic import Precise, subtract
from anydml.kernels.numbers.floats import rounding, transcendental
from anydml.kernels.numbers.floats.numbers import Number, U
from anydml.kernels.numbers.functions.pairs import Pair
from every_kernel import without_dot_products
from number_kernels import called, columns

pytestmark = pytest.mark.skipif(not without_dot_products(), reason="no code is emitted for this processor")

Array = NDArray[Any]
EXACT, OPEN = -math.inf, math.nan  # claims that are no bound
Operand = tuple[float, ...]
# operands, and the binary logarithm of the bound
Cases = Sequence[tuple[tuple[Operand, ...], float]]

# heads, tails and bounds
DOUBLED: Mapping[str, Cases] = {
    # products of tails may have lost digits, and so may small products
    "multiply": [
        (((1, 0.75 * 2.0**-900, 0), (1, 0, 0)), -1070),
        (((1, 2.0**-900, 0), (1, 0, 0)), EXACT),
        (((2.0**-400, 0, 0), (2.0**-350, 0, 0)), -1070),
    ],
    "divide": [(((2.0**-901, 0, 0), (1, 0, 0)), -997), (((2.0**-900, 0, 0), (1, 0, 0)), EXACT)],
    "root": [(((2.0**-902, 0, 0),), -547), (((2.0**-900, 0, 0),), EXACT)],
    # the bound is less than half a place of the tail, which is at an integer
    "floor": [(((2.0**56, 3, 2.0**-200),), 0)],
    # far out, the function is its limit within a bound
    "exp": [(((-600, 0, 0.5),), -700)],
    "softplus": [(((-600, 0, 0.5),), -700)],
    # near 0, they are some terms of a series; nearer, the first one
    "sinh": [
        (((2.0**-40, 0, 0),), -120),
        (((0.75 * 2.0**-40, 0, 0),), -171.83),
        (((1.25 * 2.0**-300, 0, 0),), -949.62),
        (((0.75 * 2.0**-300, 0, 0),), -380.42),
    ],
    "tanh": [(((1.25 * 2.0**-300, 0, 0),), -948.62), (((0.75 * 2.0**-300, 0, 0),), -800.42)],
    "sigmoid": [(((2.0**-400, 0, 0),), -1070)],
}
# a quotient of an exact number: its error, times the divisor, may be less than float64 holds
QUOTIENTS: Cases = [
    (((0.75 * 2.0**-900, 0), (3, 3 * 2.0**-40)), OPEN),
    (((2.0**-900, 0), (3, 3 * 2.0**-40)), -941.58),
]


def assert_claims(cases: Cases, bounds: Array, guards: Array) -> None:
    with np.errstate(divide="ignore"):
        found = np.where(guards == 0, np.log2(bounds), OPEN)
    assert found.tolist() == pytest.approx([claim for _, claim in cases], abs=0.01, nan_ok=True), "a limit has changed"


@pytest.mark.parametrize("name", DOUBLED)
def test_numbers_in_twice_the_precision_have_their_bounds_beside_limits(name: str) -> None:
    cases = DOUBLED[name]
    given = [np.array(operand, np.float64).T for operand in zip(*(x for x, _ in cases), strict=True)]
    made = np.zeros((5, len(cases) + 8))
    code = engine.compiled(test_doubled.emitted, targets()[0], name)
    called(code, [np.ascontiguousarray(row) for x in given for row in x], [*made])
    with test_doubled.DIGITS:
        assert all(test_doubled.judge(name, given, made, lane) for lane in range(len(cases)))
    assert_claims(cases, made[2, : len(cases)], made[3, : len(cases)])


def test_quotients_have_their_bounds_beside_the_limit() -> None:
    forms = ("exact", "err")
    given = [np.array(operand, np.float64).T for operand in zip(*(x for x, _ in QUOTIENTS), strict=True)]

    def told(a: Value, rest: Value, b: Value, error: Value) -> list[Value]:
        operands = (test_bounded.FORMS[form](*x) for form, x in zip(forms, ((a, rest), (b, error)), strict=True))
        found = test_bounded.said(test_bounded.OPERATIONS["divide"].emitted(*operands), a)
        assert found.err is not None
        assert found.guard is not None
        return [found.value, found.err, found.guard]

    made = np.stack(columns(targets()[0], told, *given[0], *given[1]))
    with test_doubled.DIGITS:
        judged = [test_bounded.judge("divide", forms, given, made, lane, Fraction(1)) for lane in range(len(QUOTIENTS))]
    assert judged == [not math.isnan(claim) for _, claim in QUOTIENTS]
    assert_claims(QUOTIENTS, made[1], made[2])


def test_a_difference_that_is_far_smaller_than_its_operands_counts_as_none() -> None:
    """1 - (1 +- 2^-1027) and 1 - (1 +- 2^-1025)."""

    def told(error: Value) -> list[Value]:
        one, zero = error.lift(1.0), error.lift(0.0)
        return [subtract(Precise(Pair(one, zero), zero, None), Precise(Pair(one, zero), error, None)).err]

    none, some = columns(targets()[0], told, np.array([2.0**-1027, 2.0**-1025]))[0].tolist()
    assert none == 0
    assert 2.0**-1025 <= some < 1.01 * 2.0**-1025


def test_ends_are_moved_apart_by_the_roundings_of_bounds_and_ends_and_little_more() -> None:
    """Of numbers that are larger than their bounds, and of bounds that are larger."""

    def told(x: Value, error: Value) -> list[Value]:
        return [*rounding._ends(Number(x.body, lambda: x, err=lambda: error))]

    rng = np.random.RandomState(3)
    x = rng.uniform(-2, 2, 400) * 2.0 ** -(np.arange(400) % 2 * 40)
    error = rng.uniform(1, 2, 400) * 2.0 ** -((1 - np.arange(400) % 2) * 20)
    low, high = columns(targets()[0], told, x, error)
    for start in (0, 1):
        moved = []
        for row in zip(*(a[start::2].tolist() for a in (x, error, low, high)), strict=True):
            t, e, bottom, top = map(Fraction, row)
            unit = Fraction(U) * (abs(t) + e)
            moved += [(t - e - bottom) / unit, (top - t - e) / unit]
        assert min(moved) >= 0
        assert 2 < max(moved) < 8


def test_slopes_are_at_least_the_derivative_beside_an_argument_and_hardly_more() -> None:
    """Of sigmoid(x) and tanh(x), which is 2 sigmoid(2 x) - 1.

    The slopes of the logarithms of their derivatives are at most 1 and 2.
    """
    off = 0.75 * transcendental.STEEP

    def told(x: Value) -> list[Value]:
        found = []
        for name in ("sigmoid", "tanh"):
            made = transcendental.function(name, [Number(x.body, lambda: x, err=lambda: x.lift(off))], "wide")
            assert made.err is not None
            found.append(made.err())
        return found

    x = np.linspace(0.01, 40, 300)
    for order, bounds in enumerate(columns(targets()[0], told, x), 1):
        slopes = (bounds / off).tolist()
        with test_doubled.DIGITS:
            for at, slope in zip(x.tolist(), slopes, strict=True):
                power = gmpy2.exp((off - mpfr(at)) * order)  # the derivative is the largest where the argument is nearest to 0
                largest = order**2 * power / (1 + power) ** 2
                assert largest * (1 + 2.0**-19) <= slope <= largest * (1 + 2.0**-16) + 2.0**-46
        assert slopes[-1] > 2.0**-50, "where the function is rounded to 1, it may still have a slope"
