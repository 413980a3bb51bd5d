"""Normalisations: by means and variances, by norms, and by the energy of neighbours."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial
from itertools import product
from typing import Any

import numpy as np
from gmpy2 import is_finite, mpfr, mpq

from .activation import Attributes, Inputs, Outputs, Results, activation
from .arithmetic import add, divide, interval, log_magnitude, multiply, negative, sign, subtract
from .numbers import EXACT, NAN, ONE, Array, Value, exact, stored, values
from .reals import Arithmetic, Interval, Real, Undecided, ladder, sign_of
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
    """The fused activation of an operator, also for irrational numbers."""
    desc = attributes.get("fused_activation")
    function = activation(desc)
    return function if desc is None else lambda x: applied(function, x)


def applied(function: Callable[[Value], Value], x: Value) -> Value:
    """A function of exact numbers, applied to a number that may be irrational: its results at both ends of an interval around
    it.

    If the function rises or falls, all results in between are enclosed. At an extremum, they differ from those at the ends by
    the square of the width, which is negligible. At a jump, the interval is narrowed until it contains none.
    """
    if not isinstance(x, Real):
        return function(x)

    def ends(k: Arithmetic) -> list[Value]:
        if not all(map(is_finite, x.bounds(k))):
            raise Undecided("an activation's argument is beyond the range of MPFR")
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
        raise Undecided("an activation could not be told from zero")

    def log(k: Arithmetic) -> Interval:
        numbers = next(ys for ys in map(ends, (k, *ladder())) if not any(type(y) is float for y in ys))
        return hull([log_magnitude(y, k) for y in numbers])

    return Real(lambda k: hull([(mpfr(y), mpfr(y)) if type(y) is float else interval(y, k) for y in ends(k)]), log)


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
    """A parameter's elements for the elements of each group."""
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
    """A line of zeros is unchanged."""
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
    """IEEE 754's pow for any fraction; that of `unary` takes numbers of binary formats."""
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


