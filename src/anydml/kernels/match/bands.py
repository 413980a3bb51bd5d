"""Statements of matrices filled with a constant, with a few diagonals of another constant."""

from __future__ import annotations

from math import prod

from anydml.kernels.match.affine import below_zero
from anydml.kernels.match.constants import stored_bits
from anydml.kernels.match.moves import Move
from anydml.kernels.match.unmatched import only, pattern
from anydml.schema.node import Expr, Variable
from anydml.schema.statement import Statement
from anydml.tensor import DataType

NO_BAND = "the output is not a constant with diagonals of another constant"
MOST = 4  # diagonals at most


@pattern
def bands(statement: Statement, data_type: DataType) -> list[Move] | str:
    """The moves of the constant, then those of the diagonals; or the reason why a statement is not of this kind."""
    name, nest = only(statement)
    e, variables, sizes = nest.body, nest.variables, nest.sizes
    if not nest.moves or len(sizes) < 2 or e.op != "select" or e.args[0].op != "both":
        return NO_BAND
    condition, inside, outside = e.args
    bits, others = stored_bits(inside, data_type), stored_bits(outside, data_type)
    if bits is None or others is None:
        return NO_BAND
    y, x = variables[-2:]
    low, high = (_bound(c, x, y) for c in condition.args)
    if low is None or high is None or not low[1] or high[1]:
        return NO_BAND
    rows, columns = sizes[-2:]
    diagonals = range(max(low[0], 1 - rows), min(high[0], columns))
    if len(diagonals) > MOST:
        return f"there are more than {MOST} diagonals"
    found = [Move("", name, (0,) * len(sizes), sizes, (), (), (), others)]
    count = len(sizes) - 1
    steps = [tuple([int(d == k) for d in range(len(sizes))]) for k in range(count - 1)]
    for t in diagonals:
        first = (*(0,) * (count - 1), max(0, -t), max(0, t))
        box = (*sizes[:-2], min(rows - first[-2], columns - first[-1]))
        if prod(box):
            found.append(Move("", name, first, box, (), (), (*steps, (*(0,) * (count - 1), 1, 1)), bits))
    return found


def _bound(e: Expr, x: Variable, y: Variable) -> tuple[int, bool] | None:
    """A condition: (n, True) if it means x - y >= n, (n, False) if it means x - y < n; else None."""
    found = below_zero(e)
    if found is not None and found.factors == {x: 1, y: -1}:
        return -found.constant, False
    if found is not None and found.factors == {x: -1, y: 1}:
        return found.constant + 1, True
    return None
