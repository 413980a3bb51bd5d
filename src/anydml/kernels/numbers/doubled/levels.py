"""Functions in twice float64's precision that approach limits: the distance to the limit is computed to full precision.

So the distance decides on which side of a tie a result is, down to 2^-990.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

from anydml.kernels.code.values import Kind, Value
from anydml.kernels.numbers.doubled.arithmetic import (
    LEAST_BOUND,
    Precise,
    absolute,
    add,
    all_signed,
    divide,
    finite,
    is_zero,
    multiply,
    select,
    subtract,
)
from anydml.kernels.numbers.doubled.series import LEAST, SERIES, TINY, tiny
from anydml.kernels.numbers.floats.numbers import SLACK
from anydml.kernels.numbers.floats.transcendental import STEEP
from anydml.kernels.numbers.functions import doubled
from anydml.kernels.numbers.functions.pairs import Pair
from anydml.kernels.numbers.lanes import Truth, either

LEVEL = 1.0  # from here on, 1 - |tanh(x)| is computed
# the arguments from which on the distance to 0 is below 2^-990, and below 2^-1080
DECAYED: Mapping[str, tuple[float, float]] = {"sigmoid": (689.0, 750.0), "exp": (689.0, 750.0), "erfc": (26.2, 27.4)}

_LIMITS: Mapping[str, Mapping[float, float]] = {
    "sigmoid": {-math.inf: 0.0, math.inf: 1.0},
    **{key: {-math.inf: -1.0, math.inf: 1.0} for key in ("tanh", "erf")},
    "exp": {-math.inf: 0.0, math.inf: math.inf},
    "expm1": {-math.inf: -1.0, math.inf: math.inf},
    "softplus": {-math.inf: 0.0, math.inf: math.inf},
    "erfc": {-math.inf: 2.0, math.inf: 0.0},
}
_KEEPING_ZERO = {"tanh", "expm1", "sinh", "asinh", "atan", "erf", "sin", "tan", "asin", "atanh", "log1p", "gelu"}


def at_ends(op: str, a: Precise, made: Precise) -> Precise:
    """The function's value at infinities, at NaN and, for odd functions, at 0; elsewhere `made`."""
    x = a.pair.head
    zero, signed = x.lift(0.0), all_signed(x)
    made = made._replace(signed=signed)  # elsewhere, the function is not 0
    for at, value in _LIMITS.get(op, {}).items():
        limit = Precise(Pair(x.lift(value), zero), zero, None, signed)
        made = select(Truth(x.compared("oeq", at)), limit, made)
    itself = x.compared("uno", x)
    if op in _KEEPING_ZERO:
        itself = itself | is_zero(a)
    return select(Truth(itself), Precise(Pair(x, zero), zero, None, a.signed), made)


def _where(mask: Value, make: Callable[[], doubled.Doubled]) -> tuple[Value, Value]:
    """The head and tail that `make` computes, if a mask holds in any lane, else zeros: unused values take no time."""
    body = mask.body
    bits = body.op(f"bitcast {mask.kind.text} {mask.name} to i{mask.kind.lanes}")
    some = body.op(f"icmp ne i{mask.kind.lanes} {bits}, 0")
    nothing = body.constant(Kind("double", mask.kind.lanes), 0.0)

    def made() -> list[Value]:
        found = make()
        return [found.head, found.tail]

    head, tail = body.either(some, made, lambda: [nothing, nothing])
    return head, tail


def _decaying(op: str, x: Pair, off: Value, computed: Value) -> Precise:
    """sigmoid(x), e^x or erfc(x) in the lanes of a mask, and where it is nearly 0.

    off: the bound of x. The result has all digits down to 2^-990. Smaller results have a bound of 2^-990, and later one of
    LEAST_BOUND, which counts as 0 beside numbers near 1.
    """
    body = off.body
    distance = (x.head if op == "erfc" else -x.head) - off * SLACK
    far, beyond = (distance.compared("ogt", start) for start in DECAYED[op])
    y, tail = _where(computed & ~far, lambda: doubled.UNARY[op](x.head, x.tail))
    slope = y * (x.head.magnitude() * 2.0 + 1.5) if op == "erfc" else y  # the slope of sigmoid is y (1 - y)
    err = y * (doubled.REL * SLACK) + off * slope * 2.0 + LEAST_BOUND
    err = body.chosen(far, body.chosen(beyond, LEAST_BOUND, err.lift(2.0**-990)), err)
    return Precise(Pair(y, tail).where(~far, 0.0), err, ~far & ~off.compared("olt", STEEP))


