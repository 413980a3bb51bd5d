"""Elements that bounds leave open, decided exactly, in Python: each has a bit that is set."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from anydml.fork_safety import guard
from anydml.kernels.kernel import Arrays
from anydml.kernels.match.attention import Attention
from anydml.schema.statement import Nest
from anydml.tensor import DataType


class AttentionBits(NamedTuple):
    """The bits of attention: rows of so many bytes from a place of the scratch on, one for each query."""

    attention: Attention
    place: int
    rows: int
    row: int


def deciding(found: AttentionBits, nest: Nest, data_type: DataType) -> Callable[[NDArray[np.int64], Arrays], None]:
    """A function that decides the elements whose bits are set in a scratch."""
    return partial(_decide, found, nest, data_type)


def _decide(found: AttentionBits, nest: Nest, data_type: DataType, scratch: NDArray[np.int64], arrays: Arrays) -> None:
    with guard:
        from anydml.kernels.evaluate.evaluator import evaluators

    target = found.attention.output
    evaluator = evaluators({target.name: nest}, {target.name: data_type}, arrays)[target.name]
    output = arrays[target.name]
    elements = output.view(f"u{output.itemsize}")
    first, words = found.place // 8, found.rows * found.row // 8
    bits = np.unpackbits(scratch[first : first + words].view(np.uint8), bitorder="little")
    *outer, column = found.attention.variables
    sizes = (*(1 if v is None else v.size for v in outer), 8 * found.row)
    for n in np.flatnonzero(bits):
        values = dict(zip((*outer, column), map(int, np.unravel_index(n, sizes)), strict=True))
        at = tuple(x.constant + sum(f * values[v] for v, f in x.factors.items()) for x in target.at)
        elements[at] = evaluator.stored(*at)
