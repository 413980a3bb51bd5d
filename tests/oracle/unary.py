"""The element-wise operators of one input, with POW and CONSTANT_POW, CLIP and its gradient."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from gmpy2 import mpfr, mpq

from .activation import Attributes, Inputs, Operator, Outputs, Results, clip, scaled
from .arithmetic import divide, greater, is_nan, maximum, negative
from .functions import hyperbolic_tangent, logarithm
from .numbers import (
    INFINITY,
    NAN,
    ONE,
    Array,
    Value,
    bits,
    exact,
    half_even,
    limits,
    saturated,
    square_root,
    stored,
    to_integer_array,
    truncated,
    values,
)
from .reals import NEAR, Interval, Real, Undecided, ladder

Function = Callable[[Value], Value]


def exactly(x: Any) -> Any:
    """A number whose denominator is a power of two, as an mpfr."""
    return mpfr(x, max(2, x.numerator.bit_length() + x.denominator.bit_length()))


def of_mpfr(name: str, x: Any, *more: Any) -> Real:
    """A function of MPFR for exact numbers at which it is not zero."""
    there = [exactly(x) for x in (x, *more)]

    def bounds(k: Any) -> Interval:
        lo = getattr(k.down, name)(*there)
        return lo, getattr(k.up, name)(*there)

    return Real(bounds)


# --- functions of one number ---


def even(name: str, at_infinity: float) -> Function:
    """A function with f(0) = 1 and the same value at both infinities."""
    return lambda x: of_mpfr(name, x) if type(x) is not float else ONE if x == 0 else x if x != x else at_infinity


def odd(name: str, at_infinity: Callable[[float], Value], most: float = INFINITY) -> Function:
    """A function that keeps zeros; at_infinity: its value for infinite x; NaN if |x| is above `most`."""

    def apply(x: Value) -> Value:
        if type(x) is float:
            return x if x == 0 or x != x else at_infinity(math.copysign(1, x))
        return NAN if abs(x) > most else of_mpfr(name, x)

    return apply


def nothing(side: float) -> Value:
    return NAN


def arc_cosine(x: Value) -> Value:
    if type(x) is float:
        return Real(lambda k: k.multiply(k.of(mpq(1, 2)), (k.down.const_pi(), k.up.const_pi()))) if x == 0 else NAN
    return NAN if abs(x) > 1 else 0.0 if x == 1 else of_mpfr("acos", x)


def inverse_hyperbolic_cosine(x: Value) -> Value:
    if type(x) is float:
        return x if x == INFINITY else NAN
    return NAN if x < 1 else 0.0 if x == 1 else of_mpfr("acosh", x)


def inverse_hyperbolic_tangent(x: Value) -> Value:
    if type(x) is not float and abs(x) == 1:
        return INFINITY * float(x)
    return odd("atanh", nothing, 1)(x)


def quarter(side: float) -> Value:
    return Real(lambda k: k.multiply(k.of(mpq(side) / 2), (k.down.const_pi(), k.up.const_pi())))


def root(x: Value) -> Value:
    if type(x) is float:
        return NAN if x < 0 else x
    return square_root(x) if x > 0 else NAN


def sign_of_value(x: Value) -> Value:
    if type(x) is float:
        return 0.0 if x == 0 else x if x != x else mpq(int(math.copysign(1, x)))
    return ONE if x > 0 else -ONE


def magnitude(x: Value) -> Value:
    return abs(x)


def integral(of_fraction: Callable[[Any], int]) -> Function:
    """A function that rounds to an integer; a zero has the number's sign."""

    def apply(x: Value) -> Value:
        if type(x) is float:
            return x
        return mpq(of_fraction(x)) or math.copysign(0.0, x)

    return apply


