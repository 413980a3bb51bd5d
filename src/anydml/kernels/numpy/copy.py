"""The family of copies in NumPy: elements moved at affine indices, between views."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from operator import setitem
from typing import Any

import numpy as np
from numpy.typing import NDArray

from anydml.kernels.kernel import Arrays, Built, Execute, Machine, Refused
from anydml.kernels.match.layers import layers
from anydml.kernels.match.moves import Move, moves
from anydml.kernels.problem import Problem

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
    # copied as integers, so that every NaN keeps its payload
    bits = np.dtype(f"u{problem.tensors[found[0].target].data_type.dtype.itemsize}")
    moved = [_views(move, problem.tensors[move.target].sizes, bits) for move in found]
    if len(moved) == 1:
        (views,) = moved
        return Built(lambda arrays: _copy(*views(arrays)), bare=True)

    def bind(arrays: Arrays) -> Execute:
        return partial(_each, [_copy(*views(arrays)) for views in moved])

    return Built(bind, bare=True)


def _copy(target: NDArray[Any], source: NDArray[Any]) -> Execute:
    return partial(setitem, target, ..., source)  # which takes half of the time of `np.copyto` for a few elements


def _each(calls: list[Execute]) -> None:
    for call in calls:
        call()


def _views(move: Move, sizes: tuple[int, ...], bits: np.dtype[Any]) -> Callable[[Arrays], tuple[NDArray[Any], NDArray[Any]]]:
    """The views that a move writes and reads; for a constant, the constant instead of the latter."""
    if move.bits is not None:
        return _filled(move, bits)
    source, target, box = move.source, move.target, _box(move)
    if box is not None and not move.places and move.sizes == sizes:
        return lambda arrays: (arrays[target].view(bits), arrays[source].view(bits)[box])
    window = _window(move)
    if move.places:
        strided = _strided(move.first, move.sizes, move.places, writeable=True)
        return lambda arrays: (strided(arrays[target].view(bits)), window(arrays[source].view(bits)))
    if move.sizes == sizes:
        return lambda arrays: (arrays[target].view(bits), window(arrays[source].view(bits)))
    into = tuple(slice(first, first + size) for first, size in zip(move.first, move.sizes, strict=True))
    return lambda arrays: (arrays[target].view(bits)[into], window(arrays[source].view(bits)))


def _filled(move: Move, bits: np.dtype[Any]) -> Callable[[Arrays], tuple[NDArray[Any], NDArray[Any]]]:
    """The view to which a constant is written, and the constant."""
    target, value = move.target, np.array(move.bits, bits)
    if move.places:
        into = _strided(move.first, move.sizes, move.places, writeable=True)
        return lambda arrays: (into(arrays[target].view(bits)), value)
    box = tuple(slice(first, first + size) for first, size in zip(move.first, move.sizes, strict=True))
    return lambda arrays: (arrays[target].view(bits)[box], value)


def _box(move: Move) -> tuple[slice, ...] | None:
    """The slices of the input that a move reads in order; None if there are none."""
    straight = len(move.start) == len(move.sizes)
    straight = straight and all(not step for i, steps in enumerate(move.steps) for j, step in enumerate(steps) if i != j)
    if straight and all(move.steps[i][i] or size == 1 for i, size in enumerate(move.sizes)):
        return tuple(_slice(first, move.steps[i][i], move.sizes[i]) for i, first in enumerate(move.start))
    return None


def _window(move: Move) -> View:
    """The elements of the input that a move reads, in the order of those that it writes."""
    if (box := _box(move)) is not None:
        return lambda x: x[box]
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
