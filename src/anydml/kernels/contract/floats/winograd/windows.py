"""Layouts that are 3x3 windows at every position of two dimensions, and which of them transforms pay for."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from anydml.kernels.contract.floats.layout import FloatLayout
from anydml.kernels.contract.floats.winograd.transform import FILTER, TILE
from anydml.kernels.match.contraction import Contraction

# below, as much is lost in the transforms as is saved in products; fewer products at all are not worth more code
LEAST_CHANNELS, LEAST_ROWS = 3, 5
LEAST_OUTPUTS = 25  # of an image; and of its tiles, half are to be outputs
LEAST_WORK = 1 << 20


class WinogradWindows(NamedTuple):
    """Windows whose first element is at the output's own position. a, b: bytes from a factor's start to the first position
    of the filter; line, place: bytes from one of its lines, and from one of its places, to the next. low, high: the lines, and
    then the places in a line, that are inside of the tensor, of those that windows reach: two more than there are outputs."""

    a: int
    b: int
    line: int
    place: int
    low: tuple[int, int]
    high: tuple[int, int]


def windowed(c: Contraction) -> int | None:
    """The factor of which windows are read: that of an index with several variables."""
    several = [any(sum(v.size > 1 for v in index.factors) > 1 for index in f.at) for f in c.factors]
    return several.index(True) if any(several) else None


def windows(found: FloatLayout) -> WinogradWindows | None:
    """The windows of a layout; None where it has no such ones."""
    table, (_, down, across) = found.table, found.b.columns
    sizes = (found.sizes[1], found.sizes[2])
    if len(table) != FILTER * FILTER or min(sizes) < 1:
        return None
    first = int(table[:, 0].min())
    places = {int(entry[0]) - first: entry for entry in table}
    steps = [(p, q) for p in range(FILTER) for q in range(FILTER)]
    if set(places) != {p * down + q * across for p, q in steps} or len(places) != len(table):
        return None
    at = {(p, q): places[p * down + q * across] for p, q in steps}
    a = int(at[0, 0][1])
    line, place = (int(at[step][1]) - a for step in ((1, 0), (0, 1)))
    low = (int(at[0, 0][4]), int(at[0, 0][6]))
    high = (int(at[2, 2][5]) + 2, int(at[2, 2][7]) + 2)
    for (p, q), entry in at.items():
        inside = [0, found.sizes[0]]
        for k, step in enumerate((p, q)):
            start = max(low[k] - step, 0)
            inside += [start, max(min(high[k] - step, sizes[k]), start)]
        if entry[1] != a + p * line + q * place or not np.array_equal(entry[2:], inside):
            return None
    return WinogradWindows(a, first, line, place, low, high)


def pays(found: FloatLayout) -> bool:
    """Whether there are channels, filters and outputs enough for the transforms to cost less than they save."""
    outputs = found.sizes[1] * found.sizes[2]
    tiles = -(-found.sizes[1] // TILE) * -(-found.sizes[2] // TILE)
    many = found.channels >= LEAST_CHANNELS and found.rows >= LEAST_ROWS and outputs >= LEAST_OUTPUTS
    work = math.prod(found.batches) * found.rows * found.columns * found.terms
    return many and work >= LEAST_WORK and 2 * outputs >= tiles * TILE * TILE
