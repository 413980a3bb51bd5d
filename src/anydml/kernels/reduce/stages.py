"""The order in which a formula over rows is computed: nodes that are the same for a whole row, and those of each pass."""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Sequence
from functools import lru_cache
from typing import NamedTuple, TypeVar

from anydml.kernels.match.normal_form import NormalForm
from anydml.kernels.match.scopes import FormWalk

T = TypeVar("T")

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
def stages(formula: NormalForm, constant: frozenset[int], *, mapped: bool) -> Stages:
    """The stages of a formula; constant: the streams that are the same along a row; mapped: whether results are whole rows."""
    within = formula.varying(lambda node: node.op == "stream" and node.data[0] not in constant)
    after: list[int] = []
    for op, args, _ in formula:
        after.append(max((after[a] for a in args), default=0) + op.startswith("row_"))
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
    return Stages(within, tuple(after), passes, frozenset(kept))


class StagedWalk(FormWalk[T]):
    """A walk with two scopes: a row, and a group of its elements, whose items are dropped before the next group's are made."""

    stages: Stages

    def put(self, place: int, item: T) -> None:
        """Set a node's item for the row, or for a group if it differs within the row."""
        self.items.nested[self.stages.within[place]][place] = item

    def fill_within(self, targets: Iterable[int]) -> None:
        """Make the items that differ within a row and that the targets need."""
        self.fill(sorted(inner(self.nodes, self.stages.within, targets, self.items)))

    def of_row(self, s: int) -> Iterator[int]:
        """The nodes, not made yet, that are the same for the row and known after s passes."""
        for p, (op, _, _) in enumerate(self.nodes):
            if not (self.stages.within[p] or self.stages.after[p] > s or op.startswith("row_") or p in self.items):
                yield p

    def forget(self) -> None:
        """Drop the items of a group of elements: the next group computes its own."""
        self.items.nested[1].clear()


def inner(formula: NormalForm, within: Sequence[bool], targets: Iterable[int], known: Container[int] = ()) -> set[int]:
    """The nodes that differ within a row and that the targets need, these included; known nodes end the search."""
    found: set[int] = set()
    stack = list(targets)
    while stack:
        p = stack.pop()
        if within[p] and p not in found:
            found.add(p)
            if p not in known:
                stack.extend(formula[p].args)
    return found
