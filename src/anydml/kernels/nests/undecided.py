"""Elements that the kernels of nests leave undecided: a list has their numbers, and inputs that outputs may be stored over."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from anydml.kernels.kernel import Arrays
from anydml.kernels.undecided.decision import Decision
from anydml.kernels.undecided.places import Numbering
from anydml.kernels.undecided.state import UndecidedLists


def undecided_nests(
    decisions: Mapping[str, Decision], places: Numbering, kept: Sequence[str], starts: Sequence[int]
) -> UndecidedLists:
    """The lists of outputs that are computed together. kept: the inputs whose elements are in an entry, behind the number."""
    return UndecidedLists(starts, 1 + len(kept), partial(_resolve, decisions, places, kept))


def _resolve(
    decisions: Mapping[str, Decision],
    places: Numbering,
    kept: Sequence[str],
    _: int,
    entries: NDArray[np.int64],
    scratch: object,
    arrays: Arrays,
) -> None:
    at = source = places.at(entries[:, 0])
    read = arrays
    if kept:  # these inputs are read from the list, where they are one after another along the first dimension
        source = np.zeros_like(at)
        source[:, 0] = np.arange(len(entries))
        read = {**arrays, **{name: _elements(entries[:, k], arrays[name]) for k, name in enumerate(kept, 1)}}
    found = {name: decision.at(read, source) for name, decision in decisions.items()}  # before any of them is stored
    for name, elements in found.items():
        bits = f"u{elements.itemsize}"
        arrays[name].view(bits)[tuple(at.T)] = elements.view(bits)


def _elements(words: NDArray[np.int64], array: NDArray[Any]) -> NDArray[Any]:
    dtype = array.dtype
    return words.astype(f"u{dtype.itemsize}").view(dtype).reshape(-1, *(1 for _ in array.shape[1:]))
