"""Bounds of ordinary floating-point arithmetic: how far an implementation that rounds at each step may be from the statement.

A statement is evaluated in float64 with bounds on each number. Every operation widens them by the rounding `unit` times its
result (2^-24 in float32), a function by four units in the last place, and a sum of n terms, in any order, by n - 1 roundings of
the sum of their magnitudes. Integers are exact. A decision (rounding to an integer, a comparison) is made at both ends.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from anydml.explain.bounded import Number, Range, Unbounded
from anydml.explain.bounded_states import States
from anydml.explain.evaluation import Evaluation
from anydml.schema.node import Expr
from anydml.schema.statement import Nest
from anydml.schema.traversal import integral, most_terms
from anydml.tensor import DataType, limits

Array = NDArray[Any]

TERMS = 1 << 21  # terms of reductions that are evaluated at once
MOST_TERMS = 1 << 24  # the most terms of one element; a window's size may be any 32-bit number


def unit_of(data_types: Sequence[DataType]) -> float:
    """The rounding unit of an implementation that computes in the types of an operator's tensors."""
    if DataType.FLOAT64 in data_types:
        raise Unbounded("FLOAT64")
    return 2.0**-11 if DataType.FLOAT16 in data_types else 2.0**-24


def ranges(nest: Nest, data_type: DataType, inputs: Mapping[str, Number], at: Array, unit: float) -> Range:
    """The ranges of the elements of an output at some indices, one in each row of `at`; Unbounded where none are known."""
    place = nest.body.op == "position"  # always small enough for float64
    if data_type in (DataType.INT64, DataType.UINT64, DataType.FLOAT64) and not (nest.moves or place):
        raise Unbounded(data_type.name)

    def inside(nest: Nest, data_type: DataType, at: Array) -> Range:
        return _ranges(nest, data_type, at, lambda index, points: Evaluation(inputs, index, points, unit, states))

    states = States(inside)
    return inside(nest, data_type, at)


def _ranges(nest: Nest, data_type: DataType, at: Array, evaluation: Callable[[Sequence[Expr], Array], Evaluation]) -> Range:
    terms = max(1, most_terms(nest.body))
    if terms > MOST_TERMS:
        raise Unbounded("an element with too many terms")
    count = max(1, TERMS // terms)
    parts = []
    with np.errstate(all="ignore"):
        for begin in range(0, max(1, len(at)), count):
            points = at[begin : begin + count]
            found = evaluation(nest.index, points).number(nest.body)
            value, low, high = (np.broadcast_to(x, len(points)) for x in (found.value, found.low, found.high))
            parts.append(_stored(value, low, high, data_type, nest))
    return Range(*map(np.concatenate, zip(*parts, strict=True)))


def _stored(value: Array, low: Array, high: Array, data_type: DataType, nest: Nest) -> list[Array]:
    if data_type.name.startswith("FLOAT"):
        return [x.astype(data_type.dtype) for x in (value, low, high)]
    least, most = limits(data_type)
    if integral(nest.body):
        wrapped = np.where((value >= least) & (value <= most), value, (value - least) % float(most - least + 1) + least)
        return [wrapped, np.maximum(wrapped - (value - low), least), np.minimum(wrapped + (high - value), most)]
    return [np.clip(np.trunc(np.nan_to_num(x, nan=0.0)), least, most) for x in (value, low, high)]
