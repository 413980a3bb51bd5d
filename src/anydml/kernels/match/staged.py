"""Statements in stages: extremes of whole inputs, tensors computed from these, and outputs that are maps of both.

An example is quantisation by a tensor's own range: the smallest and the largest element, then a scale and a zero point, then a
map.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from anydml.kernels.match.maps import Map, maps
from anydml.kernels.match.rows import Rows, extremes
from anydml.kernels.match.unmatched import Unmatched, pattern
from anydml.schema.expression import Tensor
from anydml.schema.node import Expr, make
from anydml.schema.statement import Nest, Statement
from anydml.schema.traversal import free, loops_in, reads_in, rebuilt
from anydml.tensor import DataType


class Staged(NamedTuple):
    """The inner tensors, and in order the maps that compute the outputs and all inner tensors but the first.

    The elements of the first inner tensor are the extremes. `rows` describes them.
    """

    inner: tuple[Tensor, ...]
    extremes: Rows
    maps: list[Map]


class StagedStatement(NamedTuple):
    """The extremes of whole inputs, with the type of their elements, and in order the nests of inner tensors and outputs.

    kept: the inner tensors by those that the statement defines.
    """

    whole: tuple[Expr, ...]
    data_type: DataType
    kept: dict[Tensor, Tensor]
    nests: dict[str, Nest]

    def in_terms(self, made: dict[Expr, Expr]) -> dict[str, Nest]:
        """The nests with reads of tensors that hold the extremes' values instead of these."""
        return {name: Nest(nest.index, _in_terms(nest.body, made, self.kept), nest.moves) for name, nest in self.nests.items()}


def stages(statement: Statement) -> StagedStatement:
    """The stages of a statement. Unmatched if it has none."""
    defined = list(_defined(statement.values(), []))
    kept = {t: Tensor(f"inner {k + 1}", t.sizes, t.data_type) for k, t in enumerate(defined)}
    nests = {kept[t].name: definition for t in defined if (definition := t.definition) is not None} | dict(statement)
    whole = list(dict.fromkeys(e for nest in nests.values() for e in _whole(nest.body)))
    if not whole:
        raise Unmatched("nothing depends on a whole input")
    types = frozenset[DataType]().union(*(_types(e.args[0]) for e in whole))
    if len(types) != 1:
        raise Unmatched("extremes have different types")
    (data_type,) = types
    return StagedStatement(tuple(whole), data_type, kept, nests)


@pattern
def staged(statement: Statement) -> Staged:
    """The stages of a statement, or the reason why it is not of this kind."""
    parts = stages(statement)
    rows = extremes("inner 0", parts.whole)
    if any(s.name is None for s in rows.streams):
        raise Unmatched("an extreme depends on positions")
    first = Tensor("inner 0", (len(parts.whole),), parts.data_type)
    found = maps(parts.in_terms({e: first[[k]] for k, e in enumerate(parts.whole)}))
    if isinstance(found, str):
        raise Unmatched(found)
    return Staged((first, *parts.kept.values()), rows, found)


def _defined(nests: Iterable[Nest], around: list[Tensor]) -> Iterator[Tensor]:
    """The tensors that nests read, without inputs, each after those from which it is computed."""
    seen: set[Tensor] = set()
    for nest in nests:
        for e in reads_in(nest.body):
            if (t := e.data[0]) in seen or t.definition is None:
                continue
            if t in around:
                raise Unmatched("a tensor depends on its own elements")
            for inner in _defined([t.definition], [*around, t]):
                if inner not in seen:
                    seen.add(inner)
                    yield inner
            seen.add(t)
            yield t


def _whole(body: Expr) -> list[Expr]:
    """The extremes that depend on no index."""
    depends = free(body)
    return [
        e for e in loops_in(body) if e.op == "reduce" and e.data[0] in ("max", "min") and len(e.args) == 1 and not depends[e]
    ]


def _types(e: Expr) -> frozenset[DataType]:
    """The types of the elements that a number may be, if it is an element or 0."""
    if e.op == "read":
        return frozenset((e.data[0].data_type,))
    if e.op == "constant" and e.data.value == 0:
        return frozenset()
    if e.op not in ("select", "max", "min"):
        raise Unmatched("an extreme is not of elements")
    return frozenset[DataType]().union(*(_types(a) for a in (e.args[1:] if e.op == "select" else e.args)))


def _in_terms(body: Expr, made: dict[Expr, Expr], kept: dict[Tensor, Tensor]) -> Expr:
    """An expression with nodes replaced by reads of the tensors that hold their values. made: the replacements."""

    def inner(e: Expr, args: tuple[Expr, ...]) -> Expr | None:
        return make("read", args, (kept[e.data[0]], e.data[1]), e.sort) if e.op == "read" and e.data[0] in kept else None

    return rebuilt(body, inner, made)
