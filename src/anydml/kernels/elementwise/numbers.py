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

from anydml.kernels.code.engine import Uncompilable
from anydml.kernels.code.values import Body, Value
from anydml.kernels.elementwise.functions import paired
from anydml.kernels.elementwise.functions.paired import Pair

U = 2.0**-53
SLACK = 1 + 2.0**-20  # for the roundings of bounds themselves
FAR = 2.0**1000  # float64 values beyond, or below 1 / FAR, may have lost digits
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
    what any narrower rounding and comparison sees of t. low, high: where finite t lies. quantum: t is a multiple of
    2^quantum; digits: in so many significant bits. least: t is 0 or at least 2^least in magnitude. saturated: an exponent;
    beyond 2^saturated and, unless least is known, below its reciprocal, where no t is 0, wide says only on which side t is;
    0 where wide is as good everywhere. guard: lanes that have to be decided elsewhere. ends: of a number that is to be stored
    and has no err, two values that t lies between, where these are known better than by rel. pair: t between float32 heads
    with tails; such a number has no other form. constant: the same finite number in every lane; where low and high are equal
    alone, a lane may still be NaN.
    """

    body: Body
    wide: Lazy
    exact: bool = False
    single: Value | None = None
    native: Lazy | None = None
    nearest: bool = False
    odd: Lazy | None = None
    low: float = -math.inf
    high: float = math.inf
    quantum: int | None = None
    digits: int = 53
    least: int | None = None
    rel: float = 0.0
    err: Lazy | None = None
    saturated: int = 0
    guard: Value | None = field(default=None)
    ends: Callable[[], tuple[Value, Value]] | None = None
    pair: Pair | None = None
    constant: bool = False

    @property
    def positive(self) -> bool:
        return self.low >= 0

    @property
    def largest(self) -> float:
        return max(abs(self.low), abs(self.high))

    def guarded(self, *more: Value | None) -> Number:
        return replace(self, guard=either(self.guard, *more))

    def error(self) -> Value:
        """The whole bound as an absolute one; of an exact number, 0."""
        if self.err is None:
            return self.wide().magnitude() * (self.rel * SLACK)
        if not self.rel:
            return self.err()
        return self.body.fused(self.wide().magnitude(), self.rel * SLACK, self.err()) * SLACK


def either(*masks: Value | None) -> Value | None:
    """The lanes of any of several masks; None is no lane."""
    found = None
    for mask in masks:
        if mask is not None:
            found = mask if found is None else found | mask
    return found


def of_single(x: Value, digits: int = 24, quantum: int = -149, low: float = -(2.0**128), high: float = 2.0**128) -> Number:
    """A number that is a float32."""
    return Number(
        x.body,
        once(lambda: x.converted("fpext", x.kind.of("double"))),
        exact=True,
        single=x,
        low=low,
        high=high,
        quantum=quantum,
        digits=digits,
        least=quantum,
    )


def of_pair(x: Pair, guard: Value | None) -> Number:
    """A number that is known as a pair alone."""

    def wide() -> Value:
        raise Uncompilable("a pair of float32 is used in a way that pairs do not serve")

    return Number(x.head.body, wide, guard=either(guard, x.outside), pair=x)


def outward(low: float, high: float) -> tuple[float, float]:
    """An interval that holds all that a rounding of its ends may have left out."""
    return low - abs(low) * 2.0**-50, high + abs(high) * 2.0**-50


def places(low: float, high: float, quantum: int | None) -> int:
    """Significant bits that hold every multiple of 2^quantum in an interval."""
    top = max(abs(low), abs(high))
    if quantum is None or math.isinf(top):
        return 1 << 20
    return max(1, math.frexp(top)[1] - quantum) if top else 1


def _made(x: Number, a: Number, b: Number, *, odd: Lazy | None, native: Callable[[Value, Value], Value] | None) -> Number:
    """A result of exact numbers: exact where it fits; else rounded once."""
    if native and a.single is not None and b.single is not None:
        one, two = a.single, b.single
        x = replace(x, native=once(lambda: native(one, two)))
    if x.digits <= 53:
        return replace(x, exact=True, odd=x.wide)
    return replace(x, rel=U, digits=53, odd=odd and once(odd))


def add(a: Number, b: Number, sign: int = 1) -> Number:
    """a + b, or a - b."""
    body = a.body
    c = b if sign > 0 else negative(b)
    if c.constant and c.low == c.high == 0 and a.single is None:
        return _plus_zero(a, c)
    low, high = outward(a.low + c.low, a.high + c.high)
    wide = once(lambda: a.wide() + b.wide() if sign > 0 else a.wide() - b.wide())
    least = None if a.quantum is None or c.quantum is None else min(a.quantum, c.quantum)
    x = Number(body, wide, low=low, high=high, quantum=least, least=least, guard=either(a.guard, b.guard))
    if a.exact and b.exact:
        x = replace(x, digits=places(low, high, least))

        def native(one: Value, two: Value) -> Value:
            return one + two if sign > 0 else one - two

        return _made(x, a, b, odd=lambda: _odd_sum(a.wide(), c.wide(), wide()), native=native)
    x = replace(x, quantum=None, digits=53)
    if (a.positive and c.positive) or (a.high <= 0 and c.high <= 0):
        errors = [n.err for n in (a, b) if n.err is not None]
        err = _plus(errors)
        return replace(x, rel=max(a.rel, b.rel) * SLACK + U, err=err, saturated=_beyond(a, b), least=_least_sum(a, c))
    a, b = decided_size(a), decided_size(b)
    x = replace(x, guard=either(x.guard, a.guard, b.guard))
    inexact = [n for n in (a, b) if not n.exact]
    return replace(x, rel=U, err=once(lambda: _sum([n.error() for n in inexact]) * SLACK))


def _plus_zero(a: Number, zero: Number) -> Number:
    """a + 0 or a - 0, which change no more than the sign of a zero."""

    def of(make: Lazy | None) -> Lazy | None:
        return None if make is None else once(lambda: make() + zero.wide())

    return replace(a, wide=once(lambda: a.wide() + zero.wide()), native=None, odd=of(a.odd))


def _plus(errors: list[Lazy]) -> Lazy | None:
    return once(lambda: _sum([e() for e in errors])) if errors else None


def _sum(values: list[Value]) -> Value:
    found = values[0]
    for v in values[1:]:
        found = found + v
    return found


def _least_sum(a: Number, b: Number) -> int | None:
    """`least` of the sum of two numbers that are not negative: either may be 0, if it is not known to be more."""
    found = None if a.least is None or b.least is None else min(a.least, b.least)
    for low in (a.low, b.low):
        if 0 < low < math.inf:
            found = max(found if found is not None else -1074, math.frexp(low)[1] - 1)
    return found


def _odd_sum(a: Value, b: Value, s: Value) -> Value:
    """a + b rounded to odd, from its nearest value s."""
    part = s - a
    return odd_of(s, (a - (s - part)) + (b - part))


def odd_of(nearest: Value, remainder: Value) -> Value:
    """What is nearest to t, rounded to odd: t - nearest has the sign of the remainder, which is 0 if that is t."""
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
    tiny = size.compared("olt", 1 / far) if x.least is None else None
    return replace(x.guarded(size.compared("ogt", far), tiny), saturated=0)


def _beyond(*xs: Number) -> int:
    """From where on several numbers say only on which side they are."""
    return min((x.saturated for x in xs if x.saturated), default=0)


def moderate(x: Number) -> int | None:
    """An exponent k so that the number is 0 or between 2^-k and 2^k; None if there is none below 400."""
    if x.saturated or x.least is None or x.largest >= 2.0**400 or x.least < -400:
        return None
    return max(math.frexp(x.largest)[1] if x.largest else 0, -x.least, 0)


def power_of_two(x: Number) -> bool:
    """Whether a number is a constant 2^k, within float32's range."""
    return x.constant and x.exact and x.low > 0 and math.frexp(x.low)[0] == 0.5 and abs(math.log2(x.low)) < 150


