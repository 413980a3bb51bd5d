"""The state of a piece of a call, in scratch: where the next call goes on, and how many undecided elements are listed.

A kernel that stops returns 1. Its undecided elements are then decided, and it is called again, until all pieces have ended.
The scratch is zero before the first call.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from anydml.kernels.kernel import Arrays, Decide

STATE_WORDS = 8  # a cache line of its own; the list comes after it
# the row, and the place in it, where the next call goes on; the number of listed elements; and the first word of the family's
ROW, PLACE, COUNT, OWN = range(4)
ENDED = (1 << 63) - 1  # the row of a piece that has ended and is not begun again


def state_and_list(words: int) -> int:
    """The words of a state and of a list of so many words, in whole cache lines."""
    return -(-(STATE_WORDS + words) // 8) * 8


class UndecidedLists(NamedTuple):
    """The states and lists of pieces that run at the same time.

    starts: the first word of each in the scratch. width: the words of an entry. resolve: decides the entries of the piece
    of that number, a row each; it gets the scratch and the arrays, too. turns: whether a piece that lists nothing may be one
    that has not begun.
    """

    starts: Sequence[int]
    width: int
    resolve: Callable[[int, NDArray[np.int64], NDArray[np.int64], Arrays], None]
    turns: bool = False

    def moved(self, words: int) -> UndecidedLists:
        """The same lists, so many words further on in the scratch."""
        return self._replace(starts=[start + words for start in self.starts])

    def begun(self, scratch: NDArray[np.int64]) -> bool:
        """Whether a piece has stopped, in this call or in one that it resumes: then all pieces have begun."""
        return any(scratch[start : start + OWN].any() for start in self.starts)

    def decide(self, scratch: NDArray[np.int64], arrays: Arrays) -> None:
        """Decide what is on the lists, after a piece has stopped, and empty them."""
        for k, start in enumerate(self.starts):
            row, place, count = scratch[start : start + OWN].tolist()
            if count:
                first = start + STATE_WORDS
                self.resolve(k, scratch[first : first + count * self.width].reshape(count, self.width), scratch, arrays)
                scratch[start + COUNT] = 0
            elif row == place == 0 and not self.turns:
                scratch[start + ROW] = ENDED


def in_phases(phases: Sequence[UndecidedLists]) -> Decide:
    """A function that decides what is on the lists of phases. A phase begins when all pieces of those before have ended."""
    return partial(_in_phases, tuple(phases))


def _in_phases(phases: Sequence[UndecidedLists], scratch: NDArray[np.int64], arrays: Arrays) -> None:
    stopped = max(k for k, lists in enumerate(phases) if lists.begun(scratch))
    for lists in phases[: stopped + 1]:
        lists.decide(scratch, arrays)


def interleaved(lists: Sequence[UndecidedLists]) -> Decide:
    """A function that decides what is on lists of pieces whose steps are interleaved."""
    return partial(_interleaved, tuple(lists))


def _interleaved(lists: Sequence[UndecidedLists], scratch: NDArray[np.int64], arrays: Arrays) -> None:
    for one in lists:
        one.decide(scratch, arrays)
