"""Sums along a row in twice float64's precision: of any terms, and of differences from its first element.

u is 2^-53. A sum of float64 values carries what its additions leave over beside it: s additions, of terms whose magnitudes add
up to M at most, leave over up to u M each, and adding these up is off by 2 s (s + 2) u^2 M; products and differences that are
pairs take another few u^2 M. So (4 s^2 + 64) u^2 M bounds all of that. M comes from the sums of squares, as in `moments` and
`joint`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence

from anydml.kernels.code.values import Body, Kind, Value
from anydml.kernels.elementwise.functions.pairs import Pair, exact_product, two_sum
from anydml.kernels.elementwise.numbers import SLACK, U, either
from anydml.kernels.elementwise.precise_arithmetic import Condition, Precise, add, divide, multiply, subtract
from anydml.kernels.reduce.joint import OTHER_MEAN, TOTAL
from anydml.kernels.reduce.moments import VARIANCE

Items = Mapping[int, Precise | Condition]


class Sums(ABC):
    """Sums that a pass carries. args: the nodes that they are of; starts: the values before any element."""

    def __init__(self, body: Body, lanes: int, args: Sequence[int]) -> None:
        self.body, self.args = body, args
        self.zero = body.constant(Kind("double", lanes), 0.0)
        self.no = body.constant(Kind("i1", lanes), False)
        self.starts: list[Value] = []

    @abstractmethod
    def step(self, values: list[Value], items: Items, active: Value) -> list[Value]:
        """The values with the active lanes of a group."""

    @abstractmethod
    def merged(self, a: list[Value], b: list[Value]) -> list[Value]:
        """The values of two sets of terms together."""

    @abstractmethod
    def results(self, values: list[Value]) -> dict[str, Precise]:
        """The results by the nodes that have them, that of the reduction itself as ""."""


class Plain(Sums):
    """The sum of any terms."""

    def __init__(self, body: Body, lanes: int, args: Sequence[int]) -> None:
        super().__init__(body, lanes, args)
        self.starts = [self.zero, self.zero, self.zero, self.no]

    def step(self, values: list[Value], items: Items, active: Value) -> list[Value]:
        term = _number(items, self.args[0])
        pair, err = term.pair.where(active, 0.0), self.body.chosen(active, term.err, 0.0)
        return _values(add(_sum(values), Precise(pair, err, None if term.guard is None else term.guard & active)))

    def merged(self, a: list[Value], b: list[Value]) -> list[Value]:
        return _values(add(_sum(a), _sum(b)))

    def results(self, values: list[Value]) -> dict[str, Precise]:
        return {"": _sum(values)}


class Differences(Sums):
    """Sums of x - near and their squares, and of g and its products with them where there is a g. near: the first x.

    count: of the row; additions: at most so many in a lane, and among lanes.
    """

    def __init__(self, body: Body, lanes: int, args: Sequence[int], near: Value, count: int, additions: int) -> None:
        super().__init__(body, lanes, args)
        self.near, self.count = near, count
        self.share = (4.0 * additions * additions + 64) * U * U
        # a guard, sums with what is left over, and the sum of all g^2
        self.starts = [self.no] + [self.zero] * (4 if len(args) == 1 else 9)

    def step(self, values: list[Value], items: Items, active: Value) -> list[Value]:
        body = self.body

        def read(p: int) -> Value:
            x = _number(items, p)
            if x.guard is not None:
                made[0] = made[0] | (x.guard & active)
            return x.pair.head

        made = [values[0]]
        d, rest = (body.chosen(active, part, 0.0) for part in two_sum(read(self.args[0]), -self.near))
        square, lost = exact_product(d, d)
        made += _with(values[1:3], d, rest)
        made += _with(values[3:5], square, lost + 2.0 * d * rest)
        if len(self.args) > 1:
            g = body.chosen(active, read(self.args[1]), 0.0)
            product, lost = exact_product(g, d)
            made += _with(values[5:7], g, None)
            made += _with(values[7:9], product, lost + g * rest)
            made.append(body.fused(g, g, values[9]))
        return made

    def merged(self, a: list[Value], b: list[Value]) -> list[Value]:
        made = [a[0] | b[0]]
        for k in range(1, len(a) - 1, 2):
            made += _with(a[k : k + 2], b[k], b[k + 1])
        return made if len(a) == 5 else [*made, a[9] + b[9]]

    def results(self, values: list[Value]) -> dict[str, Precise]:
        guard, squares = values[0], values[3]
        n = Precise(Pair(self.zero.lift(float(self.count)), self.zero), self.zero, None)

        def total(k: int, size: Value) -> Precise:
            return Precise(Pair(*two_sum(*values[k : k + 2])), size * (self.share * SLACK), guard)

        mean = divide(total(1, (squares * float(self.count)).root()), n)
        near = Precise(Pair(self.near, self.zero), self.zero, None)
        found = {"": add(near, mean), VARIANCE: subtract(divide(total(3, squares), n), multiply(mean, mean))}
        if len(self.args) > 1:
            g = total(5, (values[9] * float(self.count)).root())
            found[OTHER_MEAN] = divide(g, n)
            found[TOTAL] = subtract(total(7, (values[9] * squares).root()), multiply(mean, g))
        return found


def _with(values: Sequence[Value], x: Value, rest: Value | None) -> list[Value]:
    """A sum and what is left over beside it, with a term and what that lacks."""
    total, left = two_sum(values[0], x)
    return [total, values[1] + (left if rest is None else left + rest)]


def _number(items: Items, p: int) -> Precise:
    item = items[p]
    assert isinstance(item, Precise)
    return item


def _sum(values: list[Value]) -> Precise:
    return Precise(Pair(values[0], values[1]), values[2], values[3])


def _values(x: Precise) -> list[Value]:
    guard = either(x.guard)
    assert guard is not None, "a sum carries its guard"
    return [x.pair.head, x.pair.tail, x.err, guard]
