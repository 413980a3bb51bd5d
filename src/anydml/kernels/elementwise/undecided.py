"""Elements that a kernel's bounds leave open, decided exactly, in Python, from the list that it made."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from anydml.forks import guard
from anydml.kernels.kernel import Arrays
from anydml.kernels.match.maps import Formula, over_streams
from anydml.schema.expression import each
from anydml.schema.statement import Nest
from anydml.tensor import DataType

STATE_WORDS = 8  # of each piece: emit.STATE, in a cache line of its own


def words(room: int, inputs: int) -> int:
    """Words of a piece's state and list, where so many elements fit."""
    return STATE_WORDS + room * (inputs + 1)


def deciding(
    formula: Formula, types: tuple[DataType, ...], pieces: int, room: int
) -> Callable[[NDArray[np.int64], Arrays], None]:
    """What is to be done with the scratch of all pieces when one has stopped: decide what is listed, and empty the lists."""
    return partial(_decide, formula, types, pieces, words(room, len(types) - 1))


def _decide(
    formula: Formula, types: tuple[DataType, ...], pieces: int, size: int, scratch: NDArray[np.int64], _: Arrays
) -> None:
    done = np.iinfo(np.int64).max
    for piece in scratch[: pieces * size].reshape(pieces, size):
        row, place, count = (int(x) for x in piece[:3])
        if count:
            entries = piece[STATE_WORDS : STATE_WORDS + count * len(types)].reshape(count, len(types))
            _store(entries[:, 0], exactly(formula, types, entries[:, 1:]))
            piece[2] = 0
        elif row == place == 0:
            piece[0] = done  # it has ended, and is not begun again


def exactly(formula: Formula, types: tuple[DataType, ...], inputs: NDArray[np.int64]) -> NDArray[Any]:
    """The elements that a formula gives for rows of inputs, each a word with the bits of its type."""
    with guard:
        from anydml.kernels.evaluate import evaluators

    i = each((len(inputs),))
    body, tensors = over_streams(formula, (len(inputs),), i)
    arrays = {t.name: _elements(inputs[:, int(t.name)], t.data_type) for t in tensors}
    found = evaluators({"": Nest(tuple(i), body)}, {"": types[-1]}, arrays)
    return found[""].all((len(inputs),))


def _elements(words: NDArray[np.int64], data_type: DataType) -> NDArray[Any]:
    dtype = data_type.dtype
    return words.astype(f"u{dtype.itemsize}").view(dtype)


def _store(addresses: NDArray[np.int64], elements: NDArray[Any]) -> None:
    itemsize, raw = elements.itemsize, np.ascontiguousarray(elements).tobytes()
    for k, address in enumerate(addresses.tolist()):
        ctypes.memmove(address, raw[k * itemsize : (k + 1) * itemsize], itemsize)