def local_response_gradient(attributes: Attributes, inputs: Inputs, outputs: Outputs) -> Results:
    sizes, dtype = outputs["output_gradient_tensor"]
    x, g = np.empty(sizes, object), np.empty(sizes, object)
    x.ravel()[:], g.ravel()[:] = values(inputs["input_tensor"]), values(inputs["input_gradient_tensor"])
    size = attributes["local_size"]
    share, beta = divide(exact(attributes["alpha"]), mpq(size)), exact(attributes["beta"])
    energy = np.empty(sizes, object)
    members: dict[Any, list[Any]] = {i: [] for i in np.ndindex(*sizes)}  # the windows that contain an element
    for n, c, h, w in np.ndindex(*sizes):
        spans = [
            range(max(0, at - (size - 1) // 2), min(at + size // 2 + 1, most))
            for at, most in zip((c, h, w), sizes[1:], strict=True)
        ]
        window = product(spans[0], [h], [w]) if attributes["cross_channel"] else product([c], spans[1], spans[2])
        around = [(n, *at) for at in window]
        for at in around:
            members[at].append((n, c, h, w))
        energy[n, c, h, w] = add(multiply(share, total([multiply(x[at], x[at]) for at in around])), exact(attributes["bias"]))
    results = []
    factor = multiply(multiply(share, beta), mpq(2))
    for i in np.ndindex(*sizes):
        terms = [multiply(multiply(g[j], x[j]), power_of(energy[j], negative(add(beta, mpq(1))))) for j in members[i]]
        own = multiply(g[i], power_of(energy[i], negative(beta)))
        results.append(subtract(own, multiply(multiply(factor, x[i]), total(terms))))
    return {"output_gradient_tensor": stored(results, sizes, dtype)}


class Batches:
    """Elements in groups with the same mean: along the dimensions in which the parameters have size 1."""

    def __init__(self, sizes: Sequence[int], parameters: Sequence[int]) -> None:
        self.sizes, self.parameters = tuple(sizes), tuple(parameters)

    def of(self, at: Sequence[int]) -> tuple[int, ...]:
        return tuple(0 if n == 1 else i for i, n in zip(at, self.parameters, strict=True))

    def groups(self) -> dict[tuple[int, ...], list[tuple[int, ...]]]:
        found: dict[tuple[int, ...], list[tuple[int, ...]]] = {}
        for at in np.ndindex(*self.sizes):
            found.setdefault(self.of(at), []).append(at)
        return found


def as_objects(array: Array) -> Any:
    made = np.empty(array.shape, object)
    made.ravel()[:] = values(array)
    return made


def batch_gradient(attributes: Attributes, inputs: Inputs, outputs: Outputs, *, training: bool = False) -> Results:
    x, g, means, variances, scales = (
        as_objects(inputs[f"{name}_tensor"]) for name in ("input", "input_gradient", "mean", "variance", "scale")
    )
    epsilon = exact(attributes["epsilon"] or 0.0)
    batches = Batches(x.shape, scales.shape)
    passed = np.empty(x.shape, object)
    to_scale, to_bias = np.empty(scales.shape, object), np.empty(scales.shape, object)
    for p, places in batches.groups().items():
        square = add(variances[p], epsilon)
        middle = mean([x[at] for at in places]) if training else means[p]
        centred = {at: subtract(x[at], middle) for at in places}
        products = [multiply(g[at], centred[at]) for at in places]
        to_scale[p] = over_root(total(products), square)
        to_bias[p] = total([g[at] for at in places])
        slope = divide(mean(products), square)
        for at in places:
            own = g[at]
            if training:
                own = subtract(subtract(own, mean([g[b] for b in places])), multiply(centred[at], slope))
            passed[at] = over_root(multiply(scales[p], own), square)
    made = {"output_gradient_tensor": passed, "output_scale_gradient_tensor": to_scale}
    made["output_bias_gradient_tensor"] = to_bias
    return {name: stored(array.ravel().tolist(), *outputs[name]) for name, array in made.items()}


def batch_training(attributes: Attributes, inputs: Inputs, outputs: Outputs) -> Results:
    x, scales, biases = (as_objects(inputs[f"{name}_tensor"]) for name in ("input", "scale", "bias"))
    added = inputs.get("fused_add_tensor")
    terms = None if added is None else as_objects(added)
    epsilon, function = exact(attributes["epsilon"]), fused(attributes)
    made: dict[str, Any] = {"output_tensor": np.empty(x.shape, object)}
    made |= {name: np.empty(scales.shape, object) for name in ("output_mean_tensor", "output_variance_tensor")}
    for p, places in Batches(x.shape, scales.shape).groups().items():
        middle = mean([x[at] for at in places])
        variance = mean([multiply(c, c) for c in (subtract(x[at], middle) for at in places)])
        made["output_mean_tensor"][p], made["output_variance_tensor"][p] = middle, variance
        for at in places:
            scaled = multiply(scales[p], subtract(x[at], middle))
            result = add(over_root(scaled, add(variance, epsilon)), biases[p])
            made["output_tensor"][at] = function(result if terms is None else add(result, terms[at]))
    return {name: stored(array.ravel().tolist(), *outputs[name]) for name, array in made.items()}


def root(x: Value) -> Value:
    """A square root; that of -0 is -0."""
    if type(x) is float:
        return x if x == 0 or x > 0 else NAN
    if sign(x) < 0:
        return NAN
    if isinstance(x, Real):
        return Real(lambda k: k.rising("sqrt", x.bounds(k)))
    n, d = math.isqrt(int(x.numerator)), math.isqrt(int(x.denominator))
    if n * n == x.numerator and d * d == x.denominator:
        return mpq(n, d)
    return Real(lambda k: k.rising("sqrt", k.of(x)))


def quotient(a: Value, b: Value) -> Value:
    """a / b; b may be a Real."""
    if not isinstance(b, Real):
        return divide(a, b)
    if type(a) is float:
        return sign(a) * sign(b)  # an infinity, a zero or NaN
    return multiply(a, reciprocal(b))


def reciprocal(b: Real) -> Real:
    def bounds(k: Arithmetic) -> Interval:
        found = b.bounds(k)
        if not sign_of(found):
            return mpfr("-inf"), mpfr("inf")
        return k.divide(k.one, found) if b.sign() > 0 else k.negative(k.divide(k.one, k.negative(found)))

    return Real(bounds, lambda k: k.negative(log_magnitude(b, k)))


def adam(attributes: Attributes, inputs: Inputs, outputs: Outputs) -> Results:
    names = ("input_parameters", "input_first_moment", "input_second_moment", "gradient")
    x, m, v, g = (values(inputs[f"{name}_tensor"]) for name in names)
    rate, beta1, beta2, epsilon = (exact(attributes[name]) for name in ("learning_rate", "beta1", "beta2", "epsilon"))
    step = exact(int(inputs["training_step_tensor"].ravel()[0]))

    def decayed(beta: Value) -> Value:
        return subtract(ONE, power_of(beta, step))

    made: dict[str, list[Value]] = {f"output_{name}_tensor": [] for name in ("parameters", "first_moment", "second_moment")}
    for x_, m_, v_, g_ in zip(x, m, v, g, strict=True):
        first = add(multiply(beta1, m_), multiply(subtract(ONE, beta1), g_))
        second = add(multiply(beta2, v_), multiply(subtract(ONE, beta2), multiply(g_, g_)))
        alpha = quotient(root(decayed(beta2)), decayed(beta1))
        change = quotient(multiply(multiply(rate, alpha), first), add(root(second), epsilon))
        for found, value in zip(made.values(), (subtract(x_, change), first, second), strict=True):
            found.append(value)
    return {name: stored(found, *outputs[name]) for name, found in made.items()}


OPERATORS: dict[str, Any] = {
    "ADAM_OPTIMIZER": adam,
    "BATCH_NORMALIZATION_GRAD": batch_gradient,
    "BATCH_NORMALIZATION_TRAINING": batch_training,
    "BATCH_NORMALIZATION_TRAINING_GRAD": partial(batch_gradient, training=True),
    "LOCAL_RESPONSE_NORMALIZATION_GRAD": local_response_gradient,
    "LOCAL_RESPONSE_NORMALIZATION": local_response,
    "LP_NORMALIZATION": lp,
    "BATCH_NORMALIZATION": batch,
    **{f"MEAN_VARIANCE_NORMALIZATION{version}": mean_variance for version in ("", "1", "2")},
}
