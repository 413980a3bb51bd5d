"""Results of functions of float32 that are known without computing them, for groups of which pairs leave many undecided.

NaN; arguments so far out that the result is a limit; zeros; powers out of range; arguments so small that a result lies beside
half the argument, or beside 1/2 and a quarter of it, by next to nothing: where that is a tie, the sign of next to nothing
decides.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

from anydml.kernels.code.values import Value
from anydml.kernels.match.maps import Formula, Node
from anydml.kernels.match.maps import formula as formula_of
from anydml.kernels.numbers.floats.rounding import rounded_to_whole
from anydml.kernels.numbers.functions import paired
from anydml.kernels.numbers.functions.approximate import at_most
from anydml.kernels.numbers.functions.paired_powers import halved_exponent
from anydml.tensor import DataType

TINY = 2.0**-60  # below, x / 2 + x^2 / 4 and x / 2 + 0.4 x^2 are nearer to x / 2 than any other half of a float32 is
NEAR = 2.0**-12  # below, x^3 / 48 is less than what 1/2 + x / 4 can be away from a tie, unless it is one
QUADRATIC = 2.0**-16  # below, x^4 / 48 is less than the last place of x^2 / 4
LEVEL = 2.0**-26  # below, e^x rounds to 1, and x - x^3 / 3 to x
ERF_SLOPE, ERF_TINY = 2 / math.sqrt(math.pi), 2.0**-30  # beside 2 x / sqrt(pi), the next term is below 2^-60 of it
ONE = 127 << 23  # the bits of 1
SECOND_BINADE = 2 << 23  # the bits of a float32 below which it is as many times 2^-149

_POWER = formula_of(
    (Node("stream", (), (0, DataType.FLOAT32)), Node("stream", (), (1, DataType.FLOAT32)), Node("pow", (0, 1), None))
)


class Ends(NamedTuple):
    """Up to low and from high on, a function rounds to a limit; of zeros it is `zero`, None where that is not told."""

    low: float
    at_low: float
    high: float
    at_high: float
    zero: float | None = None


ENDS = {
    "exp": Ends(-104.0, 0.0, 89.0, math.inf),
    "log": Ends(-(2.0**-149), math.nan, math.inf, math.inf, -math.inf),
    "sigmoid": Ends(-104.0, 0.0, 18.0, 1.0),
    "swish": Ends(-112.0, -0.0, math.inf, math.inf),
    "gelu": Ends(-15.0, -0.0, math.inf, math.inf),
    "tanh": Ends(-20.0, -1.0, 20.0, 1.0),
    "erf": Ends(-20.0, -1.0, 20.0, 1.0),
}

APART = {"pow", *ENDS} - {"log"}  # those whose constants take a kernel's registers unless they are in a function of their own


def function(formula: Formula) -> str | None:
    """The function that a formula is of its elements, if results of it are known."""
    if formula == _POWER:
        return "pow"
    if [node.data for node in formula if node.op == "stream"] != [(0, DataType.FLOAT32)]:
        return None
    others = [node for node in formula if node.op not in ("stream", "same")]
    ops = [node.op for node in others]
    if ops[-1:] == ["limits"] and others[-1].data == (("low", "-0.0"),):
        if ops[:-1] == ["sigmoid", "mul"] and any(formula[a].op in ("stream", "same") for a in others[1].args):
            return "swish" if any(formula[a].op == "sigmoid" for a in others[1].args) else None
        return "gelu" if ops[:-1] == ["gelu"] else None
    return ops[0] if len(ops) == 1 and ops[0] in ENDS and ops[0] != "gelu" else None


def settled(name: str, streams: Sequence[Value]) -> tuple[Value, Value]:
    """The bits of results, and the lanes in which these are known; streams: the bits of the arguments."""
    x, *others = (bits.cast(bits.kind.of("float")) for bits in streams)
    if others:
        return _power(x, *others)
    body = x.body
    made, known = _inside(name, x)
    ends = ENDS[name]

    def put(where: Value, value: float) -> None:
        nonlocal made, known
        made = body.chosen(where, body.constant(x.kind, value).bits(), made)
        known = known | where

    put(x.compared("ole", ends.low), ends.at_low)
    put(x.compared("oge", ends.high), ends.at_high)
    if ends.zero is not None:
        put(x.compared("oeq", 0.0), ends.zero)
    put(x.compared("uno", x), math.nan)
    return made, known


def _inside(name: str, x: Value) -> tuple[Value, Value]:
    if name in ("swish", "gelu"):
        made, tiny = _half(x), x.magnitude().compared("olt", TINY)
        if name == "gelu":
            return made, tiny
        small, known = _small_swish(_no_smaller(x))
        return x.body.chosen(tiny, made, small), tiny | known
    if name == "sigmoid":
        return _beside_half(_no_smaller(x)), x.magnitude().compared("olt", NEAR)
    if name == "erf":
        return _tiny_erf(x)
    if name in ("exp", "tanh"):
        made = x.body.constant(x.kind.integer, ONE) if name == "exp" else x.bits()
        return made, x.magnitude().compared("olt", LEVEL)
    if name == "log":
        return _agreed(paired.log_of_subnormal(x))
    return x.bits(), x.compared("une", x)


def _agreed(y: paired.PairInterval) -> tuple[Value, Value]:
    low, high = y.ends()
    same = low.compared("oeq", high)
    return high.bits(), same if y.outside is None else same & ~y.outside


def _no_smaller(x: Value) -> Value:
    """x, or if it is smaller, 2^-60 with its sign, by its bits: products with subnormal numbers are slow."""
    bits = x.bits()
    least = x.body.constant(x.kind, TINY).bits()
    return (x.body.intrinsic("umax", bits & 0x7FFFFFFF, least) | (bits & -(1 << 31))).cast(x.kind)


def _half(x: Value) -> Value:
    """The bits of x / 2 and a little more, rounded."""
    bits = x.bits()
    size = bits & 0x7FFFFFFF
    up = bits.shifted_right(31, signed=True) + 1  # what is added to a negative number makes it smaller
    low = (size + up).shifted_right(1, signed=False)
    return x.body.chosen(size.compared("ult", SECOND_BINADE), low, size - (1 << 23)) | (bits & -(1 << 31))


def _beside_half(x: Value) -> Value:
    """The bits of 1/2 + x / 4 and a little towards 1/2, rounded."""
    quarter = x * 0.25
    made = quarter + 0.5
    rest = quarter - (made - 0.5)  # exact
    # rounded at a tie, away from 1/2: back by a unit, which is smaller below 1/2
    above, below = rest.compared("oeq", -(2.0**-25)), rest.compared("oeq", 2.0**-26)
    moved = x.body.chosen(x.compared("ogt", 0.0) & above, made.bits() - 1, made.bits())
    return x.body.chosen(x.compared("olt", 0.0) & below, made.bits() + 1, moved)


def _small_swish(x: Value) -> tuple[Value, Value]:
    """The bits of x / 2 + x^2 / 4, less x^4 / 48, where the square is a float32."""
    body, size, half = x.body, x.magnitude(), x * 0.5
    square = half * half
    made = half + square
    twice = (square - (made - half)) * 2.0  # what was rounded off, exactly: at a tie, a unit
    tie = ((made + twice) - made).compared("oeq", twice) & twice.compared("olt", 0.0)
    known = body.fused(half, half, -square).compared("oeq", 0.0) & size.compared("olt", QUADRATIC) & size.compared("oge", TINY)
    return body.chosen(tie, made + twice, made).bits(), known


def _tiny_erf(x: Value) -> tuple[Value, Value]:
    wide = x.converted("fpext", x.kind.of("double")) * ERF_SLOPE
    low, high = ((wide * (1 + e)).converted("fptrunc", x.kind) for e in (-(2.0**-51), 2.0**-51))
    return high.bits(), low.compared("oeq", high) & x.magnitude().compared("olt", ERF_TINY)


def _power(x: Value, y: Value) -> tuple[Value, Value]:
    """Powers that are too large or too small, of zeros and infinities among them; those that are NaN; and those that are 1.

    The bits of a number tell log2 |x| between l and l + 0.09, or less if it is subnormal.
    """
    body, size = x.body, x.magnitude()
    least = (size.bits() - ONE).converted("sitofp", x.kind) * 2.0**-23
    near = body.chosen(least.compared("ogt", 0.0), least, at_most(least + 0.09, 0.0))  # the end nearer to 0
    near = body.chosen(size.compared("oeq", 0.0), x.lift(-math.inf), near)
    # by an exponent that is smaller, it is as it is by 2^-60; of 0 it is 1, as is said below
    exponent = _no_smaller(y) * body.chosen(size.compared("oeq", math.inf), size, near)
    large, small = exponent.compared("oge", 130.0), exponent.compared("ole", -152.0)
    whole, even = (rounded_to_whole("half_to_even", v).compared("oeq", v) for v in (y, halved_exponent(y)))
    negative = x.bits().compared("slt", 0)
    made = body.chosen(large, x.lift(math.inf), 0.0).bits()
    made = made | body.chosen(negative & whole & ~even, body.constant(made.kind, -(1 << 31)), 0)
    none = negative & ~whole & size.compared("olt", math.inf) & size.compared("one", 0.0)
    none = none | x.compared("uno", y)
    one = y.compared("oeq", 0.0) | x.compared("oeq", 1.0)
    one = one | (size.compared("oeq", 1.0) & y.magnitude().compared("oeq", math.inf))
    made = body.chosen(none, body.constant(x.kind, math.nan).bits(), made)
    return body.chosen(one, body.constant(made.kind, ONE), made), large | small | none | one
