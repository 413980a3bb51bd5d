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
    """Approximate numbers, and how far each may be off."""

    value: Array
    error: Array | float = 0.0

    @property
    def exact(self) -> bool:
        return isinstance(self.error, float) and self.error == 0.0

    @property
    def low(self) -> Array:
        return self.value if self.exact else self.value - self.error

    @property
    def high(self) -> Array:
        return self.value if self.exact else self.value + self.error


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


class _Evaluation:
    """The nodes of one statement at some points. Arrays have the points first, then an axis for each bound variable."""

    def __init__(self, inputs: Mapping[str, Number], index: Sequence[Expr], points: Array, unit: float) -> None:
        self.inputs, self.unit = inputs, unit
        self.indices: dict[Expr, Array] = {}
        self.truths: dict[Expr, tuple[Array, Array]] = {}
        self.numbers: dict[Expr, Number] = {}
        self.axes: dict[Variable, Array] = {i.data: points[:, a] for a, i in enumerate(index)}
        self.depth = 1

    def rounded(self, value: Array, error: Array | float, units: float = 1.0) -> Number:
        """A number that was rounded, once or `units` times; what is infinite was not."""
        return Number(value, np.where(np.isfinite(value), error + units * self.unit * np.abs(value), 0.0))

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
        if not found.exact and np.any(found.error):
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
            x, y, off, other = _aligned(a.value, b.value, a.error, b.error)
            total = off + other
            return compared(x, y), (total == 0) | ~(np.abs(x - y) <= total)
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
        if last:
            return keys.shape[-1] - 1 - np.argmax(keys[..., ::-1], axis=-1)
        return np.argmax(keys, axis=-1)

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
            return Number(np.array([float(e.data.value)]))
        if e.op == "position":
            return Number(self.index(e.args[0]).astype(np.float64))
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
            return Number(-args[0].value, args[0].error)
        if e.op == "absolute":
            return Number(np.abs(args[0].value), args[0].error)
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
        if op in _MONOTONE or op in ("erf", "erfc", "cosh"):
            found = _monotone(_function(op), args[0])
        elif op in _SLOPE_ONE:
            found = Number(_SLOPE_ONE[op](args[0].value), args[0].error)
        elif op in _OF_EXACT and all(a.exact or not np.any(a.error) for a in args):
            return self.rounded(_OF_EXACT[op](*_aligned(*(a.value for a in args))), 0.0, units)
        else:
            raise Unbounded(op)
        return self.rounded(found.value, found.error, units)

    def _read(self, e: Expr) -> Number:
        tensor, mode = e.data
        if tensor.name not in self.inputs or tensor.definition is not None:
            raise Unbounded("a recurrence")
        given = self.inputs[tensor.name]
        indices = _aligned(*(self.index(a) for a in e.args[: len(tensor.sizes)]))
        at = tuple(np.clip(i, 0, n - 1) for i, n in zip(indices, tensor.sizes, strict=True))
        value = given.value[at].astype(np.float64)
        error: Array | float = given.error[at] if isinstance(given.error, np.ndarray) else given.error
        if mode == "otherwise":
            inside = self._inside(e)
            other = self.number(e.args[-1])
            inside, value, error, beyond, off = _aligned(inside, value, error, other.value, other.error)
            return Number(np.where(inside, value, beyond), np.where(inside, error, off))
        return Number(value, error)

    def _inside(self, e: Expr) -> Array:
        inside: Array = np.ones((1,), bool)
        for a, n in zip(e.args, e.data[0].sizes, strict=False):
            i, inside = _aligned(self.index(a), inside)
            inside = inside & (i >= 0) & (i < n)
        return inside

    def _select(self, e: Expr) -> Number:
        truth, sure = self.truth(e.args[0])
        a, b = self.number(e.args[1]), self.number(e.args[2])
        truth, sure, x, y, off, other = _aligned(truth, sure, a.value, b.value, a.error, b.error)
        value, error = np.where(truth, x, y), np.where(truth, off, other)
        if np.all(sure):
            return Number(value, 0.0 if a.exact and b.exact else error)
        return Number(value, np.where(sure, error, np.abs(x - y) + np.maximum(off, other)))

    def _arithmetic(self, e: Expr, a: Number, b: Number) -> Number:
        x, y, off, other = _aligned(a.value, b.value, a.error, b.error)
        if e.op in ("add", "sub"):
            value, error = (x + y if e.op == "add" else x - y), off + other
        elif e.op == "mul":
            value, error = x * y, np.abs(x) * other + np.abs(y) * off + off * other
        else:
            value = x / y
            room = np.abs(y) - other
            error = np.where(room > 0, (off + np.abs(value) * other) / room, np.inf)
        if a.exact and b.exact:
            return Number(value) if integral(e) else self.rounded(value, 0.0)
        error = np.where(np.isnan(error), 0.0, error)  # 0 * infinity: beside an infinite number nothing is off
        return Number(value, error) if integral(e) else self.rounded(value, error)

    def _power(self, a: Number, exponent: int) -> Number:
        x = a.value
        if a.exact:
            return self.rounded(x**exponent, 0.0, abs(exponent))
        largest = np.abs(x) + a.error
        slope = abs(exponent) * largest ** (exponent - 1) if exponent >= 1 else np.inf
        return self.rounded(x**exponent, slope * a.error, abs(exponent))

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
        value, error, kept = (
            x.reshape(*x.shape, *(1,) * (inside - x.ndim)) for x in (found.value, np.asarray(found.error), kept)
        )
        lead = np.broadcast_shapes(value.shape[:depth], error.shape[:depth], kept.shape[:depth])
        whole = (*lead, *(v.size for v in bound))
        value, error, kept = (np.broadcast_to(x, whole) for x in (value, error, kept))
        axes = tuple(range(depth, inside))
        nothing = {"sum": 0.0, "product": 1.0, "max": -np.inf, "min": np.inf}[kind]
        value, error = np.where(kept, value, nothing), np.where(kept, error, 0.0)
        if kind in ("max", "min"):
            pick = np.max if kind == "max" else np.min
            if found.exact:
                return Number(pick(value, axis=axes))
            best, low, high = (pick(x, axis=axes) for x in (value, value - error, value + error))
            return Number(best, _nearest(best, low, high))
        count = kept.sum(axis=axes)
        if kind == "product":
            total = value.prod(axis=axes)
            error = np.prod(np.abs(value) + error, axis=axes) - np.abs(total)
            return Number(total) if integral(e) else self.rounded(total, error, np.maximum(count - 1, 0))
        total = value.sum(axis=axes)
        if integral(e) and found.exact:
            return Number(total)
        sums = np.maximum(count - 1, 0) * self.unit * np.abs(value).sum(axis=axes)
        return Number(total, np.where(np.isfinite(total), error.sum(axis=axes) + sums, 0.0))

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


