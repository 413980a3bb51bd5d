"""What a reduction carries along a row: vectors of partial results, a step for each group of elements, and their merging.

u is 2^-53. A sum of float64 values adds at most u of the sum of magnitudes for each addition in a row of them; a sum whose
terms are exact and whose places fit into 53 bits is exact.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import replace

from anydml.kernels.code.engine import Uncompilable
from anydml.kernels.code.values import Body, Kind, Value
from anydml.kernels.elementwise import numbers
from anydml.kernels.elementwise.formula import Item
from anydml.kernels.elementwise.numbers import FAR, SLACK, Number, U
from anydml.kernels.elementwise.wholes import Whole
from anydml.kernels.reduce.softmax import Shares

TINY = 2.0**-900  # sums below are too near to terms that are only known to be smaller than 2^-1000


class Accumulator(ABC):
    """starts: the values before any element. lanes: of the vectors of terms."""

    starts: list[Value]

    def __init__(self, body: Body, lanes: int) -> None:
        self.body, self.lanes = body, lanes
        self.starts = []

    @abstractmethod
    def step(self, values: list[Value], term: Item, active: Value | None, at: Value) -> list[Value]:
        """The values with a group of terms, or with those of its active lanes; at: the places of its lanes in the row."""

    @abstractmethod
    def merged(self, a: list[Value], b: list[Value]) -> list[Value]:
        """The values of two sets of terms together."""

    @abstractmethod
    def result(self, values: list[Value]) -> Item:
        """What the values, of all terms in every lane, come to."""

    def finished(self, values: list[Value]) -> Item:
        """The result in every lane."""
        lanes = self.lanes
        while lanes > 1:
            lanes //= 2
            low = [_part(v, 0, lanes) for v in values]
            high = [_part(v, lanes, lanes) for v in values]
            values = self.merged(low, high)
        return self.result([_part(v, 0, 1, self.lanes) for v in values])


def _part(v: Value, first: int, count: int, times: int = 1) -> Value:
    """Some lanes of a vector; one of them, so many times."""
    mask = ", ".join(f"i32 {first + lane}" for lane in range(count)) if times == 1 else ", ".join(["i32 0"] * times)
    lanes = count * times
    return v.body.value(
        f"shufflevector {v.kind.text} {v.name}, {v.kind.text} poison, <{lanes} x i32> <{mask}>", Kind(v.kind.element, lanes)
    )


def _masked(active: Value | None, x: Value, neutral: Value | float) -> Value:
    return x if active is None else x.body.chosen(active, x, neutral)


class Guards:
    """The guard of terms, if they have one, as one more value that is carried."""

    def __init__(self, body: Body, lanes: int, term: Number) -> None:
        self.starts = [] if term.guard is None else [body.constant(Kind("i1", lanes), False)]

    def step(self, values: list[Value], term: Number, active: Value | None) -> list[Value]:
        if not self.starts:
            return []
        assert term.guard is not None
        return [values[-1] | (term.guard if active is None else term.guard & active)]


class Sum(Accumulator):
    """A sum of numbers. count: at most so many terms; depth: additions that one term goes through at most.

    careful: of exact terms, with what each addition leaves over, so that the sum is exact, or known to be not.
    """

    def __init__(self, body: Body, lanes: int, term: Number, count: int, depth: int, *, counted: bool, careful: bool) -> None:
        super().__init__(body, lanes)
        term = numbers.decided_size(term) if not term.positive else term
        self.term, self.count = term, count
        if counted and not term.positive:
            raise Uncompilable("a sum of some terms, of any sign")
        most = term.largest * count
        self.exact = term.exact and term.quantum is not None and most < math.ldexp(1.0, min(53 + term.quantum, 1000))
        self.careful = careful and term.exact and not self.exact
        self.plain = self.exact or (term.positive and term.err is None)
        self.rel = (0.0 if term.exact else term.rel * SLACK) + depth * U * SLACK
        wide = Kind("double", lanes)
        # the sum of zeros is -0 where all of them are, but +0 of nothing
        self.neutral = 0.0 if counted else -0.0
        self.starts = [body.constant(wide, self.neutral)]
        if self.careful:
            self.starts += [body.constant(wide, 0.0)] * 2
        elif not self.plain:
            self.starts.append(body.constant(wide, 0.0))
        self.guards = Guards(body, lanes, term)
        self.starts += self.guards.starts

    def step(self, values: list[Value], term: Item, active: Value | None, at: Value) -> list[Value]:
        assert isinstance(term, Number)
        term = numbers.decided_size(term) if not term.positive else term
        x = _masked(active, term.wide(), self.neutral)
        more = self.guards.step(values, term, active)
        if self.careful:
            return [*self._with(values[:3], x), *more]
        if self.plain:
            return [values[0] + x, *more]
        size = x.magnitude()
        error = size * self.rel if term.err is None else self.body.fused(size, self.rel, term.err())
        return [values[0] + x, values[1] + _masked(active, error, 0.0), *more]

    def _with(self, values: list[Value], x: Value) -> list[Value]:
        """Sum, what its additions left over, and the magnitudes of what the additions of that left over."""
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
        low, high = numbers.outward(min(0.0, term.low) * self.count, max(0.0, term.high) * self.count)
        guard = values[-1] if self.guards.starts else None
        made = Number(self.body, lambda: total, low=low, high=high, quantum=term.quantum, guard=guard)
        digits = numbers.places(low, high, term.quantum) if term.exact else 53
        least = term.quantum if term.exact else term.least
        if self.careful:
            total, left = two_sum(values[0], values[1])
            # -0 stays -0, and infinity what it is: its additions leave NaN over
            total = self.body.chosen(values[1].compared("one", 0.0), total, values[0])
            odd = numbers.odd_of(total, left)
            return replace(
                made.guarded(values[2].compared("une", 0.0) & total.magnitude().compared("one", math.inf)),
                wide=lambda: total, odd=lambda: odd, rel=U, digits=53, least=least,
            )  # fmt: skip
        if self.exact:
            return replace(made, exact=True, digits=min(53, digits), least=least)
        if term.positive:
            made = replace(made, rel=self.rel, least=least)
            if term.saturated:
                made = made.guarded(total.compared("olt", TINY), total.compared("ogt", FAR) & total.compared("one", math.inf))
            elif not term.exact:
                made = replace(made, quantum=None)
            if not self.plain:
                error = values[1] * SLACK
                made = replace(made, rel=0.0, err=lambda: error)
            return made
        error = values[1] * SLACK
        return replace(
            made, err=lambda: error, quantum=term.quantum if term.exact else None, least=least if term.exact else None
        )


def two_sum(a: Value, b: Value) -> tuple[Value, Value]:
    """a + b rounded, and what the rounding left over."""
    s = a + b
    part = s - a
    return s, (a - (s - part)) + (b - part)


class Product(Accumulator):
    """A product of numbers, guarded where a part of it comes near the ends of float64's range."""

    def __init__(self, body: Body, lanes: int, term: Number, depth: int, count: int) -> None:
        super().__init__(body, lanes)
        if term.err is not None or term.saturated:
            raise Uncompilable("a product of numbers with absolute bounds")
        self.rel = (term.rel + U) * count * SLACK
        self.term = term
        self.starts = [body.constant(Kind("double", lanes), 1.0), body.constant(Kind("i1", lanes), False)]

    def step(self, values: list[Value], term: Item, active: Value | None, at: Value) -> list[Value]:
        assert isinstance(term, Number)
        x = _masked(active, term.wide(), 1.0)
        guard = values[1] if term.guard is None else values[1] | _masked(active, term.guard, False)
        return self._checked(values[0] * x, guard)

    def _checked(self, x: Value, guard: Value) -> list[Value]:
        size = x.magnitude()
        far = size.compared("ogt", 1 / TINY) | (size.compared("olt", TINY) & size.compared("une", 0.0))
        return [x, guard | far]

    def merged(self, a: list[Value], b: list[Value]) -> list[Value]:
        return self._checked(a[0] * b[0], a[1] | b[1])

    def result(self, values: list[Value]) -> Item:
        return Number(self.body, lambda: values[0], low=-FAR, high=FAR, rel=self.rel, guard=values[1])


