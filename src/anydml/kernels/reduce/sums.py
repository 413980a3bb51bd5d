"""Accumulators of sums and products.

u is 2^-53. A sum of float64 values has an error of at most u of the sum of magnitudes for each addition that a term goes
through; a sum of exact terms that fits into 53 bits is exact.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import NamedTuple

from anydml.kernels.code.engine import Uncompilable
from anydml.kernels.code.values import Body, Kind, Value
from anydml.kernels.elementwise.items import Item
from anydml.kernels.numbers.floats import numbers
from anydml.kernels.numbers.floats.numbers import FAR, SLACK, Number, U
from anydml.kernels.numbers.functions.pairs import exact_product, lost_product, two_sum
from anydml.kernels.numbers.known import Known, known_integer
from anydml.kernels.numbers.wholes import WholeNumber
from anydml.kernels.reduce.accumulator import Accumulator, masked
from anydml.kernels.reduce.ends import between
from anydml.kernels.reduce.softmax import Shares

DEEPEST = 1 << 20  # additions that a float32 sum of magnitudes goes through
FURTHEST = 400  # exponents of products that float64 holds with all digits
TINY = 2.0**-900  # smaller sums are too near to terms that are known only to be below 2^-1000


class Over(NamedTuple):
    """A sum t and the float64 nearest to it, with |t - total - left| <= lost; guard: undecided lanes, None if there are none.

    If the total is 0, infinite or NaN, left is 0. Terms are multiples of 2^-400.
    """

    total: Value
    left: Value
    lost: Value
    guard: Value | None


class Guards:
    """The guard of the terms, carried as one more value if they have one."""

    def __init__(self, body: Body, lanes: int, term: Number) -> None:
        self.starts = [] if term.guard is None else [body.constant(Kind("i1", lanes), False)]

    def step(self, values: list[Value], term: Number, active: Value | None) -> list[Value]:
        if not self.starts:
            return []
        assert term.guard is not None
        return [values[-1] | (term.guard if active is None else term.guard & active)]


class RowSum(Accumulator):
    """A sum of numbers. count: the most terms; depth: the most additions that a term goes through.

    careful: sums of exact terms keep the rounding errors of additions, so that the sum is exact, or known not to be. over: the
    result of a careful sum. The magnitudes of float32 terms are added up in float32, whose additions have errors of 2^-24.
    """

    over: Over | None = None

    def __init__(self, body: Body, lanes: int, term: Number, count: int, depth: int, *, counted: bool, careful: bool) -> None:
        super().__init__(body, lanes)
        term = numbers.decided_size(term) if not term.known.positive else term
        self.term, self.known = term, term.known.summed(count)
        if counted and not term.known.positive:
            raise Uncompilable("a sum of some terms, of any sign")
        self.exact = term.exact and self.known.digits <= 53
        self.careful = self.any_order = careful and term.exact and not self.exact
        self.plain = self.exact or (term.known.positive and term.err is None)
        self.rel = (0.0 if term.exact else term.rel * SLACK) + depth * U * SLACK
        self.of_singles = term.exact and term.single is not None and depth <= DEEPEST and not (self.plain or self.careful)
        if self.of_singles:
            self.rel *= 1 + depth * 2.0**-23
        wide = Kind("double", lanes)
        # a sum of zeros is -0 only if all of them are; an empty sum is +0
        self.neutral = 0.0 if counted else -0.0
        self.starts = [body.constant(wide, self.neutral)]
        if self.careful:
            self.starts += [body.constant(wide, 0.0)] * 2
        elif not self.plain:
            self.starts.append(body.constant(Kind("float", lanes) if self.of_singles else wide, 0.0))
        self.guards = Guards(body, lanes, term)
        self.starts += self.guards.starts

    def step(self, values: list[Value], term: Item, active: Value | None, at: Value) -> list[Value]:
        assert isinstance(term, Number)
        term = numbers.decided_size(term) if not term.known.positive else term
        x = masked(active, term.wide(), self.neutral)
        more = self.guards.step(values, term, active)
        if self.careful:
            return [*self._with(values[:3], x), *more]
        if self.plain:
            return [values[0] + x, *more]
        if self.of_singles:
            assert term.single is not None
            return [values[0] + x, values[1] + masked(active, term.single.magnitude(), 0.0), *more]
        size = x.magnitude()
        error = size * self.rel if term.err is None else self.body.fused(size, self.rel, term.err())
        return [values[0] + x, values[1] + masked(active, error, 0.0), *more]

    def _with(self, values: list[Value], x: Value) -> list[Value]:
        """The sum, the sum of its rounding errors, and the magnitudes of the rounding errors of that, after x."""
        total, left, lost = values
        total, more = two_sum(total, x)
        left, rest = two_sum(left, more)
        return [total, left, lost + rest.magnitude()]

    def merged(self, a: list[Value], b: list[Value]) -> list[Value]:
        made = [a[0] + b[0]]
        if self.careful:
            made = self._with(a[:3], b[0])
            left, rest = two_sum(made[1], b[1])
            made[1:] = [left, made[2] + b[2] + rest.magnitude()]
        elif not self.plain:
            made.append(a[1] + b[1])
        return made + [x | y for x, y in zip(a[len(made) :], b[len(made) :], strict=True)]

    def result(self, values: list[Value]) -> Item:
        term, total = self.term, values[0]
        guard = values[-1] if self.guards.starts else None
        made = Number(self.body, lambda: total, self.known, guard=guard)
        if self.careful:
            total, left = two_sum(values[0], values[1])
            # -0 stays -0, and infinities stay: their rounding errors are NaN
            some = values[1].compared("one", 0.0)
            total, left = self.body.chosen(some, total, values[0]), self.body.chosen(some, left, 0.0)
            over = Over(total, left, values[2] * 2.0, guard)  # twice, for the roundings of `lost` itself
            if term.known.has_quantum(-400):
                self.over = over
            odd = numbers.odd_of(total, left)
            # a loss smaller than `left` does not change the side of the total on which the sum is
            lost = over.lost.compared("une", 0.0) & ~over.lost.compared("olt", left.magnitude())
            return replace(
                made.guarded(lost & total.magnitude().compared("one", math.inf)),
                wide=lambda: total, odd=lambda: odd, rest=lambda: left, rel=U,
            )  # fmt: skip
        if self.exact:
            return replace(made, exact=True)
        if term.known.positive:
            made = replace(made, rel=self.rel)
            if term.saturated:
                made = made.guarded(total.compared("olt", TINY), total.compared("ogt", FAR) & total.compared("one", math.inf))
            if not self.plain:
                error = values[1] * SLACK
                made = replace(made, rel=0.0, err=lambda: error)
            return made
        error = values[1] * SLACK
        if self.of_singles:
            error = values[1].converted("fpext", total.kind) * self.rel
        return replace(made, err=lambda: error)


class RowProduct(Accumulator):
    """A product of numbers, undecided if a partial product comes near the ends of float64's range."""

    def __init__(self, body: Body, lanes: int, term: Number, count: int) -> None:
        super().__init__(body, lanes)
        if term.err is not None or term.saturated:
            raise Uncompilable("a product of numbers with absolute bounds")
        self.rel = (term.rel + U) * count * SLACK
        self.term = term
        self.starts = [body.constant(Kind("double", lanes), 1.0), body.constant(Kind("i1", lanes), False)]

    def step(self, values: list[Value], term: Item, active: Value | None, at: Value) -> list[Value]:
        assert isinstance(term, Number)
        x = masked(active, term.wide(), 1.0)
        guard = values[1] if term.guard is None else values[1] | masked(active, term.guard, False)
        return self._checked(values[0] * x, guard)

    def _checked(self, x: Value, guard: Value) -> list[Value]:
        size = x.magnitude()
        far = size.compared("ogt", 1 / TINY) | (size.compared("olt", TINY) & size.compared("une", 0.0))
        return [x, guard | far]

    def merged(self, a: list[Value], b: list[Value]) -> list[Value]:
        return self._checked(a[0] * b[0], a[1] | b[1])

    def result(self, values: list[Value]) -> Item:
        return Number(self.body, lambda: values[0], Known(-FAR, FAR), rel=self.rel, guard=values[1])