def scaled(a: Number, k: int) -> Number:
    """a * 2^k, which keeps all digits."""
    factor, single = 2.0**k, a.single

    def of(make: Lazy | None) -> Lazy | None:
        return None if make is None else once(lambda: make() * factor)

    def moved(exponent: int | None) -> int | None:
        return None if exponent is None else exponent + k

    return replace(
        a,
        wide=once(lambda: a.wide() * factor),
        single=None,
        native=None if single is None else once(lambda: single * factor),
        odd=of(a.odd),
        err=of(a.err),
        low=a.low * factor,
        high=a.high * factor,
        quantum=moved(a.quantum),
        least=moved(a.least),
        saturated=max(1, a.saturated - abs(k)) if a.saturated else 0,
    )


def multiply(a: Number, b: Number) -> Number:
    body, same = a.body, a is b
    for x, y in ((a, b), (b, a)):
        if x.pair is not None and y.single is not None:
            return of_pair(paired.scaled(x.pair, y.single), either(a.guard, b.guard))
        if power_of_two(y):
            return scaled(x, int(math.log2(y.low)))
    saturated = 0
    if same:
        a = b = decided_size(a)
    elif a.saturated or b.saturated:
        a, b = (a, b) if a.saturated else (b, a)
        k, fixed = moderate(b), b.constant and b.low == b.high != 0
        # of infinity and 0, a product is NaN: neither may come about by saturation
        if k is not None and a.saturated - k >= 300 and (fixed or a.largest < 2.0**300):
            saturated = a.saturated - k
            if not fixed:
                tiny = a.wide().magnitude().compared("olt", 2.0**-a.saturated)
                b = b.guarded(tiny & b.wide().magnitude().compared("oeq", math.inf))
        else:
            a, b = decided_size(a), decided_size(b)
    ends = [_product(x, y) for x in (a.low, a.high) for y in (b.low, b.high)]
    low, high = outward(0.0 if same else min(ends), max(ends))
    wide = once(lambda: a.wide() * b.wide())
    least = None if a.least is None or b.least is None else a.least + b.least
    x = Number(body, wide, low=low, high=high, least=least, saturated=saturated, guard=either(a.guard, b.guard))
    if a.exact and b.exact and a.quantum is not None and b.quantum is not None and a.quantum + b.quantum >= -1074:
        quantum = a.quantum + b.quantum
        x = replace(x, quantum=quantum, digits=min(a.digits + b.digits, places(low, high, quantum)))
        odd = (lambda: odd_of(wide(), body.fused(a.wide(), b.wide(), -wide()))) if body.has_fma else None
        return ranged(_made(x, a, b, odd=odd, native=lambda one, two: one * two))
    if a.err is None and b.err is None:
        return ranged(replace(x, rel=(a.rel + b.rel) * SLACK + U), a, b)

    def err() -> Value:
        terms = []
        if not a.exact:
            terms.append(a.error() * b.wide().magnitude())
        if not b.exact:
            size = a.wide().magnitude()
            terms.append(b.error() * (size if a.exact else size + a.error()))
        return _sum(terms) * SLACK

    # the sign of a zero is that of both factors, and one whose bound holds 0 has none
    unsigned = [
        one.wide().compared("oeq", 0.0) & other.wide().magnitude().compared("ule", other.error())
        for one, other in ((a, b), (b, a))
        if other.err is not None
    ]
    x = x.guarded(*unsigned)
    return ranged(replace(x, rel=U, err=once(err)), a, b)


