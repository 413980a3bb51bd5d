"""Indices in pieces: an index of a single variable is piecewise affine, whatever its operations are."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from anydml.kernels.match.affine import Affine
from anydml.schema.node import Expr, Variable

_OPERATIONS: Mapping[str, Any] = {
    "add": np.add, "sub": np.subtract, "mul": np.multiply, "neg": np.negative, "max": np.maximum, "min": np.minimum,
    "floordiv": np.floor_divide, "mod": np.remainder, "select": np.where,
    "less": np.less, "less_equal": np.less_equal, "equal": np.equal,
}  # fmt: skip


def values(e: Expr, of: Variable, over: range) -> NDArray[np.int64] | None:
    """The index for each value of a variable in a range; None if it depends on anything else."""
    known: dict[Expr, Any] = {}

    def value(node: Expr) -> Any:
        if node not in known:
            if node.op == "variable":
                found = np.arange(over.start, over.stop, dtype=np.int64) if node.data is of else None
            elif node.op == "constant" and node.data.integral:
                found = np.int64(int(node.data.value))
            elif (apply := _OPERATIONS.get(node.op)) is not None:
                args = [value(a) for a in node.args]
                found = None if any(a is None for a in args) else apply(*args)
            else:
                found = None
            known[node] = found
        return known[node]

    found = value(e)
    return None if found is None else np.broadcast_to(found, len(over))


def pieces(e: Expr, of: Variable, over: range) -> Iterator[tuple[range, Affine]] | None:
    """The affine functions of a variable that an index is, each in a part of the range; None if it depends on anything else."""
    found = values(e, of, over)
    return None if found is None else _runs(found, of, over)


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
