"""Each thread's piece of a contraction, and the turns of a piece, between which a call can be interrupted."""

from __future__ import annotations

from itertools import pairwise, product
from math import prod
from typing import NamedTuple

from anydml.kernels.contract.floats.layout import FloatLayout


class ThreadShare(NamedTuple):
    """The piece of one thread: some of the batches, rows and columns."""

    batches: range
    rows: range
    columns: range


def pieces(found: FloatLayout, height: int, width: int, count: int, packed: tuple[bool, bool]) -> list[ThreadShare]:
    """At most `count` pieces: of batches, or of the grid of rows and columns that packs the fewest elements repeatedly.

    height, width: of tiles and panels, which are not cut. packed: whether rows, and columns, are packed beforehand.
    """
    sizes = ((prod(found.batches), 1), (found.rows, height), (found.columns, width))
    units = [-(-size // unit) for size, unit in sizes]
    grids = [(r, count // r) for r in range(1, count + 1) if count % r == 0]
    grids = [g for g in grids if all(n == 1 or most >= 2 * n for n, most in zip(g, units[1:], strict=True))]
    if units[0] >= 2 * count:
        parts = [count, 1, 1]
    elif grids:
        rows, columns = (0 if done else size for done, size in zip(packed, (found.rows, found.columns), strict=True))
        parts = [1, *min(grids, key=lambda grid: (grid[1] * rows + grid[0] * columns, grid[0]))]
    else:
        parts = [min(count, most) if most == max(units) and most not in units[:k] else 1 for k, most in enumerate(units)]
    return [ThreadShare(*ranges) for ranges in product(*(_parts(*size, n) for size, n in zip(sizes, parts, strict=True)))]


def _parts(size: int, unit: int, count: int) -> list[range]:
    """`count` parts of whole units; only the last unit may be partial."""
    units = -(-size // unit)
    ends = [min(units * k // count * unit, size) for k in range(count)] + [size]
    return [range(a, b) for a, b in pairwise(ends)]


def turns(piece: ThreadShare, width: int, count: int) -> list[ThreadShare]:
    """A piece in at most `count` turns."""
    name, unit = ("batches", 1) if len(piece.batches) >= count else ("columns", width)
    items: range = getattr(piece, name)
    most = -(-len(items) // (count * unit)) * unit
    return [piece._replace(**{name: items[i : i + most]}) for i in range(0, len(items), most)]
