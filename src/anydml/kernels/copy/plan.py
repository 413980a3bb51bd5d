"""The canonical form of a strided copy, and the choice of its kernel. Everything is counted in bytes."""

from __future__ import annotations

from collections.abc import Iterable
from operator import itemgetter
from typing import NamedTuple

SHORT = 32  # the longest row of elements, in bytes of output, whose length is compiled in
BLOCK = 128  # the largest group of output bytes whose pattern is compiled in
APART = 64  # the largest step between single elements at which loads of 16 bytes and permutes beat plain moves
WOVEN = 4  # interleaved rows at most
REACH = 1024  # bytes of input that a group may span: beyond that, permutes do not pay


class CopyDimension(NamedTuple):
    size: int
    source: int  # stride in the input
    target: int  # stride in the output


_target_stride = itemgetter(2)


class CopyPlan(NamedTuple):
    """The plan of a copy.

    kind: "rows" (contiguous in both tensors), "groups" (a constant pattern, repeated along a row), "tiles" (a transposition),
    "interleaved" (rows whose elements are interleaved) or "elements" (anything). pattern: for groups, the input offset of each
    output byte of a group; for rows, empty; for others, (0, .., n-1). step: for groups, input bytes from group to group; for
    interleaved rows, their number. row: the innermost dimension, in bytes for rows, in groups for groups, else in elements; for
    interleaved rows, its source stride is the distance between them.
    outer: the dimensions around the row, innermost first. base: bytes to add to the input's and the output's address.
    """

    kind: str
    pattern: tuple[int, ...]
    step: int
    row: CopyDimension
    outer: tuple[CopyDimension, ...]
    base: tuple[int, int]


def canonical(sizes: Iterable[int], sources: Iterable[int], targets: Iterable[int]) -> list[CopyDimension]:
    """The dimensions, outermost in the output first: without sizes of 1, and merged where both tensors are contiguous."""
    dims = [CopyDimension(*d) for d in zip(sizes, sources, targets, strict=True) if d[0] > 1]
    dims.sort(key=_target_stride, reverse=True)  # dimensions with equal strides keep their order
    merged: list[CopyDimension] = []
    for inner in dims:
        if merged:
            outer = merged[-1]
            if outer.source == inner.size * inner.source and outer.target == inner.size * inner.target:
                merged[-1] = CopyDimension(outer.size * inner.size, inner.source, inner.target)
                continue
        merged.append(inner)
    return merged


def plan(dims: list[CopyDimension], itemsize: int) -> CopyPlan:
    """The kernel for canonical dimensions of elements of `itemsize` bytes."""
    element = tuple(range(itemsize))
    if not dims:
        return CopyPlan("elements", element, 0, CopyDimension(1, 0, 0), (), (0, 0))
    *outer, inner = dims
    if inner.target != itemsize:
        return CopyPlan("elements", element, 0, inner, tuple(reversed(outer)), (0, 0))
    if inner.size * itemsize <= SHORT and not any(d.source for d in dims):  # a repeated element: short rows share code
        return CopyPlan("elements", element, 0, inner, tuple(reversed(outer)), (0, 0))
    if inner.source == itemsize and (inner.size * itemsize > SHORT or not outer or outer[-1].target != inner.size * itemsize):
        return CopyPlan("rows", (), 0, CopyDimension(inner.size * itemsize, 1, 1), tuple(reversed(outer)), (0, 0))
    if (tiles := _tiles(dims, itemsize)) is not None:
        return tiles
    if (woven := _interleaved(dims, itemsize)) is not None:
        return woven
    pattern, rest = element, list(dims)
    # the pattern of short rows is compiled in; long rows of one stride share their code whatever their length
    while (
        rest
        and rest[-1].target == len(pattern)
        and rest[-1].size * len(pattern) <= (BLOCK if len(pattern) > itemsize else SHORT)
    ):
        d = rest.pop()
        pattern = tuple(offset + i * d.source for i in range(d.size) for offset in pattern)
    if rest and rest[-1].target == len(pattern):
        row = rest.pop()
    else:
        row = CopyDimension(1, 0, len(pattern))
    if max(pattern) - min(pattern) > REACH or (pattern == element and abs(row.source) > APART):
        return CopyPlan("elements", element, 0, inner, tuple(reversed(outer)), (0, 0))
    return CopyPlan("groups", pattern, row.source, row, tuple(reversed(rest)), (0, 0))


def _interleaved(dims: list[CopyDimension], itemsize: int) -> CopyPlan | None:
    """A few rows of the input, far apart, whose elements are interleaved in the output."""
    *outer, inner = dims
    if not outer or inner.size > WOVEN or abs(inner.source) <= REACH:
        return None
    across = outer.pop()
    if across.source != itemsize or across.target != inner.size * itemsize or across.size * itemsize < 16:
        return None
    row = CopyDimension(across.size, inner.source, across.target)
    return CopyPlan("interleaved", tuple(range(itemsize)), inner.size, row, tuple(reversed(outer)), (0, 0))


def _tiles(dims: list[CopyDimension], itemsize: int) -> CopyPlan | None:
    """A transposition: the output's innermost dimension is strided in the input, where another one is contiguous."""
    *outer, inner = dims
    if abs(inner.source) < 64:
        return None
    for at in range(len(outer) - 1, -1, -1):
        across = outer[at]
        if abs(across.source) == itemsize and across.size * itemsize >= 16 and inner.size * itemsize >= 32:
            base = (0, 0)
            if across.source < 0:  # begin at its other end, so that the input is read forwards
                last = across.size - 1
                base = (last * across.source, last * across.target)
                across = CopyDimension(across.size, -across.source, -across.target)
            around = [d for i, d in enumerate(outer) if i != at]
            return CopyPlan("tiles", tuple(range(itemsize)), 0, inner, (across, *reversed(around)), base)
    return None
