"""Real numbers in machine code: float64 values with rigorous bounds, and float32 values for numbers that are exactly float32.

u = 2^-53 is the error of one rounding. Rules: reads are exact; an operation on exact numbers is exact if its digits fit into
float64, else it is rounded once, and then its rounding to odd is known too (by TwoSum, or the remainder from a fused
multiply-add), which decides ties; otherwise relative bounds add up for products, absolute ones for sums. A guard marks lanes
where bounds do not hold: they are decided elsewhere, so that adding a guard is always sound.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from fractions import Fraction

from anydml.kernels.code.engine import Uncompilable
from anydml.kernels.code.values import Body, Value
from anydml.kernels.numbers.functions.pair_intervals import PairInterval
from anydml.kernels.numbers.known import ANYTHING, Known, known_constant, known_of
from anydml.kernels.numbers.lanes import either
from anydml.kernels.numbers.wholes import WholeNumber
from anydml.tensor import DataType

U = 2.0**-53
SLACK = 1 + 2.0**-20  # for the roundings of bounds themselves
FAR = 2.0**1000  # float64 values beyond this, or below 1 / FAR, may have lost digits
SINGLE = known_of(DataType.FLOAT32)
Lazy = Callable[[], Value]


def once(make: Lazy) -> Lazy:
    """A function that emits a value at its first call and returns the same value at later ones."""
    found: list[Value] = []

    def get() -> Value:
        if not found:
            found.append(make())
        return found[0]

    return get


@dataclass(frozen=True, eq=False)
class Number:
    """A real number t in every lane, or an infinity or NaN, which are exact.

    wide: t in float64. exact: whether wide is t; otherwise |wide - t| <= rel * |wide| + err. nearest: whether wide is t rounded
    half to even. single: t, if it is a float32. native: t rounded to float32 by one operation of the processor; operands: what
    is known of that operation's operands, () if it is no sum, product, quotient or root of float32. odd: t rounded
    to odd in float64, which suffices for every narrower rounding and comparison. rest: t - wide, for sums. saturated: an
    exponent; beyond 2^saturated and (unless known.least is given) below its reciprocal, wide only says on which side of this
    limit t is, and t is not 0; 0 if there is no such limit. guard: lanes that have to be decided elsewhere. ends: for a number
    that is to be stored and has no err, two values that enclose t more closely than rel does. pair: float32 heads and tails
    that enclose t; such a number has no other form. zero: lanes where t, although saturated, is certainly 0, and so is wide.
    finer: a head, a tail and a bound, if they are closer than the ends, which are float64.
    """

    body: Body
    wide: Lazy
    known: Known = ANYTHING
    exact: bool = False
    single: Value | None = None
    native: Lazy | None = None
    operands: tuple[Known, ...] = ()
    nearest: bool = False
    odd: Lazy | None = None
    rest: Lazy | None = None
    rel: float = 0.0
    err: Lazy | None = None
    saturated: int = 0
    guard: Value | None = field(default=None)
    ends: Callable[[], tuple[Value, Value]] | None = None
    pair: PairInterval | None = None
    zero: Lazy | None = None
    finer: Callable[[], tuple[Value, Value, Value]] | None = None

    def guarded(self, *more: Value | None) -> Number:
        return replace(self, guard=either(self.guard, *more))

    def error(self) -> Value:
        """The whole bound as an absolute one; 0 for an exact number."""
        if self.err is None:
            return self.wide().magnitude() * (self.rel * SLACK)
        if not self.rel:
            return self.err()
        return self.body.fused(self.wide().magnitude(), self.rel * SLACK, self.err()) * SLACK


def of_single(x: Value, known: Known = SINGLE, guard: Value | None = None) -> Number:
    """The number of a float32."""
    return Number(x.body, once(lambda: x.converted("fpext", x.kind.of("double"))), known, exact=True, single=x, guard=guard)


def of_pair(x: PairInterval, guard: Value | None) -> Number:
    """The number of a pair, which has no other form."""

    def wide() -> Value:
        raise Uncompilable("a pair of float32 is used in a way that pairs do not serve")

    return Number(x.head.body, wide, guard=either(guard, x.outside), pair=x)


def whole_number(a: WholeNumber) -> Number:
    """An integer as a real number."""
    known = a.known
    how = "sitofp" if a.low < 0 else "uitofp"

    def wide() -> Value:
        value = a.value
        if a.bits < 32:  # processors convert 32 bits
            return a.resized(32).converted("sitofp", value.kind.of("double"))
        return value.converted(how, value.kind.of("double"))

    made = Number(a.value.body, once(wide), known)
    if known.digits > 24:
        to = a.value.kind.of("float")  # the processor rounds once
        made = replace(made, native=once(lambda: a.value.converted(how, to)))
        return replace(made, rel=U, nearest=True) if known.digits > 53 else replace(made, exact=True)
    single = a.resized(32).converted("sitofp", a.value.kind.of("float"))
    return replace(made, exact=True, single=single)


def constant(value: Fraction | float, like: Value) -> Number:
    """A constant; a float is -0.0, infinite or NaN, as in `Constant`."""
    body, kind = like.body, like.kind.of("double")
    if isinstance(value, float):
        special = body.constant(kind, value)
        single = body.constant(kind.of("float"), value)
        end = math.inf if value else 0.0  # ranges exclude infinity and NaN, but neither may count as a zero
        known = Known(-end, end, 0, 1, 0, constant=not value)
        return Number(body, lambda: special, known, exact=True, single=single)
    try:
        nearest = float(value)
    except OverflowError:
        raise Uncompilable("a constant beyond float64") from None
    known, wide = known_constant(value), body.constant(kind, nearest)
    if known.quantum is None or (nearest and abs(nearest) < 1 / FAR):
        return Number(body, lambda: wide, known, rel=U)
    made = Number(body, lambda: wide, known, exact=True)
    if not nearest or (known.digits <= 24 and known.quantum >= -149 and abs(nearest) < 2.0**128):
        return replace(made, single=body.constant(kind.of("float"), nearest))
    return made


def settled(x: Number) -> Number:
    """The number with its values emitted now, so that later blocks may use them."""
    wide = x.wide()
    err = x.err() if x.err is not None else None
    return replace(
        x,
        wide=lambda: wide,
        err=None if err is None else lambda: err,
        odd=(lambda: wide) if x.exact else None,
        native=None,
    )


def odd_of(nearest: Value, remainder: Value) -> Value:
    """t rounded to odd, from the nearest float64; remainder: has the sign of t - nearest, and is 0 if they are equal."""
    bits = nearest.bits()
    sides = (remainder.bits() ^ bits).shifted_right(63, signed=True)  # -1 where t is nearer to 0
    moved = bits + (sides | 1)
    even = (bits & 1).compared("eq", 0)
    body = nearest.body
    # for 0, infinity and NaN, the remainder is 0 or NaN
    return body.chosen(remainder.compared("one", 0.0) & even, moved, bits).cast(nearest.kind)


def decided_size(x: Number) -> Number:
    """The number with a guard where saturation means that t may be far from `wide`."""
    if not x.saturated:
        return x
    size, far = x.wide().magnitude(), 2.0**x.saturated
    tiny = size.compared("olt", 1 / far) if x.known.least is None else None
    if tiny is not None and x.zero is not None:
        tiny = tiny & ~x.zero()
    return replace(x.guarded(size.compared("ogt", far), tiny), saturated=0)


def saturation(*xs: Number) -> int:
    """The exponent `saturated` of a result of several numbers: the smallest of theirs, 0 if none has one."""
    return min((x.saturated for x in xs if x.saturated), default=0)


def moderate(x: Number) -> int | None:
    """An exponent k such that the number is 0 or between 2^-k and 2^k; None if there is none below 400."""
    least, largest = x.known.least, x.known.largest
    if x.saturated or least is None or largest >= 2.0**400 or least < -400:
        return None
    return max(math.frexp(largest)[1] if largest else 0, -least, 0)


def ranged(x: Number, *factors: Number, divisor: Number | None = None) -> Number:
    """The number with guards where it may exceed float64's range; factors: if none of them is 0, neither is the number.

    divisor: divisions by 0 or infinity lose nothing.
    """
    if x.saturated:
        return x
    if x.known.largest >= FAR:
        large = x.wide().magnitude().compared("ogt", FAR)
        for f in factors:
            if f.known.largest == math.inf and not f.known.constant:  # a factor of infinity is no overflow
                large = large & f.wide().magnitude().compared("olt", math.inf)
        if divisor is not None and not divisor.known.constant:
            large = large & divisor.wide().compared("une", 0.0)
        x = x.guarded(large)
    if x.known.least is None or x.known.least < -1000:
        small = x.wide().magnitude().compared("olt", 1 / FAR)
        for f in factors or (x,):
            small = small & f.wide().compared("une", 0.0)
        if divisor is not None and not divisor.known.constant:
            small = small & divisor.wide().magnitude().compared("olt", math.inf)
        x = x.guarded(small)
    return x
