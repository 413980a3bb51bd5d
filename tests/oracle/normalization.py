"""Normalisations: by means and variances, by norms, and by the energy of neighbours."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from gmpy2 import mpfr, mpq

from .activation import Attributes, Inputs, Outputs, Results, activation
from .arithmetic import add, divide, interval, log_magnitude, multiply, negative, subtract
from .numbers import EXACT, NAN, Array, Value, exact, stored, values
from .reals import Arithmetic, Interval, Real, ladder
from .reduce import groups
from .rows import ungroup
from .unary import power


def over_root(x: Value, square: Value) -> Value:
    """x / sqrt(square)."""
    if type(square) is float:
        return divide(x, square if square == 0 or square > 0 else NAN)
    if square < 0:
        return NAN
    if type(x) is float:
        return x
    n, d = math.isqrt(int(square.numerator)), math.isqrt(int(square.denominator))
    if n * n == square.numerator and d * d == square.denominator:
        return divide(x, mpq(n, d))
    return multiply(x, Real(lambda k: k.rising("sqrt", k.of(1 / square))))


def fused(attributes: Attributes) -> Callable[[Value], Value]:
    """The activation of an operator, which takes numbers that are irrational, too."""
    desc = attributes.get("fused_activation")
    function = activation(desc)
    return function if desc is None else lambda x: applied(function, x)


def applied(function: Callable[[Value], Value], x: Value) -> Value:
    """A function of exact numbers at a number that may be irrational: what it gives at both ends of an interval around it.

    Where the function rises or falls, what lies between is between. Where it turns, it differs from the ends by their
    distance squared, which is nothing beside an interval; where it jumps, the interval is made smaller until it does not.
    """
    if not isinstance(x, Real):
        return function(x)

    def ends(k: Arithmetic) -> list[Value]:
        return [function(exact(float(end)) if end == 0 else mpq(end)) for end in x.bounds(k)]

    for k in ladder():
        found = ends(k)
        if all(type(y) is float for y in found) and repr(found[0]) == repr(found[1]):
            return found[0]
        if all(type(y) is EXACT for y in found) and found[0] == found[1]:
            return found[0]
        if not any(type(y) is float for y in found):
            break
    else:
        raise ArithmeticError("an activation could not be told from zero")
    return Real(
        lambda k: hull([(mpfr(y), mpfr(y)) if type(y) is float else interval(y, k) for y in ends(k)]),
        lambda k: hull([log_magnitude(y, k) for y in ends(k)]),
    )


def hull(intervals: Sequence[Interval]) -> Interval:
    return min(low for low, _ in intervals), max(high for _, high in intervals)


def total(terms: Sequence[Value]) -> Value:
    found: Value = -0.0
    for x in terms:
        found = add(found, x)
    return found


def mean(row: Sequence[Value]) -> Value:
    return divide(total(row), mpq(len(row)))


def spread(parameter: Array | None, sizes: Sequence[int], axes: Sequence[int]) -> list[list[Value]] | None:
    """A parameter's elements for those of each group."""
    if parameter is None:
        return None
    return [values(row) for row in groups(np.broadcast_to(parameter, sizes), axes)]


def mean_variance(attributes: Attributes, inputs: Inputs, outputs: Outputs) -> Results:
    x = inputs["input_tensor"]
    sizes, dtype = outputs["output_tensor"]
    axes = attributes.get("axes") or ((1, 2, 3) if attributes["cross_channel"] else (2, 3))
    use_variance = attributes["use_variance"] if "use_variance" in attributes else attributes["normalize_variance"]
    epsilon, function = exact(attributes["epsilon"]), fused(attributes)
    scales, biases = (spread(inputs.get(name), sizes, axes) for name in ("scale_tensor", "bias_tensor"))
    results: list[Value] = []
    rows = groups(x, axes)
    for at, row in enumerate(rows):
        elements = values(row)
        if attributes.get("use_mean", True):
            middle = mean(elements)
            elements = [subtract(e, middle) for e in elements]
        square = add(mean([multiply(e, e) for e in elements]), epsilon)
        if scales is not None:
            elements = [multiply(s, e) for s, e in zip(scales[at], elements, strict=True)]
        if use_variance:
            elements = [over_root(e, square) for e in elements]
        if biases is not None:
            elements = [add(e, b) for e, b in zip(elements, biases[at], strict=True)]
        results += map(function, elements)
    return {"output_tensor": ungroup(stored(results, rows.shape, dtype), sizes, axes)}


