"""Real numbers in machine code: float64 values, each with a bound of its error that is 0 where the value is the number.

t = factor * n for a constant factor above 0 and |value - n| <= err. The factor takes what constants multiply and divide by, so
that n is often an exact integer: quotients by constants are rounded when they have to be, and then once. Errors are what a sum,
a product or a quotient leaves over, which float64 holds exactly. Infinities and NaN stand for themselves; their err is any.

u = 2^-53. A bound is rounded up by SLACK wherever it is computed.
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
DIVISORS = 22  # integers up to here have a common multiple of 28 bits
TINY = 2.0**-1000  # added to bounds that are products, which might vanish
ONE = Fraction(1)
NOTHING = Known(0.0, 0.0, 0, 1, 0)  # 0, or no finite number
DOUBLE = Kind("double")


@dataclass(frozen=True, eq=False)
class Real:
    """A number t = factor * n in every lane.

    known: of n. err: None where it is 0 in every lane. guard: lanes in which nothing is known. constant: t, if it is one, and
    not 0; its n is 1 or -1.
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
        """Significant bits of the value."""
        return self.known.digits if self.exact else 53


def fraction(body: Body, x: Fraction) -> Real:
    """A constant."""
    if not x:
        return Real(body.constant(DOUBLE, 0.0), known=known_integer(0, 0))
    sign = 1 if x > 0 else -1
    return Real(body.constant(DOUBLE, sign), known=known_integer(sign, sign), factor=abs(x), constant=x)


def special(body: Body, x: float) -> Real:
    """-0, an infinity or NaN."""
    return Real(body.constant(DOUBLE, x), known=NOTHING)


def sum_of(*errors: Value | None) -> Value | None:
    """The sum of bounds."""
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
    """A bound that is computed of factors: 0 only where one of them is."""
    nonzero: Value | None = None
    for x in factors:
        there = x.compared("une", 0.0)
        nonzero = there if nonzero is None else every(nonzero, there)
    assert nonzero is not None
    return chosen(nonzero, err * SLACK + TINY, err.lift(0.0))


def ranged(made: Real, *operands: Real, nonzero: Value | None = None) -> Real:
    """The number with guards where float64's range may not hold it, or what it leaves over.

    nonzero: where a small result is no zero by its operands.
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
