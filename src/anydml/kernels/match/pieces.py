"""Indices in pieces: an index of a single variable is piecewise affine, whatever its operations are."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from anydml.kernels.match.affine import Affine
from anydml.schema.node import Expr, Variable
from anydml.schema.traversal import walk

ON_ARRAYS: Mapping[str, Callable[..., Any]] = {
    "add": np.add, "sub": np.subtract, "mul": np.multiply, "neg": np.negative, "max": np.maximum, "min": np.minimum,
    "floordiv": np.floor_divide, "mod": np.remainder, "select": np.where, "less": np.less, "less_equal": np.less_equal,
    "equal": np.equal, "both": np.logical_and, "either": np.logical_or, "not": np.logical_not,
}  # fmt: skip
"""Operations on indices and truths, on arrays that broadcast."""


def values_of(e: Expr, of: Mapping[Variable, Any]) -> Any | None:
    """The values of an index for those of variables; None if it depends on anything else."""
    made: dict[Expr, Any] = {}
    for node in walk(e):
        if node.op == "variable":
            found = of.get(node.data)
        elif node.op == "constant" and node.data.integral:
            found = int(node.data.value)
        else:
            args, apply = [made[a] for a in node.args], ON_ARRAYS.get(node.op)
            found = None if apply is None or any(a is None for a in args) else apply(*args)
        made[node] = found
    return made[e]


def pieces(e: Expr, of: Variable, over: range) -> Iterator[tuple[range, Affine]] | None:
    """The affine functions of a variable that an index is, each in a part of the range; None if it depends on anything else."""
    found = values_of(e, {of: np.arange(over.start, over.stop, dtype=np.int64)})
    return None if found is None else _runs(np.broadcast_to(np.asarray(found, np.int64), len(over)), of, over)


def _runs(found: NDArray[np.int64], of: Variable, over: range) -> Iterator[tuple[range, Affine]]:
    steps = np.diff(found)
    ends = np.flatnonzero(np.diff(steps)) + 1  # the last value that is reached by the same step
    first, last, at = 0, len(over) - 1, 0
    while first <= last:
        while at < len(ends) and ends[at] <= first:
            at += 1
        end = int(ends[at]) if at < len(ends) else last
        step = int(steps[first]) if end > first else 0
        start = over.start + first
        factors = {of: step} if step else {}
        yield range(start, over.start + end + 1), Affine(int(found[first]) - step * start, factors)
        first = end + 1
