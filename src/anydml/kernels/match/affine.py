"""Affine indices: a constant, and a factor for each variable."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

from anydml.kernels.match.unmatched import Unmatched
from anydml.schema.node import Expr, Variable, is_integer, lift, make


class Affine(NamedTuple):
    """constant + the sum of factor * variable; no factor is 0."""

    constant: int
    factors: dict[Variable, int]

    def plus(self, other: Affine, times: int = 1) -> Affine:
        """The sum of this and another function, which is multiplied first."""
        factors = dict(self.factors)
        for v, factor in other.factors.items():
            factors[v] = factors.get(v, 0) + times * factor
        return Affine(self.constant + times * other.constant, _without_zeros(factors))

    def divided(self, divisor: int, op: str) -> Affine | None:
        """The quotient ("floordiv") or remainder ("mod"), if the terms that the divisor does not divide add up to less."""
        rest = {v: f for v, f in self.factors.items() if f % divisor}
        low, high = Affine(self.constant % divisor, rest).ends()
        if low < 0 or high >= divisor:
            return None
        if op == "mod":
            return Affine(self.constant % divisor, rest)
        return Affine(self.constant // divisor, {v: f // divisor for v, f in self.factors.items() if v not in rest})

    def ends(self, box: Mapping[Variable, range] | None = None) -> tuple[int, int]:
        """The least and the largest value, for all values of the variables, or for those in a box."""
        low = high = self.constant
        for v, factor in self.factors.items():
            values = range(v.size) if box is None else box[v]
            first, last = factor * values.start, factor * (values.stop - 1)
            low, high = low + min(first, last), high + max(first, last)
        return low, high

    def expression(self) -> Expr:
        total = lift(self.constant)
        for v, factor in self.factors.items():
            total = total + make("variable", (), v) * factor
        return total


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


def affine_in(e: Expr, known: Callable[[Expr], Affine | None]) -> Affine:
    """An index as an affine function, also of nodes that `known` gives as such, and of quotients where these are affine."""
    op = e.op
    if (found := known(e)) is not None:
        return found
    if op == "variable":
        return Affine(0, {e.data: 1})
    if is_integer(e):
        return Affine(int(e.data.value), {})
    args = [affine_in(a, known) for a in e.args] if op in _OF_INDICES else []
    if op == "neg":
        return Affine(0, {}).plus(args[0], -1)
    if op in ("add", "sub"):
        return args[0].plus(args[1], 1 if op == "add" else -1)
    if op == "mul" and not all(x.factors for x in args):
        x, y = args if not args[1].factors else args[::-1]
        return Affine(0, {}).plus(x, y.constant)
    if op in ("floordiv", "mod") and not args[1].factors:
        found = args[0].divided(args[1].constant, op)
    if found is None:
        raise Unmatched("an index is not affine")
    return found


_OF_INDICES = ("neg", "add", "sub", "mul", "floordiv", "mod")


def below_zero(condition: Expr) -> Affine | None:
    """The affine function that a comparison of indices says to be below 0; None if it is no such comparison."""
    if condition.op not in ("less", "less_equal"):
        return None
    factors: dict[Variable, int] = {}
    x, y = _added(condition.args[0], 1, factors), _added(condition.args[1], -1, factors)
    if x is None or y is None:
        return None
    return Affine(x + y - (condition.op == "less_equal"), _without_zeros(factors))  # for integers, x <= 0 is x - 1 < 0


def below(condition: Expr) -> tuple[Variable, int, bool] | None:
    """A comparison of indices of one variable v: (v, bound, True) if it means v < bound, (v, bound, False) if it means
    v >= bound; else None."""
    found = below_zero(condition)
    if found is None or len(found.factors) != 1:
        return None
    constant, ((v, factor),) = found.constant, found.factors.items()
    if factor > 0:
        return v, -(constant // factor), True
    return v, constant // -factor + 1, False