def _product(x: float, y: float) -> float:
    return 0.0 if x == 0 or y == 0 else x * y


def ranged(x: Number, *factors: Number) -> Number:
    """The number with guards where float64's range does not hold it; factors: it is not 0 where none of them is."""
    if x.saturated:
        return x
    if x.largest >= FAR:
        x = x.guarded(x.wide().magnitude().compared("ogt", FAR))
    if x.least is None or x.least < -1000:
        small = x.wide().magnitude().compared("olt", 1 / FAR)
        for f in factors or (x,):
            small = small & f.wide().compared("une", 0.0)
        x = x.guarded(small)
    return x


def divide(a: Number, b: Number) -> Number:
    body = a.body
    if power_of_two(b):
        return scaled(a, -int(math.log2(b.low)))
    saturated = 0
    for one, other in ((a, b), (b, a)):
        k = moderate(other)
        if one.saturated and other.constant and other.low == other.high != 0 and k is not None and one.saturated - k >= 300:
            saturated = one.saturated - k
    if not saturated:
        a, b = decided_size(a), decided_size(b)
    wide = once(lambda: a.wide() / b.wide())
    smallest = math.ldexp(1.0, b.least) if b.least is not None and b.least > -1022 else 0.0
    smallest = max(smallest, b.low, -b.high)
    largest = outward(0, a.largest / smallest)[1] if smallest else math.inf
    least = None if a.least is None or b.largest == math.inf else a.least - math.frexp(b.largest)[1] - 1
    sign = (a.low >= 0 and b.low >= 0) or (a.high <= 0 and b.high <= 0)
    low, high = (0.0 if sign else -largest), largest
    x = Number(body, wide, low=low, high=high, least=least, guard=either(a.guard, b.guard), saturated=saturated)
    if a.exact and b.exact:
        x = replace(x, digits=1 << 20)
        quotient = a.quantum is not None and a.quantum >= -900 and b.quantum is not None and b.quantum >= -400

        def odd() -> Value:
            remainder = body.fused(-wide(), b.wide(), a.wide())
            return odd_of(wide(), remainder.signed_as((remainder.bits() ^ b.wide().bits()).cast(remainder.kind)))

        return ranged(_made(x, a, b, odd=odd if quotient and body.has_fma else None, native=lambda one, two: one / two), a)
    if a.err is None and b.err is None:
        made = replace(x, rel=(a.rel + b.rel) * SLACK + U)
        return ranged(made, a)
    guard = either(None if b.exact else (b.error() * 2.0).compared("uge", b.wide().magnitude()))

    def err() -> Value:
        # |a/b - v| <= (A + |v| B) / (|b| - B)
        top = [] if a.exact else [a.error()]
        under = b.wide().magnitude()
        if not b.exact:
            top.append(b.error() * wide().magnitude())
            under = under - b.error()
        return _sum(top) / under * SLACK

    if a.err is not None:  # so has that of a number by infinity
        guard = either(guard, b.wide().magnitude().compared("oeq", math.inf) & a.wide().magnitude().compared("ule", a.error()))
    return ranged(replace(x, rel=U * SLACK, err=once(err)), a).guarded(guard)


