"""How tensors lie against {batch, rows, columns}, parts of the output, and memory to work in."""

from __future__ import annotations

from itertools import pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from anydml.kernels.cpu.jit.steps import At
from anydml.tensor import TensorDesc


class Matrix(NamedTuple):
    """How a tensor lies against {batch, rows, columns}: offsets of the batches and strides, in bytes; 0 where it repeats."""

    at: At
    batches: NDArray[np.int64]
    row: int
    column: int

    def of(self, batch: int, row: int = 0, column: int = 0) -> At:
        return self.at + (int(self.batches[batch]) + row * self.row + column * self.column)

    def varies(self) -> bool:
        return bool((self.batches != self.batches[0]).any())


def matrix(name: str, t: TensorDesc | None, lead: tuple[int, ...]) -> Matrix:
    """The tensor of a name, or the zero that stands for one that is left out."""
    if t is None:
        return Matrix(At("constants"), np.zeros(np.prod(lead, dtype=np.int64), np.int64), 0, 0)
    size = t.data_type.dtype.itemsize
    along = list(zip(t.sizes, t.explicit_strides, strict=True))
    along = [(1, 0)] * (len(lead) + 2 - len(along)) + along[max(0, len(along) - len(lead) - 2) :]
    *outer, row, column = [stride * size if n > 1 else 0 for n, stride in along]
    offsets = np.zeros((), np.int64)
    for n, stride in zip(lead, outer, strict=True):
        offsets = offsets[..., None] + stride * np.arange(n)
    return Matrix(At(name), offsets.reshape(-1), row, column)


class Part(NamedTuple):
    """A part of the output."""

    batches: range
    rows: range
    panels: range


def cut(part: Part, count: int, name: str = "") -> list[Part]:
    """At most so many parts, cut where that costs least, if nothing is named: between batches, else panels, else rows."""
    batches, rows, panels = (len(x) for x in part)
    name = name or ("batches" if batches >= count else "panels" if panels >= 2 * count else "rows" if rows >= 2 * count else "")
    if count == 1 or not name:
        return [part]
    values = getattr(part, name)
    ends = [values.start + len(values) * i // count for i in range(count + 1)]
    return [part._replace(**{name: range(a, b)}) for a, b in pairwise(ends)]


class Scratch:
    """Memory that a call works in, handed out in cache lines."""

    def __init__(self, base: str) -> None:
        self.base, self.size = base, 0

    def take(self, nbytes: int) -> At:
        at = At(self.base, self.size)
        self.size += -(-nbytes // 64) * 64
        return at
