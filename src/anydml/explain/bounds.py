"""Bounds of ordinary floating-point arithmetic: how far an implementation that rounds at each step may be from the statement.

A statement is evaluated in float64 with a bound beside each number: every operation adds the rounding `unit` times its result
(2^-24 in float32), a function four units in the last place, and a sum of n terms n - 1 roundings of the sum of their
magnitudes, whatever its order. Integers are exact. A decision (rounding to an integer, a comparison) is taken at both ends.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from anydml.schema.expression import Expr, Variable, bound_by, integral, walk
from anydml.schema.statement import Nest
from anydml.tensor import DataType, limits

Array = NDArray[Any]

TERMS = 1 << 21  # terms of reductions that are evaluated at once
FUNCTION_ULPS = 4


class Unbounded(Exception):
    """Raised where a statement has something that no bound is known for, such as a sorted row or a recurrence."""


class Number(NamedTuple):
    """Numbers, and the least and the largest that each may be; the same arrays where nothing is rounded."""

    value: Array
    low: Array
    high: Array

    @property
    def exact(self) -> bool:
        return self.low is self.value


def exactly(value: Array) -> Number:
    """Numbers that nothing has rounded."""
    return Number(value, value, value)


def between(value: Array, low: Array, high: Array) -> Number:
    """Numbers between bounds, which hold the number itself; what is not finite has no room beside it."""
    finite = np.isfinite(value)
    return Number(value, np.where(finite, np.fmin(low, value), value), np.where(finite, np.fmax(high, value), value))


class Range(NamedTuple):
    """For each element: what it is about, and the least and the largest that rounding at each step explains."""

    value: Array
    low: Array
    high: Array


def unit_of(data_types: Sequence[DataType]) -> float:
    """The rounding unit of an implementation that computes in the types of an operator's tensors."""
    if DataType.FLOAT64 in data_types:
        raise Unbounded("FLOAT64")
    return 2.0**-11 if DataType.FLOAT16 in data_types else 2.0**-24