class CarefulProduct(Accumulator):
    """A product of float32 numbers: a head between 1 and 2, a tail, their exponent, and the bits of all rounding errors.

    Of n factors, the tail is below n u of the head, and the error of both together is below 8 n^2 u^2 of it: a product of two
    such pairs has the errors of both, that of the product of tails, 3 u of the tails, and 4 u^2 if no operation is fused, and
    a^2 + b^2 + (a b + 3 (a + b) + 4) / 8 < (a + b)^2. A product that float32 holds, or that is halfway between two, has at most
    25 digits; so has every partial product, and then nothing is rounded.

    A zero, an infinity or NaN as the head has no exponent and stays what it is.
    """

    any_order = True

    def __init__(self, body: Body, lanes: int, term: Number, count: int) -> None:
        super().__init__(body, lanes)
        self.share = 8 * (count * U) ** 2 * SLACK
        self.rel = (count * U + self.share) * SLACK
        wide, whole = Kind("double", lanes), Kind("i64", lanes)
        self.starts = [body.constant(wide, 1.0), body.constant(wide, 0.0), *(body.constant(whole, 0) for _ in range(2))]
        self.guards = Guards(body, lanes, term)
        self.starts += self.guards.starts

    def step(self, values: list[Value], term: Item, active: Value | None, at: Value) -> list[Value]:
        assert isinstance(term, Number)
        head, tail, exponent, off = values[:4]
        x = masked(active, term.wide(), 1.0)
        made, low = exact_product(head, x)
        tail = self.body.fused(tail, x, low)
        return [*self._scaled(made, tail, exponent, off | low.bits()), *self.guards.step(values, term, active)]

    def merged(self, a: list[Value], b: list[Value]) -> list[Value]:
        made, low = exact_product(a[0], b[0])
        tail = low + (a[0] * b[1] + a[1] * b[0])
        off = a[3] | b[3] | low.bits() | lost_product(a[0], b[0], made).bits()
        return [*self._scaled(made, tail, a[2] + b[2], off), *(x | y for x, y in zip(a[4:], b[4:], strict=True))]

    def _scaled(self, head: Value, tail: Value, exponent: Value, off: Value) -> list[Value]:
        body, bits = self.body, head.bits()
        place = bits.shifted_right(52, signed=False) & 2047
        there = (place - 1).compared("ult", 2046)
        scale = ((body.constant(place.kind, 2046) - place) << 52).cast(head.kind)
        scale = body.chosen(there, scale, 1.0)
        return [head * scale, tail * scale, body.chosen(there, exponent + (place - 1023), exponent), off]

    def result(self, values: list[Value]) -> Item:
        body, (head, tail, exponent, off) = self.body, values[:4]
        # beyond 2^FURTHEST or its reciprocal, results are stored as infinity or 0 anyway
        limit = body.constant(exponent.kind, FURTHEST)
        exponent = body.chosen(exponent.compared("slt", limit), exponent, limit)
        limit = body.constant(exponent.kind, -FURTHEST)
        exponent = body.chosen(exponent.compared("sgt", limit), exponent, limit)
        scale = ((exponent + 1023) << 52).cast(head.kind)
        err = body.chosen((off << 1).compared("ne", 0), head.magnitude() * self.share, 0.0)
        made = between(head, tail - err, tail + err, values[4] if self.guards.starts else None, self.rel)
        assert made.ends is not None
        low, high, nearest = (end * scale for end in (*made.ends(), head))
        return replace(
            made, wide=lambda: nearest, ends=lambda: (low, high), saturated=FURTHEST - 1,
            zero=lambda: nearest.compared("oeq", 0.0), finer=lambda: (nearest, tail * scale, err * scale),
        )  # fmt: skip


