"""The indices, truths and choices of a statement at some points, and which of them do not depend on rounding."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from anydml.explain import bounded_rows
from anydml.explain.bounded import Number, Unbounded, aligned, is_exact
from anydml.schema.node import Expr, Variable
from anydml.schema.traversal import integral

Array = NDArray[Any]


class Places(ABC):
    """The nodes of one statement that are not numbers. Arrays have the points first, then an axis for each bound variable."""

    def __init__(self, index: Sequence[Expr], points: Array) -> None:
        self.indices: dict[Expr, Array] = {}
        self.truths: dict[Expr, tuple[Array, Array]] = {}
        self.axes: dict[Variable, Array] = {i.data: points[:, a] for a, i in enumerate(index)}
        self.depth = 1

    @abstractmethod
    def number(self, e: Expr) -> Number:
        """The value of a node that is a number."""

    def index(self, e: Expr) -> Array:
        if e not in self.indices:
            self.indices[e] = self._index(e)
        return self.indices[e]

    def _index(self, e: Expr) -> Array:
        if e.op == "variable":
            return self.axes[e.data]
        if e.op == "constant":
            return np.array([int(e.data.value)])
        if e.op == "index":
            return np.clip(self._exact(e.args[0]), -(2.0**62), 2.0**62).astype(np.int64)
        if e.op in ("first_largest", "first_smallest"):
            return self._first(e)
        if e.op == "rank":
            row, place = self.sorted_row(e)
            if not is_exact(row):
                raise Unbounded("an index that depends on an order")
            return bounded_rows.position(row, place, decreasing=e.data[1]).value.astype(np.int64)
        if e.op == "select":
            truth, sure = self.truth(e.args[0])
            if not np.all(sure):
                raise Unbounded("an index that depends on a comparison")
            return np.where(*aligned(truth, self.index(e.args[1]), self.index(e.args[2])))
        operations: Mapping[str, Callable[..., Array]] = {
            "add": np.add, "sub": np.subtract, "mul": np.multiply, "neg": np.negative, "floordiv": np.floor_divide,
            "mod": np.mod, "max": np.maximum, "min": np.minimum,
        }  # fmt: skip
        if e.op not in operations:
            raise Unbounded(e.op)
        return operations[e.op](*aligned(*map(self.index, e.args)))

    def _exact(self, e: Expr) -> Array:
        found = self.number(e)
        if not is_exact(found):
            raise Unbounded(f"a decision about rounded numbers: {e.op}")
        return found.value

    def truth(self, e: Expr) -> tuple[Array, Array]:
        """Truths, and which of them do not depend on rounding."""
        if e not in self.truths:
            self.truths[e] = self._truth(e)
        return self.truths[e]

    def _truth(self, e: Expr) -> tuple[Array, Array]:
        if e.op in ("less", "less_equal", "equal"):
            compared = {"less": np.less, "less_equal": np.less_equal, "equal": np.equal}[e.op]
            if any(a.sort == "index" for a in e.args):
                x, y = aligned(*map(self.index, e.args))
                return compared(x, y), np.ones((1,), bool)
            a, b = map(self.number, e.args)
            x, y, low, high, other_low, other_high = aligned(a.value, b.value, a.low, a.high, b.low, b.high)
            alone = (low == high) & (other_low == other_high)
            return compared(x, y), alone | ~((low <= other_high) & (other_low <= high))
        if e.op == "not":
            truth, sure = self.truth(e.args[0])
            return ~truth, sure
        if e.op == "is_nan":
            return np.isnan(self.number(e.args[0]).value), np.ones((1,), bool)
        if e.op in ("both", "either"):
            (x, known), (y, other_known) = map(self.truth, e.args)
            x, y, known, other_known = aligned(x, y, known, other_known)
            return (x & y if e.op == "both" else x | y), known & other_known
        raise Unbounded(e.op)

    def _first(self, e: Expr) -> Array:
        """The position of the first (or last) largest or smallest key; NaN counts as both."""
        row, there = self.row_of(e)
        if not is_exact(row):
            raise Unbounded(f"a decision about rounded numbers: {e.args[0].op}")
        return self.first_of(e, row, there)

    def first_of(self, e: Expr, row: Number, there: Array) -> Array:
        """The position of the first (or last) of the largest or smallest keys, by their exact values."""
        keys = np.where(np.isnan(row.value), np.inf, -row.value if e.op == "first_smallest" else row.value)
        chosen = there & (keys == np.where(there, keys, -np.inf).max(axis=-1, keepdims=True))
        last = e.data[1]
        found: Array = chosen.shape[-1] - 1 - np.argmax(chosen[..., ::-1], axis=-1) if last else np.argmax(chosen, axis=-1)
        return np.where(chosen.any(axis=-1), found, 0)

    def row_of(self, e: Expr) -> tuple[Number, Array]:
        """The keys of a row, along one last axis, and which of them count."""

        def evaluate() -> tuple[Number, Array]:
            truth, sure = self.truth(e.args[1]) if len(e.args) > 1 else (np.ones((1,), bool), np.ones((1,), bool))
            if not np.all(sure):
                raise Unbounded("a condition on rounded numbers")
            return self.number(e.args[0]), truth

        bound = e.data[0]
        depth, (keys, there) = self._over(bound, evaluate)
        *numbers, there = _rows([*keys, there], depth, [v.size for v in bound])
        return Number(*numbers), there

    def sorted_row(self, e: Expr) -> tuple[Number, Array]:
        """The keys of a row to sort, and the wanted place in the sorted row."""
        bound = e.data[0]
        depth, keys = self._over(bound, lambda: self.number(e.args[0]))
        if integral(e.args[0]) and np.any(np.abs(keys.value) >= 2.0**53):
            raise Unbounded("an order of integers too large for float64")
        numbers = _rows([*keys], depth, [v.size for v in bound])
        place = self.index(e.args[1])
        place = place.reshape(*place.shape, *(1,) * (depth - place.ndim))
        lead = np.broadcast_shapes(place.shape, numbers[0].shape[:-1])
        numbers = [np.broadcast_to(x, (*lead, x.shape[-1])) for x in numbers]
        return Number(*numbers), np.broadcast_to(place, lead)

    def _over(self, bound: Sequence[Variable], evaluate: Callable[[], Any]) -> tuple[int, Any]:
        """The depth outside of a reduction, and the result of `evaluate` inside of it."""
        depth = self.depth
        for place, v in enumerate(bound):
            self.axes[v] = np.arange(v.size).reshape(*(1,) * (depth + place), v.size)
        self.depth = depth + len(bound)
        found = evaluate()
        self.depth = depth
        return depth, found


def _rows(parts: Sequence[Array], depth: int, sizes: Sequence[int]) -> list[Array]:
    """Arrays with an axis for each variable of a row, from `depth` on, reshaped to one axis for the row."""
    inside = depth + len(sizes)
    parts = [x.reshape(*x.shape, *(1,) * (inside - x.ndim)) for x in parts]
    lead = np.broadcast_shapes(*(x.shape[:depth] for x in parts))
    return [np.broadcast_to(x, (*lead, *sizes)).reshape(*lead, -1) for x in parts]
