"""Statements that list the indices of a tensor's nonzero elements, and count them."""

from __future__ import annotations

from math import prod
from typing import NamedTuple

from anydml.kernels.match.structure import reads_input
from anydml.schema.expression import as_number, is_true, pieces, unraveled
from anydml.schema.node import Expr, make, number
from anydml.schema.statement import Nest, Statement
from anydml.schema.traversal import bound_by, walk


class Nonzeros(NamedTuple):
    """The count of a tensor's nonzero elements, and a row of coordinates for each, in row-major order, followed by zeros.

    columns: the number of coordinates of a row: those of the last dimensions.
    """

    source: str
    total: str
    coordinates: str
    columns: int


NO_LIST = "the output is not a list of the indices of nonzero elements"


def nonzeros(statement: Statement) -> Nonzeros | str:
    """The elements that a statement lists, or why it is none of this kind."""
    if len(statement) != 2 or any(nest.moves for nest in statement.values()):
        return NO_LIST
    (count, counted), (coordinates, listed) = sorted(statement.items(), key=lambda item: item[1].body.op != "reduce")
    source = _counted(counted.body)
    if source is None or any(n != 1 for n in counted.sizes) or any(n != 1 for n in listed.sizes[:-2]):
        return NO_LIST
    if len(listed.sizes) < 2 or not _lists(listed, source, counted.body):
        return NO_LIST
    return Nonzeros(source.data[0].name, count, coordinates, listed.sizes[-1])


def _counted(e: Expr) -> Expr | None:
    """The read of a tensor whose nonzero elements a sum counts; None if the sum is another one."""
    if e.op != "reduce" or e.data[0] != "sum" or len(e.args) != 1 or e.args[0].op != "select":
        return None
    read = next((node for node in walk(e.args[0]) if node.op == "read"), None)
    if read is None or not reads_input(read, "inside"):
        return None
    bound = bound_by(e)
    if [a.data if a.op == "variable" else None for a in read.args] != list(bound):
        return None
    whole = tuple(v.size for v in bound) == tuple(read.data[0].sizes)
    return read if whole and as_number(is_true(read)) is e.args[0] else None


def _lists(nest: Nest, read: Expr, total: Expr) -> bool:
    """Whether the rows are the coordinates of the nonzero elements in order, followed by zeros."""
    tensor = read.data[0]
    rank = next((node for node in walk(nest.body) if node.op == "rank"), None)
    columns = nest.sizes[-1]
    if rank is None or columns > len(tensor.sizes) or nest.body.op != "select":
        return False
    (line, decreasing), (key, place) = rank.data, rank.args
    if not decreasing or len(line) != 1 or not line[0].size == nest.sizes[-2] == prod(tensor.sizes):
        return False
    variables = {node.data: node for node in walk(nest.body) if node.op == "variable"}
    element = variables.get(line[0], make("variable", (), line[0], "index"))
    row, column = nest.index[-2:]
    ordered = as_number(is_true(make("read", tuple(unraveled(element, tensor.sizes)), read.data, read.sort)))
    at = pieces(column, range(columns), unraveled(rank, tensor.sizes)[len(tensor.sizes) - columns :])
    condition, coordinate, zero = nest.body.args
    return (
        key is ordered
        and place is row
        and condition.op == "less"
        and condition.args[0] is number(row)
        and condition.args[1] is total
        and coordinate is number(at)
        and zero is number(0)
    )
