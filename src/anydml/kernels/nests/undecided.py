"""Elements that a nest's bounds leave open, decided exactly, in Python: by their places in the output."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from anydml.forks import guard
from anydml.kernels.kernel import Arrays, Decide
from anydml.kernels.nests.shape import DONE, STATE_WORDS
from anydml.schema.statement import Statement
from anydml.tensor import DataType


class Piece(NamedTuple):
    """Rows of an output. start: its first word in the scratch. order: the dimensions in the order of places, the lane last."""

    output: str
    start: int
    sizes: tuple[int, ...]
    order: tuple[int, ...]


def deciding(statement: Statement, types: dict[str, DataType], pieces: Sequence[Piece]) -> Decide:
    """A function that decides what is on the lists of all pieces."""
    return partial(_decide, statement, types, tuple(pieces))


def _decide(
    statement: Statement, types: dict[str, DataType], pieces: Sequence[Piece], scratch: NDArray[np.int64], arrays: Arrays
) -> None:
    with guard:
        from anydml.kernels.evaluate.evaluator import evaluators

    found = None
    for piece in pieces:
        row, place, count = (int(x) for x in scratch[piece.start : piece.start + 3])
        if count:
            found = found or evaluators(statement, types, arrays)
            evaluator, output = found[piece.output], arrays[piece.output]
            elements = output.view(f"u{output.itemsize}") if output.dtype.kind == "f" else output
            first = piece.start + STATE_WORDS
            for entry in scratch[first : first + count].tolist():
                at = [0] * len(piece.order)
                for d in reversed(piece.order):
                    entry, at[d] = divmod(entry, piece.sizes[d])
                elements[tuple(at)] = evaluator.stored(*at)
            scratch[piece.start + 2] = 0
        elif row == place == 0:
            scratch[piece.start] = DONE  # it has ended, and is not begun again
