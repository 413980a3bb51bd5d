"""The accumulator of a reduction: vectors of partial results, a step for each group of elements, and how sets are merged."""

from __future__ import annotations

from abc import ABC, abstractmethod

from anydml.kernels.code.values import Body, Value, part
from anydml.kernels.elementwise.items import Item


class Accumulator(ABC):
    """A reduction's partial results. starts: the values before any element; lanes: of the vectors of terms."""

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


def masked(active: Value | None, x: Value, neutral: Value | float) -> Value:
    return x if active is None else x.body.chosen(active, x, neutral)
