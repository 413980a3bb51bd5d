"""A formula over rows, in stages, and what its reductions of differences give: means, a variance, a total."""

from __future__ import annotations

import math
from collections.abc import Iterable

from anydml.kernels.code.values import Body, Kind, Value
from anydml.kernels.elementwise.line_walk import LineWalk
from anydml.kernels.numbers.floats.numbers import Number, settled
from anydml.kernels.reduce.accumulator import Accumulator
from anydml.kernels.reduce.joint import JOINT, OTHER_MEAN, TOTAL, Joint, known_sign
from anydml.kernels.reduce.moments import MOMENTS, VARIANCE, Moments
from anydml.kernels.reduce.shape import ReductionKey
from anydml.kernels.reduce.stages import inner, stages


class MomentWalk(LineWalk):
    """same: the streams that are the same along a row.

    first: the first elements of the row, by their places, where moments are taken. beside: what else is known of a reduction,
    by its place and the node that has it. infinite: where a reduction's total is of terms of which some are infinite.
    """

    def __init__(self, body: Body, shape: ReductionKey, same: frozenset[int]) -> None:
        super().__init__(body, shape.formula, [], shape.types[-1], shape.lanes, "wide", False)
        self.shape = shape
        self.streams: list[Value] = [body.undefined(Kind("i8", shape.lanes))] * (len(shape.types) - 1)
        self.stages = stages(shape.formula, same, mapped=shape.mapped)
        self.first: dict[int, Value] = {}
        self.beside: dict[tuple[int, str], Number] = {}
        self.infinite: dict[int, Value] = {}

    def _fill(self, places: Iterable[int]) -> None:
        for p in sorted(places):
            if p not in self.items:
                op, args, data = self.formula[p]
                self.items[p] = self._item(p, op, args, data)

    def fill_to(self, base: int) -> None:
        self._fill(inner(self.formula, self.stages.within, [base], set(self.items)))

    def forget(self) -> None:
        """Leave behind the items of a group of elements: they are computed anew for the next one."""
        within = self.stages.within
        for p in [p for p in self.items if within[p]]:
            del self.items[p]
        # what was converted in this block is no value of the next, were it the same for the whole row
        for p in [p for p in self.converted if not isinstance(self.items.get(p), Number)]:
            del self.converted[p]

    @property
    def has_moments(self) -> bool:
        return any(op in (MOMENTS, JOINT) for op, _, _ in self.formula)

    def begin_row(self) -> None:
        """Take note of elements that are those of the row's first place."""
        for op, args, _ in self.formula:
            if op in (MOMENTS, JOINT):
                self._fill(args)
                for p in args:
                    x = self.number(p).wide()
                    # no zero but +0; beside an infinity, there would be no difference that is one
                    self.first[p] = self.body.chosen(x.magnitude().compared("olt", math.inf), x, 0.0) + 0.0
        self.forget()

    def of_moments(self, p: int, depth: int) -> Accumulator:
        """The accumulator of a reduction of differences; depth: additions that one term goes through."""
        op, args, count = self.formula[p]
        assert isinstance(count, int)
        x, *g = (self.first[a] for a in args)
        if op == MOMENTS:
            return Moments(self.body, self.shape.lanes, x, count, depth)
        return Joint(self.body, self.shape.lanes, x, g[0], count, depth)

    def put_beside(self, p: int, a: Accumulator) -> None:
        """Put down what is known of a reduction that has come to a result."""
        if isinstance(a, Moments):
            self.beside[p, VARIANCE] = settled(a.variance)
        if isinstance(a, Joint):
            self.beside[p, OTHER_MEAN] = settled(a.other)
            self.beside[p, TOTAL] = settled(a.total)
            self.infinite[p] = a.infinite

    def unsigned_totals(self, s: int) -> list[int]:
        """The reductions of a pass with a total that is not told the sign of, where it is 0 and that shows."""
        return [] if known_sign(self.formula) else [p for p in self.stages.passes[s] if self.formula[p].op == JOINT]

    def total(self, p: int) -> tuple[Number, Number]:
        """The mean and the total of a reduction."""
        return self.number(p), self.beside[p, TOTAL]

    def sign_total(self, p: int, positive: Value) -> None:
        """Say where a total that is 0 is +0; elsewhere, one has to be decided in another way."""
        total = self.beside[p, TOTAL]
        self.beside[p, TOTAL] = total.guarded(total.wide().compared("oeq", 0.0) & ~positive)

    def tell_total(self, p: int, made: Value, unsure: Value) -> None:
        """Say what a total comes to where it has infinite terms, and where that is not certain."""
        total, infinite = self.beside[p, TOTAL], self.infinite[p]
        wide = self.body.chosen(infinite, made, total.wide())
        err = self.body.chosen(infinite, 0.0, total.error())
        self.beside[p, TOTAL] = Number(self.body, lambda: wide, err=lambda: err, guard=infinite & unsure)

    def both(self, p: int) -> list[Value]:
        """The elements of a group that a reduction is of."""
        self._fill(self.formula[p].args)
        return [self.number(a).wide() for a in self.formula[p].args]
