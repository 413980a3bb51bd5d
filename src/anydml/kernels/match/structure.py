"""The structure of expressions: operands of an operation that is nested in itself, and equality but for variables."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from anydml.schema.node import Expr, Variable, is_integer
from anydml.schema.traversal import loops_in, reads_in

IN_ANY_ORDER = ("add", "mul", "max", "min", "equal", "both", "either")
Differences = list[tuple[Expr, Expr, Mapping[Variable, Variable]]]


def operands(e: Expr, op: str) -> Iterator[Expr]:
    """The operands of an operation, those of the same operation inside it included: the terms of a sum, for example."""
    if e.op == op:
        for a in e.args:
            yield from operands(a, op)
    else:
        yield e


def reads_input(e: Expr, *outside: str) -> bool:
    """Whether a node reads an input; outside: the ways in which it may treat indices outside of its tensor."""
    return e.op == "read" and e.data[1] in outside and e.data[0].definition is None


def is_whole(e: Expr, n: int) -> bool:
    """Whether a node is an integer constant with this value."""
    return is_integer(e) and bool(e.data.value == n)


def conjuncts(reduction: Expr) -> list[Expr]:
    """The conditions that all have to hold for a term of a reduction to count."""
    return list(operands(reduction.args[1], "both")) if len(reduction.args) > 1 else []


def skipped(reduction: Expr) -> list[Expr]:
    """The reads that leave out a term of a reduction if they are outside of their tensor; not those of inner reductions."""
    term = reduction.args[0]
    inner = {read for r in loops_in(term) for read in reads_in(r.args[0])}
    return [read for read in reads_in(term) if read.data[1] == "skipped" and read not in inner]


def differences(
    x: Expr,
    y: Expr,
    renamed: Mapping[Variable, Variable],
    may_differ: Callable[[Expr, Expr], bool] = lambda _x, _y: False,
) -> Differences | None:
    """The pairs of nodes in which two expressions differ and may differ, or None if they differ elsewhere, too.

    renamed: maps variables of y to those of x.
    """
    if may_differ(x, y):
        return [(x, y, renamed)]
    if x is y and not renamed:
        return []
    if x.op != y.op or len(x.args) != len(y.args):
        return None
    if x.op == "variable":
        return [] if renamed.get(y.data, y.data) is x.data else None
    if x.op == "reduce":
        (kind, bound), (other_kind, other_bound) = x.data, y.data
        if kind != other_kind or [v.size for v in bound] != [v.size for v in other_bound]:
            return None
        renamed = {**renamed, **dict(zip(other_bound, bound, strict=True))}
    elif x.data != y.data:
        return None
    orders = [y.args, y.args[::-1]] if x.op in IN_ANY_ORDER and len(y.args) == 2 else [y.args]
    for args in orders:
        found = [differences(a, b, renamed, may_differ) for a, b in zip(x.args, args, strict=True)]
        if all(f is not None for f in found):
            return [difference for f in found if f is not None for difference in f]
    return None


def equal(x: Expr, y: Expr, renamed: Mapping[Variable, Variable]) -> bool:
    """Whether two expressions differ only in their variables. renamed: maps variables of y to those of x."""
    return differences(x, y, renamed) == []
