"""The family of copies in NumPy: elements moved at affine indices, between views."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from operator import itemgetter, setitem
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from anydml.kernels.kernel import Arrays, Built, ByName, Direct, Execute, Machine, Refused, Views
from anydml.kernels.match.layers import layers
from anydml.kernels.match.moves import Move, moves
from anydml.kernels.problem import Problem
from anydml.tensor import TensorDesc

View = Callable[[NDArray[Any]], NDArray[Any]]


def lower(problem: Problem, machine: Machine) -> Built | Refused:
    """A copy between views for every move."""
    statement = problem.statement
    found = moves(statement)
    if isinstance(found, str):
        in_order = layers(statement, problem.tensors[next(iter(statement))].data_type)
        if isinstance(in_order, str):
            return Refused(found)
        found = in_order
    bits = np.dtype(f"u{problem.tensors[found[0].target].data_type.dtype.itemsize}")
    steps = [_step(move, bits, problem.tensors) for move in found]
    if len(steps) == 1:
        return Built(steps[0].bound, bare=True, direct=partial(_direct, steps))

    def bind(arrays: Arrays) -> Execute:
        return partial(_each, [step.bound(arrays) for step in steps])

    return Built(bind, bare=True, direct=partial(_direct, steps))


class MoveOfViews(NamedTuple):
    """A move: the output's name and view, the elements of it that are written, and the name and view of what is read."""

    target: str
    into: View
    key: Any
    source: str
    window: View

    def bound(self, arrays: Arrays) -> Execute:
        # setitem takes half of the time of `np.copyto` for a few elements
        return partial(setitem, self.into(arrays[self.target])[self.key], ..., self.window(arrays[self.source]))


def _direct(steps: Sequence[MoveOfViews], names: Sequence[str], views: Views) -> Direct:
    if not isinstance(views, ByName):

        def call(arrays: Sequence[NDArray[Any]]) -> None:
            found = views(arrays)
            for target, into, key, source, window in steps:
                into(found[target])[key] = window(found[source])

        return call

    at = {name: k for k, name in enumerate(names)}
    rows = [(at[x.target], x.into, x.key, at[x.source], x.window) for x in steps]

    def by_place(arrays: Sequence[NDArray[Any]]) -> None:
        for target, into, key, source, window in rows:
            written, read = arrays[target], arrays[source]
            if into is not _whole:
                written = into(written)
            written[key] = read if window is _whole else window(read)

    return by_place


def _each(calls: list[Execute]) -> None:
    for call in calls:
        call()


def _step(move: Move, bits: np.dtype[Any], tensors: Mapping[str, TensorDesc]) -> MoveOfViews:
    """The views that a move writes and reads; for a constant, the constant instead of the latter.

    Between equal data types NumPy copies bytes. Others are copied as integers, so that every NaN keeps its payload.
    """
    source, target, sizes = move.source, move.target, tensors[move.target].sizes
    into, key = _target(move, sizes)
    if move.bits is not None:
        value = np.array(move.bits, bits)
        return MoveOfViews(target, _viewed(into, bits), key, target, lambda x: value)
    window = _window(move, tensors[source].sizes)
    if tensors[source].data_type != tensors[target].data_type:
        into, window = _viewed(into, bits), _viewed(window, bits)
    return MoveOfViews(target, into, key, source, window)


def _viewed(view: View, bits: np.dtype[Any]) -> View:
    return lambda x: view(x.view(bits))


def _target(move: Move, sizes: tuple[int, ...]) -> tuple[View, Any]:
    """A view of the output, and the elements of it that a move writes."""
    if move.places:
        return _strided(move.first, move.sizes, move.places, writeable=True), ...
    if move.sizes == sizes:
        return _whole, ...
    return _whole, tuple(slice(first, first + size) for first, size in zip(move.first, move.sizes, strict=True))


def _whole(x: NDArray[Any]) -> NDArray[Any]:
    return x


def _box(move: Move) -> tuple[slice, ...] | None:
    """The slices of the input that a move reads in order; None if there are none."""
    straight = len(move.start) == len(move.sizes)
    straight = straight and all(not step for i, steps in enumerate(move.steps) for j, step in enumerate(steps) if i != j)
    if straight and all(move.steps[i][i] or size == 1 for i, size in enumerate(move.sizes)):
        return tuple(_slice(first, move.steps[i][i], move.sizes[i]) for i, first in enumerate(move.start))
    return None


def _window(move: Move, sizes: tuple[int, ...]) -> View:
    """The elements of the input, of these sizes, that a move reads, in the order of those that it writes."""
    if (box := _box(move)) is not None:
        if box == tuple(slice(0, n, 1) for n in sizes):
            return _whole
        return itemgetter(box)
    return _strided(move.start, move.sizes, move.steps, writeable=False)


def _strided(start: Sequence[int], sizes: tuple[int, ...], steps: Sequence[Sequence[int]], *, writeable: bool) -> View:
    corner = tuple(slice(first, first + 1) for first in start)

    def anyhow(x: NDArray[Any]) -> NDArray[Any]:
        strides = [sum(a * b for a, b in zip(step, x.strides, strict=True)) for step in steps]
        return np.lib.stride_tricks.as_strided(x[corner], sizes, strides, writeable=writeable)

    return anyhow


def _slice(first: int, step: int, size: int) -> slice:
    if size == 1:
        return slice(first, first + 1)
    end = first + step * size
    return slice(first, None if end < 0 else end, step)
