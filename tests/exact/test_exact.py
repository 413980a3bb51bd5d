"""Exact arithmetic: formats compared with fractions, identities on every special value, and evaluations that end."""

from __future__ import annotations

import gc
import inspect
import itertools
import math
import random
import sys
import weakref
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from flint import ctx, fmpq

from anydml.exact import functions, reals
from anydml.exact.formats import FLOAT16, FLOAT32, FLOAT64, Format, half_even, nearest, significand, wrapped
from anydml.exact.reals import Undecided, decoded, encoded, refined
from anydml.exact.requantization import _decide
from anydml.kernels.evaluate import source
from anydml.kernels.evaluate.evaluator import evaluators
from anydml.kernels.evaluate.places import NotFinite, Places
from anydml.schema import identities
from anydml.schema.expression import Max, Sum, Tensor, each, erf, exp, log, over, select
from anydml.schema.node import Expr
from anydml.schema.statement import nest, stored
from anydml.tensor import DataType

FORMATS: dict[Format, Any] = {FLOAT16: np.float16, FLOAT32: np.float32, FLOAT64: np.float64}
SPECIAL = (0.0, -0.0, 1.0, -1.0, 0.5, -0.5, 2.0, -2.0, 10.0, -10.0, 2.0**-149, -(2.0**-149), math.inf, -math.inf, math.nan)


@pytest.mark.parametrize("form", FORMATS, ids=str)
def test_every_kind_of_bit_pattern_is_read_and_written(form: Format) -> None:
    rng, dtype = random.Random(form.bits), FORMATS[form]
    patterns = range(2**16) if form is FLOAT16 else [rng.getrandbits(form.bits) for _ in range(5000)]
    cases = 0
    for bits in patterns:
        value = np.array(bits, f"u{form.bits // 8}").view(dtype)
        if np.isnan(value):
            assert encoded(decoded(bits, form), form) == form.quiet_nan
            continue
        assert encoded(decoded(bits, form), form) == bits
        if np.isfinite(value):
            m, e = significand(bits, form)
            assert Fraction(m) * Fraction(2) ** e == Fraction(float(value))
        cases += 1
    assert cases > 4000


@pytest.mark.parametrize("form", FORMATS, ids=str)
def test_the_nearest_number_is_nearest_and_ties_are_even(form: Format) -> None:
    """Compared with the neighbours of the result, in fractions."""
    rng, cases = random.Random(form.bits), 0

    def value(bits: int) -> Fraction:
        magnitude = bits & ~form.sign
        m, e = significand(min(magnitude, form.infinity - 1), form)
        found = Fraction(m) * Fraction(2) ** e
        # infinity is the next number after the largest
        return found if magnitude < form.infinity else Fraction(2) ** form.highest

    for _ in range(3000):
        bits = rng.choice(
            (rng.getrandbits(form.bits - 1) % form.infinity, rng.randrange(4), form.infinity - 1 - rng.randrange(3))
        )
        here, there = value(bits), value(bits + 1)
        x = here + (there - here) * rng.choice(
            (Fraction(0), Fraction(1, 2), Fraction(1, 3), Fraction(2, 3), Fraction(rng.random()))
        )
        if x == 0:
            continue
        below = x - here < there - x or (x - here == there - x and not bits & 1)
        assert nearest(x.numerator, x.denominator, form) == (bits if below else bits + 1)
        assert nearest(-x.numerator, x.denominator, form) == (bits if below else bits + 1) | form.sign
        cases += 1
    assert cases > 2000


def test_integers_round_and_wrap() -> None:
    assert [half_even(n, 2) for n in (-5, -3, -1, 1, 3, 5)] == [-2, -2, 0, 0, 2, 2]
    assert [wrapped(n, 8, True) for n in (127, 128, -129, 256)] == [127, -128, 127, 0]
    assert [wrapped(n, 8, False) for n in (255, 256, -1)] == [255, 0, 255]


def evaluated(
    make: Callable[[Expr], Expr], x: float, data_type: DataType, rewritten: bool, monkeypatch: pytest.MonkeyPatch
) -> int:
    """The bits of an expression of one element, with identities or without."""
    if not rewritten:
        monkeypatch.setattr(source, "rewritten", lambda e: e)
    array = np.array([x], data_type.dtype)
    i = each((1,))
    made = nest(i, make(Tensor("x", (1,), data_type)[i]))
    found = evaluators({"y": made}, {"y": data_type}, {"x": array})["y"].stored(0)
    monkeypatch.undo()
    return found