class Integers(Accumulator):
    """A sum or a product of integers modulo 2^bits."""

    def __init__(self, body: Body, lanes: int, op: str, bits: int, *, signed: bool) -> None:
        super().__init__(body, lanes)
        self.op, self.signed = op, signed
        self.neutral = 0 if op == "add" else 1
        self.starts = [body.constant(Kind(f"i{bits}", lanes), self.neutral)]
        self.bits = bits

    def step(self, values: list[Value], term: Item, active: Value | None, at: Value) -> list[Value]:
        assert isinstance(term, Whole)
        return self.merged(values, [_masked(active, term.resized(self.bits), self.neutral)])

    def merged(self, a: list[Value], b: list[Value]) -> list[Value]:
        return [a[0] + b[0] if self.op == "add" else a[0] * b[0]]

    def result(self, values: list[Value]) -> Item:
        limit = 1 << self.bits
        return Whole(values[0], -limit if self.signed else 0, limit, modular=True)


class Extreme(Accumulator):
    """The largest or smallest of numbers that are float32 or float64, or of integers.

    plain: NaN need not be found, and any zero is as good as another.
    """

    plain = False

    def __init__(self, body: Body, lanes: int, term: Item, which: str) -> None:
        super().__init__(body, lanes)
        self.term, self.which = term, which
        if isinstance(term, Whole):
            kind = term.known().value.kind
            end = term.low if which == "max" else term.high
            self.starts = [body.constant(kind, end - (1 << kind.bits) if term.low >= 0 and end >> (kind.bits - 1) else end)]
            return
        assert isinstance(term, Number)
        if not term.exact or term.guard is not None:
            raise Uncompilable("the extreme of numbers that are rounded inside")
        kind = Kind("float" if term.single is not None else "double", lanes)
        self.starts = [body.constant(kind, -math.inf if which == "max" else math.inf)]

    def step(self, values: list[Value], term: Item, active: Value | None, at: Value) -> list[Value]:
        assert isinstance(term, (Whole, Number))
        x = term.value if isinstance(term, Whole) else term.single if term.single is not None else term.wide()
        return self.merged(values, [_masked(active, x, _part(self.starts[0], 0, 1, self.lanes) if active is not None else x)])

    def merged(self, a: list[Value], b: list[Value]) -> list[Value]:
        x, y = a[0], b[0]
        if isinstance(self.term, Whole):
            how = ("s" if self.term.low < 0 else "u") + ("gt" if self.which == "max" else "lt")
            return [self.body.chosen(x.compared(how, y), x, y)]
        if self.plain:
            return [self.body.chosen(y.compared("ogt" if self.which == "max" else "olt", x), y, x)]
        return [self.body.intrinsic("maximum" if self.which == "max" else "minimum", x, y)]

    def result(self, values: list[Value]) -> Item:
        x, term = values[0], self.term
        if isinstance(term, Whole):
            return Whole(x, term.low, term.high)
        assert isinstance(term, Number)
        if term.single is not None:
            return numbers.of_single(x, term.digits, -149 if term.quantum is None else term.quantum, term.low, term.high)
        return replace(term, wide=lambda: x, odd=None, native=None)


