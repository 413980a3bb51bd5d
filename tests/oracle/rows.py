"""ACTIVATION_SOFTMAX, LOG_SOFTMAX and HARDMAX, over the last dimension or over given axes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from gmpy2 import mpq

from .activation import Attributes, Inputs, Operator, Outputs, Results
from .numbers import INFINITY, NAN, ONE, Array, Value, stored, values
from .reals import Arithmetic, Interval, Real
from .reduce import arg_extreme, groups


def ungroup(rows: Array, sizes: Sequence[int], axes: Sequence[int]) -> Array:
    """The inverse of `groups`."""
    reduced = sorted(axes)
    order = [axis for axis in range(len(sizes)) if axis not in reduced] + reduced
    return np.ascontiguousarray(rows.reshape([sizes[axis] for axis in order]).transpose(np.argsort(order)))


def below_greatest(row: Sequence[Value]) -> list[Any] | None:
    """x - max for each element, exactly; -infinity for an infinite one. None if the row has no result."""
    if any(type(x) is float and (x != x or x == INFINITY) for x in row):
        return None
    finite = [mpq(0) if x == 0 else x for x in row if type(x) is not float or x == 0]
    if not finite:
        return None
    greatest = max(finite)
    return [x if type(x) is float and x != 0 else (mpq(x) - greatest) for x in row]


class Powers:
    """The sum of e^d over a row with largest d = 0, and the sum without one of the largest; cached for each precision."""

    def __init__(self, differences: Sequence[Any]) -> None:
        self.others = [d for d in differences if type(d) is not float]
        self.others.remove(0)
        self.kept: dict[int, Interval] = {}

    def rest(self, k: Arithmetic) -> Interval:
        if k.precision not in self.kept:
            self.kept[k.precision] = k.sum(k.rising("exp", k.of(d)) for d in self.others)
        return self.kept[k.precision]

    def all(self, k: Arithmetic) -> Interval:
        return k.add(k.one, self.rest(k))


def softmax_row(row: Sequence[Value]) -> list[Value]:
    differences = below_greatest(row)
    if differences is None:
        return [NAN] * len(row)
    powers = Powers(differences)
    count = len(powers.others) + 1
    if not any(powers.others):  # all finite elements are equal
        return [0.0 if type(d) is float else mpq(1, count) for d in differences]
    known: dict[Any, Value] = {}

    def one(d: Any) -> Value:
        if type(d) is float:
            return 0.0
        if d not in known:
            known[d] = Real(lambda k: k.divide(k.rising("exp", k.of(d)) if d else k.one, powers.all(k)))
        return known[d]

    return [one(d) for d in differences]


def log_softmax_row(row: Sequence[Value]) -> list[Value]:
    """d - ln(sum of e^d): two terms with one sign, so that nothing cancels."""
    differences = below_greatest(row)
    if differences is None:
        return [NAN] * len(row)
    powers = Powers(differences)
    if not powers.others:  # a single element is finite
        return [d if type(d) is float else 0.0 for d in differences]

    def one(d: Any) -> Value:
        if type(d) is float:
            return d

        def bounds(k: Arithmetic) -> Interval:
            logarithm = k.negative(k.rising("log1p", powers.rest(k)))
            return k.add(k.of(d), logarithm) if d else logarithm

        return Real(bounds)

    return [one(d) for d in differences]


def hardmax_row(row: Array) -> list[Value]:
    winner = arg_extreme(row, 1)
    return [ONE if index == winner else 0.0 for index in range(len(row))]


def over_rows(function: Callable[[Any], list[Value]], as_values: bool = True) -> Operator:
    def compute(attributes: Attributes, inputs: Inputs, outputs: Outputs) -> Results:
        array = inputs["input_tensor"]
        sizes, dtype = outputs["output_tensor"]
        axes = attributes.get("axes", (array.ndim - 1,))
        rows = groups(array, axes)
        results = [x for row in rows for x in function(values(row) if as_values else row)]
        return {"output_tensor": ungroup(stored(results, rows.shape, dtype), sizes, axes)}

    return compute


OPERATORS = {
    f"ACTIVATION_{name}{version}": compute
    for name, compute in (
        ("SOFTMAX", over_rows(softmax_row)),
        ("LOG_SOFTMAX", over_rows(log_softmax_row)),
        ("HARDMAX", over_rows(hardmax_row, as_values=False)),
    )
    for version in ("", "1")
}
