"""Elements that kernels of rows leave undecided: a list has their row, and their place in it."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from math import prod

import numpy as np
from numpy.typing import NDArray

from anydml.kernels.kernel import Arrays
from anydml.kernels.match.rows import Rows
from anydml.kernels.reduce.key import ALL
from anydml.kernels.undecided.decision import Decision
from anydml.kernels.undecided.places import NumberedElements, Numbering
from anydml.kernels.undecided.state import UndecidedLists


def undecided_rows(r: Rows, decision: Decision, starts: Sequence[int], *, turns: bool = False) -> UndecidedLists:
    """The lists of pieces, which begin at these words of the scratch; turns: as in `UndecidedLists`."""
    elements = NumberedElements(r.output, Numbering((*r.kept, *r.reduced), r.result.steps, r.result.start), decision)
    return UndecidedLists(starts, 2, partial(_resolve, r, elements), turns)


def _resolve(r: Rows, elements: NumberedElements, _: int, entries: NDArray[np.int64], scratch: object, arrays: Arrays) -> None:
    elements.decide(_numbers(r, entries), arrays)


def _numbers(r: Rows, entries: NDArray[np.int64]) -> NDArray[np.int64]:
    """The numbers of listed elements among all, a row after the other."""
    length = prod(r.reduced)
    first = entries[:, 0] * length
    if not r.mapped:
        return first
    all_ = entries[:, 1] == ALL
    whole = first[all_, None] + np.arange(length)
    return np.concatenate([first[~all_] + entries[~all_, 1], whole.reshape(-1)])