class First(Accumulator):
    """The place of the first (or last) NaN, else of the largest or smallest element; -1 before any."""

    def __init__(self, body: Body, lanes: int, term: Item, which: str, *, last: bool) -> None:
        super().__init__(body, lanes)
        self.which, self.last, self.term = which, last, term
        if isinstance(term, Number) and (not term.exact or term.guard is not None):
            raise Uncompilable("the place of an extreme of numbers that are rounded inside")
        self.starts = [body.constant(self._key(term).kind, 0), body.constant(Kind("i64", lanes), -1)]

    @staticmethod
    def _key(term: Item) -> Value:
        if isinstance(term, Whole):
            return term.known().value
        assert isinstance(term, Number)
        return term.single if term.single is not None else term.wide()

    def step(self, values: list[Value], term: Item, active: Value | None, at: Value) -> list[Value]:
        x = self._key(term)
        better = self._beats(x, values[0], equal=self.last) | values[1].compared("slt", 0)
        if active is not None:
            better = better & active
        return [self.body.chosen(better, x, values[0]), self.body.chosen(better, at, values[1])]

    def _beats(self, x: Value, y: Value, *, equal: bool) -> Value:
        if isinstance(self.term, Whole):
            sign = "s" if self.term.low < 0 else "u"
            return x.compared(sign + ("g" if self.which == "largest" else "l") + ("e" if equal else "t"), y)
        better = x.compared(("og" if self.which == "largest" else "ol") + ("e" if equal else "t"), y)
        none = x.compared("uno", x)
        return better | (none if equal else none & y.compared("ord", y))

    def merged(self, a: list[Value], b: list[Value]) -> list[Value]:
        x, y = a[0], b[0]
        equal = ~self._beats(x, y, equal=False) & ~self._beats(y, x, equal=False)
        earlier = b[1].compared("sgt" if self.last else "slt", a[1])
        better = (self._beats(y, x, equal=False) | (equal & earlier)) & b[1].compared("sge", 0)
        better = better | a[1].compared("slt", 0)
        return [self.body.chosen(better, y, x), self.body.chosen(better, b[1], a[1])]

    def result(self, values: list[Value]) -> Item:
        return Whole(values[1], 0, (1 << 62) - 1)


