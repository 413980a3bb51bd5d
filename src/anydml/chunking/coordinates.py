"""The elements along one dimension of a tensor that an index reaches while its variables run through ranges."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from anydml.kernels.match.affine import Affine, affine
from anydml.kernels.match.pieces import ON_ARRAYS, values_of
from anydml.schema.node import Expr, Variable, make
from anydml.schema.traversal import bound_by, free, rebuilt, walk

MOST = 1 << 18  # indices that are evaluated at a time
MOST_EVALUATED = 1 << 24  # indices that are evaluated for one dimension; of more, only bounds are found

Ranges = Mapping[Variable, range]


class Reached(NamedTuple):
    """The elements of a dimension that are reached: from `first` to `last`, and the blocks that have one of them.

    highest: the largest value of the index, whether it is inside the tensor or not. first is above last if none is inside.
    """

    first: int
    last: int
    blocks: frozenset[int]
    highest: int

    @property
    def empty(self) -> bool:
        return self.first > self.last

    def __or__(self, other: Reached) -> Reached:
        return Reached(
            min(self.first, other.first),
            max(self.last, other.last),
            self.blocks | other.blocks,
            max(self.highest, other.highest),
        )


def nothing(size: int) -> Reached:
    """No element of a dimension of this size."""
    return Reached(size, -1, frozenset(), -1)


def reached(e: Expr, ranges: Ranges, size: int, ends: NDArray[np.int64]) -> Reached:
    """The positions that an index reaches in a dimension of `size` elements, for variables in ranges.

    ends: where the blocks of the dimension end. Of indices that depend on data, everything is reached.
    """
    e, ranges = _opened(e, ranges)
    if (a := affine(e)) is not None and len(a.factors) <= 1:
        return _progression(_values(a, ranges), size, ends)
    names = sorted(free(e)[e], key=lambda v: v.name)
    if any(v not in ranges for v in names) or not _evaluable(e):
        return _interval(0, size - 1, size, ends)
    many = 1
    for v in names:
        many *= len(ranges[v])
    if many > MOST_EVALUATED:
        if a is None:
            return _interval(0, size - 1, size, ends)
        corners = [(f * ranges[v][0], f * ranges[v][-1]) for v, f in a.factors.items()]
        low, high = (a.constant + sum(map(pick, corners)) for pick in (min, max))
        return _interval(low, high, size, ends)
    found = nothing(size)
    for values in evaluated(e, [(v, ranges[v]) for v in names]):
        highest = int(values.max())
        inside = values[(values >= 0) & (values < size)]
        if inside.size:
            blocks = frozenset(np.unique(np.searchsorted(ends, inside, side="right")).tolist())
            found |= Reached(int(inside.min()), int(inside.max()), blocks, highest)
        else:
            found |= nothing(size)._replace(highest=highest)
    return found


def _opened(e: Expr, ranges: Ranges) -> tuple[Expr, Ranges]:
    """An index with a variable in place of each position that a reduction finds, whose range is that of all positions."""
    if not any(map(bound_by, walk(e))):
        return e, ranges
    found = dict(ranges)

    def opened(node: Expr, _: tuple[Expr, ...]) -> Expr | None:
        if node.op not in ("first_largest", "first_smallest", "rank"):
            return None
        v = Variable("place", math.prod(w.size for w in bound_by(node)))
        found[v] = range(v.size)
        return make("variable", (), v)

    return rebuilt(e, opened), found


def _values(a: Affine, ranges: Ranges) -> range:
    """The values of an affine index of at most one variable, in ascending order."""
    if not a.factors:
        return range(a.constant, a.constant + 1)
    ((v, factor),) = a.factors.items()
    ends = (a.constant + factor * ranges[v][0], a.constant + factor * ranges[v][-1])
    return range(min(ends), max(ends) + 1, abs(factor) * ranges[v].step)


def _progression(values: range, size: int, ends: NDArray[np.int64]) -> Reached:
    first = max(0, -(values.start // values.step)) if values.start < 0 else 0  # the place of the first value inside
    last = min(len(values) - 1, (size - 1 - values.start) // values.step)
    if first > last:
        return nothing(size)._replace(highest=values[-1])
    low, high = values[first], values[last]
    if values.step == 1 or len(ends) == 1:
        return _interval(low, high, size, ends)._replace(highest=values[-1])
    if last - first > len(ends):  # the blocks with a value: those where the next value from their start on is before their end
        starts = np.concatenate([[0], ends[:-1]])
        following = np.maximum(low, low + -(-(starts - low) // values.step) * values.step)
        blocks = np.flatnonzero((following < ends) & (following <= high))
    else:
        blocks = np.unique(np.searchsorted(ends, np.arange(low, high + 1, values.step), side="right"))
    return Reached(low, high, frozenset(blocks.tolist()), values[-1])


def _interval(low: int, high: int, size: int, ends: NDArray[np.int64]) -> Reached:
    first, last = max(low, 0), min(high, size - 1)
    if first > last:
        return nothing(size)._replace(highest=high)
    blocks = np.searchsorted(ends, [first, last], side="right").tolist()
    return Reached(first, last, frozenset(range(blocks[0], blocks[1] + 1)), high)


# --- evaluation ---


def evaluated(e: Expr, ranges: Sequence[tuple[Variable, range]]) -> Iterator[NDArray[np.int64]]:
    """The values of an index for all values of its variables, some at a time."""
    ordered = sorted(ranges, key=lambda x: len(x[1]), reverse=True)
    if not ordered:
        yield np.atleast_1d(np.asarray(values_of(e, {}), np.int64))
        return
    (longest, values), *others = ordered
    rest = 1
    for _, r in others:
        rest *= len(r)
    step = max(1, MOST // rest)
    for at in range(0, len(values), step):
        part = values[at : at + step]
        axes = [(longest, part), *others]
        grid = {
            v: np.arange(r.start, r.stop, r.step, dtype=np.int64).reshape([-1 if k == i else 1 for k in range(len(axes))])
            for i, (v, r) in enumerate(axes)
        }
        yield np.atleast_1d(np.asarray(values_of(e, grid), np.int64)).ravel()


def value_along(e: Expr, v: Variable) -> NDArray[np.int64] | None:
    """The values of an index along one variable, where all others are 0; None if they depend on data."""
    if not _evaluable(e):
        return None
    found = values_of(e, {**dict.fromkeys(free(e)[e], 0), v: np.arange(v.size, dtype=np.int64)})
    return np.broadcast_to(np.asarray(found, np.int64), (v.size,))


def _evaluable(e: Expr) -> bool:
    return all(node.op in ON_ARRAYS or node.op in ("variable", "constant") for node in walk(e))
