"""Bounds of a statement's internal tensors, such as the states of a recurrence, computed step by step."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from anydml.explain.bounded import Number, Range, Unbounded, exactly
from anydml.schema.expression import Tensor
from anydml.schema.statement import Nest
from anydml.schema.traversal import most_terms
from anydml.tensor import DataType

Array = NDArray[Any]

MOST_TERMS = 1 << 26  # terms of reductions in all elements of an internal tensor; with more, there is no bound


class States:
    """Internal tensors, whose elements are rounded to their type; their first index is the step.

    ranges: a function that gives the ranges of a statement's elements at some indices.
    """

    def __init__(self, ranges: Callable[[Nest, DataType, Array], Range]) -> None:
        self._ranges = ranges
        self._held: dict[Tensor, Number] = {}
        self._steps: dict[Tensor, int] = {}  # the number of steps that are computed or being computed

    def read(self, tensor: Tensor, steps: Array) -> Number:
        """The tensor, with at least the elements of these steps; steps outside it are ignored."""
        assert tensor.definition is not None
        if tensor not in self._held:
            if math.prod(tensor.sizes) * most_terms(tensor.definition.body) > MOST_TERMS:
                raise Unbounded("too many terms")
            self._held[tensor] = Number(*(np.zeros(tensor.sizes) for _ in range(3)))
            self._steps[tensor] = 0
        there = steps[(steps >= 0) & (steps < tensor.sizes[0])]
        last = int(there.max(initial=-1))
        while self._steps[tensor] <= last:
            self._steps[tensor] += 1
            self._compute(tensor, self._steps[tensor] - 1)
        held = self._held[tensor]
        return exactly(held.value) if np.array_equal(held.low, held.high, equal_nan=True) else held

    def _compute(self, tensor: Tensor, step: int) -> None:
        assert tensor.definition is not None
        sizes = (1, *tensor.sizes[1:])
        points = np.stack(np.unravel_index(np.arange(math.prod(sizes)), sizes), axis=-1)
        points[:, 0] = step
        found = self._ranges(tensor.definition, tensor.data_type, points)
        for held, made in zip(self._held[tensor], found, strict=True):
            held[step] = made.reshape(sizes[1:])
