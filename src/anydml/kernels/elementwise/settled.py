"""Results of functions of float32 that are known without computing them, for groups of which pairs leave many undecided.

These are NaN, limits far out, zeros, powers out of range, and results of arguments so small that they are nearly equal
to half the argument, or from 1/2 plus a quarter of it. Where the latter is a tie, the sign of the difference decides.
Of types of 16 bits, pairs leave few results undecided but those that are NaN or infinite: of logarithms and of powers.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

from anydml.kernels.code.values import Value
from anydml.kernels.elementwise.items import single_constant
from anydml.kernels.match.normal_form import NormalForm
from anydml.kernels.numbers import singles
from anydml.kernels.numbers.floats.rounding import SIXTEEN_BIT, rounded_to_whole
from anydml.kernels.numbers.functions import paired
from anydml.kernels.numbers.functions.approximate import at_most
from anydml.kernels.numbers.functions.pair_intervals import PairInterval
from anydml.kernels.numbers.functions.paired_powers import halved_exponent
from anydml.tensor import DataType

TINY = 2.0**-60  # below, x / 2 + x^2 / 4 and x / 2 + 0.4 x^2 are nearer to x / 2 than any other half of a float32 is
NEAR = 2.0**-12  # below, x^3 / 48 is less than the distance of 1/2 + x / 4 from a tie, unless it is one
QUADRATIC = 2.0**-16  # below, x^4 / 48 is less than the last place of x^2 / 4
LEVEL = 2.0**-26  # below, e^x and cos(x) round to 1, and x - x^3 / 3 and sin(x) to x
ERF_SLOPE, ERF_TINY = 2 / math.sqrt(math.pi), 2.0**-30  # beside 2 x / sqrt(pi), the next term is below 2^-60 of it
ONE = 127 << 23  # the bits of 1
SECOND_BINADE = 2 << 23  # a float32 with lower bits than these is 2^-149 times its bits


class Ends(NamedTuple):
    """Up to low and from high on, a function rounds to a limit; at 0, it is `zero`, unless that is None."""

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
    "sin": Ends(-math.inf, math.nan, math.inf, math.nan),
    "cos": Ends(-math.inf, math.nan, math.inf, math.nan),
}

APART = {"pow", *ENDS} - {"log"}  # they are in a function of their own, so that their constants take no registers of a kernel


def function(formula: NormalForm) -> str | None:
    """The function that a formula applies to its elements, if some of its results are known."""
    if _is_power(formula):
        return "pow"
    streams = [node.data for node in formula if node.op == "stream"]
    if [node.op for node in formula] == ["stream", "log"] and streams[0][1] in (DataType.FLOAT32, *SIXTEEN_BIT):
        return "log"
    if streams != [(0, DataType.FLOAT32)]:
        return None
    others = [node for node in formula if node.op not in ("stream", "same")]
    ops = [node.op for node in others]
    if ops[-1:] == ["limits"] and others[-1].data == (("low", "-0.0"),):
        if ops[:-1] == ["sigmoid", "mul"] and any(formula[a].op in ("stream", "same") for a in others[1].args):
            return "swish" if any(formula[a].op == "sigmoid" for a in others[1].args) else None
        return "gelu" if ops[:-1] == ["gelu"] else None
    return ops[0] if len(ops) == 1 and ops[0] in ENDS and ops[0] != "gelu" else None


def _is_power(formula: NormalForm) -> bool:
    """Whether a formula is a power of streams of one type, whose exponent may be a constant."""
    if len(formula) != 3 or formula[-1].op != "pow":
        return False
    base, exponent = (formula[a] for a in formula[-1].args)
    types = {node.data[1] for node in (base, exponent) if node.op == "stream"}
    if base.op != "stream" or len(types) != 1 or not types <= {DataType.FLOAT32, *SIXTEEN_BIT}:
        return False
    return exponent.op == "stream" or single_constant(exponent) is not None


def settled(formula: NormalForm, streams: Sequence[Value]) -> tuple[Value, Value]:
    """The bits of a formula's results, and the lanes in which these are known; streams: the bits of the arguments."""
    (data_type,) = {node.data[1] for node in formula if node.op == "stream"}
    name, numbers = function(formula), [singles.widened(bits, data_type) for bits in streams]
    assert name is not None
    if name == "pow":
        base, exponent = (formula[a] for a in formula[-1].args)
        x = numbers[base.data[0]]
        made, known = _power(x, numbers[exponent.data[0]] if exponent.op == "stream" else x.lift(single_constant(exponent)))
    else:
        made, known = _of_one(name, numbers[0], data_type)
    return (made if data_type == DataType.FLOAT32 else singles.narrowed(made.cast(numbers[0].kind), data_type)), known