def ranges(nest: Nest, data_type: DataType, inputs: Mapping[str, Number], at: Array, unit: float) -> Range:
    """The ranges of the elements of an output at some indices, one in each row of `at`; Unbounded where none are known."""
    if data_type in (DataType.INT64, DataType.UINT64, DataType.FLOAT64) and not nest.moves:
        raise Unbounded(data_type.name)
    terms = max(1, most_terms(nest.body))
    count = max(1, TERMS // terms)
    parts = []
    with np.errstate(all="ignore"):
        for begin in range(0, max(1, len(at)), count):
            points = at[begin : begin + count]
            found = _Evaluation(inputs, nest.index, points, unit).number(nest.body)
            value, low, high = (np.broadcast_to(x, len(points)) for x in (found.value, found.low, found.high))
            parts.append(_stored(value, low, high, data_type, nest))
    return Range(*map(np.concatenate, zip(*parts, strict=True)))


def most_terms(body: Expr) -> int:
    """The most terms that reductions within one another go through for an element."""
    found: dict[Expr, int] = {}
    for node in walk(body):
        most = max((found[a] for a in node.args), default=1)
        for v in bound_by(node):
            most *= v.size
        found[node] = most
    return found[body]


def _stored(value: Array, low: Array, high: Array, data_type: DataType, nest: Nest) -> list[Array]:
    if data_type.name.startswith("FLOAT"):
        return [x.astype(data_type.dtype) for x in (value, low, high)]
    least, most = limits(data_type)
    if integral(nest.body):
        wrapped = np.where((value >= least) & (value <= most), value, (value - least) % float(most - least + 1) + least)
        return [wrapped, np.maximum(wrapped - (value - low), least), np.minimum(wrapped + (high - value), most)]
    return [np.clip(np.trunc(np.nan_to_num(x, nan=0.0)), least, most) for x in (value, low, high)]


_MONOTONE: Mapping[str, Callable[[Array], Array]] = {
    "exp": np.exp, "log": np.log, "expm1": np.expm1, "log1p": np.log1p, "asin": np.arcsin, "acos": np.arccos,
    "atan": np.arctan, "sinh": np.sinh, "tanh": np.tanh, "asinh": np.arcsinh, "acosh": np.arccosh, "atanh": np.arctanh,
    "sqrt": np.sqrt, "tan": np.tan,
}  # fmt: skip
_SLOPE_ONE = {"sin": np.sin, "cos": np.cos}  # their slope is at most 1
_WHOLE: Mapping[str, Callable[[Array], Array]] = {
    "floor": np.floor, "ceil": np.ceil, "truncate": np.trunc, "half_to_even": np.rint,
    "half_away": lambda x: np.copysign(np.floor(np.abs(x) + 0.5), x),
}  # fmt: skip
_OF_EXACT: Mapping[str, Callable[..., Array]] = {
    "fmod": np.fmod, "floor_mod": lambda x, y: x - np.floor(x / y) * y, "atan2": np.arctan2, "pow": np.power,
}  # fmt: skip


_REDUCTIONS: Mapping[str, tuple[Callable[..., Array], float]] = {  # and its result of nothing
    "sum": (np.sum, 0.0), "product": (np.prod, 1.0), "max": (np.max, -np.inf), "min": (np.min, np.inf),
}  # fmt: skip


class _Evaluation:
    """The nodes of one statement at some points. Arrays have the points first, then an axis for each bound variable."""

    def __init__(self, inputs: Mapping[str, Number], index: Sequence[Expr], points: Array, unit: float) -> None:
        self.inputs, self.unit = inputs, unit
        self.indices: dict[Expr, Array] = {}
        self.truths: dict[Expr, tuple[Array, Array]] = {}
        self.numbers: dict[Expr, Number] = {}
        self.axes: dict[Variable, Array] = {i.data: points[:, a] for a, i in enumerate(index)}
        self.depth = 1

    def rounded(self, value: Array, low: Array, high: Array, units: Array | float = 1.0) -> Number:
        """Numbers that are rounded, once or `units` times."""
        room = units * self.unit
        return between(value, low - room * np.abs(low), high + room * np.abs(high))

    # --- indices and truths ---

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
        if e.op == "select":
            truth, sure = self.truth(e.args[0])
            if not np.all(sure):
                raise Unbounded("an index that a comparison decides")
            return np.where(*_aligned(truth, self.index(e.args[1]), self.index(e.args[2])))
        operations: Mapping[str, Callable[..., Array]] = {
            "add": np.add, "sub": np.subtract, "mul": np.multiply, "neg": np.negative, "floordiv": np.floor_divide,
            "mod": np.mod, "max": np.maximum, "min": np.minimum,
        }  # fmt: skip
        if e.op not in operations:
            raise Unbounded(e.op)
        return operations[e.op](*_aligned(*map(self.index, e.args)))

    def _exact(self, e: Expr) -> Array:
        found = self.number(e)
        if not _is_exact(found):
            raise Unbounded(f"a decision about what is rounded: {e.op}")
        return found.value

    def truth(self, e: Expr) -> tuple[Array, Array]:
        """Truths, and which of them do not depend on roundings."""
        if e not in self.truths:
            self.truths[e] = self._truth(e)
        return self.truths[e]

    def _truth(self, e: Expr) -> tuple[Array, Array]:
        if e.op in ("less", "less_equal", "equal"):
            compared = {"less": np.less, "less_equal": np.less_equal, "equal": np.equal}[e.op]
            if any(a.sort == "index" for a in e.args):
                x, y = _aligned(*map(self.index, e.args))
                return compared(x, y), np.ones((1,), bool)
            a, b = map(self.number, e.args)
            x, y, low, high, other_low, other_high = _aligned(a.value, b.value, a.low, a.high, b.low, b.high)
            alone = (low == high) & (other_low == other_high)
            return compared(x, y), alone | ~((low <= other_high) & (other_low <= high))
        if e.op == "not":
            truth, sure = self.truth(e.args[0])
            return ~truth, sure
        if e.op == "is_nan":
            return np.isnan(self.number(e.args[0]).value), np.ones((1,), bool)
        if e.op in ("both", "either"):
            (x, known), (y, other_known) = map(self.truth, e.args)
            x, y, known, other_known = _aligned(x, y, known, other_known)
            return (x & y if e.op == "both" else x | y), known & other_known
        raise Unbounded(e.op)

    def _first(self, e: Expr) -> Array:
        """The position of the first (or last) largest or smallest key; NaN is both."""
        bound, last = e.data
        depth, keys = self._over(bound, lambda: self._exact(e.args[0]))
        keys = np.broadcast_to(keys, (*keys.shape[:depth], *(v.size for v in bound)))
        keys = keys.reshape(*keys.shape[:depth], -1)
        if e.op == "first_smallest":
            keys = -keys
        keys = np.where(np.isnan(keys), np.inf, keys)
        found: Array = keys.shape[-1] - 1 - np.argmax(keys[..., ::-1], axis=-1) if last else np.argmax(keys, axis=-1)
        return found

    def _over(self, bound: Sequence[Variable], evaluate: Callable[[], Any]) -> tuple[int, Any]:
        """The depth outside of a reduction, and what is evaluated inside of it, with all axes."""
        depth = self.depth
        for place, v in enumerate(bound):
            self.axes[v] = np.arange(v.size).reshape(*(1,) * (depth + place), v.size)
        self.depth = depth + len(bound)
        found = evaluate()
        inside, self.depth = self.depth, depth
        if isinstance(found, np.ndarray):
            return depth, found.reshape(*found.shape, *(1,) * (inside - found.ndim))
        return depth, found

    # --- numbers ---

    def number(self, e: Expr) -> Number:
        if e not in self.numbers:
            self.numbers[e] = self._number(e)
        return self.numbers[e]

    def _number(self, e: Expr) -> Number:
        if e.op == "constant":
            return exactly(np.array([float(e.data.value)]))
        if e.op == "position":
            return exactly(self.index(e.args[0]).astype(np.float64))
        if e.op == "read":
            return self._read(e)
        if e.op == "reduce":
            return self._reduce(e)
        if e.op == "select":
            return self._select(e)
        args = [self.number(a) for a in e.args]
        if e.op in ("add", "sub", "mul", "div"):
            return self._arithmetic(e, *args)
        if e.op in ("max", "min"):
            return _extreme(np.maximum if e.op == "max" else np.minimum, *args)
        if e.op == "neg":
            return exactly(-args[0].value) if args[0].exact else Number(-args[0].value, -args[0].high, -args[0].low)
        if e.op == "absolute":
            return _power_like(np.abs, args[0])
        if e.op in _WHOLE:
            return _monotone(_WHOLE[e.op], args[0])
        if e.op == "power":
            return self._power(args[0], e.data)
        if e.op == "limits":
            return _limits(args[0], args[1], dict(e.data))
        if e.op in ("round", "held"):
            return self._held(e, args[0])
        return self._function(e.op, args)

    def _function(self, op: str, args: Sequence[Number]) -> Number:
        units = 2 * FUNCTION_ULPS  # a unit in the last place is two roundings
        if op == "cosh":
            found = _power_like(np.cosh, args[0])
        elif op in _MONOTONE or op in ("erf", "erfc"):
            found = _monotone(_function(op), args[0])
        elif op in _SLOPE_ONE:
            value, width = _SLOPE_ONE[op](args[0].value), args[0].high - args[0].low
            found = Number(value, value - width, value + width)
        elif op in _OF_EXACT and all(map(_is_exact, args)):
            found = exactly(_OF_EXACT[op](*_aligned(*(a.value for a in args))))
        else:
            raise Unbounded(op)
        return self.rounded(*found, units)

    def _read(self, e: Expr) -> Number:
        tensor, mode = e.data
        if tensor.name not in self.inputs or tensor.definition is not None:
            raise Unbounded("a recurrence")
        given = self.inputs[tensor.name]
        indices = _aligned(*(self.index(a) for a in e.args[: len(tensor.sizes)]))
        at = tuple(np.clip(i, 0, n - 1) for i, n in zip(indices, tensor.sizes, strict=True))
        found = exactly(given.value[at].astype(np.float64))
        if not given.exact:
            found = Number(found.value, given.low[at].astype(np.float64), given.high[at].astype(np.float64))
        return found if mode != "otherwise" else _chosen(self._inside(e), found, self.number(e.args[-1]))

    def _inside(self, e: Expr) -> Array:
        inside: Array = np.ones((1,), bool)
        for a, n in zip(e.args, e.data[0].sizes, strict=False):
            i, inside = _aligned(self.index(a), inside)
            inside = inside & (i >= 0) & (i < n)
        return inside

    def _select(self, e: Expr) -> Number:
        truth, sure = self.truth(e.args[0])
        a, b = self.number(e.args[1]), self.number(e.args[2])
        found = _chosen(truth, a, b)
        if np.all(sure):
            return found
        sure, value, low, high, *ends = _aligned(sure, *found, a.low, b.low, a.high, b.high)
        return Number(value, np.where(sure, low, np.fmin(ends[0], ends[1])), np.where(sure, high, np.fmax(ends[2], ends[3])))

    def _arithmetic(self, e: Expr, a: Number, b: Number) -> Number:
        apply = {"add": np.add, "sub": np.subtract, "mul": np.multiply, "div": np.divide}[e.op]
        value = apply(*_aligned(a.value, b.value))
        units = 2 if e.op == "div" else 1  # a quotient may be a product with a reciprocal
        if a.exact and b.exact:
            return exactly(value) if integral(e) else self.rounded(value, value, value, units)
        corners = [apply(*_aligned(x, y)) for x in (a.low, a.high) for y in (b.low, b.high)]
        low, high = (pick(pick(*corners[:2]), pick(*corners[2:])) for pick in (np.fmin, np.fmax))
        if e.op == "div":
            below, above, low, high = _aligned(b.low, b.high, low, high)
            through = (below <= 0) & (above >= 0) & (below < above)
            low, high = np.where(through, -np.inf, low), np.where(through, np.inf, high)
        return between(value, low, high) if integral(e) else self.rounded(value, low, high, units)

    def _power(self, a: Number, exponent: int) -> Number:
        def power(x: Array) -> Array:
            return np.asarray(x**exponent)

        if not a.exact and exponent < 0:
            raise Unbounded("a negative power of what is rounded")
        found = _monotone(power, a) if exponent % 2 else _power_like(power, a)
        return self.rounded(*found, abs(exponent))

    def _held(self, e: Expr, a: Number) -> Number:
        name = e.data.name
        if name.startswith("FLOAT"):
            dtype = e.data.dtype
            return _monotone(lambda x: x.astype(dtype).astype(np.float64), a)
        low, high = limits(e.data)
        if integral(e.args[0]):
            return _monotone(lambda x: (x - low) % float(high - low + 1) + low, a)
        return _monotone(lambda x: np.clip(np.trunc(x), low, high), a)

    # --- reductions ---

    def _reduce(self, e: Expr) -> Number:
        kind, bound = e.data
        depth, (found, kept) = self._over(bound, lambda: self._terms(e))
        inside = depth + len(bound)
        parts = [x.reshape(*x.shape, *(1,) * (inside - x.ndim)) for x in (*found, kept)]
        lead = np.broadcast_shapes(*(x.shape[:depth] for x in parts))
        *numbers, kept = (np.broadcast_to(x, (*lead, *(v.size for v in bound))) for x in parts)
        axes = tuple(range(depth, inside))
        reduce, nothing = _REDUCTIONS[kind]
        value, low, high = (np.where(kept, x, nothing) for x in numbers)
        total = reduce(value, axis=axes)
        if kind in ("max", "min"):
            return exactly(total) if found.exact else between(total, reduce(low, axis=axes), reduce(high, axis=axes))
        if integral(e) and found.exact:
            return exactly(total)
        steps = self.unit * np.maximum(kept.sum(axis=axes) - 1, 0)
        if kind == "product":
            largest = np.prod(np.maximum(np.abs(low), np.abs(high)), axis=axes)
            room = largest - np.prod(np.abs(value), axis=axes) + steps * largest
            return between(total, total - room, total + room)
        room = steps * np.maximum(np.abs(low), np.abs(high)).sum(axis=axes)
        return between(total, low.sum(axis=axes) - room, high.sum(axis=axes) + room)

    def _terms(self, e: Expr) -> tuple[Number, Array]:
        """The terms of a reduction, and which of them are kept."""
        body = e.args[0]
        inner = {node for r in walk(body) if bound_by(r) for node in walk(r.args[0])}
        kept: Array = np.ones((1,) * self.depth, bool)
        for node in walk(body):
            if node.op == "read" and node.data[1] == "skipped" and node not in inner:
                kept, inside = _aligned(kept, self._inside(node))
                kept = kept & inside
        if len(e.args) > 1:
            truth, sure = self.truth(e.args[1])
            if not np.all(sure):
                raise Unbounded("a condition on what is rounded")
            kept, truth = _aligned(kept, truth)
            kept = kept & truth
        return self.number(body), kept


def _aligned(*arrays: Any) -> list[Array]:
    """Arrays with as many axes as one another, new ones behind."""
    made = [np.asarray(x) for x in arrays]
    most = max(x.ndim for x in made)
    return [x.reshape(*x.shape, *(1,) * (most - x.ndim)) for x in made]


def _is_exact(a: Number) -> bool:
    return a.exact or bool(np.all((a.low == a.high) | np.isnan(a.value)))


def _chosen(truth: Array, a: Number, b: Number) -> Number:
    """One of two numbers for each element."""
    truth, x, y = _aligned(truth, a.value, b.value)
    if a.exact and b.exact:
        return exactly(np.where(truth, x, y))
    return Number(np.where(truth, x, y), *(np.where(*_aligned(truth, *ends)) for ends in ((a.low, b.low), (a.high, b.high))))


def _monotone(function: Callable[[Array], Array], a: Number) -> Number:
    value = function(a.value)
    if a.exact:
        return exactly(value)
    one, other = function(a.low), function(a.high)
    return between(value, np.fmin(one, other), np.fmax(one, other))


def _power_like(function: Callable[[Array], Array], a: Number) -> Number:
    """A function that falls up to 0 and rises from there."""
    found = _monotone(function, a)
    if a.exact:
        return found
    through = (a.low < 0) & (a.high > 0)
    return Number(found.value, np.where(through, function(np.zeros(1)), found.low), found.high)


def _extreme(pick: Callable[[Array, Array], Array], a: Number, b: Number) -> Number:
    value = pick(*_aligned(a.value, b.value))
    if a.exact and b.exact:
        return exactly(value)
    return between(value, *(pick(*_aligned(*ends)) for ends in ((a.low, b.low), (a.high, b.high))))


def _limits(x: Number, body: Number, values: Mapping[str, str]) -> Number:
    at, value, low, high = _aligned(x.value, *body)
    for side, infinity in (("low", -np.inf), ("high", np.inf)):
        if side in values:
            value, low, high = (np.where(at == infinity, float(values[side]), x) for x in (value, low, high))
    return Number(value, low, high)


def _function(op: str) -> Callable[[Array], Array]:
    return _MONOTONE[op] if op in _MONOTONE else _erf(op == "erfc")


def _erf(complement: bool) -> Callable[[Array], Array]:
    """The error function, or 1 minus it, within 1e-12: its series near 0, and its continued fraction elsewhere."""

    def apply(x: Array) -> Array:
        size = np.abs(x)
        near = np.minimum(size, 3.0)
        term, total = near, near
        for n in range(1, 60):
            term = -term * near * near / n
            total = total + term / (2 * n + 1)
        small = total * (2 / np.sqrt(np.pi))
        far = np.maximum(size, 2.0)
        fraction = far
        for n in range(60, 0, -1):
            fraction = far + n / 2 / fraction
        tail = np.exp(-far * far) / np.sqrt(np.pi) / fraction
        if complement:
            beyond = np.where(size < 2.0, 1 - small, tail)
            return np.asarray(np.where(x < 0, 2 - beyond, beyond))
        return np.asarray(np.copysign(np.where(size < 2.0, small, 1 - tail), x))

    return apply
