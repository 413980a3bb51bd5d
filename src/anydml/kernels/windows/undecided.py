"""Elements that a kernel of windows leaves undecided, decided finer: by their line and their place in it."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from anydml.kernels.kernel import Arrays
from anydml.kernels.undecided.decision import Decision

STATE_WORDS = 8  # of each piece, in a cache line of its own: the line to go on with, a word that is not used, how many are
# on the list, and a word of the kernel's own


class Order(NamedTuple):
    """The order of lines: the dimensions of the output that they are numbered through, with sizes, and the one along them."""

    dims: tuple[int, ...]
    sizes: tuple[int, ...]
    line: int

    def place(self, number: int, along: int) -> tuple[int, ...]:
        """The index in the output of an element of a line."""
        found = [0] * (len(self.dims) + 1)
        for d, size in zip(reversed(self.dims), reversed(self.sizes), strict=True):
            number, found[d] = divmod(number, size)
        found[self.line] = along
        return tuple(found)


class Decide(Protocol):
    def __call__(self, scratch: NDArray[np.int64], arrays: Arrays) -> None: ...


def deciding(order: Order, name: str, decision: Decision, pieces: Sequence[int]) -> Decide:
    """A function that decides what is on the lists; pieces: where in the scratch each begins, in words."""
    return partial(_decide, order, name, decision, tuple(pieces))


def _decide(
    order: Order, name: str, decision: Decision, pieces: Sequence[int], scratch: NDArray[np.int64], arrays: Arrays
) -> None:
    done = np.iinfo(np.int64).max
    for first in pieces:
        piece = scratch[first:]
        line, count = int(piece[0]), int(piece[2])
        if count:
            entries = piece[STATE_WORDS : STATE_WORDS + 2 * count].reshape(count, 2)
            listed = dict.fromkeys(map(tuple, entries.tolist()))
            decision.store(arrays[name], arrays, [order.place(number, along) for number, along in listed])
            piece[2] = 0
        elif line == 0:
            piece[0] = done  # it has ended, and is not begun again
