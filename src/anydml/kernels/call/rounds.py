"""Long calls in rounds, between which signals are handled: so many units of work at a time, again and again."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise

from anydml.kernels.call.steps import Rounds, Step

Pieces = Callable[[int, int], Sequence[Sequence[Step]]]


def in_rounds(count: int, most: int, pieces: Pieces) -> list[Rounds]:
    """The rounds of `count` units, at most so many in each; pieces: those of the units from one to before another.

    However many rounds there are, they are at most two here: their steps differ by as much from one to the next.
    """
    if count <= most:
        return [Rounds([pieces(0, count)])]
    times, rest = divmod(count, most)
    found = [Rounds([pieces(0, most)], (times,), ([pieces(most, 2 * most)],)) if times > 1 else Rounds([pieces(0, most)])]
    return [*found, Rounds([pieces(times * most, count)])] if rest else found


def shares(first: int, end: int, threads: int) -> list[tuple[int, int]]:
    """Units from one to before another, divided among so many threads at most."""
    count = min(threads, end - first)
    return list(pairwise(first + (end - first) * k // count for k in range(count + 1)))
