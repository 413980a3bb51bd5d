"""Layouts of tensors as {batch, rows, columns}, parts of the output, and scratch."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from anydml.kernels.call.steps import At
from anydml.tensor import TensorDesc

Batch = tuple[int, int]


class Matrix(NamedTuple):
    """The layout of a tensor as {outer batch, inner batch, rows, columns}: strides in bytes; 0 where it repeats."""

    at: At
    outer: int
    inner: int
    row: int
    column: int

    def of(self, batch: Batch, row: int = 0, column: int = 0) -> At:
        return self.at + (batch[0] * self.outer + batch[1] * self.inner + row * self.row + column * self.column)

    def varies(self) -> bool:
        """Whether it differs between batches."""
        return bool(self.outer or self.inner)


class StridedColumns(NamedTuple):
    """A strided matrix {k, n} for every batch. owned: whether it is packed once, at `initialize`."""

    matrix: Matrix
    owned: bool


def evened(found: Sequence[Matrix], sizes: Sequence[int]) -> tuple[list[Matrix], Batch]:
    """The layouts with two dimensions of batches; if one stride serves both in all layouts, all batches are in the inner
    one."""
    if all(t.outer == t.inner * sizes[1] for t in found) or sizes[1] == 1:
        return [t._replace(outer=0, inner=t.outer if sizes[1] == 1 else t.inner) for t in found], (1, math.prod(sizes))
    return list(found), (sizes[0], sizes[1])


def matrix(name: str, t: TensorDesc) -> Matrix:
    """The layout of a tensor whose last dimensions are batches, rows and columns."""
    size = t.data_type.dtype.itemsize
    strides = [stride * size if n > 1 else 0 for n, stride in zip(t.sizes, t.explicit_strides, strict=True)]
    outer, inner, row, column = ([0] * 4 + strides)[-4:]
    return Matrix(At(name), outer, inner, row, column)


class OutputPart(NamedTuple):
    """A part of the output: `outer` x `inner` batches, rows, and panels of columns."""

    outer: range
    inner: range
    rows: range
    panels: range

    @property
    def first(self) -> Batch:
        return self.outer.start, self.inner.start


def cut(part: OutputPart, count: int, name: str = "") -> list[OutputPart]:
    """At most `count` parts; name: the dimension to cut. If it is not given, the cheapest is cut: batches, else panels, else
    rows."""
    outer, inner, rows, panels = (len(x) for x in part)
    if not name:
        chosen = {"outer": outer >= count, "inner": inner >= count, "panels": panels >= 2 * count, "rows": rows >= 2 * count}
        name = next((x for x, enough in chosen.items() if enough), "outer" if outer > inner else "inner")
    values = getattr(part, name)
    count = min(count, len(values))
    ends = [values.start + len(values) * i // count for i in range(count + 1)]
    return [part._replace(**{name: range(a, b)}) for a, b in pairwise(ends)]


class ConstantTables:
    """Tables that steps read, in one array. none: its start, 64 bytes of zeros. begun: its first bytes, whole cache lines."""

    none = At("constants")

    def __init__(self, begun: bytes = bytes(64)) -> None:
        self.parts, self.size = [begun], len(begun)

    def add(self, table: NDArray[Any]) -> At:
        raw, at = table.tobytes(), At("constants", self.size)
        self.parts.append(raw + bytes(-len(raw) % 64))
        self.size += len(self.parts[-1])
        return at

    def array(self) -> NDArray[np.uint8]:
        return np.frombuffer(bytearray().join(self.parts), np.uint8)


class Scratch:
    """Memory for a call, handed out in cache lines."""

    def __init__(self, base: str) -> None:
        self.base, self.size = base, 0

    def take(self, nbytes: int) -> At:
        at = At(self.base, self.size)
        self.size += -(-nbytes // 64) * 64
        return at