def root(a: Number) -> Number:
    """The square root; of -0, -0, and of what is below, NaN."""
    body = a.body
    a = decided_size(a)
    wide = once(lambda: a.wide().root())
    least = None if a.least is None else a.least // 2 - 1
    high = outward(0, math.sqrt(a.high))[1] if a.high > 0 else 0.0
    x = Number(body, wide, low=0.0, high=high, least=least, guard=a.guard)
    if a.exact:
        x = replace(x, digits=1 << 20)

        def odd() -> Value:
            return odd_of(wide(), body.fused(-wide(), wide(), a.wide()))

        fits = a.quantum is not None and a.quantum >= -900
        return _made(x, a, a, odd=odd if fits and body.has_fma else None, native=lambda one, _: one.root())
    if a.err is None:
        return replace(x, rel=a.rel * SLACK / 2 + U)
    guard = a.wide().compared("olt", a.error() * 4.0)
    return replace(x, rel=U, err=once(lambda: a.error() / wide())).guarded(guard)  # twice what it needs


def _of_signs(a: Number, single: Callable[[Value], Value], low: float, high: float) -> Number:
    """A change of signs, which keeps all else."""

    def of(make: Lazy | None) -> Lazy | None:
        return None if make is None else once(lambda: single(make()))

    return replace(
        a,
        wide=once(lambda: single(a.wide())),
        single=None if a.single is None else single(a.single),
        native=of(a.native),
        odd=of(a.odd),
        low=low,
        high=high,
    )


def negative(a: Number) -> Number:
    if a.pair is not None:
        return of_pair(paired.negative(a.pair), a.guard)
    return _of_signs(a, lambda v: -v, -a.high, -a.low)


def absolute(a: Number) -> Number:
    low = 0.0 if a.low < 0 < a.high else min(abs(a.low), abs(a.high))
    assert a.pair is None or a.wide()  # it has no magnitude
    return _of_signs(a, lambda v: v.magnitude(), low, a.largest)


