"""Elements that a nest's bounds leave open, decided exactly, in Python: by their places in the output."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from anydml.fork_safety import guard
from anydml.kernels.kernel import Arrays, Decide
from anydml.kernels.nests.shape import DONE, STATE_WORDS
from anydml.schema.statement import Statement
from anydml.tensor import DataType

if TYPE_CHECKING:
    from anydml.kernels.evaluate.evaluator import Evaluator, Evaluators


class NestPiece(NamedTuple):
    """Rows of outputs. start: the first word in the scratch. order: the dimensions in the order of places, the lane last.

    kept: the inputs whose elements are on the list, behind their place.
    """

    outputs: tuple[str, ...]
    start: int
    sizes: tuple[int, ...]
    order: tuple[int, ...]
    kept: tuple[str, ...]


def deciding(statement: Statement, types: dict[str, DataType], phases: Sequence[Sequence[NestPiece]]) -> Decide:
    """A function that decides what is on the lists of all pieces, in their phases."""
    return partial(_decide, statement, types, tuple(map(tuple, phases)), [])


def _decide(
    statement: Statement,
    types: dict[str, DataType],
    phases: Sequence[Sequence[NestPiece]],
    made: list[Evaluators],
    scratch: NDArray[np.int64],
    arrays: Arrays,
) -> None:
    """made: the statement's evaluators, as soon as they were needed."""
    # a phase begins when all pieces of the one before have ended, and leaves a trace where it stops
    begun = max((k for k, pieces in enumerate(phases) if any(_state(scratch, piece) != [0] * 3 for piece in pieces)), default=0)
    for piece in (piece for pieces in phases[: begun + 1] for piece in pieces):
        row, place, count = _state(scratch, piece)
        if count:
            if not made:
                with guard:
                    from anydml.kernels.evaluate.evaluator import Evaluators

                made.append(Evaluators(statement, types))
            words, first = 1 + len(piece.kept), piece.start + STATE_WORDS
            entries = scratch[first : first + count * words].reshape(count, words)
            read = {**arrays, **_elements(piece, entries, arrays)} if piece.kept else arrays
            with made[0].reading(read) as evaluator:
                _store(piece, entries, evaluator, arrays)
            scratch[piece.start + 2] = 0
        elif row == place == 0:
            scratch[piece.start] = DONE  # it has ended, and is not begun again


def _store(piece: NestPiece, entries: NDArray[np.int64], evaluator: Mapping[str, Evaluator], arrays: Arrays) -> None:
    """Store the elements of a list."""
    for k, entry in enumerate(entries[:, 0].tolist()):
        at = [0] * len(piece.order)
        for d in reversed(piece.order):
            entry, at[d] = divmod(entry, piece.sizes[d])
        source = [k, *(0 for _ in at[1:])] if piece.kept else at
        stored = [evaluator[name].stored(*source) for name in piece.outputs]
        for name, element in zip(piece.outputs, stored, strict=True):
            output = arrays[name]
            (output.view(f"u{output.itemsize}") if output.dtype.kind == "f" else output)[tuple(at)] = element


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
