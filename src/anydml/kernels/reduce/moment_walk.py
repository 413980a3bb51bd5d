"""A formula over rows, in stages, with the means, variances and totals that its reductions of differences give."""

from __future__ import annotations

import math

from anydml.kernels.code.values import Body, Kind, Value
from anydml.kernels.elementwise.items import Item
from anydml.kernels.elementwise.line_walk import LineWalk
from anydml.kernels.elementwise.regrouping import ELEMENT
from anydml.kernels.match.scopes import Scopes
from anydml.kernels.numbers.floats.numbers import Number, settled
from anydml.kernels.reduce.accumulator import Accumulator
from anydml.kernels.reduce.joint import JOINT, OTHER_MEAN, TOTAL, Joint, known_sign
from anydml.kernels.reduce.key import ReductionKey
from anydml.kernels.reduce.moments import MOMENTS, VARIANCE, Moments
from anydml.kernels.reduce.stages import StagedWalk, stages
from anydml.tensor import DataType


class MomentWalk(LineWalk, StagedWalk[Item]):
    """same: the streams that are the same along a row.

    first: the first elements of the row, by their nodes, where moments are computed. beside: further results of a reduction, by
    its place and the node for them. infinite: whether some terms of a reduction's total are infinite.
    """

    def __init__(self, body: Body, key: ReductionKey, same: frozenset[int]) -> None:
        super().__init__(body, key.formula, [], key.types[-1], key.lanes, "wide", False)
        self.key = key
        self.streams: list[Value] = [body.undefined(Kind("i8", key.lanes))] * (len(key.types) - 1)
        self.stages = stages(key.formula, same, mapped=key.mapped)
        self.items = Scopes({}, {})  # those of the row, and those of a group of its elements
        self.first: dict[int, Value] = {}
        self.beside: dict[tuple[int, str], Number] = {}
        self.infinite: dict[int, Value] = {}

    def fill_to(self, base: int) -> None:
        self.fill_within([base])

    def fuses(self, line: int) -> bool:
        of_line = [node for node in self.nodes if node.op == ELEMENT and node.args[0] == line]
        if any(t != DataType.FLOAT32 for t in self.key.types):
            return False
        means = [self.nodes[a] for a in self.nodes[line].args[:1]]
        return all(mean.op == MOMENTS and mean.args[0] == node.args[1] for mean in means for node in of_line)

    def forget(self) -> None:
        super().forget()
        # conversions in this block are not available in the next, even if the number is the same for the whole row
        for p in [p for p in self.converted if not isinstance(self.items.get(p), Number)]:
            del self.converted[p]

    @property
    def has_moments(self) -> bool:
        return any(op in (MOMENTS, JOINT) for op, _, _ in self.nodes)

    def moved(self) -> list[int]:
        """The nodes whose differences from their first elements are added up."""
        return sorted({p for op, args, _ in self.nodes if op in (MOMENTS, JOINT) for p in args})

    def begin_row(self) -> None:
        """Take the elements of the row's first position."""
        self.fill(self.moved())
        for p in self.moved():
            x = self.number(p).wide()
            # -0 becomes +0; an infinity becomes 0, since all differences from it would be infinite or NaN
            self.first[p] = self.body.chosen(x.magnitude().compared("olt", math.inf), x, 0.0) + 0.0
        self.forget()

    def of_moments(self, p: int, depth: int) -> Accumulator:
        """The accumulator of a reduction of differences; depth: the most additions that a term goes through."""
        op, args, count = self.nodes[p]
        assert isinstance(count, int)
        x, *g = (self.first[a] for a in args)
        if op == MOMENTS:
            return Moments(self.body, self.key.lanes, x, count, depth)
        return Joint(self.body, self.key.lanes, x, g[0], count, depth)

    def put_beside(self, p: int, a: Accumulator) -> None:
        """Store the further results of a reduction."""
        if isinstance(a, Moments):
            self.beside[p, VARIANCE] = settled(a.variance)
        if isinstance(a, Joint):
            self.beside[p, OTHER_MEAN] = settled(a.other)
            self.beside[p, TOTAL] = settled(a.total)
            self.infinite[p] = a.infinite

    def unsigned_totals(self, s: int) -> list[int]:
        """The reductions of a pass whose total needs a sign if it is 0, because the sign is visible."""
        return [] if known_sign(self.nodes) else [p for p in self.stages.passes[s] if self.nodes[p].op == JOINT]

    def total(self, p: int) -> tuple[Number, Number]:
        """The mean and the total of a reduction."""
        return self.number(p), self.beside[p, TOTAL]

    def sign_total(self, p: int, positive: Value) -> None:
        """Set where a total of 0 is +0; elsewhere, a total of 0 becomes undecided."""
        total = self.beside[p, TOTAL]
        self.beside[p, TOTAL] = total.guarded(total.wide().compared("oeq", 0.0) & ~positive)

    def tell_total(self, p: int, made: Value, unsure: Value) -> None:
        """Set a total with infinite terms; unsure: the lanes where it is not certain."""
        total, infinite = self.beside[p, TOTAL], self.infinite[p]
        wide = self.body.chosen(infinite, made, total.wide())
        err = self.body.chosen(infinite, 0.0, total.error())
        self.beside[p, TOTAL] = Number(self.body, lambda: wide, err=lambda: err, guard=infinite & unsure)

    def both(self, p: int) -> list[Value]:
        """The elements that a reduction takes, of a group."""
        self.fill(sorted(self.nodes[p].args))
        return [self.number(a).wide() for a in self.nodes[p].args]
