"""Statements of running sums and products: of the elements of a line up to each position, from either end."""

from __future__ import annotations

from typing import NamedTuple

from anydml.kernels.match.structure import reads_input
from anydml.kernels.match.unmatched import only, pattern
from anydml.schema.node import Expr, Variable
from anydml.schema.statement import Statement
from anydml.tensor import DataType


class Scan(NamedTuple):
    """A running sum or product of a tensor's elements along an axis.

    product: a product instead of a sum. exclusive: without the element itself. backward: beginning at the line's last element.
    """

    source: str
    target: str
    data_type: DataType
    sizes: tuple[int, ...]
    axis: int
    product: bool
    exclusive: bool
    backward: bool


NO_SCAN = "elements are not sums or products up to their index"


@pattern
def scan(statement: Statement) -> Scan | str:
    """The running sum or product that a statement computes, or the reason why there is none."""
    name, nest = only(statement)
    e, variables = nest.body, nest.variables
    if nest.moves or e.op != "reduce" or len(e.args) != 2 or e.data[0] not in ("sum", "product"):
        return NO_SCAN
    read, where = e.args
    if not reads_input(read, "inside") or len(e.data[1]) != 1:
        return NO_SCAN
    tensor, (inner,) = read.data[0], e.data[1]
    at = [a.data if a.op == "variable" else None for a in read.args]
    if at.count(inner) != 1 or where.op not in ("less", "less_equal"):
        return NO_SCAN
    axis = at.index(inner)
    if [*at[:axis], variables[axis], *at[axis + 1 :]] != list(variables) or inner.size != variables[axis].size:
        return NO_SCAN
    compared = [_variable(a) for a in where.args]
    if compared not in ([inner, variables[axis]], [variables[axis], inner]):
        return NO_SCAN
    backward = compared[0] is variables[axis]
    kind, exclusive = e.data[0] == "product", where.op == "less"
    return Scan(tensor.name, name, tensor.data_type, nest.sizes, axis, kind, exclusive, backward)


def _variable(e: Expr) -> Variable | None:
    found = e.args[0] if e.op == "position" else e
    return found.data if found.op == "variable" else None
