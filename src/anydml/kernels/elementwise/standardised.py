"""Standardised elements y = (x - m) a g + b of a line, as one operation with one bound; a and m are the same for a line.

Factors that a line shares are multiplied and divided once for it. u is 2^-53; the error of m is o, and the relative error of a
is r <= 1/4. Then the error of the difference d = x - m is o + u |d|, that of the product d a is (r + 9/4 u) |d a| + (1 + r) |a|
o, and that of d a g is |g| times as much. Products are at most |y| plus all |b|. The result and its ends have a few more
roundings: in all, the error of y is (r + 7 u) (|y| + all |b|) + (1 + r) |a| o |g|. Elements are FLOAT32 or FLOAT16, and a and m
are moderate, so that nothing leaves float64's range.

Most elements are stored as FLOAT32 by a test that is cheaper than two ends. If y is a normal float32, it is a tie where its low
29 bits are 2^28. If the error of y is less than `KNOWN` |y|, which is 2^15 units of its last place, and y is at least that far
from a tie, then all numbers within the error are rounded alike. For FLOAT16, it is enough that y rounded to float32 is no tie
of FLOAT16. So |y| has to be at least the rest of its bound divided by `KNOWN` - share. This limit is computed in float32, with
room for its roundings. Lines with an error of m reach far more elements if `KNOWN` is four times as large.

Where m is the mean of x, y is x a - m a, plus b, or times g plus b, which is one operation less. The product m a is rounded, so
that o grows by u |m|. If all x are equal, o is 0, and a rounded to 24 digits makes m a exact, and the difference 0.

Types of 16 bits need so few digits that their elements are computed in float32 first; v is 2^-24. If there is no g and no
further term, y is x a + c, where c = b - m a, with fused operations: first of a and c rounded to float32, then of their tails,
whose product and sum have errors of 4 v^2 (|x a| + |c|), and the sum of both. There are three roundings of |y|, with that of
the ends; all others are below (2 r + 2^-44) (|m a| + all |b|) + |a| o.

Otherwise, the difference has an error of v, a rounded a one of v, and each product one of v, but for the one that a fused
operation adds to b; n counts these. So the error of the product is (r + n v) |d a g|, and |a| (o + v |m|) |g| besides, without
v |m| if m is a float32. A rounded b has an error of v, and so has each addition of further terms; k counts these. In all, with
y's own rounding and that of the ends, the error of y is (r + (n + 2) v) |y| + (r + (n + k) v) all |b| + |a| (o + v |m|) |g|.

If both ends are stored as the same element, that is y. `NOTHING` covers what is lost below 2^-126, if a is not that small.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import NamedTuple

from anydml.exact.formats import FORMATS
from anydml.kernels.code.values import Kind, Value, part
from anydml.kernels.numbers.floats.numbers import SLACK, Number, U, decided_size, once
from anydml.kernels.numbers.functions.approximate import at_least, at_most
from anydml.kernels.numbers.known import Known
from anydml.kernels.numbers.lanes import either
from anydml.tensor import DataType

LARGEST = 2.0**400  # moderate factors and their reciprocals are at most this
MOST_DIGITS = 700
MOST = 2.0**MOST_DIGITS  # elements, and the reciprocals of products, are less
ROUNDED = 7 * U
KNOWN = 2.0**-38
ROOM = int(KNOWN * 2**53)  # last places of float64
WITH_ERRORS = 4  # how many times `KNOWN` decides elements of lines with an error of m
NORMAL = {t: 2.0 ** (form.lowest + form.precision) for t, form in FORMATS.items()}  # all elements beyond are normal numbers
V = 2.0**-24
WIDER = 1 + 2.0**-8  # for the roundings of bounds in float32, and products of errors
NOTHING = 2.0**-120
SMALLEST = 2.0**-100  # the least a that is rounded to float32
LEAST, FINEST = 2.0**-125, 2.0**-100  # least constants and factors of limits in float32: none of them is subnormal


class LineSingles(NamedTuple):
    """A line in float32, for elements of 16 bits: see above.

    rel: r. off: the factor of |g|. least: what is always added, infinite in the guard's lanes. rounded: the roundings of the
    difference and of a, and those of b. slope, shift: a and c as heads and tails, if there is an a. apart: the bound of what
    does not grow with |y|.
    """

    m: Value | None
    a: Value | None
    b: Value | None
    rel: Value
    off: Value
    least: Value
    rounded: tuple[int, int]
    slope: tuple[Value, Value] | None
    shift: tuple[Value, Value] | None
    apart: Value


class LineMoments(NamedTuple):
    """Numbers that are the same for a line: m, with an error of `near`, a, the sum of its terms b, and bounds.

    The error of an element y, with terms of its own, is share (|y| + their magnitudes) + off |g| + base. None means absent.
    limits: what |y| has to reach, as float32: a factor of these magnitudes, one of |g| (of 1 if there is no g), and a constant,
    which is infinite in the guard's lanes. rel: share, if it is the same for all lines and m is exact. shift: -m a, if that is
    added to x a. times: by how much `KNOWN` is larger for this line.
    """

    m: Value | None
    near: Value | None
    a: Value | None
    b: Value | None
    share: Value
    off: Value | None
    base: Value | None
    guard: Value | None
    limits: tuple[Value, Value, Value]
    rel: float | None
    singles: LineSingles
    shift: Value | None
    times: int


def line(like: Value, roles: str, numbers: Sequence[Number], *, fused: bool = False) -> LineMoments:
    """A line of these numbers; like: a value with as many lanes. fused: m is the mean of the elements, and y is x a - m a."""
    body, kind = like.body, like.kind.of("double")
    of = _by_role(roles, numbers)
    guards: list[Value | None] = []
    m = near = a = off = None
    share = body.constant(kind, ROUNDED * SLACK)
    for m_number in map(decided_size, of.get("m", ())):
        m = m_number.wide()
        near = None if m_number.exact else m_number.error()
        guards += [m_number.guard, far(m)]
    for a_number in map(decided_size, of.get("a", ())):
        a = a_number.wide()
        share, unsure = shares(a_number)
        guards.append(unsure)
    shift = None
    if fused and m is not None and near is not None and a is not None:
        equal = near.compared("oeq", 0.0)
        near = body.chosen(equal, 0.0, near + m.magnitude() * (U * SLACK)) * SLACK
        a = body.chosen(equal, (a.bits() & -(1 << 29)).cast(kind), a)
        shift = -(m * a) if body.has_fma else None
    if near is not None:
        off = near if a is None else near * a.magnitude() * (1 + share) * SLACK
    b = base = None
    for term in of.get("b", ()):
        value = term.wide()
        b = value if b is None else b + value
        base = value.magnitude() if base is None else base + value.magnitude()
    if base is not None:
        base = base * share * SLACK
    guard = either(*guards)
    rel = None if near is not None or any(n.err is not None for n in of.get("a", ())) else ROUNDED
    for a_number in of.get("a", ()):
        rel = None if rel is None else rel + a_number.rel
    exact = {role for role, found in of.items() if len(found) == 1 and found[0].single is not None}
    times = WITH_ERRORS if near is not None else 1
    limits, singles = limits_of(share, off, base, guard, times), _in_singles(m, near, a, b, share, guard, exact)
    return LineMoments(m, near, a, b, share, off, base, guard, limits, rel, singles, shift, times)


def _in_singles(
    m: Value | None,
    near: Value | None,
    a: Value | None,
    b: Value | None,
    share: Value,
    guard: Value | None,
    exact: Collection[str],
) -> LineSingles:
    """The line in float32; exact: the roles of numbers that are float32."""
    body, kind = share.body, share.kind
    single = kind.of("float")

    def rounded(x: Value | None) -> Value | None:
        return None if x is None else x.converted("fptrunc", single)

    def halves(x: Value) -> tuple[Value, Value]:
        head = x.converted("fptrunc", single)
        return head, (x - head.converted("fpext", kind)).converted("fptrunc", single)

    zero, least = body.constant(kind, 0.0), body.constant(kind, NOTHING)
    off = zero if m is None or "m" in exact else m.magnitude() * V + NOTHING
    off = off if near is None else off + near
    slope = shift = None
    apart = sizes = zero if b is None else b.magnitude()
    if a is not None:
        size = a.magnitude()
        least = body.chosen(size.compared("olt", SMALLEST) & size.compared("une", 0.0), float("inf"), least)
        moved = zero if m is None else m * a
        slope, shift = halves(a), halves(-moved if b is None else b - moved)
        sizes = sizes + moved.magnitude()
        apart = sizes * (share * 2 + 2.0**-44)
        apart = apart if near is None else body.fused(near, size, apart)
        off = off * size
    if guard is not None:
        least = body.chosen(guard, float("inf"), least)
    ends = (share * WIDER, (off + NOTHING) * WIDER, least, apart * WIDER + least)
    rel, off, least, apart = (x.converted("fptrunc", single) for x in ends)
    roundings = (m is not None) + (a is not None and "a" not in exact), int(b is not None and "b" not in exact)
    return LineSingles(rounded(m), rounded(a), rounded(b), rel, off, least, roundings, slope, shift, apart)


def limits_of(
    share: Value, off: Value | None, base: Value | None, guard: Value | None, times: int = 1
) -> tuple[Value, Value, Value]:
    """The limits that |y| has to reach, as `LineMoments.limits`."""
    body, single, known = share.body, share.kind.of("float"), KNOWN * times
    near = body.chosen(share.compared("olt", known / 2), (1 + 2.0**-20) / (known - share), float("inf"))

    def limit(x: Value | None, least: float) -> Value:
        if x is None:
            return body.constant(single, least)
        x = at_least(x * near, least)
        return body.chosen(x.compared("ord", x), x, float("inf")).converted("fptrunc", single)

    least = limit(base, LEAST)
    if guard is not None:
        least = body.chosen(guard, float("inf"), least)
    return limit(share, FINEST), limit(off, FINEST), least


def shares(a: Number) -> tuple[Value, Value | None]:
    """The relative error of elements that are multiplied by a number, and the lanes where the number is not moderate."""
    body, size = a.body, a.wide().magnitude()
    unsure = either(a.guard, far(a.wide()), size.compared("olt", 1 / LARGEST) & size.compared("une", 0.0))
    if a.err is None:
        return body.constant(size.kind, (a.rel + ROUNDED) * SLACK), unsure
    error = a.error()
    share = body.chosen(error.compared("oeq", 0.0), 0.0, error / size)
    return (share + ROUNDED) * SLACK, either(unsure, share.compared("ogt", 0.25))


def far(x: Value) -> Value:
    """Whether a number is finite, and larger than moderate ones."""
    size = x.magnitude()
    return size.compared("ogt", LARGEST) & size.compared("olt", float("inf"))


def _by_role(roles: str, numbers: Sequence[Number]) -> Mapping[str, list[Number]]:
    found: dict[str, list[Number]] = {}
    for role, number in zip(roles, numbers, strict=True):
        found.setdefault(role, []).append(number)
    return found


class Standardised(NamedTuple):
    """A standardised element. doubt: the lanes where an infinity, NaN or the sign of a zero depends on the error of m.

    known: for a data type, the elements as float32, and where they are certain; None if there is no such test. ends: for a
    data type of 16 bits, float32 below and above the element, or NaN; None if these are not known. zeros: for the elements of
    `known`, where they are exact zeros, which it is not certain of; None if only a test in float64 says so.
    """

    number: Number
    doubt: Callable[[], Value] | None
    known: Callable[[DataType], tuple[Value, Value]] | None
    ends: Callable[[DataType], tuple[Value, Value]] | None = None
    zeros: Callable[[Value], Value] | None = None

    def guarded(self) -> Number:
        return self.number if self.doubt is None else self.number.guarded(self.doubt())


def element(shared: LineMoments, roles: str, numbers: Sequence[Number]) -> Standardised:
    """The elements of a group in a line."""
    of = _by_role(roles, numbers)
    x, g = of["x"][0].wide(), of["g"][0].wide() if "g" in of else None
    body, b = x.body, shared.b
    sizes = []
    for term in of.get("b", ()):
        value = term.wide()
        b = value if b is None else b + value
        sizes.append(value.magnitude())
    difference = once(lambda: x if shared.m is None else x - shared.m)
    others = [f for f in (shared.a, g) if f is not None]

    def made_of(factors: list[Value]) -> Value:
        *before, last = factors
        if not before:
            return last if b is None else last + b
        product = before[0]
        for f in before[1:]:
            product = product * f
        return product * last if b is None else body.fused(product, last, b)

    def quickly() -> Value:
        """The element in one operation less, which does not serve infinite factors, and loses the sign of zeros."""
        if shared.shift is None or shared.a is None:
            return exactly()
        return made_of([body.fused(x, shared.a, shared.shift), *others[1:]])

    exactly = once(lambda: made_of([difference(), *others]))
    quick = once(quickly)
    wide = exactly if body.target.probe is None else quick

    def err() -> Value:
        y = wide()
        size = y.magnitude()
        for s in sizes:
            size = size + s
        bound = shared.base
        if shared.off is not None and g is None:
            bound = shared.off if bound is None else bound + shared.off
        elif shared.off is not None and g is not None:
            grown = g.magnitude()
            bound = grown * shared.off if bound is None else body.fused(grown, shared.off, bound)
        bound = size * shared.share if bound is None else body.fused(size, shared.share, bound)
        if body.target.probe is None or None in singles:
            return bound
        size = at_least(y.magnitude(), to_reach().converted("fpext", y.kind))  # what `known` decides by
        return at_most(bound, size * (KNOWN * shared.times))

    bounded = once(err)

    def doubt() -> Value:
        assert shared.near is not None
        assert shared.m is not None
        d = difference()
        # d may be 0, or have either sign; products with NaN are NaN
        unsure = d.magnitude().compared("ole", shared.near) & shared.near.compared("une", 0.0)
        signed = either(*(f.compared("oeq", 0.0) | f.magnitude().compared("oeq", float("inf")) for f in others))
        return unsure & ~unsure if signed is None else unsure & signed

    singles = [n.single for n in (*of.get("g", ()), *of.get("b", ()))]
    alone = shared.m is None and b is None  # a zero stays one

    def known(data_type: DataType) -> tuple[Value, Value]:
        y = quick()
        made = y.converted("fptrunc", y.kind.of("float"))
        return made, are_known(y, made, to_reach(), data_type, shared.times)

    def zeros(made: Value) -> Value:
        single = of["x"][0].single
        assert single is not None
        return ((made.bits() | single.bits()) & 0x7FFFFFFF).compared("eq", 0) & to_reach().compared("olt", float("inf"))

    def to_reach() -> Value:
        of_term, of_factor, limit = shared.limits
        for single in singles[-len(sizes) :] if sizes else ():
            assert single is not None
            limit = body.fused(single.magnitude(), of_term, limit)
        if shared.off is not None and g is None:
            limit = limit + of_factor
        elif shared.off is not None:
            assert singles[0] is not None
            limit = body.fused(singles[0].magnitude(), of_factor, limit)
        return limit

    number = Number(body, wide, Known(-MOST, MOST), err=bounded, guard=shared.guard)
    if shared.rel is not None and not sizes and shared.b is None:
        number = replace(number, err=None, rel=shared.rel, known=replace(number.known, least=-MOST_DIGITS))
    if None in singles or of["x"][0].single is None:
        return Standardised(number, doubt if shared.near is not None else None, None if None in singles else known)
    ends = partial(_ends, shared.singles, of)
    return Standardised(number, doubt if shared.near is not None else None, known, ends, zeros if alone else None)


def _ends(shared: LineSingles, of: Mapping[str, list[Number]], data_type: DataType) -> tuple[Value, Value]:
    """Ends of an element in float32, or NaN."""
    x, own = of["x"][0].single, [n.single for n in of.get("b", ())]
    assert x is not None
    body = x.body
    g = of["g"][0].single if "g" in of else None
    moved = not (shared.m is None and shared.b is None)
    if moved and shared.slope is not None and shared.shift is not None and g is None and not own and body.has_fma:
        head, tail = (body.fused(x, a, c) for a, c in zip(shared.slope, shared.shift, strict=True))
        y = head + tail
        error = body.fused(y.magnitude(), shared.rel + 3 * V * WIDER, shared.apart)
        return y - error, y + error
    d = x if shared.m is None else x - shared.m
    factors = [f for f in (d, shared.a, g) if f is not None]
    terms = [b for b in (shared.b, *own) if b is not None]
    *before, last = factors
    y, rounded = before[0] if before else last, len(before) - (bool(before and terms) and body.has_fma)
    for f in before[1:]:
        y = y * f
    b = terms[0] if terms else None
    for term in terms[1:]:
        assert b is not None
        b = b + term
    if before:
        y = y * last if b is None else body.fused(y, last, b)
    elif b is not None:
        y = y + b
    n = shared.rounded[0] + rounded
    if shared.m is None and not terms and data_type == DataType.FLOAT16:
        error = _of_product(shared, y, shared.rel + (n + 2) * V * WIDER)
        return y - error, y + error
    error = shared.least + shared.off if g is None else body.fused(g.magnitude(), shared.off, shared.least)
    of_term = shared.rel + (n + max(len(terms) - 1, 0) + shared.rounded[1]) * V * WIDER
    for term in terms:
        error = body.fused(term.magnitude(), of_term, error)
    error = body.fused(y.magnitude(), shared.rel + (n + 2) * V * WIDER, error)
    return y - error, y + error


def _of_product(shared: LineSingles, y: Value, rel: Value) -> Value:
    """The error of a product, which has its sign: what is lost below 2^-126 is 0 as a FLOAT16."""
    return y.body.fused(y.magnitude(), rel, shared.least - NOTHING)  # `least` is either, or infinite


def are_known(y: Value, made: Value, limit: Value, data_type: DataType, times: int = 1) -> Value:
    """The lanes in which all numbers within `times` `KNOWN` |y| of y are stored as one element; made: y rounded to float32.

    limit: what |y| has to exceed, infinite or NaN where nothing is known. Infinities are known where the limit is finite.
    """
    if data_type == DataType.FLOAT32:
        beside = beside_ties(y, ROOM * times)
    else:
        limit = at_least(limit, NORMAL[data_type])
        beside = beside_half_ties(made, data_type)
    return exceeds(made, limit) & beside


def exceeds(x: Value, limit: Value) -> Value:
    """Whether |x| is larger than a limit; NaN is not, and exceeds none."""
    return x.magnitude().compared("ogt", limit)


def beside_ties(y: Value, room: int) -> Value:
    """Whether float64 numbers in the range of normal float32 are at least so many last places from ties."""
    lanes = y.kind.lanes
    kind = Kind("i32", lanes)
    if lanes:
        words = y.cast(Kind("i32", 2 * lanes))
        low = ", ".join(f"i32 {2 * lane}" for lane in range(lanes))
        ends = y.body.value(f"shufflevector {words!r}, {words.kind.text} poison, <{lanes} x i32> <{low}>", kind)
    else:
        ends = y.bits().converted("trunc", kind)
    return ((ends + ((1 << 28) + room)) & ((1 << 29) - 2 * room)).compared("ne", 0)


def beside_half_ties(x: Value, data_type: DataType) -> Value:
    """Whether float32 are no ties of a type of `NARROW`: all that rounds to one of them is on one side.

    They are in the range of the type's normal numbers.
    """
    tie = 1 << 23 - FORMATS[data_type].precision
    return ((x.bits() & 2 * tie - 1) ^ tie).compared("ne", 0)


def all_set(mask: Value) -> str:
    """Whether all lanes of a mask are set."""
    body, lanes = mask.body, mask.kind.lanes
    if not lanes:
        return mask.name
    while lanes > body.target.vector_bytes // 4:
        lanes //= 2
        mask = part(mask, 0, lanes) & part(mask, lanes, lanes)
    bits = body.op(f"bitcast {mask!r} to i{lanes}")
    return body.op(f"icmp eq i{lanes} {bits}, -1")
