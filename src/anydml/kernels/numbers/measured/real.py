"""Real numbers in machine code: float64 values, each with a bound of its error that is 0 where the value is exact.

t = factor * n for a constant factor above 0, and |value - n| <= err. The factor collects the constants by which a number is
multiplied and divided, so that n is often an exact integer: quotients by constants are rounded only when necessary, and then
once. Bounds are rounding errors of sums, products and quotients, which float64 holds exactly. Infinities and NaN are exact;
their err is arbitrary.

u = 2^-53. Every computed bound is rounded up by SLACK.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from fractions import Fraction

from anydml.kernels.code.values import Body, Kind, Value
from anydml.kernels.numbers.known import ANYTHING, FAR, Known, known_integer
from anydml.kernels.numbers.lanes import broadcast, chosen, either, every

U = 2.0**-53
SLACK = 1 + 2.0**-45
DIVISORS = 22  # integers up to this have a common multiple of 28 bits
TINY = 2.0**-1000  # added to bounds that are products, which might underflow to 0
ONE = Fraction(1)
NOTHING = Known(0.0, 0.0, 0, 1, 0)  # 0, an infinity or NaN
DOUBLE = Kind("double")


@dataclass(frozen=True, eq=False)
class Real:
    """A number t = factor * n in every lane.

    known: knowledge of n. err: None if it is 0 in every lane. guard: the undecided lanes. constant: t, if it is a nonzero
    constant; its n is 1 or -1.
    """

    value: Value
    err: Value | None = None
    known: Known = ANYTHING
    factor: Fraction = ONE
    guard: Value | None = None
    constant: Fraction | None = None

    @property
    def body(self) -> Body:
        return self.value.body

    @property
    def exact(self) -> bool:
        return self.err is None

    @property
    def digits(self) -> int:
        """The significant bits of the value."""
        return self.known.digits if self.exact else 53


def fraction(body: Body, x: Fraction) -> Real:
    """A constant as a number."""
    if not x:
        return Real(body.constant(DOUBLE, 0.0), known=known_integer(0, 0))
    sign = 1 if x > 0 else -1
    return Real(body.constant(DOUBLE, sign), known=known_integer(sign, sign), factor=abs(x), constant=x)


def special(body: Body, x: float) -> Real:
    """The number -0, an infinity or NaN."""
    return Real(body.constant(DOUBLE, x), known=NOTHING)


def sum_of(*errors: Value | None) -> Value | None:
    """The sum of bounds, rounded up."""
    found: Value | None = None
    several = False
    for e in errors:
        if e is not None:
            if found is None:
                found = e
            else:
                a, b = broadcast(found, e)
                found, several = a + b, True
    return found * SLACK if several and found is not None else found


def kept(err: Value, *factors: Value) -> Value:
    """A bound that is a product of factors: 0 only where one of the factors is."""
    nonzero: Value | None = None
    for x in factors:
        there = x.compared("une", 0.0)
        nonzero = there if nonzero is None else every(nonzero, there)
    assert nonzero is not None
    return chosen(nonzero, err * SLACK + TINY, err.lift(0.0))


def ranged(made: Real, *operands: Real, nonzero: Value | None = None) -> Real:
    """The number with guards where it, or its rounding error, may exceed float64's range.

    nonzero: the lanes where the operands say that a small result is not 0.
    """
    guards = [made.guard]
    if not made.known.largest < FAR:
        finite: Value | None = None
        for x in operands:
            there = x.value.magnitude().compared("olt", math.inf)
            finite = there if finite is None else every(finite, there)
        big = ~made.value.magnitude().compared("ole", FAR)
        guards.append(big if finite is None else every(big, finite))
    if nonzero is not None:
        guards.append(every(made.value.magnitude().compared("olt", 1 / FAR), nonzero))
    return replace(made, guard=either(*guards))
