"""Statements that move elements: each element of an output is a constant, or an input's element at indices that are affine
within boxes of the output."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from typing import NamedTuple

from anydml.kernels.match.affine import Affine, affine, below
from anydml.kernels.match.blocks import Cut, blocks, in_blocks
from anydml.kernels.match.constants import stored_bits
from anydml.kernels.match.pieces import pieces
from anydml.kernels.match.structure import reads_input
from anydml.kernels.match.unmatched import Unmatched, pattern
from anydml.schema.expression import Tensor
from anydml.schema.node import Expr, Variable
from anydml.schema.statement import Statement, tensors_read
from anydml.schema.traversal import free
from anydml.tensor import DataType

Box = Mapping[Variable, range]
MANY = 1024  # boxes of a statement at most, unless it has more tensors


class Move(NamedTuple):
    """The elements of a box of an output: an input's, or a constant.

    source, target: the names of the tensors. first: the index of the box's first element in the output. sizes: the box's.
    start: the index in the input of the element that is moved there. steps: for each dimension of the box, the step of each
    index of the input. places: the same for the indices of the output, () if the box has the output's dimensions. bits: the
    bits of a constant, for which source, start and steps are empty.
    """

    source: str
    target: str
    first: tuple[int, ...]
    sizes: tuple[int, ...]
    start: tuple[int, ...]
    steps: tuple[tuple[int, ...], ...]
    places: tuple[tuple[int, ...], ...] = ()
    bits: int | None = None


@pattern
def moves(statement: Statement, data_type: DataType | None = None) -> list[Move]:
    """The moves that compute a statement, or why it is not of this kind. data_type: needed if all elements are constants."""
    if (computed := computes(statement)) is not None:
        raise Unmatched(computed)
    found: list[Move] = []
    tensors = 0
    for name, nest in statement.items():
        variables, cut = blocks(nest.variables, nest.body)
        read = tensors_read(nest)  # elements of the output's own type
        tensors += max(1, len(read))
        output = _Output(name, read[0].data_type if read else data_type, nest.index, variables, cut)
        for move in output.moves(nest.body, {v: range(v.size) for v in variables}):
            found.append(move)
            if len(found) > max(MANY, tensors):
                raise Unmatched(f"elements are moved in more than {max(MANY, tensors)} boxes")
    return found


def computes(statement: Statement) -> str | None:
    """The reason why a statement is not of this kind, if it is found without analysing indices; else None."""
    for nest in statement.values():
        if not nest.moves:
            return "elements are computed, not moved"
    return None


class _Output:
    """The boxes of an output to which elements are moved. Variables that are divided are split."""

    def __init__(
        self, name: str, data_type: DataType | None, index: Sequence[Expr], variables: Sequence[Variable], cut: Cut | None
    ) -> None:
        self.name, self.data_type, self.variables, self.cut = name, data_type, variables, cut
        self.index = [self._affine(i) for i in index]

    def moves(self, e: Expr, box: Box) -> Iterator[Move]:
        if not all(box.values()):
            return
        if e.op == "select":
            found = below(self._in_blocks(e.args[0]))
            if found is None or found[0] not in box:
                raise Unmatched("which element is moved depends on more than one index, or on data")
            v, bound, lower = found
            whole = box[v]
            middle = min(max(bound, whole.start), whole.stop)
            parts = range(whole.start, middle), range(middle, whole.stop)
            for branch, part in zip(e.args[1:], parts if lower else parts[::-1], strict=True):
                yield from self.moves(branch, {**box, v: part})
            return
        if e.op == "constant":
            yield self._filled(e, box)
            return
        if not reads_input(e, "inside", "otherwise"):
            raise Unmatched("an element is not one of an input")
        tensor, outside = e.data
        otherwise = e.args[-1] if outside == "otherwise" else None
        if otherwise is not None and otherwise.op != "constant":
            raise Unmatched("elements outside of the input are not a constant")
        for indices, within in _affine_in_boxes([self._in_blocks(a) for a in e.args[: len(tensor.sizes)]], box):
            if otherwise is None:
                yield self._moved(tensor, indices, within)
            else:
                yield from self._inside(tensor, indices, within, otherwise)

    def _inside(self, tensor: Tensor, at: Sequence[Affine], box: Box, otherwise: Expr) -> Iterator[Move]:
        """The moves of a box in which indices may be outside of the tensor: boxes of elements, and boxes of the constant."""
        for index, size in zip(at, tensor.sizes, strict=True):
            low, high = index.ends(box)
            if low >= 0 and high < size:
                continue
            if high < 0 or low >= size:
                yield self._filled(otherwise, box)
                return
            v = min((v for v in index.factors if len(box[v]) > 1), key=lambda v: len(box[v]))
            rest = Affine(index.constant, {w: factor for w, factor in index.factors.items() if w is not v})
            if any(len(box[w]) > 1 for w in rest.factors):
                for i in box[v]:
                    yield from self._inside(tensor, at, {**box, v: range(i, i + 1)}, otherwise)
                return
            first, last = _between(rest.ends(box)[0], index.factors[v], size)
            whole = box[v]
            first, last = max(first, whole.start), min(last + 1, whole.stop)
            if first >= last:
                yield self._filled(otherwise, box)
                return
            for part in (range(whole.start, first), range(last, whole.stop)):
                if part:
                    yield self._filled(otherwise, {**box, v: part})
            box = {**box, v: range(first, last)}
        yield self._moved(tensor, at, box)

    def _moved(self, tensor: Tensor, at: Sequence[Affine], box: Box) -> Move:
        return Move(
            tensor.name,
            self.name,
            first=_first(self.index, box),
            sizes=self._sizes(box),
            start=_first(at, box),
            steps=self._steps(at),
            places=self._steps(self.index) if self.cut else (),
        )

    def _filled(self, e: Expr, box: Box) -> Move:
        bits = None if self.data_type is None else stored_bits(e, self.data_type)
        if bits is None:
            raise Unmatched("an element is not one of an input")
        places = self._steps(self.index) if self.cut else ()
        return Move("", self.name, _first(self.index, box), self._sizes(box), (), (), places, bits)

    def _sizes(self, box: Box) -> tuple[int, ...]:
        return tuple([len(box[v]) for v in self.variables])

    def _in_blocks(self, e: Expr) -> Expr:
        return e if self.cut is None else in_blocks(e, self.cut)

    def _affine(self, index: Expr) -> Affine:
        found = affine(self._in_blocks(index))
        if found is None:
            raise Unmatched("an index is not affine")
        return found

    def _steps(self, at: Sequence[Affine]) -> tuple[tuple[int, ...], ...]:
        return tuple([tuple([index.factors.get(v, 0) for index in at]) for v in self.variables])


def _first(at: Sequence[Affine], box: Box) -> tuple[int, ...]:
    """The indices at the first element of a box."""
    return tuple([i.constant + sum([factor * box[v].start for v, factor in i.factors.items()]) for i in at])


def _affine_in_boxes(at: Sequence[Expr], box: Box) -> Iterator[tuple[tuple[Affine, ...], Box]]:
    """Boxes, and the indices in each as affine functions."""
    known: dict[tuple[Expr, range], list[tuple[range, Affine]]] = {}

    def cut(e: Expr, inside: Box) -> tuple[Variable, list[tuple[range, Affine]]]:
        v = next(iter(free(e)[e]), None)
        if v is None or v not in inside:
            raise Unmatched("an index is not affine")
        if (e, inside[v]) not in known:
            parts = pieces(e, v, inside[v])
            if parts is None:
                raise Unmatched("an index is not affine")
            known[e, inside[v]] = list(islice(parts, MANY + 1))  # one more than are allowed
        return v, known[e, inside[v]]

    def boxes(inside: Box, done: tuple[Affine, ...]) -> Iterator[tuple[tuple[Affine, ...], Box]]:
        for e in at[len(done) :]:
            found = affine(e)
            if found is None:
                v, parts = cut(e, inside)
                for part, function in parts:
                    yield from boxes({**inside, v: part}, (*done, function))
                return
            if not found.factors.keys() <= inside.keys():
                raise Unmatched("an index is not affine")
            done = (*done, found)
        yield done, inside

    return boxes(box, ())


def _between(constant: int, factor: int, size: int) -> tuple[int, int]:
    """The first and the last v with 0 <= constant + factor * v < size. If there is none, the first exceeds the last."""
    if factor > 0:
        return -(constant // factor), (size - 1 - constant) // factor
    return -((size - 1 - constant) // -factor), constant // -factor
