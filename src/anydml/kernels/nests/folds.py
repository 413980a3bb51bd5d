"""The values that loops of reductions carry: sums with their error bounds, extremes, and the index of the largest term."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Protocol

from anydml.kernels.code.values import Body, Kind, Value
from anydml.kernels.nests import items
from anydml.kernels.nests.items import BIT, WORD, Index, Item
from anydml.kernels.numbers.functions.pairs import two_sum
from anydml.kernels.numbers.known import FAR, known_integer
from anydml.kernels.numbers.lanes import Truth, chosen, either, every, in_lanes
from anydml.kernels.numbers.measured import arithmetic, decisions
from anydml.kernels.numbers.measured.real import DOUBLE, SLACK, Real

# Sums of at most this many finite terms are finite: `real.ranged`, `arithmetic.divide` and `functions._settled` make sure that
# every number without a guard is at most 2^1000, or infinite because an operand is.
MOST = 1 << 23


class Fold(Protocol):
    """The values that the loops of a reduction carry."""

    def starts(self) -> list[Value]: ...

    def guarded_by(self, carried: list[Value], guard: Value | None) -> list[Value]:
        """The values after a loop whose end is undecided in the lanes of `guard`."""

    def step(self, carried: list[Value], term: Item, there: Truth, place: Value | None) -> list[Value]: ...

    def finished(self, carried: list[Value]) -> Item: ...


class _Guarded:
    """A fold whose last value, if it is guarded, is a mask of the lanes in which nothing is known."""

    def __init__(self, body: Body, lanes: int, *, guarded: bool) -> None:
        self.body, self.lanes, self.guarded = body, lanes, guarded

    def constant(self, kind: Kind, x: float) -> Value:
        return self.body.constant(kind._replace(lanes=self.lanes), x)

    def guards(self) -> list[Value]:
        return [self.constant(BIT, False)] if self.guarded else []

    def guarded_by(self, carried: list[Value], guard: Value | None) -> list[Value]:
        return carried if guard is None else [*carried[:-1], self.more(carried, guard)]

    def more(self, carried: list[Value], *guards: Value | None) -> Value:
        found = either(carried[-1], *guards)
        assert found is not None
        return in_lanes(found, self.lanes)

    def wide(self, x: Value) -> Value:
        return in_lanes(x, self.lanes)


class NestSum(_Guarded):
    """A sum of numbers with a common factor: the value, its bound unless it is exact, and a mask of lanes with terms.

    count: the most terms.
    """

    def __init__(self, body: Body, term: Real, there: Truth, lanes: int, count: int) -> None:
        super().__init__(body, lanes, guarded=term.guard is not None or there.guard is not None)
        self.term, self.known, self.count = term, term.known.summed(count), count
        self.exact = term.exact and self.known.digits <= 53

    def starts(self) -> list[Value]:
        values = [self.constant(DOUBLE, -0.0)]
        values += [] if self.exact else [self.constant(DOUBLE, 0.0)]
        return [*values, self.constant(BIT, False), *self.guards()]

    def step(self, carried: list[Value], term: Item, there: Truth, place: Value | None) -> list[Value]:
        assert isinstance(term, Real)
        assert term.factor == self.term.factor
        value, some = self.wide(term.value), self.wide(there.mask)
        err = None if term.err is None else self.wide(term.err)
        if not there.known:
            value = chosen(some, value, self.constant(DOUBLE, -0.0))
            err = None if err is None else chosen(some, err, self.constant(DOUBLE, 0.0))
        guard = term.guard if there.known or term.guard is None else every(term.guard, there.mask)
        if self.exact:
            made = [carried[0] + value]
        else:
            total, rest = two_sum(carried[0], value)
            lost = rest.magnitude() if err is None else rest.magnitude() + err
            made = [total, (carried[1] + lost) * SLACK]
        made.append(carried[len(made)] | some)
        return [*made, self.more(carried, guard, there.guard)] if self.guarded else made

    def merged(self, a: list[Value], b: list[Value]) -> list[Value]:
        """The values of two parts of the terms."""
        total, rest = (a[0] + b[0], None) if self.exact else two_sum(a[0], b[0])
        made = [total] if rest is None else [total, (a[1] + b[1] + rest.magnitude()) * SLACK]
        return [*made, *(x | y for x, y in zip(a[len(made) :], b[len(made) :], strict=True))]

    def finished(self, carried: list[Value]) -> Item:
        err = None if self.exact else carried[1]
        some = carried[1 if self.exact else 2]
        value = self.body.chosen(some, carried[0], 0.0)
        guard = carried[-1] if self.guarded else None
        term = self.term
        if self.exact or self.known.largest < FAR or term.known.largest < FAR / 2.0**64:
            return Real(value, err, self.known, term.factor, guard)
        size = value.magnitude()
        beyond = size.compared("ogt", FAR) & size.compared("olt", math.inf)
        if self.count > MOST:  # an infinite sum may stand for a finite one that float64 does not hold
            beyond = ~size.compared("ole", FAR)
        return Real(value, err, replace(self.known, finite=False), term.factor, either(guard, beyond))


class RingSum:
    """A sum of integers modulo 2^64."""

    def __init__(self, body: Body, lanes: int) -> None:
        self.body, self.lanes = body, lanes

    def starts(self) -> list[Value]:
        return [self.body.constant(WORD._replace(lanes=self.lanes), 0)]

    def guarded_by(self, carried: list[Value], guard: Value | None) -> list[Value]:
        assert guard is None
        return carried

    def step(self, carried: list[Value], term: Item, there: Truth, place: Value | None) -> list[Value]:
        assert isinstance(term, Index)
        value = in_lanes(term.value, self.lanes)
        if not there.known:
            value = chosen(in_lanes(there.mask, self.lanes), value, carried[0].lift(0))
        return [carried[0] + value]

    def merged(self, a: list[Value], b: list[Value]) -> list[Value]:
        """The values of two parts of the terms."""
        return [a[0] + b[0]]

    def finished(self, carried: list[Value]) -> Item:
        return Index(carried[0], items.ANY_WORD)


def extreme(kind: str, body: Body, term: Real, there: Truth, lanes: int) -> Fold:
    return NestExtreme(body, term, there, lanes, largest=kind == "max")


class NestExtreme(_Guarded):
    """The largest or smallest number (of factor 1), and its bound unless it is exact."""

    def __init__(self, body: Body, term: Real, there: Truth, lanes: int, *, largest: bool) -> None:
        super().__init__(body, lanes, guarded=term.guard is not None or there.guard is not None)
        self.term, self.largest, self.exact = term, largest, term.exact

    def starts(self) -> list[Value]:
        first = self.constant(DOUBLE, -math.inf if self.largest else math.inf)
        return [first, *([] if self.exact else [self.constant(DOUBLE, 0.0)]), *self.guards()]

    def step(self, carried: list[Value], term: Item, there: Truth, place: Value | None) -> list[Value]:
        assert isinstance(term, Real)
        term = arithmetic.plain(term)
        before = Real(carried[0], None if self.exact else carried[1], replace(term.known, finite=False))
        made = decisions.extreme(before, term, largest=self.largest)
        if not there.known:
            made = decisions.select(Truth(there.mask), made, before)
        values = [self.wide(made.value)]
        if not self.exact:
            values.append(self.constant(DOUBLE, 0.0) if made.err is None else self.wide(made.err))
        return [*values, self.more(carried, made.guard, there.guard)] if self.guarded else values

    def finished(self, carried: list[Value]) -> Item:
        term, guard = self.term, carried[-1] if self.guarded else None
        known = replace(term.known, finite=False)  # infinite if there are no terms
        return Real(carried[0], None if self.exact else carried[1], known, guard=guard)


class NestArgmax(_Guarded):
    """The index of the first NaN, else of the first largest number; 0 if there are no terms."""

    def __init__(self, body: Body, term: Item, there: Truth, lanes: int) -> None:
        assert isinstance(term, Real)
        guarded = term.guard is not None or there.guard is not None or term.err is not None
        super().__init__(body, lanes, guarded=guarded)
        self.term = term

    def starts(self) -> list[Value]:
        first = [self.constant(DOUBLE, 0.0)] * (1 if self.term.exact else 2)
        return [*first, self.constant(WORD, 0), self.constant(BIT, False), *self.guards()]

    def step(self, carried: list[Value], term: Item, there: Truth, place: Value | None) -> list[Value]:
        assert isinstance(term, Real)
        assert place is not None
        n = 1 if self.term.exact else 2
        key = self.wide(term.value)
        err = None if term.err is None else self.wide(term.err)
        best = Real(carried[0], carried[1] if n == 2 else None, factor=term.factor)
        less, unsure, _ = decisions.compared("less", best, Real(key, err, factor=term.factor))
        some, mask = carried[n + 1], self.wide(there.mask)
        first_nan = key.compared("uno", key) & carried[0].compared("ord", carried[0])
        better = (less | first_nan | ~some) & mask
        made = [chosen(better, key, carried[0])]
        if n == 2:
            made.append(chosen(better, self.constant(DOUBLE, 0.0) if err is None else err, carried[1]))
        made.append(chosen(better, place, carried[n]))
        made.append(some | mask)
        if not self.guarded:
            return made
        if unsure is not None:
            unsure = unsure & some & mask
        own = None if term.guard is None else self.wide(term.guard) & mask
        return [*made, self.more(carried, unsure, own, there.guard)]

    def finished(self, carried: list[Value]) -> Item:
        n = 1 if self.term.exact else 2
        return Index(carried[n], known_integer(0, items.WIDE), carried[-1] if self.guarded else None)
