"""Elements that a nest's bounds leave undecided, decided finer: by their places in the output."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from anydml.kernels.kernel import Arrays, Decide
from anydml.kernels.nests.key import DONE, STATE_WORDS
from anydml.kernels.undecided.decision import Decision


class NestPiece(NamedTuple):
    """Rows of outputs. start: the first word in the scratch. order: the dimensions in the order of places, the lane last.

    kept: the inputs whose elements are on the list, behind their place.
    """

    outputs: tuple[str, ...]
    start: int
    sizes: tuple[int, ...]
    order: tuple[int, ...]
    kept: tuple[str, ...]


def deciding(decisions: Mapping[str, Decision], phases: Sequence[Sequence[NestPiece]]) -> Decide:
    """A function that decides what is on the lists of all pieces, in their phases."""
    return partial(_decide, decisions, tuple(map(tuple, phases)))


def _decide(
    decisions: Mapping[str, Decision],
    phases: Sequence[Sequence[NestPiece]],
    scratch: NDArray[np.int64],
    arrays: Arrays,
) -> None:
    # a phase begins when all pieces of the one before have ended, and leaves a trace where it stops
    begun = max((k for k, pieces in enumerate(phases) if any(_state(scratch, piece) != [0] * 3 for piece in pieces)), default=0)
    for piece in (piece for pieces in phases[: begun + 1] for piece in pieces):
        row, place, count = _state(scratch, piece)
        if count:
            words, first = 1 + len(piece.kept), piece.start + STATE_WORDS
            entries = scratch[first : first + count * words].reshape(count, words)
            read = {**arrays, **_elements(piece, entries, arrays)} if piece.kept else arrays
            _store(piece, entries, decisions, read, arrays)
            scratch[piece.start + 2] = 0
        elif row == place == 0:
            scratch[piece.start] = DONE  # it has ended, and is not begun again


def _store(
    piece: NestPiece, entries: NDArray[np.int64], decisions: Mapping[str, Decision], read: Arrays, arrays: Arrays
) -> None:
    """Store the elements of a list. read: the arrays, or the inputs that the list itself has kept."""
    places = np.zeros((len(entries), len(piece.order)), np.int64)
    rest = entries[:, 0]
    for d in reversed(piece.order):
        rest, places[:, d] = np.divmod(rest, piece.sizes[d])
    source = places
    if piece.kept:
        source = np.zeros_like(places)
        source[:, 0] = np.arange(len(entries))
    found = [decisions[name].at(read, source) for name in piece.outputs]  # before any of them is stored
    for name, elements in zip(piece.outputs, found, strict=True):
        bits = f"u{elements.itemsize}"
        arrays[name].view(bits)[tuple(places.T)] = elements.view(bits)


def _elements(piece: NestPiece, entries: NDArray[np.int64], arrays: Arrays) -> dict[str, NDArray[Any]]:
    """The inputs of listed elements, one after another along the first dimension."""
    sizes = (len(entries), *(1 for _ in piece.sizes[1:]))
    found = {}
    for k, name in enumerate(piece.kept):
        dtype = arrays[name].dtype
        found[name] = entries[:, k + 1].astype(f"u{dtype.itemsize}").view(dtype).reshape(sizes)
    return found


def _state(scratch: NDArray[np.int64], piece: NestPiece) -> list[int]:
    found: list[int] = scratch[piece.start : piece.start + 3].tolist()
    return found