@pytest.mark.parametrize("data_type", [DataType.FLOAT16, DataType.FLOAT32, DataType.FLOAT64], ids=str)
def test_each_identity_holds_at_every_special_value(data_type: DataType, monkeypatch: pytest.MonkeyPatch) -> None:
    sides: tuple[Callable[[Expr], Expr], ...] = (
        lambda x: 1 + erf(x),
        lambda x: 1 - erf(x),
        lambda x: exp(x) - 1,
        lambda x: log(1 + x),
        lambda x: log(x + 1),
    )
    cases, applied = 0, set()
    for make in sides:
        i = each((1,))
        before = make(Tensor("x", (1,), data_type)[i])
        for identity in identities.IDENTITIES:
            if identity(before) is not None:
                applied.add(identity)
        assert identities.rewritten(before) is not before
        for x in SPECIAL:
            with_it, without = (evaluated(make, x, data_type, how, monkeypatch) for how in (True, False))
            assert with_it == without, (make(Tensor("x", (1,), data_type)[i]), x)
            cases += 1
    assert applied == set(identities.IDENTITIES) - {identities.log_of_powers}  # this one is about rows
    assert cases == len(sides) * len(SPECIAL)


@pytest.mark.parametrize("data_type", [DataType.FLOAT16, DataType.FLOAT32, DataType.FLOAT64], ids=str)
def test_the_identity_of_rows_holds_for_every_pair_of_special_values(
    data_type: DataType, monkeypatch: pytest.MonkeyPatch
) -> None:
    cases = 0
    for row in itertools.product(SPECIAL, repeat=2):
        array = np.array([row], data_type.dtype)
        found = []
        for how in (True, False):
            if not how:
                monkeypatch.setattr(source, "rewritten", lambda e: e)
            x, i = Tensor("x", (1, 2), data_type), each((1,))
            k = over((i[0], i[0]), x.sizes, (1,))
            largest = Max(k, x[k])
            made = nest(i, log(Sum(k, exp(x[k] - largest))))
            assert identities.log_of_powers(made.body) is not None
            found.append(evaluators({"y": made}, {"y": data_type}, {"x": array})["y"].stored(0))
            monkeypatch.undo()
        assert found[0] == found[1], row
        cases += 1
    assert cases == len(SPECIAL) ** 2


def test_what_identities_are_for_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    """For large x, the left side has no digits that could be found at any precision that fits a machine."""
    assert evaluated(lambda x: 1 + erf(x), -3e38, DataType.FLOAT32, True, monkeypatch) == 0
    assert evaluated(lambda x: log(1 + exp(x)), -3e38, DataType.FLOAT32, True, monkeypatch) == 0
    assert evaluated(lambda x: exp(x) - 1, -3e38, DataType.FLOAT32, True, monkeypatch) == 0xBF800000


@pytest.mark.parametrize(
    "name", ["exp", "log", "sin", "cos", "tan", "asin", "acos", "atan", "sinh", "cosh", "tanh", "erf", "erfc"]
)
def test_functions_at_special_values_are_the_standard_library_s(name: str) -> None:
    """Compared with the mathematical value in double precision: at most one ULP of float32 away."""
    ours, theirs = getattr(functions, name), getattr(math, name)
    for x in SPECIAL:
        bits = int(np.float32(x).view(np.uint32))
        found = np.uint32(refined(lambda bits=bits: encoded(ours(decoded(bits, FLOAT32)), FLOAT32))).view(np.float32)  # type: ignore[misc]
        try:
            wanted = theirs(float(np.float32(x)))
        except OverflowError:
            wanted = math.inf
        except ValueError:  # outside the domain, or at its border
            wanted = -math.inf if name == "log" and x == 0 else math.nan
        assert np.isnan(found) == np.isnan(wanted)
        if not np.isnan(wanted):
            assert abs(float(found) - wanted) <= abs(wanted) * 2**-23 + 2**-149 or found == wanted
            assert wanted != 0 or math.copysign(1, found) == math.copysign(1, wanted)


