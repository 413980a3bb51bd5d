"""Elements that a kernel's bounds leave undecided, decided finer: by their row and their place in it."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from anydml.kernels.kernel import Arrays
from anydml.kernels.match.rows import Rows
from anydml.kernels.reduce.key import ALL
from anydml.kernels.undecided.decision import Decision

STATE_WORDS = 8  # of each piece: key.STATE, in a cache line of its own


def words(room: int, kept: int) -> int:
    """Words of a piece: its state, its list and the values that it keeps, in whole cache lines."""
    return -(-(STATE_WORDS + 2 * (room + 1) + kept) // 8) * 8


class UndecidedRows(NamedTuple):
    """The elements that kernels of rows leave undecided, as they have to be decided. pieces, size: of the scratch, in words.

    turns: whether a piece that has left nothing undecided may be one that has not been begun.
    """

    rows: Rows
    decision: Decision
    pieces: int
    size: int
    turns: bool = False

    def _pieces(self, scratch: NDArray[np.int64]) -> NDArray[np.int64]:
        return scratch[: self.pieces * self.size].reshape(self.pieces, self.size)

    def begun(self, scratch: NDArray[np.int64]) -> bool:
        """Whether a piece has stopped in this call or in one that it takes up, so that their steps have been begun."""
        return bool(self._pieces(scratch)[:, :3].any())

    def decide(self, scratch: NDArray[np.int64], arrays: Arrays) -> None:
        """Decide what is on the lists of all pieces, when one has stopped, and empty them."""
        done = np.iinfo(np.int64).max
        for piece in self._pieces(scratch):
            row, count = int(piece[0]), int(piece[2])
            if count:
                entries = piece[STATE_WORDS : STATE_WORDS + 2 * count].reshape(count, 2)
                places = list(_coordinates(self.rows, entries.tolist()))
                self.decision.store(arrays[self.rows.output], arrays, places)
                piece[2] = 0
            elif row == 0 and not self.turns:
                piece[0] = done  # it has ended, and is not begun again


def _coordinates(r: Rows, entries: Iterable[Sequence[int]]) -> Iterator[tuple[int, ...]]:
    """The indices in the output of listed places of rows."""
    for row, place in entries:
        kept = _indices(row, r.kept)
        for inside in range(math.prod(r.reduced)) if place == ALL and r.mapped else (max(place, 0),):
            index = (*kept, *_indices(inside, r.reduced))
            yield tuple(
                sum(i * step[d] for i, step in zip(index, r.result.steps, strict=True)) for d in range(len(r.result.start))
            )


def _indices(n: int, sizes: tuple[int, ...]) -> tuple[int, ...]:
    """The indices of the n-th element in row-major order."""
    found: list[int] = []
    for size in reversed(sizes):
        n, i = divmod(n, size)
        found.insert(0, i)
    return tuple(found)
