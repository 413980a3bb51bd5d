"""The numbers of a statement at some points, each with bounds that every operation widens by its rounding."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from anydml.explain import bounded_rows
from anydml.explain.bounded import (
    DOMAINS,
    MONOTONE,
    OF_EXACT,
    SLOPE_ONE,
    WHOLE,
    Number,
    Unbounded,
    aligned,
    at_limits,
    between,
    chosen,
    exactly,
    extreme,
    fixed_point,
    is_exact,
    monotone,
    named_function,
    power_like,
    tangent,
)
from anydml.explain.bounded_places import Places
from anydml.explain.bounded_states import States
from anydml.schema.node import Expr
from anydml.schema.traversal import bound_by, integral, walk
from anydml.tensor import limits

Array = NDArray[Any]

FUNCTION_ULPS = 4
# rounding unit -> half of the smallest subnormal number; devices that compute in bfloat16 take subnormal numbers for 0
LEAST = {2.0**-24: 2.0**-150, 2.0**-11: 2.0**-25, 2.0**-8: 2.0**-126}

REDUCTIONS: Mapping[str, tuple[Callable[..., Array], float]] = {  # with the result for no terms
    "sum": (np.sum, 0.0), "product": (np.prod, 1.0), "max": (np.max, -np.inf), "min": (np.min, np.inf),
}  # fmt: skip


class Evaluation(Places):
    """The values of the nodes of one statement at some points."""

    def __init__(self, inputs: Mapping[str, Number], index: Sequence[Expr], points: Array, unit: float, states: States) -> None:
        super().__init__(index, points)
        self.inputs, self.unit, self.states = inputs, unit, states
        self.numbers: dict[Expr, Number] = {}

    def rounded(self, value: Array, low: Array, high: Array, units: Array | float = 1.0) -> Number:
        """Numbers with bounds widened by one rounding, or by `units` roundings, which change no sign."""
        room, least = units * self.unit, units * LEAST[self.unit]
        below, above = low - room * np.abs(low) - least * (low != 0), high + room * np.abs(high) + least * (high != 0)
        for end, made in ((low, below), (high, above)):
            if (crossed := end * made < 0).any():
                np.copyto(made, 0.0, where=crossed)
        return between(value, below, above)

    def number(self, e: Expr) -> Number:
        if e not in self.numbers:
            self.numbers[e] = self._number(e)
        return self.numbers[e]

    def _number(self, e: Expr) -> Number:
        if e.op == "constant":
            return exactly(np.array([float(e.data.value)]))
        if e.op == "position":
            return self._position(e.args[0])
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
            return extreme(np.maximum if e.op == "max" else np.minimum, *args)
        if e.op == "neg":
            return exactly(-args[0].value) if args[0].exact else Number(-args[0].value, -args[0].high, -args[0].low)
        if e.op == "absolute":
            return power_like(np.abs, args[0])
        if e.op in WHOLE:
            return monotone(WHOLE[e.op], args[0])
        if e.op == "power":
            return self._power(args[0], e.data)
        if e.op == "limits":
            return at_limits(args[0], args[1], dict(e.data))
        if e.op in ("round", "held"):
            return self._held(e, args[0])
        if e.op == "multiplied":  # in fixed point; see `forms_of_integers`
            return fixed_point(args[0], args[1], e.data)
        if e.op == "widened":  # by `data` units of another number's size; see `forms`
            value, low, high, room = aligned(*args[0], np.fmax(np.abs(args[1].low), np.abs(args[1].high)) * e.data * self.unit)
            return between(value, low - room, high + room)
        found = self._function(e.op, args)
        if e.op == "log" and np.isposinf(found.value).any() and (x := _softplus(e)) is not None:  # exp overflows
            wide = monotone(lambda x: np.logaddexp(0, x), self.number(x))
            return chosen(np.isposinf(found.value), self.rounded(*wide, 2 * FUNCTION_ULPS), found)
        return found

    def _function(self, op: str, args: Sequence[Number]) -> Number:
        units = 2 * FUNCTION_ULPS  # a unit in the last place is two roundings
        if op == "tan":
            found = tangent(args[0])
        elif op == "cosh":
            found = power_like(np.cosh, args[0])
        elif op in MONOTONE or op in ("erf", "erfc"):
            found = monotone(named_function(op), args[0], DOMAINS.get(op))
        elif op in SLOPE_ONE:
            value, width = SLOPE_ONE[op](args[0].value), args[0].high - args[0].low
            found = Number(value, value - width, value + width)
        elif op == "pow" and is_exact(args[1]) and np.all(args[0].low > 0):
            value, low, high = (np.power(*aligned(x, args[1].value)) for x in args[0])
            found = between(value, np.fmin(low, high), np.fmax(low, high))
        elif op in OF_EXACT and all(map(is_exact, args)):
            found = exactly(OF_EXACT[op](*aligned(*(a.value for a in args))))
        else:
            raise Unbounded(op)
        return self.rounded(*found, units)

    def _read(self, e: Expr) -> Number:
        tensor, mode = e.data
        if (found := self._in_order(e)) is not None:
            return found
        if tensor.definition is not None:
            given = self.states.read(tensor, self.index(e.args[0]))
        elif tensor.name in self.inputs:
            given = self.inputs[tensor.name]
        else:
            raise Unbounded("a tensor whose elements are not known")
        indices = aligned(*(self.index(a) for a in e.args[: len(tensor.sizes)]))
        at = tuple(np.clip(i, 0, n - 1) for i, n in zip(indices, tensor.sizes, strict=True))
        found = exactly(given.value[at].astype(np.float64))
        if not given.exact:
            found = Number(found.value, given.low[at].astype(np.float64), given.high[at].astype(np.float64))
        return found if mode != "otherwise" else chosen(self._inside(e), found, self.number(e.args[-1]))

    def _in_order(self, e: Expr) -> Number | None:
        """An element read in the sorted order of its own row, where that row is rounded; None for anything else."""
        ranks = [a for a in e.args if a.op == "rank"]
        if len(ranks) != 1 or e.data[1] != "inside":
            return None
        (rank,) = ranks
        key = rank.args[0]
        if key.op != "read" or key.data != e.data:
            return None
        (bound,) = bound_by(rank)
        for a, k in zip(e.args, key.args, strict=True):
            along = a is rank and k.op == "variable" and k.data is bound
            if k is not a and not along:
                return None
        row, place = self.sorted_row(rank)
        return None if is_exact(row) else bounded_rows.element(row, place, decreasing=rank.data[1])

    def _position(self, e: Expr) -> Number:
        """An index as a number, with bounds if it depends on the order of rounded numbers."""
        if e.op == "rank":
            row, place = self.sorted_row(e)
            if not is_exact(row):
                return bounded_rows.position(row, place, decreasing=e.data[1])
        elif e.op in ("first_largest", "first_smallest"):
            row, there = self.row_of(e)
            if not is_exact(row):
                return bounded_rows.first(row, there, smallest=e.op == "first_smallest", value=self.first_of(e, row, there))
        return exactly(self.index(e).astype(np.float64))

    def _inside(self, e: Expr) -> Array:
        inside: Array = np.ones((1,), bool)
        for a, n in zip(e.args, e.data[0].sizes, strict=False):
            i, inside = aligned(self.index(a), inside)
            inside = inside & (i >= 0) & (i < n)
        return inside

    def _select(self, e: Expr) -> Number:
        truth, sure = self.truth(e.args[0])
        a, b = self.number(e.args[1]), self.number(e.args[2])
        found = chosen(truth, a, b)
        if np.all(sure):
            return found
        sure, value, low, high, *ends = aligned(sure, *found, a.low, b.low, a.high, b.high)
        return Number(value, np.where(sure, low, np.fmin(ends[0], ends[1])), np.where(sure, high, np.fmax(ends[2], ends[3])))

    def _arithmetic(self, e: Expr, a: Number, b: Number) -> Number:
        apply = {"add": np.add, "sub": np.subtract, "mul": np.multiply, "div": np.divide}[e.op]
        value = apply(*aligned(a.value, b.value))
        units = 2 if e.op == "div" else 1  # a quotient may be a product with a reciprocal
        if a.exact and b.exact:
            return exactly(value) if integral(e) else self.rounded(value, value, value, units)
        corners = [apply(*aligned(x, y)) for x in (a.low, a.high) for y in (b.low, b.high)]
        low, high = (pick(pick(*corners[:2]), pick(*corners[2:])) for pick in (np.fmin, np.fmax))
        if e.op == "div":
            below, above, low, high = aligned(b.low, b.high, low, high)
            through = (below <= 0) & (above >= 0)  # of a divisor that can only be 0, quotients are not finite: see `between`
            low, high = np.where(through, -np.inf, low), np.where(through, np.inf, high)
        return between(value, low, high) if integral(e) else self.rounded(value, low, high, units)

    def _power(self, a: Number, exponent: int) -> Number:
        def power(x: Array) -> Array:
            return np.asarray(x**exponent)

        if not a.exact and exponent < 0:
            raise Unbounded("a negative power of rounded numbers")
        found = monotone(power, a) if exponent % 2 else power_like(power, a)
        return self.rounded(*found, abs(exponent))

    def _held(self, e: Expr, a: Number) -> Number:
        name = e.data.name
        if name.startswith("FLOAT"):
            dtype = e.data.dtype
            return monotone(lambda x: x.astype(dtype).astype(np.float64), a)
        low, high = limits(e.data)
        if integral(e.args[0]):
            return monotone(lambda x: (x - low) % float(high - low + 1) + low, a)
        return monotone(lambda x: np.clip(np.trunc(x), low, high), a)

    # --- reductions ---

    def _reduce(self, e: Expr) -> Number:
        kind, bound = e.data
        depth, (found, kept) = self._over(bound, lambda: self._terms(e))
        inside = depth + len(bound)
        parts = [x.reshape(*x.shape, *(1,) * (inside - x.ndim)) for x in (*found, kept)]
        lead = np.broadcast_shapes(*(x.shape[:depth] for x in parts))
        *numbers, kept = (np.broadcast_to(x, (*lead, *(v.size for v in bound))) for x in parts)
        axes = tuple(range(depth, inside))
        reduce, nothing = REDUCTIONS[kind]
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
        sizes = np.maximum(np.abs(low), np.abs(high)).sum(axis=axes)
        room = steps * sizes
        least, most = low.sum(axis=axes), high.sum(axis=axes)
        below, above = least - room, most + room
        if (most == sizes).any():  # perhaps no term is negative, and then their sum is not
            below = np.where(low.min(axis=axes, initial=0.0) < 0, below, np.fmax(below, 0))
        if (least == -sizes).any():
            above = np.where(high.max(axis=axes, initial=0.0) > 0, above, np.fmin(above, 0))
        return between(total, below, above)

    def _terms(self, e: Expr) -> tuple[Number, Array]:
        """The terms of a reduction, and which of them are kept."""
        body = e.args[0]
        inner = {node for r in walk(body) if bound_by(r) for node in walk(r.args[0])}
        kept: Array = np.ones((1,) * self.depth, bool)
        for node in walk(body):
            if node.op == "read" and node.data[1] == "skipped" and node not in inner:
                kept, inside = aligned(kept, self._inside(node))
                kept = kept & inside
        if len(e.args) > 1:
            truth, sure = self.truth(e.args[1])
            if not np.all(sure):
                raise Unbounded("a condition on rounded numbers")
            kept, truth = aligned(kept, truth)
            kept = kept & truth
        return self.number(body), kept


def _softplus(e: Expr) -> Expr | None:
    """The number x of log(1 + exp(x))."""
    total = e.args[0]
    if total.op != "add":
        return None
    one, power = total.args
    return power.args[0] if one.op == "constant" and one.data.value == 1 and power.op == "exp" else None
