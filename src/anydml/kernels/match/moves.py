"""Statements that move elements: for every element of an output, one of an input, at affine indices."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from anydml.kernels.match.affine import Affine, affine, below
from anydml.kernels.match.blocks import Cut, blocks, in_blocks
from anydml.schema.expression import Expr, Variable
from anydml.schema.statement import Nest, Statement

Box = Mapping[Variable, range]


class Move(NamedTuple):
    """The elements of a box of an output, from an input.

    source, target: tensors by name. first: the index of the box in the output. sizes: those of the box. start: the index of
    the element that goes to its first one. steps: for each dimension of the box, how far each index of the input moves;
    places: how far each index of the output does, () where the box has the output's dimensions.
    """

    source: str
    target: str
    first: tuple[int, ...]
    sizes: tuple[int, ...]
    start: tuple[int, ...]
    steps: tuple[tuple[int, ...], ...]
    places: tuple[tuple[int, ...], ...] = ()


class _Unmatched(Exception):
    """The message is the reason."""


def moves(statement: Statement) -> list[Move] | str:
    """The moves that a statement comes to, or why it is none of this kind."""
    if (computed := computes(statement)) is not None:
        return computed
    found: list[Move] = []
    try:
        for name, nest in statement.items():
            variables, cut = blocks(nest.variables, nest.body)
            found += _Output(name, nest, variables, cut).moves(nest.body, {v: range(v.size) for v in variables})
    except _Unmatched as error:
        return str(error)
    return found


def computes(statement: Statement) -> str | None:
    """Why a statement is none of this kind, as far as that is seen at once."""
    for nest in statement.values():
        if not nest.moves:
            return "elements are computed, not moved"
    return None


class _Output:
    """An output that elements are moved to; its variables are cut where they are divided."""

    def __init__(self, name: str, nest: Nest, variables: Sequence[Variable], cut: Cut | None) -> None:
        self.name, self.variables, self.cut = name, variables, cut
        self.index = [self._affine(i) for i in nest.index]

    def moves(self, e: Expr, box: Box) -> Iterator[Move]:
        if not all(box.values()):
            return
        if e.op == "select":
            found = below(self._in_blocks(e.args[0]))
            if found is None or found[0] not in box:
                raise _Unmatched("which element is moved depends on more than one index, or on data")
            v, bound, lower = found
            whole = box[v]
            middle = min(max(bound, whole.start), whole.stop)
            parts = range(whole.start, middle), range(middle, whole.stop)
            for branch, part in zip(e.args[1:], parts if lower else parts[::-1], strict=True):
                yield from self.moves(branch, {**box, v: part})
            return
        if e.op != "read" or e.data[1] != "inside" or e.data[0].definition is not None:
            raise _Unmatched("an element is not one of an input")
        at = [self._affine(a) for a in e.args]
        if not all(index.factors.keys() <= box.keys() for index in at):
            raise _Unmatched("an index is not affine")
        yield Move(
            e.data[0].name,
            self.name,
            first=_first(self.index, box),
            sizes=tuple([len(box[v]) for v in self.variables]),
            start=_first(at, box),
            steps=self._steps(at),
            places=self._steps(self.index) if self.cut else (),
        )

    def _in_blocks(self, e: Expr) -> Expr:
        return e if self.cut is None else in_blocks(e, self.cut)

    def _affine(self, index: Expr) -> Affine:
        found = affine(self._in_blocks(index))
        if found is None:
            raise _Unmatched("an index is not affine")
        return found

    def _steps(self, at: Sequence[Affine]) -> tuple[tuple[int, ...], ...]:
        return tuple([tuple([index.factors.get(v, 0) for index in at]) for v in self.variables])


def _first(at: Sequence[Affine], box: Box) -> tuple[int, ...]:
    """The indices at the first element of a box."""
    return tuple([i.constant + sum([factor * box[v].start for v, factor in i.factors.items()]) for i in at])
