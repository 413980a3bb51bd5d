"""Real numbers in machine code: float64 values with rigorous bounds, and float32 ones where these are the numbers themselves.

u = 2^-53 is the error of one rounding. Rules: reads are exact; an operation on exact numbers is exact where its digits fit
into float64, else rounded once, and then its rounding to odd is known too (TwoSum, or the remainder by a fused
multiply-add), which decides ties; otherwise relative bounds add up for products, absolute ones for sums. A guard marks lanes
whose bounds do not hold: they are decided elsewhere, so that it is always sound to add one.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from fractions import Fraction

from anydml.kernels.code.engine import Uncompilable
from anydml.kernels.code.values import Body, Value
from anydml.kernels.numbers.functions.paired import PairInterval
from anydml.kernels.numbers.known import ANYTHING, Known, known_constant, known_of
from anydml.kernels.numbers.lanes import either
from anydml.kernels.numbers.wholes import WholeNumber
from anydml.tensor import DataType

U = 2.0**-53
SLACK = 1 + 2.0**-20  # for the roundings of bounds themselves
FAR = 2.0**1000  # float64 values beyond, or below 1 / FAR, may have lost digits
SINGLE, HALF = known_of(DataType.FLOAT32), known_of(DataType.FLOAT16)
Lazy = Callable[[], Value]


def once(make: Lazy) -> Lazy:
    """A value that is emitted when it is first asked for, if ever."""
    found: list[Value] = []

    def get() -> Value:
        if not found:
            found.append(make())
        return found[0]

    return get


@dataclass(frozen=True, eq=False)
class Number:
    """A real number t in every lane, or an infinity or NaN, which are as they are.

    wide: float64. exact: it is t; otherwise |wide - t| <= rel * |wide| + err. nearest: it is t rounded half to even. single:
    the float32 that t is. native: t rounded to float32, by an operation of the processor. odd: t rounded to odd in float64:
    what any narrower rounding and comparison sees of t. rest: t - wide, of a sum. saturated: an exponent; beyond 2^saturated
    and, unless known.least is, below its reciprocal, where no t is 0, wide says only on which side t is; 0 where wide is as
    good everywhere. guard: lanes that have to be decided elsewhere. ends: of a number that is to be stored and has no err, two
    values that t lies between, where these are known better than by rel. pair: t between float32 heads with tails; such a
    number has no other form. zero: lanes where t is known to be 0, and wide is, though the number is saturated.
    finer: a head, a tail and a bound, where the ends are finer than float64 shows.
    """

    body: Body
    wide: Lazy
    known: Known = ANYTHING
    exact: bool = False
    single: Value | None = None
    native: Lazy | None = None
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
        """The whole bound as an absolute one; of an exact number, 0."""
        if self.err is None:
            return self.wide().magnitude() * (self.rel * SLACK)
        if not self.rel:
            return self.err()
        return self.body.fused(self.wide().magnitude(), self.rel * SLACK, self.err()) * SLACK


def of_single(x: Value, known: Known = SINGLE, guard: Value | None = None) -> Number:
    """A number that is a float32."""
    return Number(x.body, once(lambda: x.converted("fpext", x.kind.of("double"))), known, exact=True, single=x, guard=guard)


def of_pair(x: PairInterval, guard: Value | None) -> Number:
    """A number that is known as a pair alone."""

    def wide() -> Value:
        raise Uncompilable("a pair of float32 is used in a way that pairs do not serve")

    return Number(x.head.body, wide, guard=either(guard, x.outside), pair=x)


def whole_number(a: WholeNumber) -> Number:
    """An integer as a real number."""
    known = a.known
    how = "sitofp" if a.low < 0 else "uitofp"

    def wide() -> Value:
        value = a.value
        if a.bits < 32:  # the conversion of 32 bits is the processor's
            return a.resized(32).converted("sitofp", value.kind.of("double"))
        return value.converted(how, value.kind.of("double"))

    made = Number(a.value.body, once(wide), known)
    if known.digits > 24:
        to = a.value.kind.of("float")  # which the processor rounds once
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
        end = math.inf if value else 0.0  # ranges exclude infinity and NaN, but neither may be taken for a zero
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
    """A number whose values are there, so that they may be used in any block that follows."""
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
    """t rounded to odd, from the float64 nearest to it: t - nearest has the sign of the remainder, which is 0 if that is t."""
    bits = nearest.bits()
    sides = (remainder.bits() ^ bits).shifted_right(63, signed=True)  # -1 where t lies toward 0
    moved = bits + (sides | 1)
    even = (bits & 1).compared("eq", 0)
    body = nearest.body
    # 0, infinity and NaN have remainders that are 0 or NaN
    return body.chosen(remainder.compared("one", 0.0) & even, moved, bits).cast(nearest.kind)


def decided_size(x: Number) -> Number:
    """The number with a guard where, saturated, it may be far from what it stands for."""
    if not x.saturated:
        return x
    size, far = x.wide().magnitude(), 2.0**x.saturated
    tiny = size.compared("olt", 1 / far) if x.known.least is None else None
    if tiny is not None and x.zero is not None:
        tiny = tiny & ~x.zero()
    return replace(x.guarded(size.compared("ogt", far), tiny), saturated=0)


def saturation(*xs: Number) -> int:
    """The exponent `saturated` of a result of several numbers: the least of theirs, 0 if there is none."""
    return min((x.saturated for x in xs if x.saturated), default=0)


def moderate(x: Number) -> int | None:
    """An exponent k so that the number is 0 or between 2^-k and 2^k; None if there is none below 400."""
    least, largest = x.known.least, x.known.largest
    if x.saturated or least is None or largest >= 2.0**400 or least < -400:
        return None
    return max(math.frexp(largest)[1] if largest else 0, -least, 0)


def ranged(x: Number, *factors: Number, divisor: Number | None = None) -> Number:
    """The number with guards where float64's range does not hold it; factors: it is not 0 where none of them is.

    divisor: of what is divided by 0 or an infinity, float64 has lost nothing.
    """
    if x.saturated:
        return x
    if x.known.largest >= FAR:
        large = x.wide().magnitude().compared("ogt", FAR)
        for f in factors:
            if f.known.largest == math.inf and not f.known.constant:  # by an infinity, it is none that overflows
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
