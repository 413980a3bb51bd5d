"""The element-wise activations, as operators, as fused activations and in recurrences.

An activation takes an exact value, rounded or not, and returns a value that is not rounded.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from .arithmetic import add, compare, divide, greater, is_nan, maximum, minimum, multiply, negative, subtract
from .functions import exponential, exponential_less_one, gaussian_linear_unit, hyperbolic_tangent, logistic, softplus
from .numbers import ONE, Array, Value, bits, exact, stored, to_integer_array, values

Attributes = Mapping[str, Any]
Inputs = Mapping[str, Any]
Outputs = Mapping[str, Any]
Results = dict[str, Any]
Operator = Callable[[Attributes, Inputs, Outputs], Results]
Activation = Callable[..., Value]


def at_least(x: Value, bound: Value) -> bool:
    return not is_nan(x) and not is_nan(bound) and compare(x, bound) >= 0


def leaky(x: Value, slope: Value) -> Value:
    return x if at_least(x, 0.0) else multiply(slope, x)


def thresholded_relu(x: Value, alpha: Value) -> Value:
    return x if is_nan(x) or greater(x, alpha) else 0.0


def elu(x: Value, alpha: Value) -> Value:
    return x if at_least(x, 0.0) else multiply(alpha, exponential_less_one(x))


def celu(x: Value, alpha: Value) -> Value:
    return add(maximum(0.0, x), minimum(0.0, multiply(alpha, exponential_less_one(divide(x, alpha)))))


def scaled_elu(x: Value, alpha: Value, gamma: Value) -> Value:
    """Gamma * (Alpha * e^x - Alpha). The bracket is Alpha * (e^x - 1), except for the signs of zeros."""
    if greater(x, 0.0):
        return multiply(gamma, x)
    if type(alpha) is float or type(exponential(x)) is float:
        return multiply(gamma, subtract(multiply(alpha, exponential(x)), alpha))
    return multiply(gamma, multiply(alpha, exponential_less_one(x)) if type(x) is not float else 0.0)


def hard_sigmoid(x: Value, alpha: Value, beta: Value) -> Value:
    return maximum(0.0, minimum(add(multiply(alpha, x), beta), ONE))


def softsign(x: Value) -> Value:
    if type(x) is float:
        return exact(math.copysign(1.0, x)) if math.isinf(x) else x
    return x / (1 + abs(x))


def shrink(x: Value, bias: Value, threshold: Value) -> Value:
    if is_nan(x):
        return x
    if greater(x, threshold):
        return subtract(x, bias)
    return add(x, bias) if greater(negative(threshold), x) else 0.0


def gated(x: Value, argument: Value, gate: Callable[[Value], Value]) -> Value:
    """x * gate(argument); for an infinite x whose gate is 0, the limit, a zero with the sign of x."""
    opened = gate(argument)
    if type(x) is float and math.isinf(x) and type(opened) is float and opened == 0:
        return math.copysign(0.0, x)
    return multiply(x, opened)


def hard_gate(argument: Value) -> Value:
    return maximum(0.0, minimum(argument, ONE))


# name: the function, and its attributes
ACTIVATIONS: dict[str, tuple[Activation, tuple[str, ...]]] = {
    "IDENTITY": (lambda x: x, ()),
    "LINEAR": (lambda x, alpha, beta: add(multiply(alpha, x), beta), ("alpha", "beta")),
    "RELU": (lambda x: maximum(0.0, x), ()),
    "LEAKY_RELU": (leaky, ("alpha",)),
    "THRESHOLDED_RELU": (thresholded_relu, ("alpha",)),
    "ELU": (elu, ("alpha",)),
    "CELU": (celu, ("alpha",)),
    "SCALED_ELU": (scaled_elu, ("alpha", "gamma")),
    "SIGMOID": (logistic, ()),
    "HARD_SIGMOID": (hard_sigmoid, ("alpha", "beta")),
    "TANH": (hyperbolic_tangent, ()),
    "SCALED_TANH": (lambda x, alpha, beta: multiply(alpha, hyperbolic_tangent(multiply(beta, x))), ("alpha", "beta")),
    "SOFTPLUS": (lambda x, steepness: divide(softplus(multiply(steepness, x)), steepness), ("steepness",)),
    "PARAMETRIC_SOFTPLUS": (lambda x, alpha, beta: multiply(alpha, softplus(multiply(beta, x))), ("alpha", "beta")),
    "SOFTSIGN": (softsign, ()),
    "SHRINK": (shrink, ("bias", "threshold")),
    "GELU": (gaussian_linear_unit, ()),
    "SWISH": (lambda x, scale: gated(x, multiply(scale, x), logistic), ("sigmoid_input_scale",)),
    "HARD_SWISH": (lambda x, alpha, beta: gated(x, add(multiply(alpha, x), beta), hard_gate), ("alpha", "beta")),
}


def clip(x: Value, lo: Value, hi: Value) -> Value:
    return minimum(hi, maximum(lo, x))


def scaled(x: Value, scale_bias: tuple[float, float] | None) -> Value:
    """x * Scale + Bias."""
    if scale_bias is None:
        return x
    scale, bias = map(exact, scale_bias)
    return add(multiply(x, scale), bias)


def activation(desc: tuple[str, Attributes] | None) -> Callable[[Value], Value]:
    """The function of an activation, given by name and attributes; the identity without one."""
    if desc is None:
        return lambda x: x
    name, attributes = desc
    if name == "ELEMENT_WISE_CLIP":
        lo, hi = exact(attributes["min"]), exact(attributes["max"])
        return lambda x: clip(scaled(x, attributes.get("scale_bias")), lo, hi)
    function, names = ACTIVATIONS[name.removeprefix("ACTIVATION_")]
    arguments = [exact(attributes[field]) for field in names]
    return lambda x: function(x, *arguments)


def pointwise(name: str) -> Operator:
    def compute(attributes: Attributes, inputs: Inputs, outputs: Outputs) -> Results:
        array: Array = inputs["input_tensor"]
        if name == "IDENTITY":
            return {"output_tensor": bits(array).copy().view(array.dtype)}
        function = activation((name, attributes))
        return {"output_tensor": stored(map(function, values(array)), *outputs["output_tensor"])}

    return compute


def parameterized_relu(attributes: Attributes, inputs: Inputs, outputs: Outputs) -> Results:
    x, slope = inputs["input_tensor"], inputs["slope_tensor"]
    sizes, dtype = outputs["output_tensor"]
    if x.dtype.kind in "iu":
        pairs = zip(x.ravel().tolist(), slope.ravel().tolist(), strict=True)
        return {"output_tensor": to_integer_array((a if a >= 0 else a * s for a, s in pairs), sizes, dtype)}
    return {"output_tensor": stored(map(leaky, values(x), values(slope)), sizes, dtype)}


def relu_grad(attributes: Attributes, inputs: Inputs, outputs: Outputs) -> Results:
    x, gradient = inputs["input_tensor"], inputs["input_gradient_tensor"]
    passes = np.array([greater(value, 0.0) for value in values(x)]).reshape(x.shape)
    selected = np.where(passes, bits(gradient), 0).astype(f"u{gradient.itemsize}")
    return {"output_gradient_tensor": selected.view(gradient.dtype)}


OPERATORS = {f"ACTIVATION_{name}": pointwise(name) for name in ACTIVATIONS} | {
    "ACTIVATION_PARAMETERIZED_RELU": parameterized_relu,
    "ACTIVATION_RELU_GRAD": relu_grad,
}
