"""The known properties of numbers hold for exact numbers: every rule of `Known`, with values that the operands allow."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from anydml import DataType
from anydml.kernels.numbers.known import Known, known_constant, known_integer, known_of
from anydml.tensor import limits

EXPONENTS = st.integers(-1074, 900)
MANTISSAS = st.integers(-(1 << 53), 1 << 53)
Sample = tuple[Known, Fraction]


@st.composite
def samples(draw: st.DrawFn) -> Sample:
    """A range with float64 ends, some further properties of a value in it, and the value."""
    exponent = draw(EXPONENTS)
    t, *ends = sorted(draw(st.lists(MANTISSAS, min_size=3, max_size=3)), key=abs)
    ends = sorted([t, *ends]) if draw(st.booleans()) else sorted([t, t, ends[0]])
    value, low, high = (Fraction(x) * Fraction(2) ** exponent for x in (t, ends[0], ends[-1]))
    known = Known(float(low), float(high))
    if math.isinf(known.low) or math.isinf(known.high) or draw(st.booleans()):
        known = Known()
    if draw(st.booleans()):
        known = replace(known, quantum=exponent, digits=abs(t).bit_length() or 1)
    if draw(st.booleans()):
        known = replace(known, least=exponent + max(abs(t).bit_length() - 1, 0))
    return known, value


def holds(known: Known, t: Fraction) -> None:
    assert known.low <= t <= known.high, (known, t)
    assert known.quantum is None or (t / Fraction(2) ** known.quantum).denominator == 1, (known, t)
    assert known.least is None or not t or abs(t) >= Fraction(2) ** known.least, (known, t)
    n = abs(t.numerator)
    odd = n // (n & -n) if n else 0
    assert odd.bit_length() <= known.digits or t.denominator & (t.denominator - 1), (known, t)


OPERATIONS: dict[str, tuple[Callable[[Known, Known], Known], Callable[[Fraction, Fraction], Fraction]]] = {
    "add": (lambda a, b: a + b, lambda x, y: x + y),
    "sub": (lambda a, b: a - b, lambda x, y: x - y),
    "mul": (lambda a, b: a * b, lambda x, y: x * y),
    "squared": (lambda a, _: a.squared(), lambda x, _: x * x),
    "neg": (lambda a, _: -a, lambda x, _: -x),
    "absolute": (lambda a, _: abs(a), lambda x, _: abs(x)),
    "max": (lambda a, b: a.larger(b), max),
    "min": (lambda a, b: a.smaller(b), min),
    "one": (lambda a, b: a | b, lambda x, _: x),
    "other": (lambda a, b: a | b, lambda _, y: y),
    "floor": (lambda a, _: a.whole(), lambda x, _: Fraction(math.floor(x))),
    "ceil": (lambda a, _: a.whole(), lambda x, _: Fraction(math.ceil(x))),
    "of few": (lambda a, _: a.summed(3), lambda x, _: x + x),
}


@pytest.mark.parametrize("op", OPERATIONS)
@given(a=samples(), b=samples())
@settings(deadline=None, max_examples=100)
def test_rules_hold_for_exact_numbers(op: str, a: Sample, b: Sample) -> None:
    rule, exactly = OPERATIONS[op]
    holds(a[0], a[1])
    holds(b[0], b[1])
    holds(rule(a[0], b[0]), exactly(a[1], b[1]))


@given(a=samples(), b=samples())
@settings(deadline=None, max_examples=200)
def test_quotients(a: Sample, b: Sample) -> None:
    if b[1]:
        holds(a[0] / b[0], a[1] / b[1])


@given(root=samples(), known=st.booleans())
@settings(deadline=None, max_examples=200)
def test_roots_of_squares(root: Sample, known: bool) -> None:
    square = Known(0.0, least=root[0].squared().least) if known else root[0].squared()
    holds(square.root(), abs(root[1]))


@given(a=samples(), data_type=st.sampled_from([DataType.FLOAT32, DataType.FLOAT16]))
@settings(deadline=None, max_examples=200)
def test_roundings(a: Sample, data_type: DataType) -> None:
    """The number that a tensor has is within its known range, or infinite."""
    with np.errstate(over="ignore"):
        made = float(data_type.dtype.type(float(a[1])))
    if math.isinf(made):
        assert not replace(a[0], finite=True).rounded(data_type).finite
    else:
        holds(a[0].rounded(data_type), Fraction(made))


@pytest.mark.parametrize("data_type", [DataType.INT8, DataType.UINT16, DataType.INT64, DataType.UINT64])
def test_integers_are_known_exactly(data_type: DataType) -> None:
    low, high = limits(data_type)
    a = known_of(data_type)
    assert a == known_integer(low, high)
    made = a * a + a - a
    ends = [x * y for x in (low, high) for y in (low, high)]
    assert made.integers == (min(ends) + low - high, max(ends) + high - low)


@pytest.mark.parametrize("value", [Fraction(0), Fraction(1, 3), Fraction(-5, 8), Fraction(3 << 60), Fraction(1, 1 << 1070)])
def test_constants(value: Fraction) -> None:
    known = known_constant(value)
    holds(known, value)
    assert known.constant
    assert known.only == (float(value) if Fraction(float(value)) == value else None)
