"""Indices in blocks: variables that are divided, cut into several, of which quotients and remainders are affine."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise

from anydml.kernels.match.affine import Affine, affine
from anydml.schema.expression import each
from anydml.schema.node import Expr, Variable, is_integer, lift, make
from anydml.schema.traversal import walk

Cut = Mapping[Variable, Expr]
"""Variable -> the sum that it is of the variables that it is cut into, each with its factor."""


def blocks(variables: Sequence[Variable], body: Expr) -> tuple[list[Variable], Cut | None]:
    """The variables, and what those are cut into that are divided; None where nothing is.

    Where v has 12 values, v // 4 is one of 3, and v % 4 one of 4. A variable is cut where each of its divisors divides the
    next, and the last one its size.
    """
    divisions = [e for e in walk(body) if e.op in ("floordiv", "mod") and is_integer(e.args[1])]
    if not divisions:
        return list(variables), None
    divisors: dict[Variable, set[int]] = {}
    for e in divisions:
        if (found := _scale(e.args[0])) is not None:
            v, scale = found
            divisors.setdefault(v, set()).add(scale * int(e.args[1].data.value))
    made: list[Variable] = []
    cut: dict[Variable, Expr] = {}
    for v in variables:
        ends = [1, *sorted(n for n in divisors.get(v, ()) if 1 < n < v.size), v.size]
        if len(ends) == 2 or any(n % m for m, n in pairwise(ends)):
            made.append(v)
            continue
        digits = each([n // m for m, n in pairwise(ends)])
        made += reversed(digits.bound)
        cut[v] = _sum(0, dict(zip(digits.bound, ends[:-1], strict=True)))
    return made, cut


def in_blocks(index: Expr, cut: Cut) -> Expr:
    """An index by the variables that there are instead, without divisions wherever there is no need of them."""
    if index.op == "variable":
        return cut.get(index.data, index)
    if not index.args:
        return index
    args = tuple(in_blocks(a, cut) for a in index.args)
    if index.op in ("floordiv", "mod") and is_integer(args[1]) and (dividend := affine(args[0])) is not None:
        found = _divided(dividend, int(args[1].data.value), index.op)
        if found is not None:
            return found
    return make(index.op, args, index.data)


def _scale(e: Expr) -> tuple[Variable, int] | None:
    """Of a quotient or a remainder of a variable: the variable, and what it is divided by."""
    if e.op == "variable":
        return e.data, 1
    if e.op not in ("floordiv", "mod") or not is_integer(e.args[1]) or (found := _scale(e.args[0])) is None:
        return None
    v, scale = found
    return v, scale * int(e.args[1].data.value) if e.op == "floordiv" else scale


def _divided(x: Affine, divisor: int, op: str) -> Expr | None:
    """The quotient or remainder: terms that the divisor divides, and others that stay below it together."""
    rest = {v: factor for v, factor in x.factors.items() if factor % divisor}
    most = x.constant % divisor + sum(factor * (v.size - 1) for v, factor in rest.items())
    if any(factor < 0 for factor in rest.values()) or most >= divisor:
        return None
    if op == "mod":
        return _sum(x.constant % divisor, rest)
    return _sum(x.constant // divisor, {v: factor // divisor for v, factor in x.factors.items() if v not in rest})


def _sum(constant: int, factors: Mapping[Variable, int]) -> Expr:
    total = lift(constant)
    for v, factor in factors.items():
        total = total + Expr("variable", (), v, "index") * factor
    return total
