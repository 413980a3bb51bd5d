"""The order in which elements are visited: rows of the output, and the layout of each stream's elements along them."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple

from anydml.kernels.call.signature import Arguments

SHORT = 16  # elements of a row below which a longer dimension is preferred
NEAR = 24 << 10  # bytes that stay in the first-level cache
TILE = 64  # elements of a row if an input is read across its own rows


class MapDimension(NamedTuple):
    """A dimension, and the bytes from one element to the next in every stream."""

    size: int
    strides: tuple[int, ...]

    def arguments(self, size: str, strides: str) -> Arguments:
        """The arguments of a kernel for this dimension, see `names`."""
        return {size: self.size, **{f"{strides}_{k}": s for k, s in enumerate(self.strides)}}


def names(size: str, strides: str, streams: int) -> list[str]:
    """The names of a kernel's arguments for a dimension: its size, and the strides of all streams."""
    return [size, *(f"{strides}_{k}" for k in range(streams))]


class Box(NamedTuple):
    """A box of elements. offsets: bytes to its first element in every stream. outer: the outermost dimension first."""

    offsets: tuple[int, ...]
    outer: tuple[MapDimension, ...]
    row: MapDimension

    @property
    def rows(self) -> int:
        return math.prod(d.size for d in self.outer)


def parts(sizes: Sequence[int], strides: Sequence[Sequence[int]], itemsizes: Sequence[int]) -> list[Box]:
    """The elements in one or two boxes; strides: for every stream, in bytes, those of the output last."""
    dims = [MapDimension(n, tuple(s[d] for s in strides)) for d, n in enumerate(sizes) if n > 1]
    dims.sort(key=lambda d: (abs(d.strides[-1]), sum(map(abs, d.strides))), reverse=True)
    dims = merged(dims) or [MapDimension(1, tuple(0 for _ in strides))]
    start = tuple(0 for _ in strides)
    at = len(dims) - 1
    if dims[at].size < SHORT:
        longest = max(range(len(dims)), key=lambda d: dims[d].size)
        if dims[longest].size >= 4 * dims[at].size:
            at = longest
    row, outer = dims[at], [*dims[:at], *dims[at + 1 :]]
    across = _across(row, outer, itemsizes)
    if across is not None:
        # an input is read across its rows: a tile reads few of its cache lines, but all elements in them
        return _tiled(row, TILE, [d for i, d in enumerate(outer) if i != across], [outer[across]])
    if at < len(outer):
        # the output is written across its short rows: cache lines written in part are still cached for the next row
        lines = NEAR // max(1, sum(map(abs, row.strides)))
        return _tiled(row, max(TILE, lines // TILE * TILE), outer[:at], outer[at:])
    return [Box(start, tuple(outer), row)]


def _tiled(row: MapDimension, size: int, around: list[MapDimension], within: list[MapDimension]) -> list[Box]:
    """Boxes with rows of `size` elements, and of the remainder: all rows of `within` come before the next tile."""
    start = tuple(0 for _ in row.strides)
    if row.size <= size:
        return [Box(start, (*around, *within), row)]
    tiles, rest = divmod(row.size, size)
    far = MapDimension(tiles, tuple(s * size for s in row.strides))
    found = [Box(start, (*around, far, *within), MapDimension(size, row.strides))]
    if rest:
        offsets = tuple(s * size * tiles for s in row.strides)
        found.append(Box(offsets, (*around, *within), MapDimension(rest, row.strides)))
    return found


def merged(dims: list[MapDimension]) -> list[MapDimension]:
    """The dimensions, with neighbours merged where one continues the other without gaps in every stream."""
    made: list[MapDimension] = []
    for d in dims:
        if made and all(a == b * d.size for a, b in zip(made[-1].strides, d.strides, strict=True)):
            made[-1] = MapDimension(made[-1].size * d.size, d.strides)
        else:
            made.append(d)
    return made


def _across(row: MapDimension, outer: Sequence[MapDimension], itemsizes: Sequence[int]) -> int | None:
    """The outer dimension along which an input is contiguous that a row reads with large strides; None if there is none."""
    for stream, itemsize in enumerate(itemsizes[:-1]):
        if abs(row.strides[stream]) >= 2 * 64:
            for at, d in enumerate(outer):
                if 0 < abs(d.strides[stream]) <= itemsize and d.size >= SHORT:
                    return at
    return None


def shares(part: Box, count: int, grain: int) -> Iterator[tuple[Box, int, int]]:
    """A part split into at most `count` shares: each is a box, its first row and its number of rows.

    grain: a row is split at multiples of this many elements.
    """
    if part.rows >= count:
        ends = [part.rows * k // count for k in range(count + 1)]
        for first, end in pairwise(ends):
            yield part, first, end - first
        return
    blocks = -(-part.row.size // grain)
    count = min(count, blocks)
    ends = [min(part.row.size, blocks * k // count * grain) for k in range(count + 1)]
    for first, end in pairwise(ends):
        offsets = tuple(o + first * s for o, s in zip(part.offsets, part.row.strides, strict=True))
        yield Box(offsets, part.outer, MapDimension(end - first, part.row.strides)), 0, part.rows