def expm1(a: Precise, near: Precise) -> Precise:
    """e^x - 1, whose distance from -1 has as many digits as a number near 1; near: the result from -1 on."""
    x = a.pair
    below = x.head.compared("olt", -LEVEL)
    made = subtract(_decaying("exp", x.where(below, 0.0), a.err, below & finite(x.head)), _constant(a, 1.0))
    made = at_ends("expm1", a, select(Truth(below), made, near))
    return made._replace(guard=either(a.guard, made.guard))


def erfc(a: Precise) -> Precise:
    """erfc(x), below -1 as 2 - erfc(-x), so that its distance from 2 has as many digits as a number near 1."""
    x = a.pair
    below = x.head.compared("olt", -LEVEL)
    made = _decaying("erfc", (-x).where(below, x), a.err, finite(x.head))
    made = select(Truth(below), subtract(_constant(a, 2.0), made), made)
    made = at_ends("erfc", a, select(tiny(a), SERIES["erfc"](a), made))
    return made._replace(guard=either(a.guard, made.guard))


def gelu(a: Precise) -> Precise:
    """x erfc(-x / sqrt(2)) / 2; near 0, a few terms of a series; NaN at -infinity."""
    zero = a.err.lift(0.0)
    factor = Precise(-Pair(zero, zero)._lift(doubled.ROOT_HALF), zero.lift(2.0**-104), None)
    half = Precise(a.pair.scaled(0.5), a.err * 0.5, a.guard, a.signed)
    made = multiply(half, erfc(multiply(a, factor)))
    made = at_ends("gelu", a, select(tiny(a), SERIES["gelu"](a), made))
    return made._replace(guard=either(a.guard, made.guard))


def softsign(a: Precise) -> Precise:
    """x / (1 + |x|), for x > 1 as 1 - 1 / (1 + x), so that its distance from 1 has as many digits as a number near 1."""
    x, one = a.pair.head, _constant(a, 1.0)
    under = add(one, absolute(a))
    outer = subtract(one, divide(one, under))
    outer = outer._replace(pair=outer.pair.negated(x.compared("olt", 0.0)))
    return select(Truth(x.magnitude().compared("ogt", LEVEL)), outer, divide(a, under))


def _constant(a: Precise, value: float) -> Precise:
    zero = a.err.lift(0.0)
    return Precise(Pair(zero.lift(value), zero), zero, None)


def saturating(op: str, a: Precise) -> Precise:
    """sigmoid(x), for x > 0 as 1 - sigmoid(-x), and tanh(x), from `LEVEL` on as 1 - 2 sigmoid(-2 x), with its sign.

    So the distance from 1 has as many digits as a number near 1, and decides on which side of a tie a result is, down to
    2^-990. Near 0, results are 1/2 + x / 4 and x, whose next term is bounded.
    """
    x = a.pair
    size = x.magnitude() if op == "sigmoid" else x.magnitude().scaled(2.0)
    off = a.err if op == "sigmoid" else a.err * 2.0
    tiny = x.head.magnitude().compared("olt", TINY)
    least = x.head.magnitude().compared("ole", LEAST)
    inner = x.head.magnitude().compared("ole", LEVEL)
    below = _decaying("sigmoid", -size, off, finite(x.head) & ~(tiny if op == "sigmoid" else inner))
    one = _constant(a, 1.0)
    if op == "sigmoid":
        made = select(Truth(x.head.compared("ogt", 0.0)), subtract(one, below), below)
        made = select(Truth(tiny), SERIES[op](a), made)
    else:
        made = subtract(one, Precise(below.pair.scaled(2.0), below.err * 2.0, below.guard))
        made = made._replace(pair=made.pair.negated(x.head.compared("olt", 0.0)))
        near = Pair(*_where(inner & ~tiny, lambda: doubled.UNARY["tanh"](x.head, x.tail)))
        within = Precise(near, near.head.magnitude() * (doubled.REL * SLACK) + a.err * 2.0, None)
        within = select(Truth(tiny), SERIES[op](a), within)
        # for still smaller x, the cube is negligible
        itself = Precise(x, a.err * 2.0 + x.head.magnitude() * 2.0**-500, None)
        within = select(Truth(least), itself, within)
        made = select(Truth(inner), within, made)
    return at_ends(op, a, made)._replace(guard=either(a.guard, made.guard))