def test_more_bits_are_taken_until_a_rounding_is_decided() -> None:
    asked = []

    def evaluate_() -> int:
        asked.append(ctx.prec)
        if ctx.prec < 1000:
            raise Undecided
        return 7

    assert refined(evaluate_) == 7
    assert asked == [64, 128, 256, 512, 1024]


def test_what_cannot_be_told_apart_is_equal() -> None:
    """A sum of intervals that cancels is zero, and a number closer than 2^-1024 to a boundary is on it."""
    third = fmpq(1, 3)

    def difference() -> int:
        x = functions.exp(third)
        return encoded(reals.subtract(x, functions.exp(third)), FLOAT32)

    assert refined(difference) == 0  # +0: the difference of equal terms

    def tie() -> int:
        x = functions.exp(third)
        half = reals.divide(x, reals.multiply(fmpq(2**24), x))  # 2^-24 as an interval
        return encoded(reals.add(fmpq(1), half), FLOAT32)

    assert refined(tie) == 0x3F800000  # half to even


def test_what_is_near_counts_as_equal_also_where_more_bits_would_show_its_side() -> None:
    """1 - 1 / (1 + e^-1500) is about 2^-2164, which 4096 bits could tell from zero; the sum with 1 and -1 is still zero."""

    def sigmoid(x: int) -> Any:
        return reals.divide(reals.ONE, reals.add(reals.ONE, functions.exp(fmpq(-x))))

    assert refined(lambda: encoded(reals.subtract(sigmoid(1500), fmpq(1)), FLOAT32)) == 0
    assert refined(lambda: encoded(reals.subtract(sigmoid(100), fmpq(1)), FLOAT32)) == 0x8000001B
    tie, odd = fmpq(2**24 + 1, 2**24), fmpq(2**24 + 3, 2**24)
    for boundary, to_even in ((tie, 0x3F800000), (odd, 0x3F800002)):
        for x, near in ((1500, True), (100, False)):
            for side in (-1, 1):
                shown = refined(
                    lambda b=boundary, s=side, x=x: encoded(  # type: ignore[misc]
                        reals.multiply(b, reals.add(fmpq(1), reals.multiply(fmpq(s), functions.exp(fmpq(-x))))), FLOAT32
                    )
                )
                below = 0x3F800000 if boundary == tie else 0x3F800001
                assert shown == (to_even if near else below + (side > 0))
    assert refined(lambda: reals.floor(reals.multiply(fmpq(3), sigmoid(1500)))) == 3
    assert refined(lambda: reals.floor(reals.multiply(fmpq(3), sigmoid(100)))) == 2


# --- how statements are evaluated ---


def all_of(made: Any, sizes: tuple[int, ...], **arrays: Any) -> Any:
    return evaluators({"y": made}, {"y": DataType.FLOAT32}, arrays)["y"].all(sizes)


def test_a_branch_that_is_not_taken_is_not_evaluated() -> None:
    x, few = Tensor("x", (4,), DataType.FLOAT32), Tensor("few", (2,), DataType.FLOAT32)
    (i,) = at = each((4,))
    arrays = {"x": np.array([1, -2, 3, -4], np.float32), "few": np.array([10, 20], np.float32)}
    read = nest(at, select(i < 2, few[[i]], x[[i]]))  # `few` cannot be read after its end
    assert all_of(read, (4,), **arrays).tolist() == [10, 20, 3, -4]
    huge = exp(exp(exp(x[[i]] * x[[i]] * 100)))  # no number of bits that fits a machine decides its rounding
    guarded = nest(at, select(x[[i]] > 5, huge, x[[i]]))
    assert all_of(guarded, (4,), **arrays).tolist() == [1, -2, 3, -4]
    (k,) = terms = each((4,), "k")
    skipped = nest(at, Sum(terms, select(k < 2, few[[k]], 0), x[[k]] > 0))
    assert all_of(skipped, (4,), **arrays).tolist() == [10] * 4