def _of_one(name: str, x: Value, data_type: DataType) -> tuple[Value, Value]:
    """The bits of float32 results, and the lanes in which they are known."""
    body = x.body
    # what is inside is rounded to float32
    made, known = _inside(name, x) if data_type == DataType.FLOAT32 else (x.bits(), x.compared("une", x))
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
    if name in ("exp", "cos", "tanh", "sin"):
        made = x.body.constant(x.kind.integer, ONE) if name in ("exp", "cos") else x.bits()
        return made, x.magnitude().compared("olt", LEVEL)
    if name == "log":
        return _agreed(paired.log_of_subnormal(x))
    return x.bits(), x.compared("une", x)


def _agreed(y: PairInterval) -> tuple[Value, Value]:
    low, high = y.ends()
    same = low.compared("oeq", high)
    return high.bits(), same if y.outside is None else same & ~y.outside


def _no_smaller(x: Value) -> Value:
    """x, or 2^-60 with its sign where |x| is less, by operations on bits: products with subnormal numbers are slow."""
    bits = x.bits()
    least = x.body.constant(x.kind, TINY).bits()
    return (x.body.intrinsic("umax", bits & 0x7FFFFFFF, least) | (bits & -(1 << 31))).cast(x.kind)


def _half(x: Value) -> Value:
    """The bits of x / 2 plus a tiny positive number, rounded."""
    bits = x.bits()
    size = bits & 0x7FFFFFFF
    up = bits.shifted_right(31, signed=True) + 1  # the tiny number makes a negative one smaller in magnitude
    low = (size + up).shifted_right(1, signed=False)
    return x.body.chosen(size.compared("ult", SECOND_BINADE), low, size - (1 << 23)) | (bits & -(1 << 31))


def _beside_half(x: Value) -> Value:
    """The bits of 1/2 + x / 4, moved towards 1/2 by a tiny number, rounded."""
    quarter = x * 0.25
    made = quarter + 0.5
    rest = quarter - (made - 0.5)  # exact
    # where a tie was rounded away from 1/2, go back by one unit, which is smaller below 1/2
    above, below = rest.compared("oeq", -(2.0**-25)), rest.compared("oeq", 2.0**-26)
    moved = x.body.chosen(x.compared("ogt", 0.0) & above, made.bits() - 1, made.bits())
    return x.body.chosen(x.compared("olt", 0.0) & below, made.bits() + 1, moved)


def _small_swish(x: Value) -> tuple[Value, Value]:
    """The bits of x / 2 + x^2 / 4 - x^4 / 48, and the lanes where they are known: the square is a float32."""
    body, size, half = x.body, x.magnitude(), x * 0.5
    square = half * half
    made = half + square
    twice = (square - (made - half)) * 2.0  # twice the exact rounding error: at a tie, a unit
    tie = ((made + twice) - made).compared("oeq", twice) & twice.compared("olt", 0.0)
    known = body.fused(half, half, -square).compared("oeq", 0.0) & size.compared("olt", QUADRATIC) & size.compared("oge", TINY)
    return body.chosen(tie, made + twice, made).bits(), known


def _tiny_erf(x: Value) -> tuple[Value, Value]:
    wide = x.converted("fpext", x.kind.of("double")) * ERF_SLOPE
    low, high = ((wide * (1 + e)).converted("fptrunc", x.kind) for e in (-(2.0**-51), 2.0**-51))
    return high.bits(), low.compared("oeq", high) & x.magnitude().compared("olt", ERF_TINY)


def _power(x: Value, y: Value) -> tuple[Value, Value]:
    """Powers that overflow or underflow, among them those of zeros and infinities; those that are NaN; and those that are 1.

    log2 |x| is between l and l + 0.09, where l is read from the bits of x; for a subnormal x, it is less.
    """
    body, size = x.body, x.magnitude()
    least = (size.bits() - ONE).converted("sitofp", x.kind) * 2.0**-23
    near = body.chosen(least.compared("ogt", 0.0), least, at_most(least + 0.09, 0.0))  # the end nearer to 0
    near = body.chosen(size.compared("oeq", 0.0), x.lift(-math.inf), near)
    # a smaller exponent has the result of 2^-60; an exponent of 0 has the result 1, which is set below
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
