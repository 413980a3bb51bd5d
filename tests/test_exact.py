"""The arithmetic of exactness: formats against fractions, identities on every special value, and evaluations that end."""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from flint import ctx, fmpq

from anydml.exact import functions, reals
from anydml.exact.formats import FLOAT16, FLOAT32, FLOAT64, Format, half_even, nearest, significand, wrapped
from anydml.exact.reals import Undecided, decoded, encoded, refined
from anydml.kernels import evaluate
from anydml.schema import identities
from anydml.schema.expression import Expr, Tensor, each, erf, exp, log
from anydml.schema.statement import nest
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
    """Against the neighbours of the result, in fractions."""
    rng, cases = random.Random(form.bits), 0

    def value(bits: int) -> Fraction:
        magnitude = bits & ~form.sign
        m, e = significand(min(magnitude, form.infinity - 1), form)
        found = Fraction(m) * Fraction(2) ** e
        return found if magnitude < form.infinity else Fraction(2) ** form.highest  # infinity stands one step beyond

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
        monkeypatch.setattr(evaluate, "rewritten", lambda e: e)
    array = np.array([x], data_type.dtype)
    i = each((1,))
    made = nest(i, make(Tensor("x", (1,), data_type)[i]))
    found = evaluate.evaluators({"y": made}, {"y": data_type}, {"x": array})["y"].stored(0)
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
    assert applied == set(identities.IDENTITIES)
    assert cases == len(sides) * len(SPECIAL)


def test_what_identities_are_for_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    """Far out, the left side has no digits to be found at any precision that fits a machine."""
    assert evaluated(lambda x: 1 + erf(x), -3e38, DataType.FLOAT32, True, monkeypatch) == 0
    assert evaluated(lambda x: log(1 + exp(x)), -3e38, DataType.FLOAT32, True, monkeypatch) == 0
    assert evaluated(lambda x: exp(x) - 1, -3e38, DataType.FLOAT32, True, monkeypatch) == 0xBF800000


@pytest.mark.parametrize(
    "name", ["exp", "log", "sin", "cos", "tan", "asin", "acos", "atan", "sinh", "cosh", "tanh", "erf", "erfc"]
)
def test_functions_at_special_values_are_the_standard_library_s(name: str) -> None:
    """Beside the mathematical value in double precision, at most a unit in the last place of float32 away."""
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
    """A sum of intervals that cancels is zero, and a number beside a boundary lies on it, once 2^-1024 does not help."""
    third = fmpq(1, 3)

    def difference() -> int:
        x = functions.exp(third)
        return encoded(reals.subtract(x, functions.exp(third)), FLOAT32)

    assert refined(difference) == 0  # +0: of equal terms

    def tie() -> int:
        x = functions.exp(third)
        half = reals.divide(x, reals.multiply(fmpq(2**24), x))  # 2^-24 as an interval
        return encoded(reals.add(fmpq(1), half), FLOAT32)

    assert refined(tie) == 0x3F800000  # half to even
