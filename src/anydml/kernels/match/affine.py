"""Affine indices: a constant, and a factor for each variable."""

from __future__ import annotations

from typing import NamedTuple

from anydml.schema.node import Expr, Variable, is_integer


class Affine(NamedTuple):
    """constant + the sum of factor * variable; no factor is 0."""

    constant: int
    factors: dict[Variable, int]


def affine(e: Expr) -> Affine | None:
    """An index as an affine function of variables; None if it is not affine."""
    factors: dict[Variable, int] = {}
    constant = _added(e, 1, factors)
    return None if constant is None else Affine(constant, _without_zeros(factors))


def _added(e: Expr, times: int, factors: dict[Variable, int]) -> int | None:
    """The constant of an index times `times`; its factors, times `times`, are added to `factors`. None if not affine."""
    op = e.op
    if op == "variable":
        factors[e.data] = factors.get(e.data, 0) + times
        return 0
    if op == "neg":
        return _added(e.args[0], -times, factors)
    if op in ("add", "sub"):
        first, second = e.args
        left, right = _added(first, times, factors), _added(second, times if op == "add" else -times, factors)
        return None if left is None or right is None else left + right
    if op == "mul":
        x, y = affine(e.args[0]), affine(e.args[1])
        if x is None or y is None or (x.factors and y.factors):
            return None
        if y.factors:
            x, y = y, x
        times *= y.constant
        for v, factor in x.factors.items():
            factors[v] = factors.get(v, 0) + times * factor
        return times * x.constant
    return times * int(e.data.value) if is_integer(e) else None


def _without_zeros(factors: dict[Variable, int]) -> dict[Variable, int]:
    return factors if all(factors.values()) else {v: factor for v, factor in factors.items() if factor}


def below(condition: Expr) -> tuple[Variable, int, bool] | None:
    """A comparison of indices of one variable v: (v, bound, True) if it means v < bound, (v, bound, False) if it means
    v >= bound; else None."""
    if condition.op not in ("less", "less_equal"):
        return None
    found: dict[Variable, int] = {}
    x, y = _added(condition.args[0], 1, found), _added(condition.args[1], -1, found)
    factors = _without_zeros(found)
    if x is None or y is None or len(factors) != 1:
        return None
    constant = x + y
    constant -= condition.op == "less_equal"  # for integers, x <= 0 is x - 1 < 0
    ((v, factor),) = factors.items()
    if factor > 0:
        return v, -(constant // factor), True
    return v, constant // -factor + 1, False
