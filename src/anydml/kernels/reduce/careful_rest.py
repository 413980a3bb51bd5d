"""The logarithm of a sum of powers in twice float64's precision: m + log (1 + r), for rows that float64 leaves undecided.

These are logarithms of probabilities: their powers add up to nearly 1, so that m and the logarithm nearly cancel.
"""

from __future__ import annotations

import math

from anydml.kernels.code.values import Body, Kind, Value
from anydml.kernels.elementwise.items import Item
from anydml.kernels.match.normal_form import NormalForm
from anydml.kernels.numbers.doubled import functions as precise_functions
from anydml.kernels.numbers.doubled.arithmetic import Precise, add
from anydml.kernels.numbers.floats.numbers import Number, U
from anydml.kernels.numbers.functions.pairs import Pair, two_sum
from anydml.kernels.numbers.known import Known
from anydml.kernels.reduce import doubled
from anydml.kernels.reduce.accumulator import Accumulator, masked
from anydml.kernels.reduce.ends import between
from anydml.kernels.reduce.softmax import Shares

REL = 2.0**-66  # of two powers, their quotient, and the sum of it and an integer
PAIR = 2.0**-98  # of the sum with 1


def adds_largest(formula: NormalForm) -> bool:
    """Whether a formula with a rest r is exactly m + log1p(r) + (m - m), perhaps with limits at infinite m."""
    last = len(formula) - 1
    if formula[last].op == "limits":
        last = formula[last].args[1]
    op, args, _ = formula[last]
    rests = [node for node in formula if node.op == "row_rest"]
    return (
        op == "add" and len(rests) == 1 and rests[0].args[1] in args and all(formula[a].op in ("add", "row_max") for a in args)
    )


class CarefulRest(Accumulator):
    """A `Rest` whose powers and sums are pairs. additions: the most in one lane and among lanes."""

    any_order = True

    def __init__(self, body: Body, lanes: int, shares: Shares, m: Value, additions: int) -> None:
        super().__init__(body, lanes)
        self.shares, self.m = shares, m
        self.rel = REL + doubled.lost(additions)
        self.sum: Number | None = None
        zero = body.constant(Kind("double", lanes), 0.0)
        self.starts = [zero, zero, body.constant(Kind("i32", lanes), 0)]

    def step(self, values: list[Value], term: Item, active: Value | None, at: Value) -> list[Value]:
        assert isinstance(term, Number)
        x = term.single
        assert x is not None
        equal = x.compared("oeq", self.m)
        none = equal | x.compared("oeq", -math.inf)
        high, low = (self.body.chosen(none, 0.0, part) for part in doubled.power(self.shares, term.wide()))
        if active is not None:
            equal = equal & active
        made = doubled.added((values[0], values[1]), (masked(active, high, 0.0), masked(active, low, 0.0)))
        return [*made, self.body.chosen(equal, values[2] + 1, values[2])]

    def merged(self, a: list[Value], b: list[Value]) -> list[Value]:
        return [*doubled.added((a[0], a[1]), (b[0], b[1])), a[2] + b[2]]

    def result(self, values: list[Value]) -> Item:
        m = self.m.converted("fpext", values[0].kind)
        others = (values[2] - 1).converted("sitofp", m.kind)
        rest = Pair(*two_sum(values[0], values[1])) / Pair(*doubled.power(self.shares, m)) + others
        zero = m.lift(0.0)
        # for an infinite m, another stage determines the result
        undecided = ~m.magnitude().compared("olt", math.inf)
        sum_ = Precise(rest + 1.0, rest.head * self.rel + (rest.head + 1.0) * PAIR, undecided)
        made = add(Precise(Pair(m, zero), zero, None), precise_functions.function("log", [sum_]))
        head, tail = made.pair.head, made.pair.tail
        off = made.err + tail.magnitude() * (2 * U)
        self.sum = between(head, tail - off, tail + off, made.guard)
        return Number(self.body, lambda: rest.head, Known(0.0), rel=1.0, guard=undecided)
