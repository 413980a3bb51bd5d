"""Sums of squared differences from a number, multiplied out. Exact arithmetic loses nothing, and the sums are of elements."""

from __future__ import annotations

import math

from anydml.schema.node import Expr, make
from anydml.schema.traversal import bound_by, free, rebuilt, walk


def expanded(e: Expr) -> Expr:
    """An expression with sum (x - m)^2 as sum x^2 - 2 m sum x + n m^2, where m is the same for every x.

    Unlike sums of differences from a mean, sums of elements are sums of integers in some unit. If an element is infinite or
    NaN, both expressions are NaN.
    """
    if not any(map(_parts, walk(e))):
        return e
    depends = free(e)
    made: dict[Expr, Expr] = {}

    def replaced(node: Expr, _: tuple[Expr, ...]) -> Expr | None:
        parts, bound = _parts(node), set(bound_by(node))
        if parts is None or depends[parts[1]] & bound or not depends[parts[0]] & bound:
            return None
        x, m = made[parts[0]], made[parts[1]]
        count = math.prod(v.size for v in bound_by(node))
        squares, total = (make("reduce", (term,), node.data) for term in (x * x, x))
        product: Expr = squares - 2 * m * total + count * (m * m)
        return product

    return rebuilt(e, replaced, made)


def _parts(e: Expr) -> tuple[Expr, Expr] | None:
    """x and m of a sum of (x - m) (x - m), or None."""
    if e.op != "reduce" or e.data[0] != "sum" or len(e.args) != 1 or e.args[0].op != "mul":
        return None
    first, second = e.args[0].args
    if first is not second or first.op != "sub":
        return None
    return first.args[0], first.args[1]