def _nearest(value: Array, low: Array, high: Array) -> Array:
    """How far the farther end is; 0 beside what is infinite, or where both are NaN."""
    error = np.maximum(high - value, value - low)
    return np.where(np.isnan(error), 0.0, error)


def _monotone(function: Callable[[Array], Array], a: Number) -> Number:
    value = function(a.value)
    if a.exact:
        return Number(value)
    ends = [np.abs(function(x) - value) for x in (a.low, a.high)]
    return Number(value, np.where(a.error == 0, 0.0, np.fmax(*ends)))


def _extreme(pick: Callable[[Array, Array], Array], a: Number, b: Number) -> Number:
    x, y = _aligned(a.value, b.value)
    value = pick(x, y)
    if a.exact and b.exact:
        return Number(value)
    low, high = (pick(*_aligned(*ends)) for ends in ((a.low, b.low), (a.high, b.high)))
    return Number(value, _nearest(value, low, high))


def _limits(x: Number, body: Number, values: Mapping[str, str]) -> Number:
    at, value, error = _aligned(x.value, body.value, body.error)
    for side, infinity in (("low", -np.inf), ("high", np.inf)):
        if side in values:
            there = at == infinity
            value, error = np.where(there, float(values[side]), value), np.where(there, 0.0, error)
    return Number(value, error)


def _function(op: str) -> Callable[[Array], Array]:
    if op == "cosh":
        return np.cosh
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
            return np.where(x < 0, 2 - beyond, beyond)
        return np.copysign(np.where(size < 2.0, small, 1 - tail), x)

    return apply
