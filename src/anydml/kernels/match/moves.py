"""Statements that move elements: for every element of an output, one of an input, at affine indices."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from anydml.kernels.match.affine import affine, below
from anydml.schema.expression import Expr, Variable
from anydml.schema.statement import Statement

Box = Mapping[Variable, range]


class Move(NamedTuple):
    """The elements of a box of an output, from an input.

    source, target: tensors by name. first, sizes: the box, by dimension of the output. start: the index of the element that
    goes to its first one. steps: for each dimension of the output, how far each index of the input moves.
    """

    source: str
    target: str
    first: tuple[int, ...]
    sizes: tuple[int, ...]
    start: tuple[int, ...]
    steps: tuple[tuple[int, ...], ...]


class _Unmatched(Exception):
    """The message is the reason."""


def moves(statement: Statement) -> list[Move] | str:
    """The moves that a statement comes to, or why it is none of this kind."""
    if (computed := computes(statement)) is not None:
        return computed
    found: list[Move] = []
    try:
        for name, nest in statement.items():
            variables = nest.variables
            found += _moves(name, variables, nest.body, {v: range(v.size) for v in variables})
    except _Unmatched as error:
        return str(error)
    return found


def computes(statement: Statement) -> str | None:
    """Why a statement is none of this kind, as far as that is seen at once."""
    for nest in statement.values():
        if not nest.moves:
            return "elements are computed, not moved"
    return None


def _moves(name: str, variables: tuple[Variable, ...], e: Expr, box: Box) -> Iterator[Move]:
    if not all(box.values()):
        return
    if e.op == "select":
        found = below(e.args[0])
        if found is None or found[0] not in box:
            raise _Unmatched("which element is moved depends on more than one index, or on data")
        v, bound, lower = found
        whole = box[v]
        middle = min(max(bound, whole.start), whole.stop)
        parts = range(whole.start, middle), range(middle, whole.stop)
        for branch, part in zip(e.args[1:], parts if lower else parts[::-1], strict=True):
            yield from _moves(name, variables, branch, {**box, v: part})
        return
    if e.op != "read" or e.data[1] != "inside" or e.data[0].definition is not None:
        raise _Unmatched("an element is not one of an input")
    at, start = [], []
    for a in e.args:
        index = affine(a)
        if index is None or not index.factors.keys() <= box.keys():
            raise _Unmatched("an index is not affine")
        at.append(index.factors)
        start.append(index.constant + sum([factor * box[v].start for v, factor in index.factors.items()]))
    ranges = [box[v] for v in variables]
    yield Move(
        e.data[0].name,
        name,
        first=tuple([r.start for r in ranges]),
        sizes=tuple(map(len, ranges)),
        start=tuple(start),
        steps=tuple([tuple([factors.get(v, 0) for factors in at]) for v in variables]),
    )
