"""The interface of accumulators: vectors of partial results, a step for each group of elements, and the merging of sets."""

from __future__ import annotations

from abc import ABC, abstractmethod

from anydml.kernels.code.values import Body, Value, part
from anydml.kernels.elementwise.items import Item
from anydml.kernels.numbers.functions.pairs import two_sum


class Accumulator(ABC):
    """The partial results of a reduction. starts: the values before any element; lanes: of the vectors of terms.

    any_order: whether the bound does not depend on the number of additions or products that a term goes through.
    """

    starts: list[Value]
    any_order = False

    def __init__(self, body: Body, lanes: int) -> None:
        self.body, self.lanes = body, lanes
        self.starts = []

    @abstractmethod
    def step(self, values: list[Value], term: Item, active: Value | None, at: Value) -> list[Value]:
        """The values after a group of terms, or after its active lanes; at: the positions of the lanes in the row."""

    @abstractmethod
    def merged(self, a: list[Value], b: list[Value]) -> list[Value]:
        """The values of two sets of terms, merged."""

    @property
    def over_lines(self) -> list[Value]:
        """The values that are carried from line to line, before the first one."""
        return self.starts

    def joined(self, kept: list[Value], values: list[Value]) -> list[Value]:
        """The values that are carried from line to line, after one more line."""
        return self.merged(kept, values)

    def of_lines(self, kept: list[Value]) -> list[Value]:
        """The values of all lines together."""
        return kept

    @abstractmethod
    def result(self, values: list[Value]) -> Item:
        """The result, from values that every lane has of all terms."""

    def finished(self, values: list[Value]) -> Item:
        """The result in every lane."""
        return self.result([part(v, 0, 1, self.lanes) for v in self.of_lanes(values)])

    def of_lanes(self, values: list[Value]) -> list[Value]:
        """The values of all lanes together, in vectors of one lane."""
        lanes = self.lanes
        while lanes > 1:
            lanes //= 2
            low = [part(v, 0, lanes) for v in values]
            high = [part(v, lanes, lanes) for v in values]
            values = self.merged(low, high)
        return values


class Compensated(Accumulator):
    """Sums whose additions from line to line are exact: the rounding errors are added up beside the sums."""

    @property
    def over_lines(self) -> list[Value]:
        return [*self.starts, *(x.lift(0.0) for x in self.starts)]

    def joined(self, kept: list[Value], values: list[Value]) -> list[Value]:
        sums = [two_sum(a, b) for a, b in zip(kept, values, strict=False)]
        return [total for total, _ in sums] + [a + left for a, (_, left) in zip(kept[len(values) :], sums, strict=True)]

    def of_lines(self, kept: list[Value]) -> list[Value]:
        # a sum of -0 stays -0, and an infinite sum, whose error is NaN, stays infinite
        some = [x.compared("one", 0.0) for x in kept[len(self.starts) :]]
        added = [a + left for a, left in zip(kept, kept[len(self.starts) :], strict=False)]
        return [self.body.chosen(s, x, a) for s, x, a in zip(some, added, kept, strict=False)]

    def merged(self, a: list[Value], b: list[Value]) -> list[Value]:
        return [x + y for x, y in zip(a, b, strict=True)]


def masked(active: Value | None, x: Value, neutral: Value | float) -> Value:
    return x if active is None else x.body.chosen(active, x, neutral)
