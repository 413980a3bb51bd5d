"""Bounds of ordinary floating-point arithmetic: how far an implementation that rounds at each step may be from the statement.

A statement is evaluated in float64 with bounds on each number. Every operation widens them by the rounding `unit` times its
result (2^-24 in float32), a function by four units in the last place, and a sum of n terms, in any order, by n - 1 roundings of
the sum of their magnitudes. Integers are exact. A decision (rounding to an integer, a comparison) is made at both ends.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from anydml.explain.bounded import Number, Range, Unbounded, exactly
from anydml.explain.bounded_states import States
from anydml.explain.evaluation import Evaluation
from anydml.schema.node import Expr
from anydml.schema.statement import Nest
from anydml.schema.traversal import bound_by, free, integral, most_terms, walk
from anydml.tensor import DataType, limits

Array = NDArray[Any]

TERMS = 1 << 21  # terms of reductions that are evaluated at once
SHARED = 4  # elements that a reduction must be the same for, on average, to be evaluated once for all of them
FEW = 32  # elements for which it does not pay to look for what they share
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
    if most_terms(nest.body) > MOST_TERMS:
        raise Unbounded("an element with too many terms")
    with np.errstate(all="ignore"):
        known: dict[Expr, Number] = {}
        for e, first, of in _shared(nest, at):
            few = {inner: _expanded(x, first) for inner, x in known.items()}
            known[e] = _expanded(_evaluated(e, nest.index, at[first], evaluation, few), of)
        found = _evaluated(nest.body, nest.index, at, evaluation, known)
        return Range(*_stored(*found, data_type, nest))


def _evaluated(
    e: Expr,
    index: Sequence[Expr],
    at: Array,
    evaluation: Callable[[Sequence[Expr], Array], Evaluation],
    known: Mapping[Expr, Number],
) -> Number:
    """A node's numbers at some points, in parts of at most `TERMS` terms. known: nodes whose numbers there are known."""
    count = max(1, TERMS // _terms(e, known))
    parts = []
    for begin in range(0, max(1, len(at)), count):
        points = at[begin : begin + count]
        here = evaluation(index, points)
        here.numbers.update({e: _expanded(x, np.arange(begin, begin + len(points))) for e, x in known.items()})
        found = here.number(e)
        parts.append([np.broadcast_to(x, len(points)) for x in found])
    value, low, high = map(np.concatenate, zip(*parts, strict=True))
    return exactly(value) if found.exact else Number(value, low, high)


def _expanded(x: Number, places: Array) -> Number:
    return exactly(x.value[places]) if x.exact else Number(*(part[places] for part in x))


def _terms(body: Expr, known: Mapping[Expr, Number]) -> int:
    """The largest number of terms of one element, without those of known nodes."""
    found: dict[Expr, int] = {}
    for node in walk(body):
        most = max((found[a] for a in node.args), default=1)
        found[node] = 1 if node in known else most * math.prod(v.size for v in bound_by(node))
    return max(1, found[body])


def _shared(nest: Nest, at: Array) -> Iterator[tuple[Expr, Array, Array]]:
    """Reductions that are the same for many elements, such as a row's mean: inner ones first, each with the elements that stand
    for all others, and which of these stands for each element."""
    if len(at) < FEW:
        return
    variables = [i.data for i in nest.index]
    depends = free(nest.body)
    for e in walk(nest.body):
        if e.op != "reduce" or not depends[e] <= set(variables):
            continue
        columns = at[:, [a for a, v in enumerate(variables) if v in depends[e]]]
        key = np.ravel_multi_index(tuple(columns.T), tuple(columns.max(0, initial=0) + 1)) if columns.size else at[:, 0] * 0
        _, first, of = np.unique(key, return_index=True, return_inverse=True)
        if len(first) * SHARED <= len(at):
            yield e, first, of


def _stored(value: Array, low: Array, high: Array, data_type: DataType, nest: Nest) -> list[Array]:
    if data_type.name.startswith("FLOAT"):
        return [x.astype(data_type.dtype) for x in (value, low, high)]
    least, most = limits(data_type)
    if integral(nest.body):
        wrapped = np.where((value >= least) & (value <= most), value, (value - least) % float(most - least + 1) + least)
        return [wrapped, np.maximum(wrapped - (value - low), least), np.minimum(wrapped + (high - value), most)]
    return [np.clip(np.trunc(np.nan_to_num(x, nan=0.0)), least, most) for x in (value, low, high)]