def toward_zero(x: Any) -> int:
    return int(abs(x.numerator) // x.denominator) * (1 if x > 0 else -1)


def away_at_halves(x: Any) -> int:
    whole = toward_zero(x)
    return whole + int(abs(x - whole) * 2 >= 1) * (1 if x > 0 else -1)


FUNCTIONS: dict[str, Function] = {
    "ABS": magnitude,
    "ACOS": arc_cosine,
    "ASIN": odd("asin", nothing, 1),
    "ATAN": odd("atan", quarter),
    "CEIL": integral(lambda x: int(-(-x.numerator // x.denominator))),
    "COS": even("cos", NAN),
    "FLOOR": integral(lambda x: int(x.numerator // x.denominator)),
    "LOG": logarithm,
    "RECIP": lambda x: divide(ONE, x),
    "SIN": odd("sin", nothing),
    "SQRT": root,
    "TAN": odd("tan", nothing),
    "ERF": odd("erf", lambda side: mpq(int(side))),
    "SINH": odd("sinh", lambda side: INFINITY * side),
    "COSH": even("cosh", INFINITY),
    "TANH": hyperbolic_tangent,
    "ASINH": odd("asinh", lambda side: INFINITY * side),
    "ACOSH": inverse_hyperbolic_cosine,
    "ATANH": inverse_hyperbolic_tangent,
}


def of_one(function: Function) -> Operator:
    """An operator of one input and an optional ScaleBias."""

    def compute(attributes: Attributes, inputs: Inputs, outputs: Outputs) -> Results:
        scale_bias = attributes.get("scale_bias")
        results = (function(scaled(x, scale_bias)) for x in values(inputs["input_tensor"]))
        return {"output_tensor": stored(results, *outputs["output_tensor"])}

    return compute


def of_integers_too(function: Function, of_integer: Callable[[int], int]) -> Operator:
    """The same, with a function of integers without a ScaleBias, whose results wrap."""

    def compute(attributes: Attributes, inputs: Inputs, outputs: Outputs) -> Results:
        x = inputs["input_tensor"]
        if x.dtype.kind not in "iu" or attributes.get("scale_bias") is not None:
            return of_one(function)(attributes, inputs, outputs)
        return {"output_tensor": to_integer_array(map(of_integer, x.ravel().tolist()), *outputs["output_tensor"])}

    return compute


def identity(attributes: Attributes, inputs: Inputs, outputs: Outputs) -> Results:
    x = inputs["input_tensor"]
    if attributes["scale_bias"] is None:
        return {"output_tensor": bits(x).copy().view(x.dtype)}
    return of_one(lambda x: x)(attributes, inputs, outputs)


ROUNDINGS = {"HALVES_TO_NEAREST_EVEN": half_even, "TOWARD_ZERO": toward_zero, "TOWARD_INFINITY": away_at_halves}


def round_(attributes: Attributes, inputs: Inputs, outputs: Outputs) -> Results:
    return of_one(integral(ROUNDINGS[attributes["rounding_mode"]]))(attributes, inputs, outputs)


# --- truths ---


def is_nan_(attributes: Attributes, inputs: Inputs, outputs: Outputs) -> Results:
    sizes, dtype = outputs["output_tensor"]
    return {"output_tensor": np.array([is_nan(x) for x in values(inputs["input_tensor"])], dtype).reshape(sizes)}


INFINITIES = {"EITHER": (INFINITY, -INFINITY), "POSITIVE": (INFINITY,), "NEGATIVE": (-INFINITY,)}


def is_infinity(attributes: Attributes, inputs: Inputs, outputs: Outputs) -> Results:
    sizes, dtype = outputs["output_tensor"]
    wanted = INFINITIES[attributes["infinity_mode"]]
    found = [type(x) is float and x in wanted for x in values(inputs["input_tensor"])]
    return {"output_tensor": np.array(found, dtype).reshape(sizes)}


# --- bounds ---


def threshold(attributes: Attributes, inputs: Inputs, outputs: Outputs) -> Results:
    low = exact(attributes["min"])
    return of_one(lambda x: maximum(x, low))(attributes, inputs, outputs)


def clip_(attributes: Attributes, inputs: Inputs, outputs: Outputs) -> Results:
    low, high = exact(attributes["min"]), exact(attributes["max"])
    return of_one(lambda x: clip(x, low, high))(attributes, inputs, outputs)


def clip_grad(attributes: Attributes, inputs: Inputs, outputs: Outputs) -> Results:
    x, gradient = inputs["input_tensor"], inputs["input_gradient_tensor"]
    low, high = exact(attributes["min"]), exact(attributes["max"])

    def clipped(value: Value) -> bool:
        below, above = ((not is_nan(value) and not is_nan(bound)) for bound in (low, high))
        return (below and not greater(value, low)) or (above and not greater(high, value))

    passes = np.array([not clipped(value) for value in values(x)]).reshape(x.shape)
    selected = np.where(passes, bits(gradient), 0).astype(f"u{gradient.itemsize}")
    return {"output_gradient_tensor": selected.view(gradient.dtype)}


# --- powers ---


def is_whole(y: Value) -> bool:
    return type(y) is not float and y.denominator == 1


def power(x: Value, y: Value) -> Value:
    """IEEE 754's pow."""
    if (type(y) is float and y == 0) or (type(x) is not float and x == 1):
        return ONE
    if is_nan(x) or is_nan(y):
        return NAN
    is_odd = is_whole(y) and y.numerator % 2 == 1
    if type(x) is not float and type(y) is not float:
        if x > 0:
            return positive_power(x, y)
        if not is_whole(y):
            return NAN
        return negative(power(-x, y)) if is_odd else power(-x, y)
    if type(x) is float:
        down = greater(0.0, y) != (x == 0)  # whether the result is a zero instead of an infinity
        found = 0.0 if down else INFINITY
        return -found if is_odd and math.copysign(1.0, x) < 0 else found
    if abs(x) == 1:
        return ONE
    return INFINITY if (abs(x) > 1) == (y > 0) else 0.0


def positive_power(x: Any, y: Any) -> Value:
    """x^y for numbers with x > 0: exact if the result is a short number, else MPFR's."""
    if is_whole(y) and abs(y.numerator) * (x.numerator.bit_length() + x.denominator.bit_length()) < 2000:
        return x ** int(y.numerator)
    there, exponent = exactly(x), exactly(y)
    return Real(
        lambda k: (k.down.pow(there, exponent), k.up.pow(there, exponent)),
        lambda k: k.multiply(k.of(y), of_logarithm(k, x)),
    )


def of_logarithm(k: Any, x: Any) -> Interval:
    there = exactly(x)
    return k.down.log(there), k.up.log(there)


def truncated_real(value: Value, dtype: Any) -> int:
    """A value truncated to an integer, saturated; NaN gives 0."""
    if not isinstance(value, Real):
        return truncated(value, dtype)
    low, high = limits(dtype)
    for k in ladder():
        ends = [min(max(end, low), high) for end in value.bounds(k)]
        whole = [math.trunc(end) for end in ends]
        if whole[0] == whole[1]:
            return saturated(whole[0], dtype)
        if k.precision > 1024:
            boundary = max(whole, key=abs)
            if all(abs(mpq(end) - boundary) <= NEAR * abs(boundary) for end in ends):
                return saturated(boundary, dtype)
    raise Undecided("a power could not be truncated")


def integer_power(x: int, y: int, width: int) -> int:
    if y >= 0:
        return pow(x, y, 1 << width)
    return {1: 1, -1: -1 if y % 2 else 1}.get(x, 0)


def pow_(attributes: Attributes, inputs: Inputs, outputs: Outputs) -> Results:
    x = inputs["input_tensor"]
    y = inputs.get("exponent_tensor")
    sizes, dtype = outputs["output_tensor"]
    scale_bias = attributes.get("scale_bias")
    if y is not None and x.dtype.kind in "iu" and y.dtype.kind in "iu" and scale_bias is None:
        pairs = zip(x.ravel().tolist(), y.ravel().tolist(), strict=True)
        return {"output_tensor": to_integer_array((integer_power(a, b, 64) for a, b in pairs), sizes, dtype)}
    exponents = [exact(attributes["exponent"])] * x.size if y is None else values(y)
    powers = (power(scaled(a, scale_bias), b) for a, b in zip(values(x), exponents, strict=True))
    if x.dtype.kind in "iu":
        found: Array = np.array([truncated_real(value, dtype) for value in powers], dtype)
        return {"output_tensor": found.reshape(sizes)}
    return {"output_tensor": stored(powers, sizes, dtype)}


OPERATORS = {f"ELEMENT_WISE_{name}": of_one(function) for name, function in FUNCTIONS.items()} | {
    "ELEMENT_WISE_IDENTITY": identity,
    "ELEMENT_WISE_ABS": of_integers_too(magnitude, abs),
    "ELEMENT_WISE_NEGATE": of_integers_too(negative, lambda x: -x),
    "ELEMENT_WISE_SIGN": of_one(sign_of_value),
    "ELEMENT_WISE_ROUND": round_,
    "ELEMENT_WISE_IS_NAN": is_nan_,
    "ELEMENT_WISE_IS_INFINITY": is_infinity,
    "ELEMENT_WISE_THRESHOLD": threshold,
    "ELEMENT_WISE_CLIP": clip_,
    "ELEMENT_WISE_CLIP1": clip_,
    "ELEMENT_WISE_CLIP_GRAD": clip_grad,
    "ELEMENT_WISE_CLIP_GRAD1": clip_grad,
    "ELEMENT_WISE_POW": pow_,
    "ELEMENT_WISE_CONSTANT_POW": pow_,
}
