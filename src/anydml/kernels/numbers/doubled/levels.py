"""Functions in twice float64's precision that approach limits: the distance to a limit is computed to full precision.

So the distance tells on which side of a tie a result is, down to 2^-990.
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

LEVEL = 1.0  # where 1 - |tanh(x)| begins to be computed
# from where on what decays is less than 2^-990, and from where on it is less than 2^-1080
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
    """A function at infinity, at NaN and, of an odd function, at 0."""
    x = a.pair.head
    zero, signed = x.lift(0.0), all_signed(x)
    made = made._replace(signed=signed)  # it is no 0 anywhere else
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
    """sigmoid(x) or e^x, or erfc(x), in the lanes of a mask and where it is next to nothing.

    off: of x. It has all its digits down to 2^-990. Beyond, it lies between 0 and that, and then between 0 and 2^-1070: that
    counts as nothing beside numbers of a magnitude of 1.
    """
    body = off.body
    distance = (x.head if op == "erfc" else -x.head) - off * SLACK
    far, beyond = (distance.compared("ogt", start) for start in DECAYED[op])
    y, tail = _where(computed & ~far, lambda: doubled.UNARY[op](x.head, x.tail))
    slope = y * (x.head.magnitude() * 2.0 + 1.5) if op == "erfc" else y  # of sigmoid, y (1 - y)
    err = y * (doubled.REL * SLACK) + off * slope * 2.0 + LEAST_BOUND
    err = body.chosen(far, body.chosen(beyond, LEAST_BOUND, err.lift(2.0**-990)), err)
    return Precise(Pair(y, tail).where(~far, 0.0), err, ~far & ~off.compared("olt", STEEP))


def expm1(a: Precise, near: Precise) -> Precise:
    """e^x - 1, of which what it lacks to -1 is known to as many digits as 1 is; near: as it is computed from -1 on."""
    x = a.pair
    below = x.head.compared("olt", -LEVEL)
    made = subtract(_decaying("exp", x.where(below, 0.0), a.err, below & finite(x.head)), _constant(a, 1.0))
    made = at_ends("expm1", a, select(Truth(below), made, near))
    return made._replace(guard=either(a.guard, made.guard))


def erfc(a: Precise) -> Precise:
    """erfc(x), below -1 as 2 - erfc(-x), so that what it lacks to 2 is known to as many digits as 1 is."""
    x = a.pair
    below = x.head.compared("olt", -LEVEL)
    made = _decaying("erfc", (-x).where(below, x), a.err, finite(x.head))
    made = select(Truth(below), subtract(_constant(a, 2.0), made), made)
    made = at_ends("erfc", a, select(tiny(a), SERIES["erfc"](a), made))
    return made._replace(guard=either(a.guard, made.guard))


def gelu(a: Precise) -> Precise:
    """x erfc(-x / sqrt(2)) / 2, but for a few terms of a series beside 0; at -infinity, NaN."""
    zero = a.err.lift(0.0)
    factor = Precise(-Pair(zero, zero)._lift(doubled.ROOT_HALF), zero.lift(2.0**-104), None)
    half = Precise(a.pair.scaled(0.5), a.err * 0.5, a.guard, a.signed)
    made = multiply(half, erfc(multiply(a, factor)))
    made = at_ends("gelu", a, select(tiny(a), SERIES["gelu"](a), made))
    return made._replace(guard=either(a.guard, made.guard))


def softsign(a: Precise) -> Precise:
    """x / (1 + |x|), of x > 1 as 1 - 1 / (1 + x), so that what it lacks to 1 is known to as many digits as 1 is."""
    x, one = a.pair.head, _constant(a, 1.0)
    under = add(one, absolute(a))
    outer = subtract(one, divide(one, under))
    outer = outer._replace(pair=outer.pair.negated(x.compared("olt", 0.0)))
    return select(Truth(x.magnitude().compared("ogt", LEVEL)), outer, divide(a, under))


def _constant(a: Precise, value: float) -> Precise:
    zero = a.err.lift(0.0)
    return Precise(Pair(zero.lift(value), zero), zero, None)


def saturating(op: str, a: Precise) -> Precise:
    """sigmoid(x), for x > 0 as 1 - sigmoid(-x), and tanh(x) as 1 - 2 sigmoid(-2 x) from `LEVEL` on, with its sign.

    So what such a result lacks to 1 is known to as many digits as 1 is, and tells on which side of a tie a result lies, down to
    2^-990. Of 1/2 + x / 4, and of x, the next term is known to be nothing at least.
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
        # the cube of what is smaller is nothing beside it
        itself = Precise(x, a.err * 2.0 + x.head.magnitude() * 2.0**-500, None)
        within = select(Truth(least), itself, within)
        made = select(Truth(inner), within, made)
    return at_ends(op, a, made)._replace(guard=either(a.guard, made.guard))
