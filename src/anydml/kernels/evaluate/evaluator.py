"""The exact evaluation of a statement: each element of an output as an extended real number, rounded once when it is stored.

A statement becomes the source of Python functions, one for the element and one for each reduction. They call `exact.reals`,
compute equal nodes once, and evaluate only branches that are taken.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import product
from typing import Any

import numpy as np
from numpy.typing import NDArray

from anydml import progress
from anydml.exact.reals import Real, as_arb, refined
from anydml.kernels.evaluate.elements import stores
from anydml.kernels.evaluate.source import FunctionSource
from anydml.kernels.evaluate.tally import TALLY
from anydml.schema.statement import Nest, Statement
from anydml.tensor import DataType

COUNTED = 64  # elements between two reports of progress


def evaluators(
    statement: Statement, data_types: Mapping[str, DataType], arrays: Mapping[str, NDArray[Any]]
) -> dict[str, Evaluator]:
    """One evaluator for each output. Nodes that several outputs share are computed once.

    arrays: the inputs of the statement by field name, in tensor form.
    """
    source = FunctionSource(arrays)
    return {name: Evaluator(nest, data_types[name], source) for name, nest in statement.items()}


class Evaluators:
    """The evaluators of a statement for changing arrays. Their functions are compiled once, where that is possible."""

    def __init__(self, statement: Statement, data_types: Mapping[str, DataType]) -> None:
        self._statement, self._data_types = statement, data_types
        self._spare: list[tuple[FunctionSource, dict[str, Evaluator]]] = []  # each is used by one thread at a time

    @contextmanager
    def reading(self, arrays: Mapping[str, NDArray[Any]]) -> Iterator[dict[str, Evaluator]]:
        """A context in which the evaluators read these arrays."""
        try:
            source, found = self._spare.pop()
            source.read(arrays)
        except IndexError:
            source = FunctionSource(arrays)
            found = {name: Evaluator(nest, self._data_types[name], source) for name, nest in self._statement.items()}
        yield found
        if source.read({}):
            self._spare.append((source, found))


class Evaluator:
    """A nest over arrays, whose element can be computed at any index."""

    def __init__(self, nest: Nest, data_type: DataType, source: FunctionSource) -> None:
        self.nest, self.data_type = nest, data_type
        self._element = source.function(nest, data_type)
        self._store = None if nest.moves else stores(data_type, nest.body)

    def number(self, *at: int) -> Real:
        """The element before it is rounded, at the current precision; its bits if elements are moved."""
        return self._element(*at)

    def stored(self, *at: int) -> int:
        """The element as a `raw` integer."""
        TALLY.note(1)
        store = self._store
        if store is None:
            return int(self._element(*at))
        return refined(lambda: store(self._element(*at)))

    def digits(self, *at: int) -> str:
        """The element before it is rounded, in decimal; empty if elements are moved."""
        if self._store is None:
            return ""
        self.stored(*at)  # sets the precision at which the rounding is decided
        value = self.number(*at)
        return str(float(value)) if type(value) is float else as_arb(value).str(20, radius=False)

    def all(self, sizes: Sequence[int]) -> NDArray[Any]:
        """Every element, as an array of the tensor's type."""
        return self.at(product(*map(range, sizes)), math.prod(sizes)).reshape(tuple(sizes))

    def at(self, coordinates: Iterable[Sequence[int]], count: int) -> NDArray[Any]:
        """The elements at `count` coordinates."""
        dtype = self.data_type.unpacked_dtype
        shown = f"u{dtype.itemsize}" if dtype.kind == "f" else dtype
        if count < COUNTED:
            return np.fromiter((self.stored(*at) for at in coordinates), shown, count).view(dtype)
        with progress.shown() as report:
            return np.fromiter(self._reported(coordinates, count, report), shown, count).view(dtype)

    def _reported(self, coordinates: Iterable[Sequence[int]], count: int, report: progress.Report) -> Iterator[int]:
        for i, at in enumerate(coordinates):
            if i % COUNTED == 0:
                report("evaluating exactly", i, count)
            yield self.stored(*at)
