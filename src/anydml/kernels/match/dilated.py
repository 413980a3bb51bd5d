"""Statements that dilate an input: its elements are stored at equal distances in a tensor of a constant."""

from __future__ import annotations

from collections.abc import Iterator

from anydml.kernels.match.affine import Affine, affine
from anydml.kernels.match.constants import stored_bits
from anydml.kernels.match.moves import Move
from anydml.kernels.match.structure import is_whole, operands
from anydml.kernels.match.unmatched import only, pattern
from anydml.schema.node import Expr, is_integer
from anydml.schema.statement import Statement

NOT_DILATED = "elements are not stored at equal distances in a constant"


@pattern
def dilated(statement: Statement) -> list[Move] | str:
    """The move of the constant, then the move of the input over it; or the reason why a statement is not of this kind."""
    name, nest = only(statement)
    if not nest.moves or nest.body.op != "select":
        return NOT_DILATED
    condition, read, constant = nest.body.args
    if read.op != "read" or read.data[1] != "otherwise" or read.args[-1] is not constant or constant.op != "constant":
        return NOT_DILATED
    tensor, variables = read.data[0], nest.variables
    bits = stored_bits(constant, tensor.data_type)
    if tensor.definition is not None or bits is None or len(tensor.sizes) != len(variables):
        return NOT_DILATED
    conditions = list(_conditions(condition))
    first, start = list[int](), list[int]()
    places, steps = list[tuple[int, ...]](), list[tuple[int, ...]]()
    for d, (v, at, size) in enumerate(zip(variables, read.args, tensor.sizes, strict=False)):
        index, apart, divided = _divided(at)
        if index is None or set(index.factors) != {v} or abs(index.factors[v]) != 1 or apart < 1:
            return NOT_DILATED
        if divided is not None:
            if divided not in conditions:
                return NOT_DILATED
            conditions.remove(divided)
        # the distance times the index of the input is constant + v, or constant - v
        forward, span = index.factors[v] == 1, (size - 1) * apart
        begin = -index.constant if forward else index.constant - span
        if begin < 0 or begin + span >= v.size:
            return "an element is stored outside of the output"
        first.append(begin)
        start.append(0 if forward else size - 1)
        apart = apart if size > 1 else 0  # the distance may be larger than any stride
        places.append(tuple([apart if e == d else 0 for e in range(len(variables))]))
        steps.append(tuple([(1 if forward else -1) if e == d else 0 for e in range(len(variables))]))
    if conditions:
        return NOT_DILATED
    filled = Move("", name, (0,) * len(variables), nest.sizes, (), (), (), bits)
    return [filled, Move(tensor.name, name, tuple(first), tensor.sizes, tuple(start), tuple(steps), tuple(places))]


def _divided(at: Expr) -> tuple[Affine | None, int, tuple[Expr, ...] | None]:
    """The dividend and the divisor of an index, 1 if it is no quotient; and the quotient's arguments."""
    if at.op == "floordiv" and is_integer(at.args[1]):
        return affine(at.args[0]), int(at.args[1].data.value), at.args
    return affine(at), 1, None


def _conditions(e: Expr) -> Iterator[tuple[Expr, ...] | None]:
    """The arguments of the remainders that have to be 0, except those modulo 1; None for every other condition."""
    for condition in operands(e, "both"):
        if condition.op != "equal" or condition.args[0].op != "mod" or not is_whole(condition.args[1], 0):
            yield None
        elif not is_whole(condition.args[0].args[1], 1):
            yield condition.args[0].args
