"""Indices in blocks: a variable that is divided is split into several, in which quotients and remainders are affine."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise

from anydml.kernels.match.affine import Affine, affine
from anydml.schema.expression import each
from anydml.schema.node import Expr, Variable, is_integer, make
from anydml.schema.traversal import divisions_in

Cut = Mapping[Variable, Expr]
"""Variable -> the same index in the variables into which it is split: their sum, each times its factor."""


def blocks(variables: Sequence[Variable], body: Expr) -> tuple[list[Variable], Cut | None]:
    """The variables after splitting, and the splits; None if no variable is divided.

    A variable v of 12 values that is divided by 4 becomes two variables, v // 4 of 3 values and v % 4 of 4. A variable is split
    if each of its divisors divides the next one, and the last one divides its size.
    """
    divided = [e for e in divisions_in(body) if is_integer(e.args[1])]
    if not divided:
        return list(variables), None
    divisors: dict[Variable, set[int]] = {}
    for e in divided:
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
        cut[v] = Affine(0, dict(zip(digits.bound, ends[:-1], strict=True))).expression()
    return made, cut


def in_blocks(index: Expr, cut: Cut) -> Expr:
    """An index in the new variables, without divisions where possible."""
    if index.op == "variable":
        return cut.get(index.data, index)
    if not index.args:
        return index
    args = tuple(in_blocks(a, cut) for a in index.args)
    if index.op in ("floordiv", "mod") and is_integer(args[1]) and (dividend := affine(args[0])) is not None:
        found = dividend.divided(int(args[1].data.value), index.op)
        if found is not None:
            return found.expression()
    return make(index.op, args, index.data)


def _scale(e: Expr) -> tuple[Variable, int] | None:
    """The variable and the divisor of a quotient or remainder of a variable."""
    if e.op == "variable":
        return e.data, 1
    if e.op not in ("floordiv", "mod") or not is_integer(e.args[1]) or (found := _scale(e.args[0])) is None:
        return None
    v, scale = found
    return v, scale * int(e.args[1].data.value) if e.op == "floordiv" else scale
