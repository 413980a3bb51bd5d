"""Sums in a program whose terms are elements times a weight of their row and a weight of their column.

Such a sum is computed by adding up weighted rows first, and then a few weighted columns of the result.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from anydml.kernels.match.nests import Program
from anydml.kernels.match.normal_form import Node


class SeparablePart(NamedTuple):
    """The nodes of a term that depend on the lane's variable, or those that do not.

    weights: the factors of the element. conditions: those under which the term counts, which include that each weight is above
    0.
    """

    offsets: tuple[int, ...]
    weights: tuple[int, ...]
    conditions: frozenset[int]


class Separable(NamedTuple):
    """A sum over all pairs of a row and a column. place: its node. dimension: the tensor's dimension of the columns.

    near: whether the sizes allow the columns of consecutive elements to be within two vectors.
    """

    place: int
    tensor: int
    dimension: int
    rows: tuple[SeparablePart, ...]
    columns: tuple[SeparablePart, ...]
    near: bool = False


class _Term(NamedTuple):
    read: int
    weights: tuple[int, ...]
    conditions: tuple[int, ...]


def separable(program: Program, lane: int) -> Separable | None:
    """The sum that a program's element equals or is rounded from; None if there is none, or its terms are no such pairs."""
    if len(program.roots) != 1 or program.ring or program.moves:
        return None
    nodes = program.nodes
    place = program.roots[0]
    while nodes[place].op == "half_to_even":
        place = nodes[place].args[0]
    if nodes[place].op != "terms" or nodes[place].data != "sum":
        return None
    terms = list(_terms(program, place))
    if any(term is None for term in terms):
        return None
    pairs = [_pair(program, lane, term) for term in terms if term is not None]
    found = [pair for pair in pairs if pair is not None]
    rows, columns = ({pair[k]: None for pair in found} for k in (0, 1))
    if len(found) < len(terms) or len(set(found)) < len(found) or len(found) != len(rows) * len(columns):
        return None
    along = {nodes[o].data[:2] for column in columns for o in column.offsets}
    tensors = {nodes[term.read].data for term in terms if term is not None}
    if len(along) != 1 or len(tensors) != 1 or any(len(column.offsets) != 1 for column in columns):
        return None
    ((tensor, dimension),) = along
    return Separable(place, tensor, dimension, tuple(rows), tuple(columns))


def _terms(program: Program, place: int) -> Iterator[_Term | None]:
    nodes = program.nodes
    args = nodes[place].args
    for term, condition in zip(args[::2], args[1::2], strict=True):
        factors = program.nodes.operands(term, "mul")
        reads = [f for f in factors if nodes[f].op == "read"]
        if len(reads) != 1:
            yield None
        else:
            factors.remove(reads[0])
            yield _Term(reads[0], tuple(factors), tuple(program.nodes.operands(condition, "both")))


def _pair(program: Program, lane: int, term: _Term) -> tuple[SeparablePart, SeparablePart] | None:
    """The row and column of a term; None if one of its weights or conditions depends on both."""
    nodes, free, parts = program.nodes, program.nodes.free, []
    for inside in (False, True):
        offsets, weights, conditions = (
            [p for p in places if (lane in free[p]) == inside]
            for places in (nodes[term.read].args, term.weights, term.conditions)
        )
        above = {above_zero(nodes, c) for c in conditions if nodes[c].op != "truth"}
        if above != set(weights):
            return None
        parts.append(SeparablePart(tuple(offsets), tuple(weights), frozenset(conditions)))
    if any(free[p] != {lane} for p in (*parts[1].offsets, *parts[1].weights, *parts[1].conditions)):
        return None
    return parts[0], parts[1]


def above_zero(nodes: tuple[Node, ...], condition: int) -> int | None:
    """The node that a condition states to be above 0, or None."""
    op, args, _ = nodes[condition]
    if op != "less" or nodes[args[0]].op != "constant" or nodes[args[0]].data.value != 0:
        return None
    return args[1]


def shares(program: Program) -> frozenset[int]:
    """The nodes between 0 and 1: a number minus its floor, or 1 minus that."""
    nodes, found = program.nodes, set()
    for p, (op, args, _) in enumerate(nodes):
        if op == "sub":
            first, second = nodes[args[0]], nodes[args[1]]
            beyond = second.op == "floor" and second.args == (args[0],)
            if beyond or (first.op == "constant" and first.data.value == 1 and args[1] in found):
                found.add(p)
    return frozenset(found)
