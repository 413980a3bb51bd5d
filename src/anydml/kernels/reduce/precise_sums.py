"""Sums along a row in twice float64's precision: of any terms, and of differences from its first element.

u is 2^-53. A sum of float64 values carries the sum of its rounding errors: s additions, of terms whose magnitudes add up to M
at most, have errors of up to u M each, and adding these up has an error of 2 s (s + 2) u^2 M; products and differences that are
pairs cost another few u^2 M. So (4 s^2 + 64) u^2 M bounds all of that. M comes from the sums of squares, as in `moments` and
`joint`. Sums are exact if the differences are float64 values and the rounding errors are added up without error.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence

from anydml.kernels.code.values import Body, Kind, Value
from anydml.kernels.match.scopes import Scopes
from anydml.kernels.numbers.doubled.arithmetic import Precise, add, divide, multiply, subtract, with_sign
from anydml.kernels.numbers.floats.numbers import SLACK, U
from anydml.kernels.numbers.functions.approximate import at_least, at_most
from anydml.kernels.numbers.functions.pairs import Pair, exact_product, lost_product, two_sum
from anydml.kernels.numbers.lanes import Truth, either
from anydml.kernels.reduce.joint import OTHER_MEAN, TOTAL
from anydml.kernels.reduce.moments import VARIANCE

Items = Scopes[int, Precise | Truth]


class Sums(ABC):
    """The sums that a pass carries. args: the nodes of their terms; starts: the values before any element."""

    def __init__(self, body: Body, lanes: int, args: Sequence[int]) -> None:
        self.body, self.args = body, args
        self.zero = body.constant(Kind("double", lanes), 0.0)
        self.no = body.constant(Kind("i1", lanes), False)
        self.starts: list[Value] = []

    @abstractmethod
    def step(self, values: list[Value], items: Items, active: Value) -> list[Value]:
        """The values after the active lanes of a group."""

    @abstractmethod
    def merged(self, a: list[Value], b: list[Value]) -> list[Value]:
        """The values of two sets of terms, merged."""

    @abstractmethod
    def results(self, values: list[Value]) -> dict[str, Precise]:
        """The results by the op of their nodes; the result of the reduction itself has the key ""."""


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
    """Sums of x - near and their squares, and of g and its products with them if there is a g. near: the first x.

    count: elements of the row; additions: the most in a lane and among lanes. If two x with a nonzero g differ, one of them is
    not the mean, so that its product with g is not 0: if the products add up to 0, they cancel, and that 0 is +0.
    """

    def __init__(self, body: Body, lanes: int, args: Sequence[int], near: Value, count: int, additions: int) -> None:
        super().__init__(body, lanes, args)
        self.near, self.count = near, count
        self.share = (4.0 * additions * additions + 64) * U * U
        # a guard; the sums with their errors; the sum of all g^2; the least and largest x - near with a nonzero g; flags of
        # inexact sums
        self.count_of_sums = 2 * len(args)
        none = self.zero.lift(-0.0)  # a sum of zeros is -0 only if all of them are
        self.starts = [self.no, *[self.zero] * 4]
        if len(args) > 1:
            self.starts += [none, *[self.zero] * 4, self.zero.lift(math.inf), self.zero.lift(-math.inf)]
        self.starts += [self.no] * self.count_of_sums

    def step(self, values: list[Value], items: Items, active: Value) -> list[Value]:
        body = self.body

        def read(p: int) -> Value:
            x = _number(items, p)
            if x.guard is not None:
                made[0] = made[0] | (x.guard & active)
            return x.pair.head

        made = [values[0]]
        flags = values[len(values) - self.count_of_sums :]

        def add(x: Value, rest: Value | None, exact: Value) -> None:
            k = len(made)
            total, lost = _with(values[k : k + 2], x, rest)
            made.extend(total)
            flags[k // 2] = flags[k // 2] | lost | ~exact

        d, rest = (body.chosen(active, part, 0.0) for part in two_sum(read(self.args[0]), -self.near))
        plain = rest.compared("oeq", 0.0)
        square, lost = exact_product(d, d)
        add(d, rest, self.no ^ True)
        add(square, lost + 2.0 * d * rest, plain & lost_product(d, d, square).compared("oeq", 0.0))
        if len(self.args) > 1:
            g = body.chosen(active, read(self.args[1]), -0.0)
            product, lost = exact_product(g, d)
            add(g, None, self.no ^ True)
            add(product, lost + g * rest, plain & lost_product(g, d, product).compared("oeq", 0.0))
            made.append(body.fused(g, g, values[9]))
            some = g.compared("une", 0.0)
            made.append(at_most(values[10], body.chosen(some, d, math.inf)))
            made.append(at_least(values[11], body.chosen(some, d, -math.inf)))
        return made + flags

    def merged(self, a: list[Value], b: list[Value]) -> list[Value]:
        made = [a[0] | b[0]]
        first = len(a) - self.count_of_sums
        flags = [x | y for x, y in zip(a[first:], b[first:], strict=True)]
        for k in range(self.count_of_sums):
            total, lost = _with(a[2 * k + 1 : 2 * k + 3], b[2 * k + 1], b[2 * k + 2])
            made += total
            flags[k] = flags[k] | lost
        if len(self.args) > 1:
            made += [a[9] + b[9], at_most(a[10], b[10]), at_least(a[11], b[11])]
        return made + flags

    def results(self, values: list[Value]) -> dict[str, Precise]:
        guard, squares = values[0], values[3]
        flags = values[len(values) - self.count_of_sums :]
        every = self.no ^ True
        n = Precise(Pair(self.zero.lift(float(self.count)), self.zero), self.zero, None, every)

        def total(k: int, size: Value) -> Precise:
            """A sum. Zero sums of d and of squares are +0; the sum of g keeps its sign."""
            err = self.body.chosen(flags[k // 2], size * (self.share * SLACK), 0.0)
            return Precise(with_sign(*values[k : k + 2]), err, guard, None if k == 7 else every)

        differences = total(1, (squares * float(self.count)).root())
        mean = divide(differences, n)
        near = Precise(Pair(self.near, self.zero), self.zero, None, every)
        middle = add(near, mean)
        # a mean of zeros is -0 only if all of them are
        middle = middle._replace(signed=self.near.compared("une", 0.0) | squares.compared("une", 0.0))
        found = {"": middle, VARIANCE: subtract(divide(total(3, squares), n), multiply(mean, mean))}
        if len(self.args) > 1:
            g = total(5, (values[9] * float(self.count)).root())
            found[OTHER_MEAN] = divide(g, n)
            # multiplied by n, so that a total of 0 is exact if the sums are exact
            products = multiply(total(7, (values[9] * squares).root()), n)
            cancels = values[10].compared("olt", values[11])
            found[TOTAL] = divide(subtract(products, multiply(differences, g)), n)._replace(signed=cancels)
        return found


def _with(values: Sequence[Value], x: Value, rest: Value | None) -> tuple[list[Value], Value]:
    """A sum and its rounding errors after one more term x + rest; and the lanes where something is lost."""
    total, left = two_sum(values[0], x)
    lost = left.lift(0.0)
    if rest is not None:
        left, lost = two_sum(left, rest)
    beside, more = two_sum(values[1], left)
    return [total, beside], lost.compared("une", 0.0) | more.compared("une", 0.0)


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