class Rest(Accumulator):
    """A sum of e^(x - m) without the first x that is m, the largest one: see `softmax`.

    depth: additions that one term goes through at most.
    """

    def __init__(self, body: Body, lanes: int, shares: Shares, m: Value, count: int, depth: int) -> None:
        super().__init__(body, lanes)
        self.shares, self.m, self.count = shares, m, count
        # two powers, the additions, a quotient and a sum; and what the least powers stand for
        self.rel = (2 * shares.rel + (depth + 4) * U) * SLACK
        self.starts = [body.constant(Kind("double", lanes), 0.0), body.constant(Kind("i32", lanes), 0)]

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
        return [values[0] + _masked(active, more, 0.0), self.body.chosen(equal, values[1] + 1, values[1])]

    def merged(self, a: list[Value], b: list[Value]) -> list[Value]:
        return [x + y for x, y in zip(a, b, strict=True)]

    def result(self, values: list[Value]) -> Item:
        power = self.shares.ended(self.shares.begun(self.m.converted("fpext", values[0].kind))).wide()
        others = (values[1] - 1).converted("sitofp", values[0].kind)
        made = values[0] / power + others
        return Number(self.body, lambda: made, low=0.0, high=2.0 * self.count, rel=self.rel)


def accumulator(
    body: Body, lanes: int, kind: str, term: Item, number: Callable[[Item], Number], *,
    count: int, depth: int, counted: bool, last: bool, careful: bool, modulus: int | None,
) -> Accumulator:  # fmt: skip
    """What a reduction of such terms carries; modulus: the bits that what is stored shows of a sum of integers."""
    if kind in ("max", "min"):
        return Extreme(body, lanes, term if isinstance(term, Whole) else number(term), kind)
    if kind in ("first_largest", "first_smallest"):
        return First(body, lanes, term if isinstance(term, Whole) else number(term), kind.removeprefix("first_"), last=last)
    if isinstance(term, Whole) and modulus is not None and not counted:
        return Integers(body, lanes, "add" if kind == "sum" else "mul", modulus, signed=term.low < 0)
    if kind == "sum":
        return Sum(body, lanes, number(term), count, depth, counted=counted, careful=careful)
    if counted:
        raise Uncompilable("a product of some terms")
    return Product(body, lanes, number(term), depth, count)
