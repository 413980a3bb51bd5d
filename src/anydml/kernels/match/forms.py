"""Forms of expressions: sums that count, conditions on products, and arithmetic of integers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import product

from anydml.kernels.match.structure import conjuncts
from anydml.schema.expression import both
from anydml.schema.node import Expr, Variable, is_integer, make

_RING = {"add", "sub", "mul", "neg", "read", "constant"}


def each_value(variables: Sequence[Variable]) -> Iterator[dict[Variable, int]]:
    """All combinations of values of some variables; the last variable changes fastest."""
    for at in product(*(range(int(v.size)) for v in variables)):
        yield dict(zip(variables, at, strict=True))


def counted(e: Expr, depends: Mapping[Expr, frozenset[Variable]]) -> Expr | None:
    """A sum of ones whose conditions each depend on at most one variable, as a product of sums."""
    bound_here = frozenset(e.data[1])
    if len(e.args) < 2 or not is_integer(e.args[0]) or e.args[0].data.value != 1:
        return None
    conditions: dict[Variable, Expr] = {}
    for c in conjuncts(e):
        of = depends[c] & bound_here
        if len(of) > 1:
            return None
        v = min(of, default=e.data[1][0], key=lambda v: v.name)
        conditions[v] = both(conditions[v], c) if v in conditions else c
    found: Expr | None = None
    for v in e.data[1]:
        condition = (conditions[v],) if v in conditions else ()
        made = make("reduce", (e.args[0], *condition), ("sum", (v,)))
        found = made if found is None else found * made
    return found


def positive_parts(e: Expr) -> list[Expr] | None:
    """The condition that a product of two nonnegative numbers is positive, as the conditions that both are; else None."""
    zero, product_ = e.args
    if product_.op != "mul" or not all(map(_not_negative, product_.args)) or zero.op != "constant" or zero.data.value != 0:
        return None
    return [make("less", (zero, part), None, e.sort) for part in product_.args]


def _not_negative(e: Expr) -> bool:
    """Whether a number is a sum of terms that are added only if they are positive."""
    if e.op != "reduce" or e.data[0] != "sum" or len(e.args) < 2:
        return False
    return any(
        c.op == "less" and c.args[1] is e.args[0] and c.args[0].op == "constant" and c.args[0].data.value == 0
        for c in conjuncts(e)
    )


def is_ring(e: Expr) -> bool:
    """Whether a node is made of sums and products of integers."""
    if e.op == "reduce":
        return bool(e.data[0] == "sum" and is_ring(e.args[0]))
    if e.op == "read" and (e.data[1] == "otherwise" or e.data[0].data_type.is_float):
        return False
    return e.op in _RING and (e.op == "read" or all(is_ring(a) for a in e.args))
