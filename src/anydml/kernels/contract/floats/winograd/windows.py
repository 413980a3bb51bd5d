"""Layouts of 3x3 and 5x5 windows at every position of two dimensions, and the sizes for which Winograd's transforms pay."""

from __future__ import annotations

import math
from typing import NamedTuple

from anydml.kernels.contract.floats import tuning
from anydml.kernels.contract.floats.layout import FloatLayout
from anydml.kernels.contract.floats.winograd.transform import TILE, TRANSFORMS
from anydml.kernels.match.contraction import Contraction

# least filters and products for each size of windows: below these, the transforms cost as much as they save, or it is not worth
# compiling kernels
LEAST = {3: (5, 1 << 20), 5: (5, 1 << 17)}
LEAST_OUTPUTS = 25  # of an image; also, at least half of its tiles' elements must be outputs


class WinogradWindows(NamedTuple):
    """Windows of taps x taps with stride 1. a, b: the offset of the filter's first position in each factor; line, place: the
    filter's strides in bytes along lines and along places in a line. low, high: the half-open ranges of lines, and of places,
    inside of the tensor, among those that windows read, which are taps - 1 more than the outputs."""

    taps: int
    a: int
    b: int
    line: int
    place: int
    low: tuple[int, int]
    high: tuple[int, int]


def windowed(c: Contraction) -> int | None:
    """The factor that is read in windows: it has an index with several variables."""
    several = [any(sum(v.size > 1 for v in index.factors) > 1 for index in f.at) for f in c.factors]
    return several.index(True) if any(several) else None


def windows(found: FloatLayout) -> WinogradWindows | None:
    """The windows of a layout; None if there are no transforms for them."""
    sizes, taps = (found.sizes[1], found.sizes[2]), _taps(found)
    if taps is None or min(sizes) < 1:
        return None
    table, (_, down, across) = found.table.tolist(), found.b.columns
    first = min(entry[0] for entry in table)
    places = {entry[0] - first: entry for entry in table}
    steps = [(p, q) for p in range(taps) for q in range(taps)]
    if set(places) != {p * down + q * across for p, q in steps} or len(places) != len(table):
        return None
    at = {(p, q): places[p * down + q * across] for p, q in steps}
    a, last = at[0, 0][1], taps - 1
    line, place = at[1, 0][1] - a, at[0, 1][1] - a
    low, high = (at[0, 0][4], at[0, 0][6]), (at[last, last][5] + last, at[last, last][7] + last)
    for (p, q), entry in at.items():
        inside = [0, found.sizes[0]]
        for k, step in enumerate((p, q)):
            start = max(low[k] - step, 0)
            inside += [start, max(min(high[k] - step, sizes[k]), start)]
        if entry[1] != a + p * line + q * place or entry[2:] != inside:
            return None
    return WinogradWindows(taps, a, first, line, place, low, high)


def _taps(found: FloatLayout) -> int | None:
    return next((n for n in TRANSFORMS if len(found.table) == n * n), None)


def pays(found: FloatLayout) -> bool:
    """Whether there are transforms for as many taps, and enough channels, filters and outputs for these to pay."""
    taps = _taps(found)
    if taps is None:
        return False
    rows, products = LEAST[taps]
    outputs = found.sizes[1] * found.sizes[2]
    tiles = -(-found.sizes[1] // TILE) * -(-found.sizes[2] // TILE)
    channels = tuning.TUNING.fewest_channels if taps == 3 else tuning.TUNING.fewest_channels_of_5
    many = found.channels >= channels and found.rows >= rows and outputs >= LEAST_OUTPUTS
    work = math.prod(found.batches) * found.rows * found.columns * found.terms
    return many and work >= products and 2 * outputs >= tiles * TILE * TILE
