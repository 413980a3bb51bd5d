"""The order in which a formula over rows is computed: nodes that are the same for a whole row, and those of each pass."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from functools import lru_cache
from typing import NamedTuple

from anydml.kernels.match.maps import Formula

COSTLY = {
    *("exp", "log", "expm1", "log1p", "sin", "cos", "tan", "asin", "acos", "atan", "atan2", "sinh", "cosh", "tanh", "asinh"),
    *("acosh", "atanh", "erf", "erfc", "pow", "sigmoid", "softplus"),
}


class Stages(NamedTuple):
    """By node: whether it differs within a row, and the number of passes before it is known. passes: the reductions of each.

    kept: costly nodes that several passes need; the computation of a mapped row's elements counts as the last pass.
    """

    within: tuple[bool, ...]
    after: tuple[int, ...]
    passes: tuple[tuple[int, ...], ...]
    kept: frozenset[int]


@lru_cache(maxsize=256)
def stages(formula: Formula, constant: frozenset[int], *, mapped: bool) -> Stages:
    """The stages of a formula; constant: the streams that are the same along a row; mapped: whether results are whole rows."""
    within: list[bool] = []
    after: list[int] = []
    for op, args, data in formula:
        reduces = op.startswith("row_")
        within.append(data[0] not in constant if op == "stream" else not reduces and any(within[a] for a in args))
        after.append(max((after[a] for a in args), default=0) + reduces)
    count = max(after)
    passes = tuple(
        tuple(p for p, n in enumerate(formula) if n.op.startswith("row_") and after[p] == s + 1) for s in range(count)
    )
    seen: set[int] = set()
    kept: set[int] = set()
    roots = [[a for p in reductions for a in formula[p].args] for reductions in passes]
    for targets in [*roots, [len(formula) - 1]] if mapped else roots:
        found = inner(formula, within, targets)
        kept |= {p for p in found & seen if formula[p].op in COSTLY}
        seen |= found
    return Stages(tuple(within), tuple(after), passes, frozenset(kept))


def inner(formula: Formula, within: Iterable[bool], targets: Iterable[int], known: Collection[int] = ()) -> set[int]:
    """The nodes that differ within a row and that the targets need, these included; known nodes end the search."""
    differs = list(within)
    found: set[int] = set()
    stack = list(targets)
    while stack:
        p = stack.pop()
        if differs[p] and p not in found:
            found.add(p)
            if p not in known:
                stack.extend(formula[p].args)
    return found
