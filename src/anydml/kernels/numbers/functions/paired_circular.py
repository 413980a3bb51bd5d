"""Sines and cosines in pairs of float32.

|x| = k pi / n + d + r, where n is the number of entries of a table, and d one of them, so small that |r| is little more than
pi / (2 n). Up to its sign, sin |x| = S + C r - S r^2 / 2 + r^2 (C r p(r^2) + S r^2 q(r^2)). Each d is chosen so that S and C,
the sine and the cosine of k pi / n + d, are nearly float32: neither has a tail. A cosine is a sine n / 2 steps later.

STEP has so few bits after the point that |x| - k STEP - d is exact. From that, k STEP_TAIL is subtracted, so that r is the sum
of two float32. What STEP and STEP_TAIL miss of pi / n, and the roundings of differences that are as small as k STEP_TAIL, are
an error of up to 2^-49.7 k with eight entries, and of 2^-51.7 k with 32.
"""

from __future__ import annotations

from typing import NamedTuple

from anydml.kernels.code.values import Value
from anydml.kernels.numbers.functions import paired_tables as tables
from anydml.kernels.numbers.functions.pair_intervals import ROUNDER, PairInterval
from anydml.kernels.numbers.functions.picks import fine, picked

FAR = 2.0**15  # from here on, margins are so wide that float64 is faster


class Circle(NamedTuple):
    """Tables and polynomials; and the parts of a margin: (rest + of_square r^2) (|sine| + of_turns k)."""

    shifts: tuple[float, ...]
    sines: tuple[float, ...]
    cosines: tuple[float, ...]
    inverse: float
    step: float
    step_tail: float
    of_sine: tuple[float, ...]
    of_cosine: tuple[float, ...]
    rest: float
    of_square: float
    of_turns: float


EIGHT = Circle(
    tables.CIRCLE8_SHIFTS,
    tables.CIRCLE8_SINES,
    tables.CIRCLE8_COSINES,
    tables.CIRCLE8_INVERSE,
    tables.CIRCLE8_STEP,
    tables.CIRCLE8_STEP_TAIL,
    tables.SIN8_TERMS,
    tables.COS8_TERMS,
    rest=2.0**-34.2,
    of_square=2.0**-24.4,
    of_turns=2.0**-15.3,
)
THIRTY_TWO = Circle(
    tables.CIRCLE32_SHIFTS,
    tables.CIRCLE32_SINES,
    tables.CIRCLE32_COSINES,
    tables.CIRCLE32_INVERSE,
    tables.CIRCLE32_STEP,
    tables.CIRCLE32_STEP_TAIL,
    tables.SIN32_TERMS,
    tables.COS32_TERMS,
    rest=2.0**-34,
    of_square=2.0**-24.4,
    of_turns=2.0**-17.5,
)


def sin(x: Value) -> PairInterval:
    size, circle = x.magnitude(), EIGHT if not fine(x) else THIRTY_TWO
    made, index = _sine(size, circle, 0)
    return made._replace(sign=_negative(index, circle) ^ (x.bits() & -(1 << 31)))


def cos(x: Value) -> PairInterval:
    size, circle = x.magnitude(), EIGHT if not fine(x) else THIRTY_TWO
    made, index = _sine(size, circle, len(circle.sines) // 2)
    return made._replace(sign=_negative(index, circle))


def _negative(index: Value, circle: Circle) -> Value:
    """The sign bit of the sine: it changes with each half turn, which is as long as the table."""
    return (index << (32 - len(circle.sines).bit_length())) & -(1 << 31)


def _sine(size: Value, circle: Circle, after: int) -> tuple[PairInterval, Value]:
    """The sine, up to its sign, of an angle and so many steps; and bits whose low ones are those of k and these steps."""
    fused = size.body.fused
    shifted = fused(size, circle.inverse, ROUNDER + after)
    k, index = shifted - (ROUNDER + after), shifted.bits()
    shift, sine, cosine = (picked(table, "float", index) for table in (circle.shifts, circle.sines, circle.cosines))
    exact = fused(k, -circle.step, size) - shift
    r = fused(k, -circle.step_tail, exact)
    r_tail = fused(k, -circle.step_tail, exact - r)
    square, half = r * r, sine * -0.5
    # r (C - S r / 2), whose second factor has a tail, is added to S exactly
    near = fused(r, half, cosine)
    near_tail = fused(r, half, cosine - near)
    head = fused(r, near, sine)
    tail = fused(r, near_tail, fused(r, near, sine - head))
    slope = cosine * r
    tail = fused(r_tail, fused(r, fused(slope, -0.5, half), near), tail)
    rest = fused(slope, _polynomial(square, circle.of_sine), half * square * _polynomial(square, circle.of_cosine))
    tail = fused(square, rest, tail)
    share, width = fused(square, circle.of_square, circle.rest), fused(k, circle.of_turns, head.magnitude())
    low, high = fused(-width, share, tail), fused(width, share, tail)
    return PairInterval(head, low, high, size.compared("ugt", FAR), None, 2.0**-7), index


def _polynomial(x: Value, terms: tuple[float, ...]) -> Value:
    value = x.lift(terms[-1])
    for c in reversed(terms[:-1]):
        value = x.body.fused(value, x, c)
    return value
