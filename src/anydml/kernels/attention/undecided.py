"""The bitmap of undecided elements of attention, and the function that decides them in the second stage."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from anydml.kernels.kernel import Arrays
from anydml.kernels.match.attention import Attention
from anydml.kernels.undecided.decision import Decision


class AttentionBits(NamedTuple):
    """The bitmap of attention: a row of bytes for each query, from an offset of the scratch on."""

    attention: Attention
    place: int
    rows: int
    row: int


def deciding(found: AttentionBits, decision: Decision) -> Callable[[NDArray[np.int64], Arrays], None]:
    """A function that decides the elements whose bits are set in the scratch."""
    return partial(_decide, found, decision)


def _decide(found: AttentionBits, decision: Decision, scratch: NDArray[np.int64], arrays: Arrays) -> None:
    target = found.attention.output
    first, words = found.place // 8, found.rows * found.row // 8
    bits = np.unpackbits(scratch[first : first + words].view(np.uint8), bitorder="little")
    *outer, column = found.attention.variables
    sizes = (*(1 if v is None else v.size for v in outer), 8 * found.row)
    places = []
    for n in np.flatnonzero(bits):
        values = dict(zip((*outer, column), map(int, np.unravel_index(n, sizes)), strict=True))
        at = tuple(x.constant + sum(f * values[v] for v, f in x.factors.items()) for x in target.at)
        places.append(at)
    decision.store(arrays[target.name], arrays, places)
