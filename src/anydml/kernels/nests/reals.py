"""Real numbers in machine code: float64 values, each with a bound of its error that is 0 where the value is the number.

t = factor * n for a constant factor above 0 and |value - n| <= err. The factor takes what constants multiply and divide by, so that
n is often an exact integer: quotients by constants are rounded when they have to be, and then once. Errors are what a sum, a
product or a quotient leaves over, which float64 holds exactly. Infinities and NaN stand for themselves; their err is any.

u = 2^-53. A bound is rounded up by SLACK wherever it is computed.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from fractions import Fraction

from anydml.kernels.code.values import Body, Kind, Value
from anydml.kernels.elementwise.functions.pairs import exact_product, lost_product, two_sum
from anydml.kernels.elementwise.rounding import rounded_to_whole

U = 2.0**-53
SLACK = 1 + 2.0**-45
DIVISORS = 22  # integers up to here have a common multiple of 28 bits
TINY = 2.0**-1000  # added to bounds that are products, which might vanish
FAR = 2.0**900  # numbers up to here, and down to its reciprocal, have products and rests that float64 holds
ONE = Fraction(1)
DOUBLE = Kind("double")


@dataclass(frozen=True, eq=False)
class Real:
    """top: |n| is at most this where it is finite. quantum: n is a multiple of 2^quantum, if err is None. digits: in so many
    significant bits. err: None where it is 0 in every lane. guard: lanes in which nothing is known. constant: t, if it is
    one, and no zero; its n is 1 or -1. finite: no lane is infinite or NaN.
    """

    value: Value
    err: Value | None = None
    factor: Fraction = ONE
    top: float = math.inf
    quantum: int | None = None
    digits: int = 53
    guard: Value | None = None
    constant: Fraction | None = None
    finite: bool = False

    @property
    def body(self) -> Body:
        return self.value.body

    @property
    def exact(self) -> bool:
        return self.err is None


def either(*masks: Value | None) -> Value | None:
    """The lanes of any of several masks; None is no lane."""
    found: Value | None = None
    for mask in masks:
        if mask is not None:
            found = mask if found is None else _any(*alike(found, mask))
    return found


def _any(a: Value, b: Value) -> Value:
    return a | b


def alike(a: Value, b: Value) -> tuple[Value, Value]:
    """Two values in as many lanes as either has."""
    lanes = max(a.kind.lanes, b.kind.lanes)
    return spread(a, lanes), spread(b, lanes)


def spread(a: Value, lanes: int) -> Value:
    return a if a.kind.lanes == lanes else a.body.splat(a, lanes)


def chosen(mask: Value, a: Value, b: Value) -> Value:
    """a where the mask holds, else b; of any lanes."""
    a, b = alike(a, b)
    if mask.kind.lanes or a.kind.lanes:
        lanes = max(mask.kind.lanes, a.kind.lanes)
        mask, a, b = spread(mask, lanes), spread(a, lanes), spread(b, lanes)
    return a.body.chosen(mask, a, b)


def fraction(body: Body, x: Fraction) -> Real:
    """A constant."""
    if not x:
        return Real(body.constant(DOUBLE, 0.0), top=0.0, quantum=0, digits=1, finite=True)
    return Real(body.constant(DOUBLE, math.copysign(1.0, x)), factor=abs(x), top=1.0, quantum=0, digits=1, constant=x, finite=True)


def special(body: Body, x: float) -> Real:
    """-0, an infinity or NaN."""
    return Real(body.constant(DOUBLE, x), top=0.0, quantum=0, digits=1)


def places(top: float, quantum: int | None) -> int:
    """Significant bits that hold every multiple of 2^quantum up to a magnitude."""
    if quantum is None or math.isinf(top):
        return 1 << 20
    return max(1, math.frexp(top)[1] - quantum) if top else 1


def _sum(*errors: Value | None) -> Value | None:
    """The sum of bounds."""
    found: Value | None = None
    several = False
    for e in errors:
        if e is not None:
            if found is None:
                found = e
            else:
                a, b = alike(found, e)
                found, several = a + b, True
    return found * SLACK if several and found is not None else found


def _kept(err: Value, *factors: Value) -> Value:
    """A bound that is computed of factors: 0 only where one of them is."""
    nonzero: Value | None = None
    for x in factors:
        there = x.compared("une", 0.0)
        nonzero = there if nonzero is None else _all(nonzero, there)
    assert nonzero is not None
    return chosen(nonzero, err * SLACK + TINY, err.lift(0.0))


def _raised(top: float) -> float:
    return top * (1 + 2.0**-40)


def _is_binary(x: Fraction, most: int = 100) -> bool:
    """Whether a fraction is a power of two, near 1."""
    n, d = abs(x.numerator), x.denominator
    return n & (n - 1) == 0 and d & (d - 1) == 0 and abs(n.bit_length() - d.bit_length()) < most


def times(x: Real, k: int | Fraction) -> Real:
    """n times a constant that float64 holds, the factor staying."""
    k = Fraction(k)
    if k == 1:
        return x
    c = float(k)
    if _is_binary(k):
        shift = math.frexp(abs(c))[1] - 1
        quantum = None if x.quantum is None else x.quantum + shift
        err = None if x.err is None else x.err * abs(c)
        made = replace(x, value=x.value * c, err=err, top=x.top * abs(c), quantum=quantum, constant=None)
        if abs(c) > 1 or (quantum is not None and quantum >= -1000):
            return made if made.top < FAR or x.top == 0 else _ranged(made, x)
        if x.err is not None and err is not None:
            made = replace(made, err=_kept(err, x.err))
        return _ranged(made, nonzero=x.value.compared("une", 0.0))
    constant = Real(x.body.constant(DOUBLE, c), top=abs(c), quantum=_quantum(k), digits=_digits(k), finite=True)
    return replace(multiply(replace(x, factor=ONE, constant=None), constant), factor=x.factor)


def _digits(k: Fraction) -> int:
    n = abs(k.numerator)
    return (n // (n & -n)).bit_length()


def _quantum(k: Fraction) -> int:
    n = abs(k.numerator)
    return (n & -n).bit_length() - k.denominator.bit_length()


def _held(k: Fraction) -> bool:
    """Whether float64 holds a constant."""
    return k.denominator & (k.denominator - 1) == 0 and _digits(k) <= 53 and abs(math.log2(abs(k))) < 500


def plain(x: Real) -> Real:
    """The number with the factor 1: rounded, if that takes digits."""
    f = x.factor
    if f == 1:
        return replace(x, constant=None)
    x = replace(x, factor=ONE, constant=None)
    if _held(f):
        return times(x, f)
    top, bottom = Fraction(f.numerator), Fraction(f.denominator)
    if _held(top) and _held(bottom):
        return divide(times(x, top), fraction(x.body, bottom), folded=False)
    about = float(f)
    value = x.value * about
    # a zero stays one; the factor and the product are rounded, each by no more than u
    err = value.magnitude() * (4 * U)
    if x.err is not None:
        err = err + _kept(x.err * abs(about), x.err)
    made = Real(value, err, top=_raised(x.top * abs(about)), guard=x.guard, finite=x.finite)
    return _ranged(made, x, nonzero=x.value.compared("une", 0.0))


def _ranged(made: Real, *operands: Real, nonzero: Value | None = None) -> Real:
    """The number with guards where float64's range may not hold it, or what it leaves over.

    nonzero: where a small result is no zero by its operands.
    """
    guards = [made.guard]
    if not made.top < FAR:
        finite: Value | None = None
        for x in operands:
            there = x.value.magnitude().compared("olt", math.inf)
            finite = there if finite is None else _all(finite, there)
        big = ~made.value.magnitude().compared("ole", FAR)
        guards.append(big if finite is None else _all(big, finite))
    if nonzero is not None:
        guards.append(_all(made.value.magnitude().compared("olt", 1 / FAR), nonzero))
    return replace(made, guard=either(*guards))


def _all(a: Value, b: Value) -> Value:
    a, b = alike(a, b)
    return a & b


def aligned(a: Real, b: Real) -> tuple[Real, Real]:
    """Two numbers with one factor."""
    if a.factor == b.factor:
        return a, b
    for zero, other, swapped in ((a, b, False), (b, a, True)):
        if zero.top == 0:  # a zero, or special, of any factor
            made = replace(zero, factor=other.factor, constant=None)
            return (other, made) if swapped else (made, other)
    f, g = a.factor, b.factor
    unit = Fraction(
        math.gcd(f.numerator * g.denominator, g.numerator * f.denominator), f.denominator * g.denominator
    )
    one, two = f / unit, g / unit
    if max(abs(one), abs(two)) < 1 << 53:
        return replace(times(a, one), factor=unit), replace(times(b, two), factor=unit)
    return plain(a), plain(b)


def add(a: Real, b: Real) -> Real:
    a, b = aligned(a, b)
    x, y = alike(a.value, b.value)
    top = _raised(a.top + b.top)
    guard = either(a.guard, b.guard)
    if a.exact and b.exact and a.quantum is not None and b.quantum is not None:
        quantum = min(a.quantum, b.quantum)
        if (digits := places(a.top + b.top, quantum)) <= 53:
            return Real(x + y, None, a.factor, a.top + b.top, quantum, digits, guard, finite=a.finite and b.finite)
    value, rest = two_sum(x, y)
    # a rest is exact, that of subnormal numbers too
    err = _sum(rest.magnitude(), a.err, b.err)
    made = Real(value, err, a.factor, top, None, 53, guard, finite=a.finite and b.finite and top < FAR)
    return _ranged(made, a, b)


def negative(a: Real) -> Real:
    return replace(a, value=-a.value, constant=None)


def subtract(a: Real, b: Real) -> Real:
    return add(a, negative(b))


def multiply(a: Real, b: Real) -> Real:
    for x, k in ((a, b.constant), (b, a.constant)):
        if k is not None:
            return _by_constant(x, k)
    x, y = alike(a.value, b.value)
    factor, top, guard = a.factor * b.factor, _raised(a.top * b.top), either(a.guard, b.guard)
    if math.isnan(top):
        top = math.inf
    quantum = None if a.quantum is None or b.quantum is None else a.quantum + b.quantum
    exact, finite = a.exact and b.exact, a.finite and b.finite and top < FAR
    if exact and quantum is not None and quantum >= -1000 and top < FAR and a.digits + b.digits <= 53:
        return Real(x * y, None, factor, top, quantum, a.digits + b.digits, guard, finite=finite)
    value, rest = exact_product(x, y)
    err = rest.magnitude()
    if not a.body.has_fma and min(a.digits, b.digits) > 26:
        err = err + lost_product(x, y, value)
    others: list[Value] = []
    for p, q in ((y.magnitude(), a.err), (x.magnitude(), b.err), (a.err, b.err)):
        if p is not None and q is not None:
            others.append(_kept(_times(p, q), p, q))
    err_ = _sum(err * SLACK if others else err, *others)
    made = Real(value, err_, factor, top, None, 53, guard, finite=finite)
    small = None if quantum is not None and quantum >= -960 and exact else x.compared("une", 0.0) & y.compared("une", 0.0)
    return _ranged(made, a, b, nonzero=small)


def _by_constant(x: Real, k: Fraction) -> Real:
    constant = None if x.constant is None else x.constant * k
    return replace(x, value=x.value if k > 0 else -x.value, factor=x.factor * abs(k), constant=constant)


def _times(a: Value, b: Value) -> Value:
    a, b = alike(a, b)
    return a * b


def divide(a: Real, b: Real, *, folded: bool = True) -> Real:
    if folded and b.constant is not None:
        return _by_constant(a, 1 / b.constant)
    if folded and b.exact and b.quantum is not None and b.quantum >= 0 and b.factor == 1 and b.top <= DIVISORS:
        # a common multiple of all divisors there may be: its quotients are integers, or infinite
        common = math.lcm(*range(1, int(b.top) + 1))
        value = b.value.lift(float(common)) / b.value
        whole = Real(value, top=float(common), quantum=0, digits=common.bit_length(), guard=b.guard)
        return replace(multiply(a, whole), factor=a.factor / common)
    if not folded:
        assert b.constant is not None
        b = Real(b.body.constant(DOUBLE, float(b.constant)), top=abs(float(b.constant)), quantum=_quantum(b.constant), finite=True)
    x, y = alike(a.value, b.value)
    body = a.body
    q = x / y
    guard = either(a.guard, b.guard)
    # a zero or a special number divides exactly
    nonzero = x.compared("une", 0.0)
    if body.has_fma:
        rest = body.fused(-q, y, x)
        lost: Value | None = None
    else:
        product, more = exact_product(q, y)
        rest = (x - product) - more
        lost = lost_product(q, y, product)
    rest = rest.magnitude()
    if lost is not None:
        rest = rest + lost
    size = y.magnitude()
    # 0 / y, x / 0 and what is infinite leave nothing over
    finite = size.compared("olt", math.inf)
    regular = q.magnitude().compared("olt", math.inf) & nonzero & finite & rest.compared("une", 0.0)
    err = body.chosen(regular, rest / size * SLACK + TINY, 0.0)
    others = []
    least = size
    if b.err is not None:
        divisor = spread(b.err, size.kind.lanes)
        least = size - divisor
        guard = either(guard, ~least.compared("ogt", 0.0) & divisor.compared("une", 0.0) & finite)
        others.append(_kept(q.magnitude() * divisor / least, divisor))
    if a.err is not None:
        top = spread(a.err, size.kind.lanes)
        others.append(_kept(top / least, top))
    made = Real(q, _sum(err, *others), a.factor / b.factor, math.inf, None, 53, guard)
    if b.exact and b.quantum is not None and b.quantum > -800:
        made = replace(made, top=_raised(a.top * 2.0**-b.quantum), finite=a.finite and not folded)
    # what it leaves over is exact if the dividend is no smaller than this, and so is the quotient's place
    large = a.exact and a.quantum is not None and a.quantum >= -800
    guards = [guard]
    if not large:
        guards.append(nonzero & x.magnitude().compared("olt", 1 / FAR))
    if not large or b.top > 2.0**100:
        guards.append(nonzero & finite & q.magnitude().compared("olt", 1 / FAR))
    if not made.top < FAR:
        divided = y.compared("une", 0.0) & x.magnitude().compared("olt", math.inf)
        guards.append(divided & q.magnitude().compared("ogt", FAR))
    return replace(made, guard=either(*guards))


def root(a: Real) -> Real:
    """The square root."""
    a = plain(a)
    body, x = a.body, a.value
    value = x.root()
    product, more = exact_product(value, value)
    rest = ((x - product) - more).magnitude()
    if not body.has_fma:
        rest = rest + lost_product(value, value, product)
    regular = x.compared("ogt", 0.0) & x.compared("olt", math.inf)
    err = body.chosen(regular & rest.compared("une", 0.0), rest / value * SLACK + TINY, 0.0)
    guard = either(a.guard, regular & x.compared("olt", 1 / FAR))
    if a.err is not None:
        err = err + body.chosen(regular, _kept(a.err / value, a.err), 0.0)
        unsure = a.err.compared("une", 0.0) & ~x.compared("ogt", a.err * 2.0) & x.magnitude().compared("olt", math.inf)
        guard = either(guard, unsure)
    top = math.sqrt(a.top) if a.top < math.inf else math.inf
    return Real(value, err, ONE, _raised(top), None, 53, guard)


def absolute(a: Real) -> Real:
    return replace(a, value=a.value.magnitude(), constant=None)


def extreme(a: Real, b: Real, *, largest: bool) -> Real:
    """The larger or the smaller: NaN if either is, and -0 < +0."""
    a, b = aligned(a, b)
    x, y = alike(a.value, b.value)
    body = x.body
    first = x.compared("ogt" if largest else "olt", y)
    same = x.bits() & y.bits() if largest else x.bits() | y.bits()
    found = body.chosen(first, x, y)
    found = body.chosen(x.compared("oeq", y), same.cast(x.kind), found)
    found = body.chosen(x.compared("uno", y), x + y, found)
    err = None
    if a.err is not None or b.err is not None:
        e, f = (spread(body.constant(DOUBLE, 0.0) if z.err is None else z.err, x.kind.lanes) for z in (a, b))
        # where it is certain which one it is, its own bound is that of the result
        apart = (x - y).magnitude() * (1 - 2 * U)
        sure = apart.compared("ogt", (e + f) * SLACK)
        err = body.chosen(sure, body.chosen(first, e, f), body.chosen(e.compared("ogt", f), e, f))
        err = body.chosen(e.compared("uno", f), e + f, err)
    quantum = None if a.quantum is None or b.quantum is None else min(a.quantum, b.quantum)
    top = max(a.top, b.top)
    digits, guard = max(a.digits, b.digits), either(a.guard, b.guard)
    return Real(found, err, a.factor, top, quantum, digits, guard, finite=a.finite and b.finite)


def select(mask: Value, unsure: Value | None, a: Real, b: Real) -> Real:
    """a where the mask holds, else b; unsure: lanes in which it is open."""
    a, b = aligned(a, b)
    err = None
    body = a.body
    if a.err is not None or b.err is not None:
        e, f = (body.constant(DOUBLE, 0.0) if x.err is None else x.err for x in (a, b))
        err = chosen(mask, e, f)
    guard = unsure
    if a.guard is not None or b.guard is not None:
        no = body.constant(Kind("i1"), False)
        guard = either(guard, chosen(mask, a.guard or no, b.guard or no))
    quantum = None if a.quantum is None or b.quantum is None else min(a.quantum, b.quantum)
    digits, value = max(a.digits, b.digits), chosen(mask, a.value, b.value)
    return Real(value, err, a.factor, max(a.top, b.top), quantum, digits, guard, finite=a.finite and b.finite)


def ends(a: Real) -> tuple[Value, Value]:
    """Two values that a number with the factor 1 lies between."""
    assert a.err is not None
    v, e = alike(a.value, a.err)
    e = v.body.fused(v.magnitude(), 2 * U, e * SLACK) * SLACK
    return v - e, v + e


def unequal(a: Real, differ: Value) -> Value:
    """Where the ends of a number's interval differ, and it is not exact."""
    assert a.err is not None
    v, e = alike(a.value, a.err)
    finite = v.magnitude().compared("olt", math.inf)
    return (differ & e.compared("une", 0.0) | ~e.compared("olt", math.inf)) & finite


