"""Affine indices: a constant, and a factor for each variable."""

from __future__ import annotations

from typing import NamedTuple

from anydml.schema.expression import Expr, Variable, is_integer


class Affine(NamedTuple):
    """constant + the sum of factor * variable; no factor is 0."""

    constant: int
    factors: dict[Variable, int]


def affine(e: Expr) -> Affine | None:
    """An index as an affine function of variables; None where it is no such function."""
    op = e.op
    if op == "variable":
        return Affine(0, {e.data: 1})
    if is_integer(e):
        return Affine(int(e.data.value), {})
    if op == "neg":
        return None if (x := affine(e.args[0])) is None else _times(x, -1)
    if op in ("add", "sub", "mul"):
        x, y = affine(e.args[0]), affine(e.args[1])
        if x is None or y is None:
            return None
        if op != "mul":
            return _sum(x, y, 1 if op == "add" else -1)
        if x.factors and y.factors:
            return None
        return _times(x, y.constant) if x.factors else _times(y, x.constant)
    return None


def _times(x: Affine, n: int) -> Affine:
    return Affine(n * x.constant, {v: n * factor for v, factor in x.factors.items()} if n else {})


def _sum(x: Affine, y: Affine, times: int) -> Affine:
    if not y.factors:
        return Affine(x.constant + times * y.constant, x.factors)
    factors = dict(x.factors)
    for v, factor in y.factors.items():
        factors[v] = factors.get(v, 0) + times * factor
    return Affine(x.constant + times * y.constant, {v: factor for v, factor in factors.items() if factor})


def below(condition: Expr) -> tuple[Variable, int, bool] | None:
    """A comparison of indices as (v, bound, True) where it holds for v < bound alone, False for v >= bound; or None.

    It has to depend on one variable.
    """
    if condition.op not in ("less", "less_equal"):
        return None
    x, y = (affine(a) for a in condition.args)
    if x is None or y is None:
        return None
    constant, factors = _sum(x, y, -1)
    if len(factors) != 1:
        return None
    constant -= condition.op == "less_equal"  # of integers: x <= 0 is x - 1 < 0
    ((v, factor),) = factors.items()
    if factor > 0:
        return v, -(constant // factor), True
    return v, constant // -factor + 1, False