class Integers(Accumulator):
    """A sum or a product of integers modulo 2^bits."""

    def __init__(self, body: Body, lanes: int, op: str, bits: int, *, signed: bool) -> None:
        super().__init__(body, lanes)
        self.op, self.signed = op, signed
        self.neutral = 0 if op == "add" else 1
        self.starts = [body.constant(Kind(f"i{bits}", lanes), self.neutral)]
        self.bits = bits

    def step(self, values: list[Value], term: Item, active: Value | None, at: Value) -> list[Value]:
        assert isinstance(term, WholeNumber)
        return self.merged(values, [masked(active, term.resized(self.bits), self.neutral)])

    def merged(self, a: list[Value], b: list[Value]) -> list[Value]:
        return [a[0] + b[0] if self.op == "add" else a[0] * b[0]]

    def result(self, values: list[Value]) -> Item:
        limit = 1 << self.bits
        return WholeNumber(values[0], known_integer(-limit if self.signed else 0, limit), modular=True)


class Rest(Accumulator):
    """A sum of e^(x - m) without the first x that is m, the largest one: see `softmax`.

    depth: the most additions that a term goes through. gap: set with the result: the distance of m from all others.
    """

    gap: Value

    def __init__(self, body: Body, lanes: int, shares: Shares, m: Value, count: int, depth: int) -> None:
        super().__init__(body, lanes)
        self.shares, self.m, self.count = shares, m, count
        # two powers, the additions, a quotient and a sum; and the replaced powers
        self.rel = (2 * shares.rel + (depth + 4) * U) * SLACK
        single = Kind("float", lanes)
        self.starts = [body.constant(Kind("double", lanes), 0.0), body.constant(Kind("i32", lanes), 0)]
        self.starts.append(body.constant(single, -math.inf))  # the largest other element; `result` handles several that are m

    def step(self, values: list[Value], term: Item, active: Value | None, at: Value) -> list[Value]:
        assert isinstance(term, Number)
        x = term.single
        assert x is not None
        equal = x.compared("oeq", self.m)
        none = equal | x.compared("oeq", -math.inf)
        power = self.shares.ended(self.shares.begun(term.wide())).wide()
        more = self.body.chosen(none, 0.0, power)
        if active is not None:
            equal = equal & active
        count = self.body.chosen(equal, values[1] + 1, values[1])
        other = masked(active, self.body.chosen(none, -math.inf, x), -math.inf)
        return [values[0] + masked(active, more, 0.0), count, self._larger(values[2], other)]

    def _larger(self, x: Value, y: Value) -> Value:
        return self.body.chosen(x.compared("ogt", y), x, y)

    def merged(self, a: list[Value], b: list[Value]) -> list[Value]:
        return [a[0] + b[0], a[1] + b[1], self._larger(a[2], b[2])]

    def result(self, values: list[Value]) -> Item:
        several = values[1].compared("sgt", 1)
        self.gap = self.body.chosen(several, 0.0, (self.m - values[2]).converted("fpext", values[0].kind))
        power = self.shares.ended(self.shares.begun(self.m.converted("fpext", values[0].kind))).wide()
        others = (values[1] - 1).converted("sitofp", values[0].kind)
        made = values[0] / power + others
        return Number(self.body, lambda: made, Known(0.0, 2.0 * self.count), rel=self.rel)
