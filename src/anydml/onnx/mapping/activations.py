"""Activations, softmax and their like."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from anydml.functional import functions as dml
from anydml.onnx.errors import UseBody
from anydml.onnx.later import later
from anydml.onnx.nodes import Node
from anydml.onnx.values import Value, axis_of, reshape


def activation(function: Callable[..., Any], **defaults: float) -> Callable[..., Any]:
    """The mapping of an activation whose attributes have the same names in ONNX and DirectML, with ONNX's defaults."""

    def mapping(n: Node, x: Value) -> Value:
        return function(x, **{name: n.get(name, default) for name, default in defaults.items()})

    return mapping


def gelu(n: Node, x: Value) -> Value:
    """ACTIVATION_GELU, which uses the error function. The approximation by tanh is composed of other operators."""
    if n.get("approximate", "none") != "none":
        raise UseBody
    return dml.activation_gelu(x)


def shrink(n: Node, x: Value) -> Value:
    return dml.activation_shrink(x, bias=n.get("bias", 0.0), threshold=n.get("lambd", 0.5))


def parametric_relu(n: Node, x: Value, slope: Value) -> Value:
    """PRelu: slopes are broadcast to the tensor; in operator sets before 7, there is one for each channel."""
    if n.opset < 7 and slope.ndim == 1 and slope.shape[0] > 1 and x.ndim > 1:
        slope = reshape(slope, (slope.shape[0], *[1] * (x.ndim - 2)))
    return dml.activation_parameterized_relu(x, slope)


def over_axes(function: Callable[..., Any]) -> Callable[..., Any]:
    """The mapping of a softmax: along one axis; in operator sets before 13, over all dimensions from an axis on."""

    def mapping(n: Node, x: Value) -> Value:
        axis = axis_of(n.get("axis", -1 if n.opset >= 13 else 1), x.ndim)
        axes = [axis] if n.opset >= 13 else range(axis, x.ndim)
        return function(x, axes=[*axes])

    return mapping


TABLE: dict[str, Callable[..., Any]] = {
    "Celu": activation(later.activation_celu, alpha=1.0),
    "Elu": activation(later.activation_elu, alpha=1.0),
    "Gelu": gelu,
    "HardSigmoid": activation(later.activation_hard_sigmoid, alpha=0.2, beta=0.5),
    "HardSwish": activation(later.activation_hard_swish),
    "Hardmax": over_axes(later.activation_hardmax1),
    "LeakyRelu": activation(later.activation_leaky_relu, alpha=0.01),
    "LogSoftmax": over_axes(later.activation_log_softmax1),
    "ParametricSoftplus": activation(later.activation_parametric_softplus, alpha=1.0, beta=1.0),
    "PRelu": parametric_relu,
    "Relu": activation(later.activation_relu),
    "ScaledTanh": activation(later.activation_scaled_tanh, alpha=1.0, beta=1.0),
    "Selu": activation(later.activation_scaled_elu, alpha=1.67326319217681884765625, gamma=1.05070102214813232421875),
    "Shrink": shrink,
    "Sigmoid": activation(later.activation_sigmoid),
    "Softmax": over_axes(later.activation_softmax1),
    "Softplus": activation(later.activation_softplus),
    "Softsign": activation(later.activation_softsign),
    "Swish": lambda n, x: dml.activation_swish(x, sigmoid_input_scale=n.get("alpha", 1.0)),
    "ThresholdedRelu": activation(later.activation_thresholded_relu, alpha=1.0),
}
