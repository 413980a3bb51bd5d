"""Ties of a log-softmax (x - m) - L where the largest x, m, exceeds all others by about 700, so that L is about 2^-1024.

A difference within 2^-1024 |b| of a tie b counts as b, and L decides on which side of b the result is. Let y be the largest x
except m, g = m - y, and S the sum of e^(x - y) without m. Then L is S e^-g, up to a relative error of 2^-800, and it matters
only if it is more than 2^-1024 (m - x): if m - x is less than S e^(1024 log 2 - g), the limit. Differences that are no ties are
further from all ties than L, by far.
"""

from __future__ import annotations

import math

from anydml.kernels.code.targets import Target
from anydml.kernels.code.values import Kind, Value, part
from anydml.kernels.elementwise import precise
from anydml.kernels.numbers import singles
from anydml.kernels.numbers.doubled.arithmetic import Precise
from anydml.kernels.numbers.floats.numbers import odd_of
from anydml.kernels.numbers.functions import exponentials
from anydml.kernels.numbers.functions.approximate import at_least, at_most
from anydml.kernels.numbers.functions.pairs import two_sum
from anydml.kernels.reduce.key import ReductionKey
from anydml.kernels.reduce.softmax import CLOSE, FARTHEST
from anydml.kernels.reduce.undecided_rows import UndecidedRow

SHARE = 2.0**-20  # the error of the limit: a sum of at most 2^28 terms and exponents up to 800, each rounded a few times


def far_ties(target: Target, key: ReductionKey, stream: int) -> tuple[str, list[str]]:
    """The text of an `UndecidedRow` for a log-softmax of a stream, and its declarations."""
    return _FarTies(target, key, stream).text()


class _FarTies(UndecidedRow):
    def __init__(self, target: Target, key: ReductionKey, stream: int) -> None:
        super().__init__(target, key)
        self.stream = stream

    def text(self) -> tuple[str, list[str]]:
        self.begin()
        body = self.body
        least = body.constant(Kind("double", self.lanes), -math.inf)
        zero = least.lift(0.0)

        def largest(values: list[Value], active: Value) -> list[Value]:
            return [at_least(values[0], body.chosen(active, self._x(), -math.inf))]

        self.m = m = self._of_all(self.along([least], largest), larger=True)[0]

        def others(values: list[Value], active: Value) -> list[Value]:
            x = self._x()
            other = body.chosen(active & x.compared("olt", m), x, -math.inf)
            equal = body.chosen(active & x.compared("oeq", m), zero.lift(1.0), 0.0)
            return [at_least(values[0], other), values[1] + equal]

        found = self.along([least, zero], others)
        (y,), (count,) = self._of_all(found[:1], larger=True), self._of_all(found[1:], larger=False)

        def powers(values: list[Value], active: Value) -> list[Value]:
            x = self._x()
            power = exponentials.exponential(at_least(x - y, exponentials.LOWEST))
            return [values[0] + body.chosen(active & x.compared("une", m), power, 0.0)]

        (total,) = self._of_all(self.along([zero], powers), larger=False)
        gap = m - y
        self.limit = total * exponentials.exponential(at_most(at_least(1024 * math.log(2) - gap, -300.0), 300.0))
        # elsewhere the limit is useless, or L is not known that well; comparisons with NaN are false
        self.within = count.compared("oeq", 1.0) & gap.compared("ogt", CLOSE) & gap.compared("olt", FARTHEST)
        self.within = self.within & total.compared("olt", math.inf)
        return self.ended(self.decided(self._element))

    def _x(self) -> Value:
        x = precise.item(self.body, "stream", [], (self.stream, self.key.types[self.stream]), self.read, self.lanes)
        assert isinstance(x, Precise)
        return x.pair.head

    def _of_all(self, values: list[Value], *, larger: bool) -> list[Value]:
        """The largest value of all lanes, or their sum, in every lane."""
        width = self.lanes
        while width > 1:
            width //= 2
            pairs = [(part(v, 0, width), part(v, width, width)) for v in values]
            values = [at_least(a, b) if larger else a + b for a, b in pairs]
        return [part(v, 0, 1, self.lanes) for v in values]

    def _element(self) -> tuple[Value, Value | None]:
        head, tail = two_sum(self._x(), -self.m)
        size, is_tie = head.magnitude(), tail.compared("oeq", 0.0)
        counts = size.compared("olt", self.limit * (1 - SHARE))
        known = self.within & head.compared("olt", 0.0) & size.compared("olt", math.inf)
        known = known & (~is_tie | counts | size.compared("ogt", self.limit * (1 + SHARE)))
        left = self.body.chosen(is_tie & counts, -1.0 * size.lift(1.0), tail)
        made = odd_of(head, left)
        return singles.narrowed(made, self.key.types[-1]), ~known