def batch(attributes: Attributes, inputs: Inputs, outputs: Outputs) -> Results:
    sizes, dtype = outputs["output_tensor"]
    names = [f"{name}_tensor" for name in ("input", "mean", "variance", "scale", "bias")]
    tensors = (values(np.broadcast_to(inputs[name], sizes)) for name in names)
    epsilon, function = exact(attributes["epsilon"]), fused(attributes)

    def result(x: Value, middle: Value, variance: Value, scale: Value, bias: Value) -> Value:
        centred = multiply(scale, subtract(x, middle))
        return function(add(over_root(centred, add(variance, epsilon)), bias))

    return {"output_tensor": stored(map(result, *tensors), sizes, dtype)}


def lp(attributes: Attributes, inputs: Inputs, outputs: Outputs) -> Results:
    """A line of zeros stays as it is."""
    sizes, dtype = outputs["output_tensor"]
    rows = groups(inputs["input_tensor"], (attributes["axis"],))
    epsilon, p = exact(attributes["epsilon"]), attributes["p"]
    results: list[Value] = []
    for row in rows:
        elements = values(row)
        size = total([multiply(e, e) if p == 2 else magnitude(e) for e in elements])
        if type(size) is float and size == 0:
            results += elements
        elif p == 2:
            results += [over_root(e, add(size, epsilon)) for e in elements]
        else:
            results += [divide(e, add(size, epsilon)) for e in elements]
    return {"output_tensor": ungroup(stored(results, rows.shape, dtype), sizes, (attributes["axis"],))}


def magnitude(x: Value) -> Value:
    return abs(x)


def power_of(x: Value, y: Value) -> Value:
    """IEEE 754's pow of any fraction, where that of `unary` takes what a binary format has."""
    if type(x) is not EXACT or type(y) is not EXACT or x < 0 or x.denominator & (x.denominator - 1) == 0:
        return power(x, y)
    if y.denominator == 1 and abs(y) <= 64:
        return x ** int(y)

    def logarithm(k: Arithmetic) -> Interval:
        return k.multiply(k.of(y), k.rising("log", k.of(x)))

    return Real(lambda k: k.rising("exp", logarithm(k)), logarithm)


def local_response(attributes: Attributes, inputs: Inputs, outputs: Outputs) -> Results:
    sizes, dtype = outputs["output_tensor"]
    x = np.empty(sizes, object)
    x.ravel()[:] = values(inputs["input_tensor"])
    size = attributes["local_size"]
    share = divide(exact(attributes["alpha"]), mpq(size))
    bias, exponent = exact(attributes["bias"]), negative(exact(attributes["beta"]))
    results = []
    for n, c, h, w in np.ndindex(*sizes):
        around = [slice(max(0, at - (size - 1) // 2), at + size // 2 + 1) for at in (c, h, w)]
        near = x[n, around[0], h, w] if attributes["cross_channel"] else x[n, c, around[1], around[2]]
        energy = add(multiply(share, total([multiply(e, e) for e in near.ravel()])), bias)
        results.append(multiply(x[n, c, h, w], power_of(energy, exponent)))
    return {"output_tensor": stored(results, sizes, dtype)}


OPERATORS: dict[str, Any] = {
    "LOCAL_RESPONSE_NORMALIZATION": local_response,
    "LP_NORMALIZATION": lp,
    "BATCH_NORMALIZATION": batch,
    **{f"MEAN_VARIANCE_NORMALIZATION{version}": mean_variance for version in ("", "1", "2")},
}