def test_a_recurrence_of_a_thousand_steps_goes_no_deeper_than_one_of_two() -> None:
    sizes = (1000, 2)
    x = Tensor("x", sizes, DataType.FLOAT32)
    array = np.random.default_rng(5).standard_normal(sizes).astype(np.float32)

    def step(i: Any, a: Tensor, b: Tensor) -> tuple[Expr, Expr]:
        t, j = i
        later = select(t > 0, b[t - 1, 1 - j], 0)
        return later * Fraction(1, 3) + x[t, j], a[t, j] - select(t > 0, a[t - 1, j], 1)

    def third(value: np.float32) -> Fraction:
        return Fraction(float(value)) / 3

    a, b = stored("A B", sizes, DataType.FLOAT32, step)
    want_a, want_b = np.zeros(2, np.float32), np.zeros(2, np.float32)
    for t in range(1000):
        before, flipped = want_a if t else np.ones(2, np.float32), want_b[::-1]
        exact = [third(v) + Fraction(float(w)) for v, w in zip(flipped, array[t], strict=True)]
        want_a = np.array([nearest_float32(v) for v in exact], np.float32)
        want_b = want_a - before
    one, j = last = each((1, 2))
    limit = sys.getrecursionlimit()
    try:
        sys.setrecursionlimit(len(inspect.stack(0)) + 200)
        for tensor, want in ((b, want_b), (a, want_a)):
            assert all_of(nest(last, tensor[999 + one, j]), (1, 2), x=array)[0].tolist() == want.tolist()
    finally:
        sys.setrecursionlimit(limit)


def nearest_float32(x: Fraction) -> float:
    bits = nearest(x.numerator, x.denominator, FLOAT32) if x else 0
    return float(np.uint32(bits).view(np.float32))


def test_a_statement_that_is_no_longer_used_is_forgotten() -> None:
    """Also a statement that refers to itself."""

    def made() -> weakref.ref[Tensor]:
        (tensor,) = stored("A", (3,), DataType.FLOAT32, lambda i, a: (select(i[0] > 0, a[[i[0] - 1]], 1) * 0.5,))
        at = each((3,))
        assert all_of(nest(at, exp(tensor[at])), (3,)).shape == (3,)
        return weakref.ref(tensor)

    gone = made()
    gc.collect()
    assert gone() is None


def test_sums_added_as_integers_are_those_of_ieee_754() -> None:
    """Signs of zeros, infinities, NaN and overflow, in which the fast way must not be used."""
    rows: list[tuple[list[float], float]] = [
        ([-0.0, -0.0], -0.0), ([-0.0, 0.0], 0.0), ([1.0, -1.0], 0.0), ([math.inf, 1.0], math.inf), ([3e38, 3e38], math.inf),
        ([math.inf, -math.inf], math.nan), ([math.nan, 1.0], math.nan), ([2.0**-149, 2.0**-149], 2.0**-148),
        ([2.0**-149, -0.0], 2.0**-149), ([-(2.0**127), 2.0**-149], -(2.0**127)), ([1.0, 2.0**-24], 1.0),
    ]  # fmt: skip
    for row, want in rows:
        x = Tensor("x", (2,), DataType.FLOAT32)
        terms = each((2,), "k")
        made = nest(each((1,)), Sum(terms, x[terms]))
        found = all_of(made, (1,), x=np.array(row, np.float32))
        assert found.view(np.uint32) == np.array([want], np.float32).view(np.uint32), row


def test_an_element_that_is_no_finite_number_is_none_to_add() -> None:
    places = Places(DataType.FLOAT16)
    assert [places[int(np.float16(v).view(np.uint16))] for v in (2.0**-24, -(2.0**-14), 1.0, -0.0)] == [1, -1024, 2**24, 0]
    for v in (math.inf, -math.inf, math.nan):
        with pytest.raises(NotFinite):
            places[int(np.float16(v).view(np.uint16))]


@pytest.mark.parametrize("digits", [0, 60])
def test_quotients_on_ties_are_requantised_to_the_even_number(digits: int) -> None:
    """q * p / y * 2^e is 0.5, 1.5 and 2.5, and an eighth less and more, in 64 bits and beyond them."""
    floor = np.array([0, 0, 0, 1, 1, 1, 2, 2, 2])
    q = (2 * floor + 1) * 4 + np.tile([-1, 0, 1], 3) << digits // 3
    p, y, e = (np.full(9, n, np.int64) for n in (1 << 2 * digits // 3, 1 << digits, -3))
    assert (_decide(q, p, y, e, floor) == [0, 0, 1, 1, 2, 2, 2, 2, 3]).all()
