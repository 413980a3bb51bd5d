"""The means of two rows and the sum of the products of their differences from these, in one pass.

C = sum of g (x - mean of x) is the sum of (g - l) (x - k), less the mean of x - k times the sum of g - l, where k is the
first x, and l the first g. u is 2^-53, a term goes through n additions, and B is the root of the sum of all (g - l)^2 times
that of all (x - k)^2: no sums of products have larger magnitudes. Differences and products are rounded, which with their
additions is (n + 3) u B; the mean is off by as much as in `moments`, (n + 2) u, and the sum by (n + 1) u, which is
(2 n + 4) u B of their product with its rounding; and the last difference is rounded, 2 u B. In all C is off by
(3 n + 12) u B: where either row has equal elements alone, by nothing.
"""

from __future__ import annotations

import math

from anydml.kernels.code.values import Body, Kind, Value
from anydml.kernels.elementwise.items import Item
from anydml.kernels.elementwise.regrouping import SLOPED_LINE
from anydml.kernels.match.maps import Formula, Node
from anydml.kernels.match.maps import formula as formula_of
from anydml.kernels.numbers.floats.numbers import SLACK, Number, U
from anydml.kernels.numbers.singles import SINGLES
from anydml.kernels.reduce.accumulator import Compensated, masked
from anydml.kernels.reduce.moments import mean_of

JOINT, OTHER_MEAN, TOTAL = "row_joint", "other_mean", "joint_total"  # nodes: the mean of x, of which the others are had


def with_joint(formula: Formula, count: int) -> Formula:
    """The formula with nodes for the means of two rows of so many elements, and for the total C, if it has that."""
    for place, node in enumerate(formula):
        found = _total(formula, node, count)
        if found is not None:
            x, g, mean = found
            nodes = {mean: Node(JOINT, (x, g), count), place: Node(TOTAL, (mean,), None)}
            for other, one in enumerate(formula):
                if mean_of(formula, one, count) == g:
                    nodes[other] = Node(OTHER_MEAN, (mean,), None)
            return _in_order(formula, nodes)
    return formula


def _total(formula: Formula, node: Node, count: int) -> tuple[int, int, int] | None:
    """x, g and the mean of x, of the sum of g (x - mean of x)."""
    if node.op != "row_sum" or len(node.args) > 1 or formula[node.args[0]].op != "mul":
        return None
    factors = formula[node.args[0]].args
    for g, difference in (factors, factors[::-1]):
        if formula[difference].op != "sub" or not _is_single(formula[g]):
            continue
        x, mean = formula[difference].args
        if _is_single(formula[x]) and x != g and mean_of(formula, formula[mean], count) == x:
            return x, g, mean
    return None


def _is_single(node: Node) -> bool:
    return node.op == "stream" and node.data[1] in SINGLES


def _in_order(formula: Formula, instead: dict[int, Node]) -> Formula:
    """The formula with other nodes in some places, each after its arguments."""
    made: list[Node] = []
    places: dict[int, int] = {}

    def place(p: int) -> int:
        if p not in places:
            node = instead.get(p, formula[p])
            moved = tuple(place(a) for a in node.args)
            places[p] = len(made)
            made.append(node._replace(args=moved))
        return places[p]

    place(len(formula) - 1)
    return formula_of(tuple(made))


def known_sign(formula: Formula) -> bool:
    """Whether the sign of a total that is 0 shows nowhere: it is used for the factor c of sloped elements alone."""

    def reaches(p: int) -> bool:
        node = formula[p]
        passed = [k for k in range(len(node.args)) if node.op != SLOPED_LINE or node.data[k] != "c"]
        return node.op == TOTAL or any(reaches(node.args[k]) for k in passed)

    return not reaches(len(formula) - 1)


class Joint(Compensated):
    """Sums of x - near and g - other_near, of the squares of both, and of their products.

    depth: additions that one term goes through. other, total: known when there is a result, which is the mean of x. infinite:
    where the total is an infinity or NaN that is not known yet. near, other_near: elements of the rows.
    """

    other: Number
    total: Number
    infinite: Value

    def __init__(self, body: Body, lanes: int, near: Value, other_near: Value, count: int, depth: int) -> None:
        super().__init__(body, lanes)
        self.near, self.other_near, self.count, self.depth = near, other_near, count, depth
        none, zero = (body.constant(Kind("double", lanes), x) for x in (-0.0, 0.0))
        self.starts = [none, zero, none, zero, zero]  # a sum of zeros is -0 where all of them are

    def step(self, values: list[Value], term: Item, active: Value | None, at: Value) -> list[Value]:
        raise NotImplementedError("two elements belong to a step: `together`")

    def together(self, values: list[Value], x: Number, g: Number, active: Value | None) -> list[Value]:
        """The values with a group of elements of both rows."""
        d = masked(active, x.wide() - self.near, -0.0)
        f = masked(active, g.wide() - self.other_near, -0.0)
        fused = self.body.fused
        return [values[0] + d, fused(d, d, values[1]), values[2] + f, fused(f, f, values[3]), fused(d, f, values[4])]

    def result(self, values: list[Value]) -> Item:
        body, n = self.body, float(self.count)
        share = (self.depth + 2) * U * SLACK

        def mean_of_row(near: Value, differences: Value, squares: Value) -> tuple[Value, Value]:
            """A mean, and what it is off by: where all elements are the same, by nothing."""
            offset, size = differences / n, (squares / n).root()
            mean = body.chosen(near.compared("oeq", 0.0), offset, near + offset)
            off = body.fused(mean.magnitude(), U * SLACK, size * share)
            return mean, body.chosen(size.compared("oeq", 0.0), 0.0, off)

        mean, off_x = mean_of_row(self.near, *values[:2])
        mean_g, off_g = mean_of_row(self.other_near, *values[2:4])
        total = body.fused(-values[0] / n, values[2], values[4])
        off = (values[1] * values[3]).root() * ((3 * self.depth + 12) * U * SLACK)
        # of an x that is no number, there is a difference that is NaN
        finite = values[1].compared("olt", math.inf)
        total, off = body.chosen(finite, total, math.nan), body.chosen(finite, off, 0.0)
        # an infinite g beside finite x: what there is to add is no number that this tells
        self.infinite = infinite = finite & values[3].compared("oeq", math.inf)
        self.other = Number(body, lambda: mean_g, err=lambda: off_g)
        self.total = Number(body, lambda: total, err=lambda: off, guard=infinite)
        return Number(body, lambda: mean, err=lambda: off_x)
