"""Long calls, divided into rounds of some units of work, between which signals are handled."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise

from anydml.kernels.call.steps import Rounds, Step

Pieces = Callable[[int, int], Sequence[Sequence[Step]]]


def in_rounds(count: int, most: int, pieces: Pieces) -> list[Rounds]:
    """The rounds of `count` units, with at most `most` units in each. pieces: returns the pieces of units first to end - 1.

    At most two `Rounds` are needed for any number of rounds, since the steps of full rounds differ by constant amounts.
    """
    if count <= most:
        return [Rounds([pieces(0, count)])]
    times, rest = divmod(count, most)
    found = [Rounds([pieces(0, most)], (times,), ([pieces(most, 2 * most)],)) if times > 1 else Rounds([pieces(0, most)])]
    return [*found, Rounds([pieces(times * most, count)])] if rest else found


def shares(first: int, end: int, threads: int) -> list[tuple[int, int]]:
    """The units from first to end - 1, divided among at most `threads` threads."""
    count = min(threads, end - first)
    return list(pairwise(first + (end - first) * k // count for k in range(count + 1)))
