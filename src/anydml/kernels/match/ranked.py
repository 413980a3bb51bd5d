"""Statements of lines in sorted order: their first elements, and the positions of these."""

from __future__ import annotations

from typing import NamedTuple

from anydml.kernels.match.structure import reads_input
from anydml.schema.expression import Tensor
from anydml.schema.node import Expr
from anydml.schema.statement import Nest, Statement


class Ranked(NamedTuple):
    """The first elements of the sorted lines of a tensor along an axis.

    sizes: those of the outputs. values, positions: the outputs of the elements and of their positions; either may be None.
    Equal elements keep their order; NaN is larger than +infinity.
    """

    source: Tensor
    sizes: tuple[int, ...]
    axis: int
    decreasing: bool
    values: str | None
    positions: str | None


NO_RANK = "lines are not sorted"
OTHER_ORDER = "the output is not the first elements of the sorted line"


def ranked(statement: Statement) -> Ranked | str:
    """The sorted lines whose elements or positions all outputs of a statement are, or the reason why there are none."""
    if all(_rank(nest) is None for nest in statement.values()):
        return NO_RANK
    found: list[Ranked] = []
    for name, nest in statement.items():
        e = _rank(nest)
        made = None if e is None else _of(name, nest, e)
        if made is None:
            return OTHER_ORDER
        found.append(made)
    values = [r.values for r in found if r.values]
    positions = [r.positions for r in found if r.positions]
    common = {r._replace(values=None, positions=None) for r in found}
    if len(common) > 1 or len(values) > 1 or len(positions) > 1:
        return "outputs belong to lines sorted in different ways"
    return common.pop()._replace(values=values[0] if values else None, positions=positions[0] if positions else None)


def _rank(nest: Nest) -> Expr | None:
    """The position in a sorted line that an output holds, or at which its elements are read."""
    body = nest.body
    if nest.moves:
        found = [a for a in body.args if a.op == "rank"] if body.op == "read" and body.data[1] == "inside" else []
        return found[0] if len(found) == 1 else None
    return body.args[0] if body.op == "position" and body.args[0].op == "rank" else None


def _of(name: str, nest: Nest, rank: Expr) -> Ranked | None:
    (line, decreasing), (key, place) = rank.data, rank.args
    if not reads_input(key, "inside") or len(line) != 1:
        return None
    tensor: Tensor = key.data[0]
    lined = [e.data if e.op == "variable" else None for e in key.args]
    if lined.count(line[0]) != 1:
        return None
    axis, variables = lined.index(line[0]), nest.variables
    if len(variables) != len(lined) or place.op != "variable" or place.data is not variables[axis]:
        return None
    others = [d for d in range(len(lined)) if d != axis]
    if any(lined[d] is not variables[d] or variables[d].size != tensor.sizes[d] for d in others):
        return None
    if line[0].size != tensor.sizes[axis] or variables[axis].size > line[0].size:
        return None
    if nest.moves and not (
        nest.body.data[0] is tensor and nest.body.args[axis] is rank and all(nest.body.args[d] is key.args[d] for d in others)
    ):
        return None
    values, positions = (name, None) if nest.moves else (None, name)
    return Ranked(tensor, nest.sizes, axis, decreasing, values, positions)
