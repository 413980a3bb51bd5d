"""Functions in twice float64's precision, with absolute bounds; powers that are exact, and what lies beside a tie."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from anydml.kernels.code.engine import Uncompilable
from anydml.kernels.code.values import Value
from anydml.kernels.elementwise.functions import doubled
from anydml.kernels.elementwise.functions.pairs import Pair
from anydml.kernels.elementwise.numbers import SLACK, either
from anydml.kernels.elementwise.precise_arithmetic import (
    FAR,
    LEAST_BOUND,
    Condition,
    Precise,
    all_signed,
    divide,
    finite,
    is_zero,
    multiply,
    root,
    select,
    subtract,
)
from anydml.kernels.elementwise.rounding import rounded_to_whole
from anydml.kernels.elementwise.transcendental import KINDS, STEEP

TINY = 2.0**-40  # below it, the square of an argument is below what is promised of a term
LEAST = 2.0**-300  # above it, the cube of an argument is a normal float64
ROOTS, SQUARES = 3, 8  # of a power that may be exact: its exponent is a number of eighths, or an integer below 2^8
NEAR = 2.0**-48  # more than the roundings of a term, and what follows it
LEVEL = 1.0  # where 1 - |tanh(x)| begins to be computed
EXPONENTS = 689.0  # from where on e^-x is less than 2^-990
BEYOND = 750.0  # from where on it is less than 2^-1080

_LIMITS: Mapping[str, Mapping[float, float]] = {
    "sigmoid": {-math.inf: 0.0, math.inf: 1.0},
    **{key: {-math.inf: -1.0, math.inf: 1.0} for key in ("tanh", "erf")},
    "exp": {-math.inf: 0.0, math.inf: math.inf},
    "expm1": {-math.inf: -1.0, math.inf: math.inf},
    "softplus": {-math.inf: 0.0, math.inf: math.inf},
    "erfc": {-math.inf: 2.0, math.inf: 0.0},
}
_KEEPING_ZERO = {"tanh", "expm1", "sinh", "asinh", "atan", "erf", "sin", "tan", "asin", "atanh", "log1p", "gelu"}


class Level(NamedTuple):
    """Beyond a start, of x or where that is below of -x, a function is limit + rest, within err, whatever x may be off by."""

    below: bool
    start: float
    limit: float
    rest: float
    err: float


_LEVELS: Mapping[str, tuple[Level, ...]] = {
    **{op: (Level(True, 500.0, 0.0, 0.0, 2.0**-700),) for op in ("exp", "softplus")},  # e^-500 is below 2^-721
    # e^-625 is below 2^-901
    "erfc": (Level(False, 25.0, 0.0, 0.0, 2.0**-700), Level(True, 25.0, 2.0, -(2.0**-901), 2.0**-901)),
    "expm1": (Level(True, 150.0, -1.0, 2.0**-216, 2.0**-216),),  # e^-150 is below 2^-216
}


class Domain(NamedTuple):
    """The interval in which a function is a number; closed: at its ends, too. Elsewhere `doubled` gives anything."""

    low: float
    high: float
    closed: bool

    def outside(self, x: Pair) -> Value:
        """The lanes in which a function is none, or whose argument is NaN; differences beside an end are exact."""
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
        return _saturating(op, args[0])
    kind = KINDS.get(op)
    if kind is None or (op not in doubled.UNARY and op not in doubled.BINARY):
        raise Uncompilable(f"{op} is not compiled in twice float64's precision")
    a, x = args[0], args[0].pair
    found = doubled.UNARY[op](x.head, x.tail) if op in doubled.UNARY else doubled.BINARY[op](x, args[1].pair)
    size = found.head.magnitude()
    far = either(found.guard, ~(size.compared("olt", FAR) & size.compared("ogt", 1 / FAR)), *(arg.guard for arg in args[1:]))
    far = either(far, *(~finite(arg.pair.head) for arg in args))
    if op in doubled.BINARY:  # of exact numbers that are not 0
        for arg in args:
            far = either(far, arg.err.compared("une", 0.0), arg.pair.head.compared("oeq", 0.0))
        made = Precise(Pair(found.head, found.tail), size * (found.rel * SLACK), far)
        if op == "pow":
            y = args[1].pair
            real = y.tail.compared("une", 0.0) | rounded_to_whole("floor", y.head).compared("une", y.head)
            made = made._replace(guard=either(far, x.head.compared("olt", 0.0) & real))
            power, exact = exact_power(a, args[1])
            made = select(Condition(exact, None), power, made)
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
        if kind.room:  # beside a lane that is exact, a slope may be infinite
            change = a.err.body.chosen(exact, 0.0, change)
            steep = a.err.compared("uge", kind.room(x.head) * STEEP)
        elif kind.everywhere:
            steep = a.err.compared("uno", a.err)
        else:
            steep = a.err.compared("uge", STEEP) | a.err.compared("uge", x.head.magnitude() * STEEP)
        made = Precise(Pair(found.head, found.tail), err + change, either(far, steep & ~exact))
    if op in _TINY:
        size = x.head.magnitude()
        tiny = size.compared("olt", TINY) & size.compared("ogt", LEAST)
        made = select(Condition(tiny, None), _TINY[op](a), made)
    for level in _LEVELS.get(op, ()):
        beyond = -x.head if level.below else x.head
        near = Precise(Pair(x.head.lift(level.limit), x.head.lift(level.rest)), x.head.lift(level.err), None)
        made = select(Condition((beyond - a.err * SLACK).compared("ogt", level.start), None), near, made)
    return _at_ends(op, a, made)._replace(guard=either(a.guard, made.guard))


def _at_ends(op: str, a: Precise, made: Precise) -> Precise:
    """A function at infinity, at NaN and, of an odd function, at 0."""
    x = a.pair.head
    zero, signed = x.lift(0.0), all_signed(x)
    made = made._replace(signed=signed)  # it is no 0 anywhere else
    for at, value in _LIMITS.get(op, {}).items():
        limit = Precise(Pair(x.lift(value), zero), zero, None, signed)
        made = select(Condition(x.compared("oeq", at), None), limit, made)
    itself = x.compared("uno", x)
    if op in _KEEPING_ZERO:
        itself = itself | is_zero(a)
    return select(Condition(itself, None), Precise(Pair(x, zero), zero, None, a.signed), made)


def _where(mask: Value, make: Callable[[], doubled.Doubled]) -> tuple[Value, Value]:
    """A head and a tail where a mask holds in any lane, else zeros: what is not looked at takes no time."""
    body = mask.body
    before, some, made, after = (body.name(name) for name in ("before", "some", "made", "after"))
    body.jump(before)
    body.label(before)
    bits = body.op(f"bitcast {mask.kind.text} {mask.name} to i{mask.kind.lanes}")
    body.branch(body.op(f"icmp ne i{mask.kind.lanes} {bits}, 0"), some, after)
    body.label(some)
    found = make()
    body.jump(made)
    body.label(made)
    body.jump(after)
    body.label(after)
    head, tail = (
        body.value(f"phi {v.kind.text} [ zeroinitializer, %{before} ], [ {v.name}, %{made} ]", v.kind)
        for v in (found.head, found.tail)
    )
    return head, tail


def _saturating(op: str, a: Precise) -> Precise:
    """sigmoid(x), for x > 0 as 1 - sigmoid(-x), and tanh(x) as 1 - 2 sigmoid(-2 x) from `LEVEL` on, with its sign.

    The difference of such a result from 1 is therefore known to as many digits as 1, and decides on which side of a tie the
    result is, down to differences of 2^-990. Smaller ones are between 0 and 2^-990 or, for x from 750 on, 2^-1070, which is
    negligible beside numbers of a magnitude of 1. For tiny x, the results are 1/2 + x / 4 and x; the next term of the series is
    at least known to be negligible.
    """
    body, x = a.pair.head.body, a.pair
    size = x.magnitude() if op == "sigmoid" else x.magnitude().scaled(2.0)
    off = a.err if op == "sigmoid" else a.err * 2.0
    distance = size.head - off * SLACK
    far, beyond = distance.compared("ogt", EXPONENTS), distance.compared("ogt", BEYOND)
    tiny = x.head.magnitude().compared("olt", TINY)
    least = x.head.magnitude().compared("ole", LEAST)
    inner = x.head.magnitude().compared("ole", LEVEL)
    computed = ~far & finite(x.head) & ~(tiny if op == "sigmoid" else inner)
    y, tail = _where(computed, lambda: doubled.UNARY["sigmoid"](-size.head, -size.tail))
    # of y, the derivative is y (1 - y)
    err = y * (doubled.REL * SLACK) + off * y * 2.0 + LEAST_BOUND
    err = body.chosen(far, body.chosen(beyond, LEAST_BOUND, err.lift(2.0**-990)), err)
    rest = Pair(y, tail).where(~far, 0.0)
    below = Precise(rest, err, ~far & ~off.compared("olt", STEEP))
    one = Precise(Pair(y.lift(1.0), y.lift(0.0)), y.lift(0.0), None)
    if op == "sigmoid":
        made = select(Condition(x.head.compared("ogt", 0.0), None), subtract(one, below), below)
        made = select(Condition(tiny, None), _TINY[op](a), made)
    else:
        made = subtract(one, Precise(below.pair.scaled(2.0), below.err * 2.0, below.guard))
        made = made._replace(pair=made.pair.negated(x.head.compared("olt", 0.0)))
        near = Pair(*_where(inner & ~tiny, lambda: doubled.UNARY["tanh"](x.head, x.tail)))
        within = Precise(near, near.head.magnitude() * (doubled.REL * SLACK) + a.err * 2.0, None)
        within = select(Condition(tiny, None), _TINY[op](a), within)
        # the cube of what is smaller is nothing beside it
        itself = Precise(x, a.err * 2.0 + x.head.magnitude() * 2.0**-500, None)
        within = select(Condition(least, None), itself, within)
        made = select(Condition(inner, None), within, made)
    return _at_ends(op, a, made)._replace(guard=either(a.guard, made.guard))


def exact_power(a: Precise, y: Precise) -> tuple[Precise, Value]:
    """x^y as a product of equal factors, roots of x where y is no integer, and where that is exact."""
    body, zero = a.err.body, a.err.lift(0.0)
    one = Precise(Pair(zero.lift(1.0), zero), zero, None)

    def roots(_: str, carried: list[Value]) -> list[Value]:
        base, left = _of_parts(carried[:3]), carried[3]
        whole = rounded_to_whole("floor", left).compared("oeq", left)
        return [*_parts(select(Condition(whole, None), base, root(base))), body.chosen(whole, left, left * 2.0)]

    def squares(_: str, carried: list[Value]) -> list[Value]:
        made, base, left = _of_parts(carried[:3]), _of_parts(carried[3:6]), carried[6]
        under = rounded_to_whole("floor", left * 0.5)
        odd = (under + under).compared("une", left)
        product = select(Condition(odd, None), multiply(made, base), made)
        return [*_parts(product), *_parts(multiply(base, base)), under]

    # loops, so that there is less to compile
    _, found = body.loop("0", str(ROOTS), 1, [*_parts(a), y.pair.head.magnitude()], roots)
    whole = rounded_to_whole("floor", found[3]).compared("oeq", found[3])  # of anything else, the squares make another power
    _, found = body.loop("0", str(SQUARES), 1, [*_parts(one), *found], squares)
    made, base, left = _of_parts(found[:3]), _of_parts(found[3:6]), found[6]
    # further powers of 1 are 1
    unit = base.pair.head.compared("oeq", 1.0) & base.pair.tail.compared("oeq", 0.0) & base.err.compared("oeq", 0.0)
    inverse = divide(one, made)
    made = select(Condition(y.pair.head.compared("olt", 0.0), None), _of_parts(_parts(inverse)), made)
    exact = made.err.compared("oeq", 0.0) & y.err.compared("oeq", 0.0) & y.pair.tail.compared("oeq", 0.0)
    return made, exact & whole & (left.compared("oeq", 0.0) | unit)


def _parts(a: Precise) -> list[Value]:
    """The head, the tail and the bound, which is NaN in the lanes that stay open."""
    err = a.err if a.guard is None else a.err.body.chosen(a.guard, math.nan, a.err)
    return [a.pair.head, a.pair.tail, err]


def _of_parts(parts: Sequence[Value]) -> Precise:
    head, tail, err = parts
    return Precise(Pair(head, tail), err, None)


# --- beside a tie: arguments so small that a few terms of a series tell on which side a value is ---


def _odd(third: float) -> Callable[[Precise], Precise]:
    """x + third x^3, of odd functions."""

    def of(a: Precise) -> Precise:
        x = a.pair.head
        cube = x * x * x * third
        err = a.err * 2.0 + (a.pair.tail.magnitude() + cube.magnitude()) * NEAR
        return Precise(Pair(x, a.pair.tail + cube), err, None)

    return of


def _second(first: float, second: float) -> Callable[[Precise], Precise]:
    """first x + second x^2; first is a power of two."""

    def of(a: Precise) -> Precise:
        x, tail = a.pair.head, a.pair.tail * first
        square = x * x * second
        err = a.err * 2.0 + (tail.magnitude() + x * x) * (4 * TINY)
        return Precise(Pair(x * first, tail + square), err, None)

    return of


def _linear(at_zero: float, slope: float) -> Callable[[Precise], Precise]:
    """at_zero + slope x."""

    def of(a: Precise) -> Precise:
        x = a.pair.head
        err = (a.err + a.pair.tail.magnitude()) * 2.0 + x * x
        if slope != 1:
            err = err + x.magnitude() * NEAR
        return Precise(Pair(x.lift(at_zero), x * slope), err, None)

    return of


def _sigmoid(a: Precise) -> Precise:
    """1/2 + x / 4, whose next term is -x^3 / 48."""
    x = a.pair.head
    return Precise(Pair(x.lift(0.5), x * 0.25), a.err + a.pair.tail.magnitude() + x.magnitude() * (x * x), None)


def _tiny_angle(y: Precise, x: Precise, made: Precise) -> Precise:
    """q - q^3 / 3 where q = y / x is a float64, of exact numbers."""
    a, b = y.pair.head, x.pair.head
    q = a / b
    size = q.magnitude()
    tiny = size.compared("olt", TINY) & size.compared("ogt", LEAST) & b.compared("ogt", 0.0)
    tiny = tiny & q.body.fused(-q, b, a).compared("oeq", 0.0)
    cube = q * q * q * (-1 / 3)
    guard = either(y.err.compared("une", 0.0), x.err.compared("une", 0.0))
    tiny = tiny & y.pair.tail.compared("oeq", 0.0) & x.pair.tail.compared("oeq", 0.0)
    return select(Condition(tiny, None), Precise(Pair(q, cube), cube.magnitude() * NEAR, guard), made)


_TINY: Mapping[str, Callable[[Precise], Precise]] = {
    **{op: _odd(third) for op, third in (("sinh", 1 / 6), ("tanh", -1 / 3), ("asinh", -1 / 6), ("atanh", 1 / 3))},
    **{op: _odd(third) for op, third in (("sin", -1 / 6), ("tan", 1 / 3), ("asin", 1 / 6), ("atan", -1 / 3))},
    "expm1": _second(1.0, 0.5),
    "log1p": _second(1.0, -0.5),
    "gelu": _second(0.5, 1 / math.sqrt(2 * math.pi)),
    "exp": _linear(1.0, 1.0),
    "sigmoid": _sigmoid,
    "erfc": _linear(1.0, -2 / math.sqrt(math.pi)),
}
