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


def deciding(statement: Statement, types: dict[str, DataType], phases: Sequence[Sequence[Piece]]) -> Decide:
    """A function that decides what is on the lists of all pieces, in their phases."""
    return partial(_decide, statement, types, tuple(map(tuple, phases)))


def _decide(
    statement: Statement,
    types: dict[str, DataType],
    phases: Sequence[Sequence[Piece]],
    scratch: NDArray[np.int64],
    arrays: Arrays,
) -> None:
    with guard:
        from anydml.kernels.evaluate.evaluator import evaluators

    found = None
    # a phase begins when all pieces of the one before have ended, and leaves a trace where it stops
    begun = max((k for k, pieces in enumerate(phases) if any(_state(scratch, piece) != [0] * 3 for piece in pieces)), default=0)
    for piece in (piece for pieces in phases[: begun + 1] for piece in pieces):
        row, place, count = _state(scratch, piece)
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


def _state(scratch: NDArray[np.int64], piece: Piece) -> list[int]:
    found: list[int] = scratch[piece.start : piece.start + 3].tolist()
    return found
