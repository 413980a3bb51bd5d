"""Statements that reverse the first elements of lines, whose number is read from data, and leave the others in place."""

from __future__ import annotations

from typing import NamedTuple

from anydml.kernels.match.affine import Affine, affine
from anydml.kernels.match.structure import is_whole, reads_input
from anydml.kernels.match.unmatched import only, pattern
from anydml.schema.expression import Tensor
from anydml.schema.node import Expr
from anydml.schema.statement import Statement


class ReversedLines(NamedTuple):
    """Lines along an axis whose first elements are reversed. `lengths` holds their number for each line, limited to all.

    start: the index of the first length. steps: for each dimension, the step of each index of the lengths.
    """

    source: str
    target: str
    lengths: str
    sizes: tuple[int, ...]
    axis: int
    start: tuple[int, ...]
    steps: tuple[tuple[int, ...], ...]


NOT_REVERSED = "the output is not lines whose first elements are reversed"


@pattern
def reversed_lines(statement: Statement) -> ReversedLines | str:
    """The lines that a statement reverses in part, or the reason why it is not of this kind."""
    name, nest = only(statement)
    e, variables = nest.body, nest.variables
    if not nest.moves or not reads_input(e, "inside") or len(e.args) != len(variables):
        return NOT_REVERSED
    tensor: Tensor = e.data[0]
    axes = [d for d, a in enumerate(e.args) if a.op == "select"]
    if len(axes) != 1 or tensor.sizes != nest.sizes:
        return NOT_REVERSED
    (axis,) = axes
    if any(d != axis and (a.op != "variable" or a.data is not variables[d]) for d, a in enumerate(e.args)):
        return NOT_REVERSED
    read = _length(e.args[axis], variables[axis], nest.sizes[axis])
    if read is None:
        return NOT_REVERSED
    lengths: Tensor = read.data[0]
    at: list[Affine] = []
    for a in read.args:
        found = affine(a)
        if found is None or not set(found.factors) <= {v for d, v in enumerate(variables) if d != axis}:
            return NOT_REVERSED
        at.append(found)
    steps = tuple([tuple([a.factors.get(v, 0) for a in at]) for v in variables])
    return ReversedLines(tensor.name, name, lengths.name, nest.sizes, axis, tuple([a.constant for a in at]), steps)


def _length(e: Expr, v: object, size: int) -> Expr | None:
    """The read of the length in select(i < length, length - 1 - i, i), where the length is limited to the size."""
    condition, reversed_at, here = e.args
    if here.op != "variable" or here.data is not v or condition.op != "less" or condition.args[0] is not here:
        return None
    length = condition.args[1]
    if length.op != "min" or not is_whole(length.args[1], size):
        return None
    if reversed_at.op != "sub" or reversed_at.args[1] is not here or reversed_at.args[0].op != "sub":
        return None
    first, one = reversed_at.args[0].args
    if first is not length or not is_whole(one, 1) or length.args[0].op != "index":
        return None
    read: Expr = length.args[0].args[0]
    if not reads_input(read, "inside"):
        return None
    data_type = read.data[0].data_type
    return read if data_type.dtype.kind == "u" and data_type.element_bits >= 8 else None
