"""Rows of two tensors that a statement reads as one: those of the second begin at a row that may be read from data."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from anydml.kernels.match import unmatched
from anydml.kernels.match.affine import Affine, affine_in
from anydml.kernels.match.blocks import Cut, blocks, in_blocks
from anydml.kernels.match.structure import is_whole, reads_input
from anydml.schema.node import Expr, Variable, is_integer
from anydml.schema.statement import Nest
from anydml.tensor import DataType

NOT_JOINED = "rows are not read from one tensor and then from another"


class ReadElement(NamedTuple):
    """An element of an input: the tensor, and its index in each dimension. Variables with a single value are left out."""

    name: str
    data_type: DataType
    at: tuple[Affine, ...]


class JoinedElement(NamedTuple):
    """An element, and the element that is added to it."""

    element: ReadElement
    bias: ReadElement | None


class Joined(NamedTuple):
    """The rows of an output, from two sources.

    before: the source of rows below `length`. after: that of the next `later` rows, indexed by row - length. Further rows are
    0. length: a number, or an element that is clamped to 0 .. most.
    """

    before: JoinedElement | None
    after: JoinedElement | None
    length: int | ReadElement
    most: int
    later: int


def need(holds: object, reason: str = NOT_JOINED) -> None:
    """Raise Unmatched unless something holds."""
    unmatched.need(holds, reason)


class Reading:
    """Indices in the variables of an output, which are split if they are divided."""

    def __init__(self, name: str, nest: Nest) -> None:
        self.name, self.nest = name, nest
        variables, cut = blocks(nest.variables, nest.body)
        self.cut: Cut = cut or {}
        self.variables = [v for v in variables if v.size > 1]
        self.length: Expr | None = None  # the number of rows of the first source, if it is read from data
        self.shifted = Variable("length", 2)  # replaces the length in indices

    def target(self) -> ReadElement:
        return ReadElement(self.name, DataType.UNKNOWN, self.indices(self.nest.index))

    def indices(self, at: Sequence[Expr]) -> tuple[Affine, ...]:
        length = Affine(0, {self.shifted: 1})
        found = [affine_in(in_blocks(e, self.cut), lambda node: length if node is self.length else None) for e in at]
        return tuple(Affine(x.constant, {v: f for v, f in x.factors.items() if v.size > 1}) for x in found)

    def element(self, e: Expr) -> ReadElement:
        need(reads_input(e, "inside"))
        return ReadElement(e.data[0].name, e.data[0].data_type, self.indices(e.args))

    def source(self, e: Expr) -> JoinedElement:
        if e.op == "add":
            return JoinedElement(self.element(e.args[0]), self.element(e.args[1]))
        return JoinedElement(self.element(e), None)

    def joined(self, e: Expr, rows: int) -> Joined:
        """The elements of `rows` rows."""
        ends = None
        if e.op == "select" and e.args[2].op == "constant" and e.args[2].data.value == 0:
            ends, e = e.args[0], e.args[1]
        if e.op != "select":
            need(ends is None)
            found = self.source(e)
            return Joined(None, found, 0, 0, rows)
        condition, before, after = e.args
        need(condition.op == "less" and condition.args[0].op == "variable")
        row, bound = condition.args
        length, most = self.length_of(bound)
        end = rows - most
        if ends is not None:
            need(ends.op == "less" and ends.args[0] is row and end > 0 and self.is_sum(ends.args[1], bound, end))
        else:
            need(type(length) is int)
        return Joined(self.source(before), self.source(after), length, most, end)

    def length_of(self, bound: Expr) -> tuple[int | ReadElement, int]:
        """A number of rows, a constant or an element; and the number to which an element is clamped."""
        if is_integer(bound):
            n = int(bound.data.value)
            return n, n
        need(bound.op == "min" and is_integer(bound.args[0]) and bound.args[1].op == "max")
        most, (low, number) = int(bound.args[0].data.value), bound.args[1].args
        need(is_whole(low, 0) and number.op == "index")
        found = self.element(number.args[0])
        need(found.data_type == DataType.INT32, "lengths have another type than INT32")
        self.length = bound
        return found, most

    @staticmethod
    def is_sum(e: Expr, x: Expr, n: int) -> bool:
        if n == 0:
            return e is x
        return e.op == "add" and e.args[0] is x and is_whole(e.args[1], n)
