"""REDUCE, all twelve functions; ARGMAX and ARGMIN."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from gmpy2 import mpq, mpz

from .activation import Attributes, Inputs, Outputs, Results
from .arithmetic import divide, greater, is_nan, maximum, minimum, nonzero
from .functions import logarithm
from .numbers import INFINITY, NAN, Array, Value, parts, square_root, stored, to_integer_array, values
from .reals import Arithmetic, Interval
from .sums import Scaled, number, scale, sums


def groups(array: Array, axes: Sequence[int]) -> Array:
    """A matrix with one row for each output, in row-major order, which has the output's elements in row-major order."""
    reduced = sorted(axes)
    kept = [axis for axis in range(array.ndim) if axis not in reduced]
    count = math.prod(array.shape[axis] for axis in reduced)
    return np.ascontiguousarray(array.transpose(kept + reduced)).reshape(-1, count)


def arg_extreme(row: Array, sign: int) -> int:
    """The index of the first NaN, else of the first extreme element; zeros of both signs are equal."""
    elements = row.tolist()  # a Python float represents every float16, float32 and float64
    for index, x in enumerate(elements):
        if x != x:
            return index
    best = max(elements) if sign > 0 else min(elements)
    return int(elements.index(best))


def log_sum_exp(row: Sequence[Value]) -> Value:
    """ln(sum of e^x) as the largest x plus ln(1 + sum of e^(x - largest) of the others)."""
    if any(is_nan(x) for x in row):
        return NAN
    finite = [mpq(0) if type(x) is float else x for x in row if type(x) is not float or x == 0]
    if INFINITY in [x for x in row if type(x) is float]:
        return INFINITY
    if not finite:
        return -INFINITY
    greatest = max(finite)
    if len(finite) == 1:
        return greatest or 0.0
    others = [x - greatest for x in finite]
    others.remove(0)

    def terms(k: Arithmetic) -> tuple[Interval, Interval]:
        rest = k.sum(k.rising("exp", k.of(x)) for x in others)
        return k.of(greatest), k.rising("log1p", rest)

    return nonzero(terms)


def product(significands: Sequence[int], exponents: Sequence[int], kinds: Sequence[float]) -> Value:
    with np.errstate(invalid="ignore"):
        kind = float(np.prod(kinds))
    if kind in (1.0, -1.0):
        return number(balanced(significands), sum(exponents))
    return kind


def balanced(factors: Sequence[int]) -> Any:
    """The product by halves, so that the factors of each multiplication have similar lengths."""
    if len(factors) <= 8:
        return mpz(math.prod(factors))
    half = len(factors) // 2
    return balanced(factors[:half]) * balanced(factors[half:])


def logarithm_of_sum(x: Value) -> Value:
    return NAN if greater(0.0, x) else logarithm(x)


def squares(x: Scaled) -> Scaled:
    return Scaled(x.integers * x.integers, 2 * x.exponent, x.kinds * x.kinds)


def magnitudes(x: Scaled) -> Scaled:
    return Scaled(abs(x.integers), x.exponent, abs(x.kinds))


def float_groups(function: str, rows: Array) -> list[Value]:
    """The results for a matrix of floating-point numbers, one for each row."""
    if function == "MULTIPLY":
        return [product(*(x.tolist() for x in row)) for row in zip(*parts(rows), strict=True)]
    if function in ("MIN", "MAX"):
        choose: Callable[[Value, Value], Value] = maximum if function == "MAX" else minimum
        results = []
        for row in rows:
            elements = values(row)
            best = elements[0]
            for x in elements[1:]:
                best = choose(best, x)
            results.append(best)
        return results
    if function == "LOG_SUM_EXP":
        return [log_sum_exp(values(row)) for row in rows]
    terms = scale(rows)
    if function == "L1":
        return sums(magnitudes(terms))
    if function == "SUM_SQUARE":
        return sums(squares(terms))
    if function == "L2":
        return [x if type(x) is float else square_root(x) for x in sums(squares(terms))]
    totals = sums(terms)
    if function == "AVERAGE":
        return [divide(x, mpq(rows.shape[1])) for x in totals]
    if function == "LOG_SUM":
        return [logarithm_of_sum(x) for x in totals]
    if function == "SUM":
        return totals
    raise ValueError(function)


INTEGER_FUNCTIONS: dict[str, Callable[[list[int]], int]] = {
    "SUM": sum,
    "MULTIPLY": math.prod,
    "L1": lambda row: sum(map(abs, row)),
    "SUM_SQUARE": lambda row: sum(x * x for x in row),
    "MIN": min,
    "MAX": max,
}


def reduce(attributes: Attributes, inputs: Inputs, outputs: Outputs) -> Results:
    function = attributes["function"]
    rows = groups(inputs["input_tensor"], attributes["axes"])
    sizes, dtype = outputs["output_tensor"]
    result: Any
    if function in ("ARGMAX", "ARGMIN"):
        result = to_integer_array((arg_extreme(row, 1 if function == "ARGMAX" else -1) for row in rows), sizes, dtype)
    elif rows.dtype.kind in "iu":
        result = to_integer_array((INTEGER_FUNCTIONS[function](row.tolist()) for row in rows), sizes, dtype)
    else:
        result = stored(float_groups(function, rows), sizes, dtype)
    return {"output_tensor": result}


def arg_operator(sign: int) -> Any:
    def compute(attributes: Attributes, inputs: Inputs, outputs: Outputs) -> Results:
        """The first of equal elements, or with DECREASING the last: the first in reversed order."""
        rows = groups(inputs["input_tensor"], attributes["axes"])
        if attributes["axis_direction"] == "INCREASING":
            places = [arg_extreme(row, sign) for row in rows]
        else:
            places = [rows.shape[1] - 1 - arg_extreme(row[::-1], sign) for row in rows]
        return {"output_tensor": to_integer_array(places, *outputs["output_tensor"])}

    return compute


OPERATORS = {"REDUCE": reduce, "ARGMAX": arg_operator(1), "ARGMIN": arg_operator(-1)}
