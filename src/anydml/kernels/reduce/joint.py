"""The means of two rows and the sum of the products of their deviations, in one pass.

C, the sum of g (x - mean of x), is the sum of (g - l) (x - k), minus the mean of x - k times the sum of g - l, where k is the
first x and l the first g. u is 2^-53, a term goes through n additions, and B is the root of the product of two sums, of all (g
- l)^2 and of all (x - k)^2: it bounds sums of magnitudes of products. Rounding differences and products, with their additions,
costs (n + 3) u B; the mean has an error of (n + 2) u, as in `moments`, and the sum one of (n + 1) u, which with its rounding is
(2 n + 4) u B of the product; and rounding the last difference costs 2 u B. In all, the error of C is (3 n + 12) u B: if all
elements of one row are equal, 0.
"""

from __future__ import annotations

import math

from anydml.kernels.code.values import Body, Kind, Value
from anydml.kernels.elementwise.items import Item
from anydml.kernels.elementwise.regrouping import SLOPED_LINE
from anydml.kernels.match.normal_form import Node, NormalForm, normal_form
from anydml.kernels.numbers.floats.numbers import SLACK, Number, U
from anydml.kernels.numbers.singles import SINGLES
from anydml.kernels.reduce.accumulator import Compensated, masked
from anydml.kernels.reduce.moments import mean_of

JOINT, OTHER_MEAN, TOTAL = "row_joint", "other_mean", "joint_total"  # nodes: the mean of x, from which the two others are taken


def with_joint(formula: NormalForm, count: int) -> NormalForm:
    """The formula with nodes for the means of two rows of `count` elements and for the total C, if it contains C."""
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


def _total(formula: NormalForm, node: Node, count: int) -> tuple[int, int, int] | None:
    """The places of x, g and the mean of x, if the node is the sum of g (x - mean of x)."""
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


def _in_order(formula: NormalForm, instead: dict[int, Node]) -> NormalForm:
    """The formula with the nodes of `instead` in their places, in an order that has each node after its arguments."""
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
    return normal_form(tuple(made))


def known_sign(formula: NormalForm) -> bool:
    """Whether the sign of a total of 0 is visible nowhere, because only the factor c of sloped elements uses the total."""

    def reaches(p: int) -> bool:
        node = formula[p]
        passed = [k for k in range(len(node.args)) if node.op != SLOPED_LINE or node.data[k] != "c"]
        return node.op == TOTAL or any(reaches(node.args[k]) for k in passed)

    return not reaches(len(formula) - 1)


class Joint(Compensated):
    """Sums of x - near and g - other_near, of the squares of both, and of their products.

    depth: the most additions that a term goes through. near, other_near: elements of the rows. With the result, which is the
    mean of x, are set: other, the mean of g; total; infinite, whether the total is infinite or NaN and not computed yet.
    """

    other: Number
    total: Number
    infinite: Value

    def __init__(self, body: Body, lanes: int, near: Value, other_near: Value, count: int, depth: int) -> None:
        super().__init__(body, lanes)
        self.near, self.other_near, self.count, self.depth = near, other_near, count, depth
        none, zero = (body.constant(Kind("double", lanes), x) for x in (-0.0, 0.0))
        self.starts = [none, zero, none, zero, zero]  # a sum of zeros is -0 only if all of them are

    def step(self, values: list[Value], term: Item, active: Value | None, at: Value) -> list[Value]:
        raise NotImplementedError("two elements belong to a step: `together`")

    def together(self, values: list[Value], x: Number, g: Number, active: Value | None) -> list[Value]:
        """The values after a group of elements of both rows."""
        d = masked(active, x.wide() - self.near, -0.0)
        f = masked(active, g.wide() - self.other_near, -0.0)
        fused = self.body.fused
        return [values[0] + d, fused(d, d, values[1]), values[2] + f, fused(f, f, values[3]), fused(d, f, values[4])]

    def result(self, values: list[Value]) -> Item:
        body, n = self.body, float(self.count)
        share = (self.depth + 2) * U * SLACK

        def mean_of_row(near: Value, differences: Value, squares: Value) -> tuple[Value, Value]:
            """A mean and the bound of its error: 0 if all elements are the same."""
            offset, size = differences / n, (squares / n).root()
            mean = body.chosen(near.compared("oeq", 0.0), offset, near + offset)
            off = body.fused(mean.magnitude(), U * SLACK, size * share)
            return mean, body.chosen(size.compared("oeq", 0.0), 0.0, off)

        mean, off_x = mean_of_row(self.near, *values[:2])
        mean_g, off_g = mean_of_row(self.other_near, *values[2:4])
        total = body.fused(-values[0] / n, values[2], values[4])
        off = (values[1] * values[3]).root() * ((3 * self.depth + 12) * U * SLACK)
        # if an x is not finite, a difference is NaN
        finite = values[1].compared("olt", math.inf)
        total, off = body.chosen(finite, total, math.nan), body.chosen(finite, off, 0.0)
        # with an infinite g and finite x, these sums do not say which terms are infinite
        self.infinite = infinite = finite & values[3].compared("oeq", math.inf)
        self.other = Number(body, lambda: mean_g, err=lambda: off_g)
        self.total = Number(body, lambda: total, err=lambda: off, guard=infinite)
        return Number(body, lambda: mean, err=lambda: off_x)
