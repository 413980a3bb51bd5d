"""Statements that reduce rows: to one element each, or to numbers that are combined with each element of the row.

softmax is of the second kind: a row's largest element, then a sum, then a result for every element of the row.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from anydml.kernels.match.affine import affine
from anydml.kernels.match.maps import Stream
from anydml.kernels.match.normal_form import Nodes, NormalForm
from anydml.kernels.match.structure import reads_input
from anydml.kernels.match.unmatched import Unmatched, need, only, pattern
from anydml.schema.identities import rewritten
from anydml.schema.node import INDEX, TRUTH, Expr, Variable
from anydml.schema.statement import Statement
from anydml.schema.traversal import bound_by, free, integral, loops_in, walk
from anydml.tensor import DataType

REDUCTIONS = ("sum", "product", "max", "min", "first_largest", "first_smallest")


class Rows(NamedTuple):
    """output[kept, reduced] = formula, whose nodes "row_sum", "row_max", .. reduce their argument over a row.

    kept: the sizes of the dimensions outside of rows. reduced: those of the dimensions within a row. The steps of a stream are
    along the kept dimensions, then along the reduced ones; `result` has the output's. mapped: the output has an element for
    each element of a row, not only one for the row. A reduction's second argument, if any, is the condition under which a term
    counts; its data say whether the last of equal elements is meant.
    """

    output: str
    kept: tuple[int, ...]
    reduced: tuple[int, ...]
    streams: tuple[Stream, ...]
    result: Stream
    formula: NormalForm
    mapped: bool
    integral: bool


@pattern
def rows(statement: Statement) -> Rows:
    """The rows that a statement reduces, or the reason why it is not of this kind."""
    name, nest = only(statement)
    need(not nest.moves, "bits are moved")
    return _RowsMatching(name, [nest.body], nest.variables, several=False).found()


def extremes(name: str, bodies: Sequence[Expr]) -> Rows:
    """Reductions that depend on no index. The formula's last node, `several`, stores each of them as an element."""
    return _RowsMatching(name, bodies, (), several=True).found()


def _compares(condition: Expr, variables: Sequence[Variable]) -> bool:
    """Whether one of these variables is compared with another index. Indices found in a row do not count as such."""
    sides = [affine(a) for e in walk(condition) if e.sort == TRUTH for a in e.args if a.sort == INDEX]
    return any(not side.factors.keys().isdisjoint(variables) for side in sides if side is not None)


class _RowsMatching:
    def __init__(self, name: str, bodies: Sequence[Expr], variables: tuple[Variable, ...], *, several: bool) -> None:
        self.name, self.variables, self.several = name, variables, several
        self.integral = all(integral(body) for body in bodies)
        self.bodies = [rewritten(body) for body in bodies]
        # several bodies are elements of the same output; nodes that they have in common are computed once
        self.nodes = dict.fromkeys(e for body in self.bodies for e in walk(body))
        self.reductions = dict.fromkeys(e for body in self.bodies for e in loops_in(body))
        if not self.reductions:
            raise Unmatched("nothing is reduced")
        depends = {e: found for body in self.bodies for e, found in free(body).items()}
        used = frozenset[Variable]().union(*(depends[e] for e in self.reductions))
        if not used <= set(variables):
            raise Unmatched("a reduction depends on the variable of another reduction")
        self.kept = [v for v in variables if v in used and v.size > 1]
        inside = [v for v in variables if v not in used and v.size > 1]
        bounds = {tuple(v for v in bound_by(e) if v.size > 1) for e in self.reductions}
        sizes = {tuple(v.size for v in bound) for bound in bounds}
        if any(_compares(e.args[1], self.kept) for e in self.reductions if len(e.args) > 1):
            raise Unmatched("the condition on a row's elements depends on the row's index")
        if any(e.op in ("first_largest", "first_smallest") and len(e.args) > 1 for e in self.reductions):
            raise Unmatched("ARGMAX or ARGMIN has a condition")
        self.mapped = bool(inside)
        if inside:
            sizes.add(tuple(v.size for v in inside))
        if len(sizes) > 1:
            raise Unmatched("reductions run over rows of different sizes")
        (self.reduced,) = sizes
        # the dimension of each variable; the variables of all reductions and of the output share those of a row
        self.dimensions: dict[Variable, int] = {v: at for at, v in enumerate(self.kept)}
        for bound in (*bounds, tuple(inside)):
            self.dimensions.update({v: len(self.kept) + at for at, v in enumerate(bound)})

    def found(self) -> Rows:
        count = len(self.kept) + len(self.reduced)
        nodes = Nodes()
        places: dict[Expr, int] = {}

        def stream(name: str | None, data_type: DataType, indices: tuple[Expr, ...]) -> int:
            return nodes.stream(self._stream(name, data_type, indices, count), data_type)

        def place(e: Expr) -> int:
            """An argument's; an affine index is a stream of positions."""
            if e not in places:
                places[e] = stream(None, DataType.INT64, (e,))
            return places[e]

        for e in self.nodes:
            if e.op == "read":
                if not reads_input(e, "inside"):
                    raise Unmatched("an element is not one of an input")
                places[e] = stream(e.data[0].name, e.data[0].data_type, e.args)
            elif bound_by(e):
                kind = e.data[0] if e.op == "reduce" else e.op
                if kind not in REDUCTIONS:
                    raise Unmatched("a row is sorted")
                last = e.data[1] if e.op != "reduce" else False
                places[e] = nodes.add(f"row_{kind}", tuple(place(a) for a in e.args), last)
            elif e.op == "position":
                places[e] = place(e.args[0])
            elif e.op == "philox":
                raise Unmatched("it computes random bits")
            elif e.sort != INDEX:
                places[e] = nodes.add(e.op, tuple(place(a) for a in e.args), e.data)
        made = nodes.ended(*(places[body] for body in self.bodies), op="several" if self.several else "same")
        steps = [[0] * len(self.variables) for _ in range(count)]
        for at, v in enumerate(self.variables):
            if v in self.dimensions:
                steps[self.dimensions[v]][at] = 1
        result = Stream(self.name, DataType.INT64, (0,) * len(self.variables), tuple(map(tuple, steps)))
        kept = tuple(v.size for v in self.kept)
        return Rows(self.name, kept, self.reduced, tuple(nodes.streams), result, made, self.mapped, self.integral)

    def _stream(self, name: str | None, data_type: DataType, indices: tuple[Expr, ...], count: int) -> Stream:
        steps = [[0] * len(indices) for _ in range(count)]
        start = []
        for at, e in enumerate(indices):
            index = affine(e)
            if index is None:
                raise Unmatched("an index is not affine")
            start.append(index.constant)
            for v, factor in index.factors.items():
                if v in self.dimensions:
                    steps[self.dimensions[v]][at] += factor
                elif v.size > 1:
                    raise Unmatched("an index depends on other variables than the row's")
        return Stream(name, data_type, tuple(start), tuple(map(tuple, steps)))