def to_whole(op: str, a: Real) -> Real:
    """floor, ceil, truncate, half_to_even or half_away."""
    a = plain(a)
    value = rounded_to_whole(op, a.value)
    guard = a.guard
    if a.err is not None:
        low, high = (rounded_to_whole(op, end) for end in ends(a))
        guard = either(guard, unequal(a, low.bits().compared("ne", high.bits())))
    top = a.top if math.isinf(a.top) else float(math.ceil(a.top))
    return Real(value, None, ONE, top, 0, min(53, places(top, 0)), guard, finite=a.finite)


def compared(op: str, a: Real, b: Real) -> tuple[Value, Value | None]:
    """Where a is less than b (or at most, or equal), and the lanes in which it is open."""
    how = {"less": "olt", "less_equal": "ole", "equal": "oeq"}[op]
    a, b = aligned(a, b)
    x, y = alike(a.value, b.value)
    mask = x.compared(how, y)
    guard = either(a.guard, b.guard)
    err = _sum(a.err, b.err)
    if err is None:
        return mask, guard
    apart = (x - y).magnitude() * (1 - 2 * U)
    err = spread(err, x.kind.lanes)
    finite = x.magnitude().compared("olt", math.inf) & y.magnitude().compared("olt", math.inf)
    near = apart.compared("ule", err) & err.compared("une", 0.0) & finite
    return mask, either(guard, near)
