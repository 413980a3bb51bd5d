"""Statements that move elements: for every element of an output, one of an input, at affine indices."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from anydml.kernels.match.affine import affine, below
from anydml.schema.expression import Expr, Variable
from anydml.schema.statement import Nest, Statement

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
    if not all(nest.moves for nest in statement.values()):
        return "elements are computed, not moved"
    try:
        return [
            move
            for name, nest in statement.items()
            for move in _moves(name, nest, nest.body, {v: range(v.size) for v in nest.variables})
        ]
    except _Unmatched as error:
        return str(error)


def _moves(name: str, nest: Nest, e: Expr, box: Box) -> Iterator[Move]:
    if any(not r for r in box.values()):
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
            yield from _moves(name, nest, branch, {**box, v: part})
        return
    if e.op != "read" or e.data[1] != "inside" or e.data[0].definition is not None:
        raise _Unmatched("an element is not one of an input")
    indices = [affine(a) for a in e.args]
    if not all(index is not None and index.factors.keys() <= box.keys() for index in indices):
        raise _Unmatched("an index is not affine")
    at = [index for index in indices if index is not None]
    yield Move(
        e.data[0].name,
        name,
        first=tuple(box[v].start for v in nest.variables),
        sizes=tuple(len(box[v]) for v in nest.variables),
        start=tuple(index.constant + sum(factor * box[v].start for v, factor in index.factors.items()) for index in at),
        steps=tuple(tuple(index.factors.get(v, 0) for index in at) for v in nest.variables),
    )
