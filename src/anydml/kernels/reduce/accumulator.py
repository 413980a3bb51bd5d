"""The accumulator of a reduction: vectors of partial results, a step for each group of elements, and how sets are merged."""

from __future__ import annotations

from abc import ABC, abstractmethod

from anydml.kernels.code.values import Body, Value, part
from anydml.kernels.elementwise.items import Item
from anydml.kernels.numbers.functions.pairs import two_sum


class Accumulator(ABC):
    """A reduction's partial results. starts: the values before any element; lanes: of the vectors of terms.

    any_order: how many additions or products a term goes through makes no difference to the bound.
    """

    starts: list[Value]
    any_order = False

    def __init__(self, body: Body, lanes: int) -> None:
        self.body, self.lanes = body, lanes
        self.starts = []

    @abstractmethod
    def step(self, values: list[Value], term: Item, active: Value | None, at: Value) -> list[Value]:
        """The values with a group of terms, or with those of its active lanes; at: the places of its lanes in the row."""

    @abstractmethod
    def merged(self, a: list[Value], b: list[Value]) -> list[Value]:
        """The values of two sets of terms together."""

    @property
    def over_lines(self) -> list[Value]:
        """The values that lines of a row carry, before any."""
        return self.starts

    def joined(self, kept: list[Value], values: list[Value]) -> list[Value]:
        """The values that lines carry, joined with those of one more."""
        return self.merged(kept, values)

    def of_lines(self, kept: list[Value]) -> list[Value]:
        """The values of all lines."""
        return kept

    @abstractmethod
    def result(self, values: list[Value]) -> Item:
        """The result that the values, of all terms in every lane, come to."""

    def finished(self, values: list[Value]) -> Item:
        """The result in every lane."""
        lanes = self.lanes
        while lanes > 1:
            lanes //= 2
            low = [part(v, 0, lanes) for v in values]
            high = [part(v, lanes, lanes) for v in values]
            values = self.merged(low, high)
        return self.result([part(v, 0, 1, self.lanes) for v in values])


class Compensated(Accumulator):
    """Sums alone, whose additions from line to line are exact: what they leave over is added up beside them."""

    @property
    def over_lines(self) -> list[Value]:
        return [*self.starts, *(x.lift(0.0) for x in self.starts)]

    def joined(self, kept: list[Value], values: list[Value]) -> list[Value]:
        sums = [two_sum(a, b) for a, b in zip(kept, values, strict=False)]
        return [total for total, _ in sums] + [a + left for a, (_, left) in zip(kept[len(values) :], sums, strict=True)]

    def of_lines(self, kept: list[Value]) -> list[Value]:
        # a sum of -0 stays what it is, and so does infinity, of which NaN is left over
        some = [x.compared("one", 0.0) for x in kept[len(self.starts) :]]
        added = [a + left for a, left in zip(kept, kept[len(self.starts) :], strict=False)]
        return [self.body.chosen(s, x, a) for s, x, a in zip(some, added, kept, strict=False)]

    def merged(self, a: list[Value], b: list[Value]) -> list[Value]:
        return [x + y for x, y in zip(a, b, strict=True)]


def masked(active: Value | None, x: Value, neutral: Value | float) -> Value:
    return x if active is None else x.body.chosen(active, x, neutral)
