"""Numbers with bounds, and functions of them: a value, and the least and the largest that it may be."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]


class Unbounded(Exception):
    """Raised if a statement has a part for which no bound is known, such as the bits of integers."""


class Number(NamedTuple):
    """Numbers, and the least and the largest that each may be; three times the same array if nothing is rounded."""

    value: Array
    low: Array
    high: Array

    @property
    def exact(self) -> bool:
        return self.low is self.value


class Range(NamedTuple):
    """For each element, its approximate value, and the least and the largest value that rounding at each step explains."""

    value: Array
    low: Array
    high: Array


def exactly(value: Array) -> Number:
    """Numbers without rounding."""
    return Number(value, value, value)


def between(value: Array, low: Array, high: Array) -> Number:
    """Numbers with bounds, which are widened to include the number; numbers that are not finite are their own bounds."""
    finite = np.isfinite(value)
    return Number(value, np.where(finite, np.fmin(low, value), value), np.where(finite, np.fmax(high, value), value))


MONOTONE: Mapping[str, Callable[[Array], Array]] = {
    "exp": np.exp, "log": np.log, "expm1": np.expm1, "log1p": np.log1p, "asin": np.arcsin, "acos": np.arccos,
    "atan": np.arctan, "sinh": np.sinh, "tanh": np.tanh, "asinh": np.arcsinh, "acosh": np.arccosh, "atanh": np.arctanh,
    "sqrt": np.sqrt,
}  # fmt: skip
DOMAINS = {  # where rounding may leave them, a function is taken at their ends
    "sqrt": (0.0, np.inf), "log": (0.0, np.inf), "log1p": (-1.0, np.inf), "asin": (-1.0, 1.0), "acos": (-1.0, 1.0),
    "acosh": (1.0, np.inf), "atanh": (-1.0, 1.0),
}  # fmt: skip
SLOPE_ONE = {"sin": np.sin, "cos": np.cos}  # their slope is at most 1
WHOLE: Mapping[str, Callable[[Array], Array]] = {
    "floor": np.floor, "ceil": np.ceil, "truncate": np.trunc, "half_to_even": np.rint,
    "half_away": lambda x: np.copysign(np.floor(np.abs(x) + 0.5), x),
}  # fmt: skip
OF_EXACT: Mapping[str, Callable[..., Array]] = {
    "fmod": np.fmod, "floor_mod": lambda x, y: x - np.floor(x / y) * y, "atan2": np.arctan2, "pow": np.power,
}  # fmt: skip


def aligned(*arrays: Any) -> list[Array]:
    """The arrays with equally many axes; new ones are added at the end."""
    made = [np.asarray(x) for x in arrays]
    most = max(x.ndim for x in made)
    return [x.reshape(*x.shape, *(1,) * (most - x.ndim)) for x in made]


def is_exact(a: Number) -> bool:
    return a.exact or bool(np.all((a.low == a.high) | np.isnan(a.value)))


def chosen(truth: Array, a: Number, b: Number) -> Number:
    """One of two numbers for each element."""
    truth, x, y = aligned(truth, a.value, b.value)
    if a.exact and b.exact:
        return exactly(np.where(truth, x, y))
    return Number(np.where(truth, x, y), *(np.where(*aligned(truth, *ends)) for ends in ((a.low, b.low), (a.high, b.high))))


def monotone(function: Callable[[Array], Array], a: Number, domain: tuple[float, float] | None = None) -> Number:
    """A monotone function; domain: where it is defined. A number outside of it may lie at its end, if rounding says so."""
    value = function(a.value)
    if a.exact:
        return exactly(value)
    if domain is None:
        one, other = function(a.low), function(a.high)
    else:
        one, other = (function(np.clip(x, *domain)) for x in (a.low, a.high))
        reached = np.isnan(value) & (a.low <= domain[1]) & (a.high >= domain[0])
        value = np.where(reached, np.where(a.value < domain[0], one, other), value)
    return between(value, np.fmin(one, other), np.fmax(one, other))


def tangent(a: Number) -> Number:
    """The tangent, which may be any number if rounding takes it over a pole."""
    value = np.tan(a.value)
    if a.exact:
        return exactly(value)
    over = np.floor(a.low / np.pi + 0.5) != np.floor(a.high / np.pi + 0.5)
    return between(value, np.where(over, -np.inf, np.tan(a.low)), np.where(over, np.inf, np.tan(a.high)))


def power_like(function: Callable[[Array], Array], a: Number) -> Number:
    """The value of a function that decreases up to 0 and increases from there."""
    found = monotone(function, a)
    if a.exact:
        return found
    through = (a.low < 0) & (a.high > 0)
    return Number(found.value, np.where(through, function(np.zeros(1)), found.low), found.high)


def extreme(pick: Callable[[Array, Array], Array], a: Number, b: Number) -> Number:
    value = pick(*aligned(a.value, b.value))
    if a.exact and b.exact:
        return exactly(value)
    return between(value, *(pick(*aligned(*ends)) for ends in ((a.low, b.low), (a.high, b.high))))


def fixed_point(x: Number, multiplier: Number, bits: int) -> Number:
    """Numbers that are integers times a multiplier, if it is an integer of so many bits and a shift, and rounding comes twice.

    A multiplier below a half is shifted to the right by s >= 1 places after a first rounding, which errs by 2^-(s + 1).
    """
    value, low, high, size = aligned(*x, np.fmax(np.abs(multiplier.low), np.abs(multiplier.high)))
    with np.errstate(all="ignore"):
        first = np.where(size < 0.5, np.exp2(np.floor(np.log2(size))), 0.0)
    room = first + 2.0 ** (1 - bits) * np.fmax(np.abs(low), np.abs(high))
    return between(value, low - room, high + room)


def at_limits(x: Number, body: Number, values: Mapping[str, str]) -> Number:
    at, value, low, high = aligned(x.value, *body)
    for side, infinity in (("low", -np.inf), ("high", np.inf)):
        if side in values:
            value, low, high = (np.where(at == infinity, float(values[side]), x) for x in (value, low, high))
    return Number(value, low, high)


def named_function(op: str) -> Callable[[Array], Array]:
    return MONOTONE[op] if op in MONOTONE else _erf(op == "erfc")


def _erf(complement: bool) -> Callable[[Array], Array]:
    """The error function, or 1 minus it, within 1e-12: by its series near 0, by its continued fraction elsewhere."""

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
