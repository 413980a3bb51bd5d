"""The mean and the variance of a row in one pass: sums of differences from its first element, and of their squares.

u is 2^-53, a term goes through n additions, Q is the exact mean of the squares, and R its root. Each difference is rounded, by
u of itself; the mean of their magnitudes is at most R. So their mean has an error of (n + 2) u R, with its division; the mean
of the squares one of (n + 4) u Q, since squares are rounded as well; the square of the mean, which is at most Q, one of (2 n +
6) u Q with its own rounding, and the difference of both another u Q. In all, the error of the variance is (3 n + 12) u Q. It
does not grow if the row's elements are far from 0 compared to their differences.
"""

from __future__ import annotations

from fractions import Fraction

from anydml.kernels.code.values import Body, Kind, Value
from anydml.kernels.elementwise.items import Item
from anydml.kernels.match.normal_form import Node, NormalForm, used
from anydml.kernels.numbers.floats.numbers import SLACK, Number, U
from anydml.kernels.numbers.known import Known
from anydml.kernels.numbers.singles import SINGLES
from anydml.kernels.reduce.accumulator import Compensated, masked
from anydml.schema.node import Constant
from anydml.tensor import DataType

MOMENTS, VARIANCE = "row_moments", "variance"  # nodes: the mean, and the variance, which is taken from it
MOMENTS_OF = 1 << 24  # most elements of a row whose moments are computed


def with_moments(formula: NormalForm, count: int) -> NormalForm:
    """The formula with nodes for the mean and the variance of a row of `count` elements, if it has both.

    A mean alone becomes such a node if elements have it subtracted: so it is exactly the element if all are equal.
    """
    made = list(formula)
    for op, args, _ in formula:
        if op == "sub" and (x := args[0]) == mean_of(formula, formula[args[1]], count) and _gains(formula[x], count):
            made[args[1]] = Node(MOMENTS, (x,), count)
    for place, node in enumerate(formula):
        found = _squares(formula, node, count)
        if found is None:
            continue
        mean, x = found
        made[mean] = Node(MOMENTS, (x,), count)
        made[place] = Node(VARIANCE, (mean,), None)
    return used(made)


def _gains(element: Node, count: int) -> bool:
    """Whether the mean of so many elements may be rounded, and a plain sum would not do better."""
    if element.op != "stream" or element.data[1] not in SINGLES or count > MOMENTS_OF:
        return False
    return element.data[1] == DataType.FLOAT32 or count & (count - 1) != 0


def _squares(formula: NormalForm, node: Node, count: int) -> tuple[int, int] | None:
    """The places of the mean and the elements of a row, if the node is the mean of the squares of their differences; else
    None."""
    total = mean_of(formula, node, count)
    if total is None:
        return None
    op, args, data = formula[total]
    if not ((op == "power" and data == 2) or (op == "mul" and args[0] == args[1])):
        return None
    op, args, _ = formula[args[0]]
    if op != "sub":
        return None
    x, mean = args
    element = formula[x]
    same = mean_of(formula, formula[mean], count) == x
    return (mean, x) if same and element.op == "stream" and element.data[1] in SINGLES else None


def mean_of(formula: NormalForm, node: Node, count: int) -> int | None:
    """The place of the node whose mean over a row of `count` elements the node is; else None."""
    if node.op != "div":
        return None
    total, divisor = (formula[a] for a in node.args)
    if total.op != "row_sum" or len(total.args) > 1 or divisor.op != "constant":
        return None
    return total.args[0] if divisor.data == Constant(Fraction(count), True) else None


class Moments(Compensated):
    """Sums of differences from `near`, an element of the row, and of their squares.

    near: +0 if it is a zero, so that differences are the elements. depth: the most additions that a term goes through.
    variance: set with the result, which is the mean.
    """

    variance: Number

    def __init__(self, body: Body, lanes: int, near: Value, count: int, depth: int) -> None:
        super().__init__(body, lanes)
        self.near, self.count, self.depth = near, count, depth
        wide = Kind("double", lanes)
        self.starts = [body.constant(wide, -0.0), body.constant(wide, 0.0)]  # a sum of zeros is -0 only if all of them are

    def step(self, values: list[Value], term: Item, active: Value | None, at: Value) -> list[Value]:
        assert isinstance(term, Number)
        d = masked(active, term.wide() - self.near, -0.0)
        return [values[0] + d, self.body.fused(d, d, values[1])]

    def result(self, values: list[Value]) -> Item:
        body = self.body
        offset, squares = (v / float(self.count) for v in values)
        mean = body.chosen(self.near.compared("oeq", 0.0), offset, self.near + offset)
        variance = body.fused(-offset, offset, squares)
        variance = body.chosen(variance.compared("olt", 0.0), 0.0, variance)
        lost = squares * ((3 * self.depth + 12) * U * SLACK)
        self.variance = Number(body, lambda: variance, Known(0.0), err=lambda: lost)
        # if all elements are equal, the mean is exactly theirs
        moved = body.fused(mean.magnitude(), U * SLACK, squares.root() * ((self.depth + 2) * U * SLACK))
        off = body.chosen(squares.compared("oeq", 0.0), 0.0, moved)
        return Number(body, lambda: mean, err=lambda: off)
