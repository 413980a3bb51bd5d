"""Sums of integer expressions in NumPy's integers, many at a time, if all intermediate results fit 64 bits."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import product
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from anydml.schema.node import Expr, Variable, is_integer
from anydml.schema.traversal import bound_by
from anydml.tensor import limits

AT_ONCE = 1 << 16  # terms that are computed at once: half a megabyte, which the nearest caches hold
FEW = 64  # with fewer terms in all sums together, NumPy's calls cost more than Python's loops
MOST = 1 << 62
Interval = tuple[int, int]


class Along(NamedTuple):
    """The values of a variable, along one of several axes."""

    values: range
    axis: int
    axes: int

    def indices(self) -> NDArray[np.int64]:
        shape = [1] * self.axes
        shape[self.axis] = len(self.values)
        return np.arange(self.values.start, self.values.stop, dtype=np.int64).reshape(shape)


Place = Mapping[Variable, "Along | int"]


def summed(e: Expr, variables: Sequence[Variable], arrays: Mapping[str, NDArray[Any]]) -> Callable[..., int] | None:
    """A sum as a function of the variables that it depends on, or None if it has to be computed in another way.

    Its terms are integers that are read, constants and indices, added, subtracted and multiplied. arrays: the tensors.
    """
    bound = bound_by(e)
    terms = math.prod(v.size for v in bound)
    if len(e.args) != 1 or terms * math.prod(v.size for v in variables) < FEW:
        return None
    within = _interval(e.args[0], {})
    if within is None or max(map(abs, within)) * terms >= MOST:
        return None
    return _SharedSums(e.args[0], bound, variables, arrays)


class _SharedSums:
    """Sums of one expression. Those that differ only in the last variables are computed together."""

    def __init__(self, body: Expr, bound: Sequence[Variable], variables: Sequence[Variable], arrays: Mapping[str, Any]) -> None:
        self._body, self._bound, self._arrays = body, bound, arrays
        together, size = len(variables), math.prod(v.size for v in bound)
        while together and size * variables[together - 1].size <= AT_ONCE:
            together -= 1
            size *= variables[together].size
        self._apart, self._together = variables[:together], variables[together:]
        self._at: tuple[int, ...] | None = None
        self._totals: NDArray[np.int64] = np.empty(0, np.int64)

    def __call__(self, *values: int) -> int:
        count = len(self._apart)
        if values[:count] != self._at:
            self._totals, self._at = self._computed(values[:count]), values[:count]
        return int(self._totals.item(*values[count:]))

    def _computed(self, values: Sequence[int]) -> NDArray[np.int64]:
        axes = (*self._together, *self._bound)
        place: dict[Variable, Along | int] = dict(zip(self._apart, values, strict=True))
        for axis, v in enumerate(self._together):
            place[v] = Along(range(v.size), axis, len(axes))
        inner = tuple(range(len(self._together), len(axes)))
        totals = np.zeros([v.size for v in self._together], np.int64)
        for ranges in _pieces([v.size for v in self._bound]):
            for axis, v, part in zip(inner, self._bound, ranges, strict=True):
                place[v] = Along(part, axis, len(axes))
            made = np.asarray(_evaluated(self._body, place, self._arrays, {}), np.int64)
            whole = (*totals.shape, *map(len, ranges))
            totals += np.broadcast_to(made, whole).sum(axis=inner)
        return totals


def _pieces(sizes: Sequence[int]) -> Iterator[tuple[range, ...]]:
    """The ranges of variables in pieces of at most AT_ONCE places: the last ones whole, if they can be."""
    steps, room = [], AT_ONCE
    for size in reversed(sizes):
        steps.append(max(1, min(size, room)))
        room //= steps[-1]
    cut = [[range(a, min(a + n, size)) for a in range(0, size, n)] for size, n in zip(sizes, reversed(steps), strict=True)]
    yield from product(*cut)


def _interval(e: Expr, known: dict[Expr, Interval | None]) -> Interval | None:
    """The range of a node's values; None if it has other operations, or if the values do not fit."""
    if e not in known:
        found = _made_of(e, known)
        known[e] = None if found is None or max(map(abs, found)) >= MOST else found
    return known[e]


def _made_of(e: Expr, known: dict[Expr, Interval | None]) -> Interval | None:
    if e.op == "variable":
        return 0, e.data.size - 1
    if e.op == "constant":
        return (int(e.data.value),) * 2 if is_integer(e) else None
    inner = [_interval(a, known) for a in e.args]
    if e.op == "read":
        tensor, mode = e.data
        plain = mode == "inside" and tensor.definition is None and not tensor.data_type.is_float
        return limits(tensor.data_type) if plain and None not in inner else None
    if e.op not in ("add", "sub", "mul", "neg", "position"):
        return None
    ends = [x for x in inner if x is not None]
    if len(ends) < len(inner):
        return None
    if e.op == "position":
        return ends[0]
    if e.op == "neg":
        return -ends[0][1], -ends[0][0]
    (a, b), (c, d) = ends
    if e.op == "mul":
        corners = (a * c, a * d, b * c, b * d)
        return min(corners), max(corners)
    return (a + c, b + d) if e.op == "add" else (a - d, b - c)


def _evaluated(e: Expr, place: Place, arrays: Mapping[str, NDArray[Any]], known: dict[Expr, Any]) -> Any:
    if e in known:
        return known[e]
    if e.op == "variable":
        found = place[e.data]
        return found if isinstance(found, int) else found.indices()
    if e.op == "constant":
        return int(e.data.value)
    if e.op == "read" and _is_box(e):
        known[e] = made = _part(arrays[e.data[0].name], e, place)
        return made
    at = [_evaluated(a, place, arrays, known) for a in e.args]
    if e.op == "read":
        made = np.asarray(arrays[e.data[0].name][tuple(at)], np.int64)
    elif e.op == "neg":
        made = -at[0]
    elif e.op == "position":
        made = at[0]
    else:
        made = at[0] + at[1] if e.op == "add" else at[0] - at[1] if e.op == "sub" else at[0] * at[1]
    known[e] = made
    return made


def _is_box(e: Expr) -> bool:
    """Whether a read takes each element of a box once: all indices are constants or different variables."""
    variables = [a for a in e.args if a.op == "variable"]
    return len(set(variables)) == len(variables) and all(a.op in ("variable", "constant") for a in e.args)


def _part(array: NDArray[Any], e: Expr, place: Place) -> NDArray[np.int64]:
    """The elements of such a read: a slice of the array, with the variables' axes in order."""
    at: list[int | slice] = []
    along: list[Along] = []
    for a in e.args:
        found = int(a.data.value) if a.op == "constant" else place[a.data]
        if isinstance(found, Along):
            along.append(found)
            at.append(slice(found.values.start, found.values.stop))
        else:
            at.append(found)
    part = array[tuple(at)]
    if along:
        part = part.transpose(sorted(range(len(along)), key=lambda i: along[i].axis))
        shape = [1] * along[0].axes
        for x in along:
            shape[x.axis] = len(x.values)
        part = np.asarray(part, np.int64).reshape(shape)
    return np.asarray(part, np.int64)
