"""The key of a kernel of rows, from the layout of the rows."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from anydml.kernels.code.targets import Target
from anydml.kernels.elementwise.geometry import MapDimension
from anydml.kernels.elementwise.streams import CONSTANT, CONTIGUOUS, PLACE, POSITION, STRIDED
from anydml.kernels.match.rows import Rows
from anydml.kernels.reduce import tuning
from anydml.kernels.reduce.key import ReductionKey
from anydml.kernels.reduce.staging import pitch, together
from anydml.tensor import DataType

KEPT = 1 << 15  # elements of a row up to which values are kept from one pass to the next


def shape_of(
    target: Target,
    r: Rows,
    types: tuple[DataType, ...],
    row: MapDimension,
    outer: Sequence[MapDimension],
    around: Sequence[MapDimension],
) -> ReductionKey:
    """The key for rows with this layout; around: the dimensions of a row's lines, except the one that lines run along."""
    moves = [any(d.strides[k] for d in (*around, row)) for k in range(len(types))]
    layouts = tuple(
        (POSITION if moves[k] else PLACE)
        if k < len(r.streams) and r.streams[k].name is None
        else CONSTANT
        if not moves[k] and k < len(r.streams)
        else CONTIGUOUS
        if row.strides[k] == t.dtype.itemsize or (row.size == 1 and k == len(r.streams))
        else STRIDED
        for k, t in enumerate(types)
    )
    lines = prod(d.size for d in around)
    staged, rows_together = _staged(target, r, types, row, outer) if lines == 1 else ((), 1)
    layouts = tuple(CONTIGUOUS if k in staged else x for k, x in enumerate(layouts))
    lanes = target.vector_bytes // 4
    most = _power_of_two(lines * row.size)
    additions = _power_of_two(-(-row.size // lanes) + 1)
    keeps = lines * (row.size + 2 * lanes) <= 2 * KEPT
    return ReductionKey(
        r.formula, r.mapped, r.integral, types, layouts, len(outer), lanes, 4, most, additions, len(around),
        _power_of_two(lines), keeps, staged, rows_together, r.formula,
    )  # fmt: skip


def _staged(
    target: Target, r: Rows, types: tuple[DataType, ...], row: MapDimension, outer: Sequence[MapDimension]
) -> tuple[tuple[int, ...], int]:
    """The streams whose neighbouring rows have neighbouring elements, and the number of rows that are copied to memory at
    once."""
    sizes = [t.dtype.itemsize for t in types]
    found = [
        k
        for k, size in enumerate(sizes)
        if (r.streams[k].name is not None if k < len(r.streams) else r.mapped)
        and outer
        and outer[-1].strides[k] == size
        and abs(row.strides[k]) > size
        and row.size * size >= target.vector_bytes
        and outer[-1].size * size >= target.vector_bytes
    ]
    if not found:
        return (), 1
    rows_together = together([sizes[k] for k in found])
    if sum(pitch(row.size, sizes[k]) for k in found) * rows_together > tuning.TUNING.staged:
        return (), 1
    return tuple(found), rows_together


def _power_of_two(n: int) -> int:
    """The smallest power of two that is at least n."""
    return 1 << max(n - 1, 0).bit_length()
