"""Undecided elements by number: where they are in the output, and the bitmaps in which a bit stands for each."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from anydml.kernels.kernel import Arrays, Decide
from anydml.kernels.undecided.decision import Decision


class Numbering(NamedTuple):
    """The positions of numbered elements in an output. They are numbered in row-major order of indices with these sizes.

    The element of an index is at `start`, plus the index times `steps`, which has a row for each size.
    """

    sizes: Sequence[int]
    steps: Sequence[Sequence[int]]
    start: Sequence[int]

    def at(self, numbers: NDArray[np.int64]) -> NDArray[np.int64]:
        """The indices of elements in the output, a row each."""
        found = np.repeat(np.array([self.start], np.int64), len(numbers), 0)
        for size, step in zip(reversed(self.sizes), reversed(self.steps), strict=True):
            numbers, index = np.divmod(numbers, size)
            found += index[:, None] * np.array(step, np.int64)
        return found


def in_order(sizes: Sequence[int], dims: Sequence[int]) -> Numbering:
    """The places of elements that are numbered through dimensions of an output of these sizes, the last one fastest."""
    steps = [[int(d == at) for d in range(len(sizes))] for at in dims]
    return Numbering([sizes[d] for d in dims], steps, [0] * len(sizes))


class NumberedElements(NamedTuple):
    """The numbered elements of an output, and their decision."""

    output: str
    places: Numbering
    decision: Decision

    def decide(self, numbers: NDArray[np.int64], arrays: Arrays) -> None:
        """Store the elements with these numbers."""
        self.decision.store(arrays[self.output], arrays, self.places.at(numbers))


class Bitmap(NamedTuple):
    """Words of the scratch with a bit for each element, which is set if it is undecided. first: where they begin."""

    elements: NumberedElements
    first: int
    words: int


def of_bitmaps(bitmaps: Sequence[Bitmap]) -> Decide:
    """A function that decides the elements whose bits are set."""
    return partial(_decide, tuple(bitmaps))


def _decide(bitmaps: Sequence[Bitmap], scratch: NDArray[np.int64], arrays: Arrays) -> None:
    for elements, first, words in bitmaps:
        bits = np.unpackbits(scratch[first : first + words].view(np.uint8), bitorder="little")
        elements.decide(np.flatnonzero(bits), arrays)