def extreme(a: Number, b: Number, which: str) -> Number:
    """ "maximum" or "minimum": NaN if either is, and -0 < +0. Every rounding keeps the order, so that it may come first."""

    def make(x: Value, y: Value) -> Value:
        return x.body.intrinsic(which, x, y)

    pick = max if which == "maximum" else min
    low, high = pick(a.low, b.low), pick(a.high, b.high)

    def join_errors(one: Value, two: Value) -> Value:
        # far apart, the bound is that of the one that is taken
        x, y = a.wide(), b.wide()
        near = (x - y).magnitude().compared("ule", (one + two) * SLACK)
        first = x.compared("ogt" if which == "maximum" else "olt", y)
        body = a.body
        return body.chosen(near, body.chosen(one.compared("ugt", two), one, two), body.chosen(first, one, two))

    relative = a.err is None and b.err is None
    return _joined(a, b, make, low, high, either(a.guard, b.guard), None if relative else join_errors)


def select(condition: Value, a: Number, b: Number, guard: Value | None) -> Number:
    """a in the lanes where the condition holds, else b; a guard of one that is not looked at does not count."""
    masks = [guard]
    if a.guard is not None:
        masks.append(a.guard & condition)
    if b.guard is not None:
        masks.append(b.guard & ~condition)

    one, two = (x.single if x.pair is None else x.pair for x in (a, b))
    if one is not None and two is not None and (a.pair is not None or b.pair is not None):
        return of_pair(paired.chosen(condition, one, two), either(*masks))

    def make(x: Value, y: Value) -> Value:
        return x.body.chosen(condition, x, y)

    return _joined(a, b, make, min(a.low, b.low), max(a.high, b.high), either(*masks), make)


def _joined(
    a: Number,
    b: Number,
    make: Callable[[Value, Value], Value],
    low: float,
    high: float,
    guard: Value | None,
    join_errors: Callable[[Value, Value], Value] | None,
) -> Number:
    """One of two numbers in each lane; join_errors: the bound, from those of both, None where the larger relative one holds."""
    if a.single is not None and b.single is not None:
        x = of_single(make(a.single, b.single), max(a.digits, b.digits), min(a.quantum or 0, b.quantum or 0), low, high)
        return replace(x, guard=guard)
    quantum = None if a.quantum is None or b.quantum is None else min(a.quantum, b.quantum)

    def of(x: Lazy | None, y: Lazy | None) -> Lazy | None:
        return None if x is None or y is None else once(lambda: make(x(), y()))

    digits = max(a.digits, b.digits)
    x = Number(
        a.body,
        once(lambda: make(a.wide(), b.wide())),
        exact=a.exact and b.exact,
        native=of(_native(a), _native(b)),
        odd=of(_odd_of(a), _odd_of(b)),
        low=low,
        high=high,
        quantum=quantum,
        digits=min(digits, places(low, high, quantum)),
        least=None if a.least is None or b.least is None else min(a.least, b.least),
        rel=max(a.rel, b.rel),
        saturated=_beyond(a, b),
        guard=guard,
    )
    if x.saturated and x.least is not None and x.largest < 2.0**x.saturated:
        x = replace(x, saturated=0)
    if x.exact:
        return x
    if _rounded(a) and _rounded(b) and places(low, high, quantum) <= 53:
        return replace(x, exact=True, rel=0.0, odd=x.wide)  # one rounding, of what needs none
    if join_errors is not None:

        def err() -> Value:
            one, two = (a.body.constant(a.wide().kind, 0.0) if n.exact else n.error() for n in (a, b))
            return join_errors(one, two)

        return replace(x, rel=0.0, err=once(err))
    return x


def _rounded(a: Number) -> bool:
    """Whether wide is t rounded half to even."""
    return a.exact or (a.odd is not None and a.rel == U and a.err is None)


def _native(a: Number) -> Lazy | None:
    if a.single is not None:
        single = a.single
        return lambda: single
    return a.native


def _odd_of(a: Number) -> Lazy | None:
    return a.wide if a.exact else a.odd
