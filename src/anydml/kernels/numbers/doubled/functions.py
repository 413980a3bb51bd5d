"""Functions in twice float64's precision, with absolute bounds; exact powers; and results next to a tie."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from anydml.kernels.code.engine import Uncompilable
from anydml.kernels.code.values import Value
from anydml.kernels.numbers.doubled.arithmetic import (
    FAR,
    SMALL,
    Precise,
    divide,
    finite,
    multiply,
    root,
    select,
)
from anydml.kernels.numbers.doubled.levels import at_ends, erfc, expm1, gelu, saturating
from anydml.kernels.numbers.doubled.series import LEAST, NEAR, SERIES, TINY, tiny
from anydml.kernels.numbers.floats.numbers import SLACK
from anydml.kernels.numbers.floats.rounding import rounded_to_whole
from anydml.kernels.numbers.floats.transcendental import KINDS, STEEP
from anydml.kernels.numbers.functions import doubled
from anydml.kernels.numbers.functions.pairs import Pair
from anydml.kernels.numbers.lanes import Truth, either

ROOTS, SQUARES = 3, 8  # powers are tested for exactness if the exponent is a multiple of 1/8, or an integer below 2^8


class Level(NamedTuple):
    """Beyond a start (of x, or of -x if `below` is set), a function is limit + rest within err, whatever the bound of x is."""

    below: bool
    start: float
    limit: float
    rest: float
    err: float


_LEVELS: Mapping[str, tuple[Level, ...]] = {
    op: (Level(True, 500.0, 0.0, 0.0, 2.0**-700),)
    for op in ("exp", "softplus")  # e^-500 is below 2^-721
}


class Domain(NamedTuple):
    """The interval in which a function is defined; closed: whether the ends belong to it. Elsewhere `doubled` gives arbitrary
    values."""

    low: float
    high: float
    closed: bool

    def outside(self, x: Pair) -> Value:
        """The lanes in which the function is not defined, or the argument is NaN; differences from a near end are exact."""
        beyond = "ult" if self.closed else "ule"
        found = ((x.head - self.low) + x.tail).compared(beyond, 0.0)
        return found if self.high == math.inf else found | ((self.high - x.head) - x.tail).compared(beyond, 0.0)


DOMAINS: Mapping[str, Domain] = {
    "log": Domain(0.0, math.inf, closed=False),
    "log1p": Domain(-1.0, math.inf, closed=False),
    "acosh": Domain(1.0, math.inf, closed=True),
    "atanh": Domain(-1.0, 1.0, closed=False),
    **dict.fromkeys(("asin", "acos"), Domain(-1.0, 1.0, closed=True)),
}


def function(op: str, args: list[Precise]) -> Precise:
    if op in ("sigmoid", "tanh"):
        return saturating(op, args[0])
    if op == "expm1":
        return expm1(args[0], _smooth(op, args))
    if op in ("erfc", "gelu"):
        return (erfc if op == "erfc" else gelu)(args[0])
    return _smooth(op, args)


def _smooth(op: str, args: list[Precise]) -> Precise:
    """A function from its value and its slope."""
    kind = KINDS.get(op)
    if kind is None or (op not in doubled.UNARY and op not in doubled.BINARY):
        raise Uncompilable(f"{op} is not compiled in twice float64's precision")
    a, x = args[0], args[0].pair
    found = doubled.UNARY[op](x.head, x.tail) if op in doubled.UNARY else doubled.BINARY[op](x, args[1].pair)
    size = found.head.magnitude()
    far = either(found.guard, ~(size.compared("olt", FAR) & size.compared("ogt", 1 / FAR)), *(arg.guard for arg in args[1:]))
    far = either(far, *(~finite(arg.pair.head) for arg in args))
    if op in doubled.BINARY:  # both arguments have to be exact, and not 0 or so small that their quotient has lost digits
        for arg in args:
            far = either(far, arg.err.compared("une", 0.0), arg.pair.head.magnitude().compared("olt", SMALL))
        made = Precise(Pair(found.head, found.tail), size * (found.rel * SLACK), far)
        if op == "pow":
            y = args[1].pair
            real = y.tail.compared("une", 0.0) | rounded_to_whole("floor", y.head).compared("une", y.head)
            made = made._replace(guard=either(far, x.head.compared("olt", 0.0) & real))
            power, exact = exact_power(a, args[1])
            made = select(Truth(exact), power, made)
        elif a.pair.head.body.has_fma:
            made = _tiny_angle(a, args[1], made)
        return made._replace(guard=either(made.guard, *(arg.guard for arg in args)))
    if op in DOMAINS:
        far = either(far, DOMAINS[op].outside(x))
    err = size * (found.rel * SLACK)
    exact = a.err.compared("oeq", 0.0)
    if kind.slope is None:
        made = Precise(Pair(found.head, found.tail), err, either(far, ~exact))
    else:
        slope = kind.slope(x.head, found.head)
        if kind.smooth is not None:
            slope = size.body.chosen(a.err.compared("olt", STEEP), kind.smooth(x.head, found.head), size.lift(1.0) * slope)
        change = a.err * slope * 2.0
        if kind.room:  # the slope may be infinite where the argument is exact
            change = a.err.body.chosen(exact, 0.0, change)
            steep = a.err.compared("uge", kind.room(x.head) * STEEP)
        elif kind.everywhere:
            steep = a.err.compared("uno", a.err)
        else:
            steep = a.err.compared("uge", STEEP) | a.err.compared("uge", x.head.magnitude() * STEEP)
        made = Precise(Pair(found.head, found.tail), err + change, either(far, steep & ~exact))
    if op in SERIES:
        made = select(tiny(a), SERIES[op](a), made)
    for level in _LEVELS.get(op, ()):
        beyond = -x.head if level.below else x.head
        near = Precise(Pair(x.head.lift(level.limit), x.head.lift(level.rest)), x.head.lift(level.err), None)
        made = select(Truth((beyond - a.err * SLACK).compared("ogt", level.start)), near, made)
    made = at_ends(op, a, made)  # whose arguments are no longer far out
    return made._replace(guard=either(a.guard, made.guard))


def exact_power(a: Precise, y: Precise) -> tuple[Precise, Value]:
    """x^y as a product of equal factors, or of roots of x if y is no integer; and the lanes where this is exact."""
    body, zero = a.err.body, a.err.lift(0.0)
    one = Precise(Pair(zero.lift(1.0), zero), zero, None)

    def roots(_: str, carried: list[Value]) -> list[Value]:
        base, left = _of_parts(carried[:3]), carried[3]
        whole = rounded_to_whole("floor", left).compared("oeq", left)
        return [*_parts(select(Truth(whole), base, root(base))), body.chosen(whole, left, left * 2.0)]

    def squares(_: str, carried: list[Value]) -> list[Value]:
        made, base, left = _of_parts(carried[:3]), _of_parts(carried[3:6]), carried[6]
        under = rounded_to_whole("floor", left * 0.5)
        odd = (under + under).compared("une", left)
        product = select(Truth(odd), multiply(made, base), made)
        return [*_parts(product), *_parts(multiply(base, base)), under]

    # loops, which keep the code short
    _, found = body.loop("0", str(ROOTS), 1, [*_parts(a), y.pair.head.magnitude()], roots)
    # other exponents leave a remainder, and the squares are another power
    whole = rounded_to_whole("floor", found[3]).compared("oeq", found[3])
    _, found = body.loop("0", str(SQUARES), 1, [*_parts(one), *found], squares)
    made, base, left = _of_parts(found[:3]), _of_parts(found[3:6]), found[6]
    # further powers of 1 are 1
    unit = base.pair.head.compared("oeq", 1.0) & base.pair.tail.compared("oeq", 0.0) & base.err.compared("oeq", 0.0)
    inverse = divide(one, made)
    made = select(Truth(y.pair.head.compared("olt", 0.0)), _of_parts(_parts(inverse)), made)
    exact = made.err.compared("oeq", 0.0) & y.err.compared("oeq", 0.0) & y.pair.tail.compared("oeq", 0.0)
    return made, exact & whole & (left.compared("oeq", 0.0) | unit)


def _parts(a: Precise) -> list[Value]:
    """The head, the tail and the bound, which is NaN in the undecided lanes."""
    err = a.err if a.guard is None else a.err.body.chosen(a.guard, math.nan, a.err)
    return [a.pair.head, a.pair.tail, err]


def _of_parts(parts: Sequence[Value]) -> Precise:
    head, tail, err = parts
    return Precise(Pair(head, tail), err, None)


def _tiny_angle(y: Precise, x: Precise, made: Precise) -> Precise:
    """atan2 of exact numbers as q - q^3 / 3, where q = y / x is a float64."""
    a, b = y.pair.head, x.pair.head
    q = a / b
    size = q.magnitude()
    tiny = size.compared("olt", TINY) & size.compared("ogt", LEAST) & b.compared("ogt", 0.0)
    tiny = tiny & q.body.fused(-q, b, a).compared("oeq", 0.0)
    cube = q * q * q * (-1 / 3)
    guard = either(y.err.compared("une", 0.0), x.err.compared("une", 0.0))
    tiny = tiny & y.pair.tail.compared("oeq", 0.0) & x.pair.tail.compared("oeq", 0.0)
    return select(Truth(tiny), Precise(Pair(q, cube), cube.magnitude() * NEAR, guard), made)
