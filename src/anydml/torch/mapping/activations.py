"""Activations, softmax and their like."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from anydml.exact.formats import float_limits
from anydml.functional import functions as dml
from anydml.onnx.errors import NOT_YET, Refused
from anydml.onnx.values import Value, part, reshape
from anydml.tensor import DataType
from anydml.torch.mapping.common import Mapping, cast, dim_of, floating, typed
from anydml.torch.read import Node

SELU = 1.6732632423543772848170429916717, 1.0507009873554804934193349852946
TANH_GELU = math.sqrt(2 / math.pi), 0.044715


def gelu(n: Node, x: Value, *, approximate: str = "none") -> Value:
    """GELU, rounded once. The approximation by tanh is composed of torch's own steps, each of which rounds."""
    if approximate == "none":
        return dml.activation_gelu(x)
    beta, kappa = (np.array(value, x.dtype) for value in TANH_GELU)
    times = dml.element_wise_multiply
    inner = times(beta, dml.element_wise_add(x, times(kappa, times(times(x, x), x))))
    half = times(x, np.array(0.5, x.dtype))
    return times(half, dml.element_wise_add(dml.element_wise_tanh(inner), np.ones((), x.dtype)))


def elu(n: Node, x: Value, alpha: Any = 1, scale: Any = 1, input_scale: Any = 1) -> Value:
    """ELU; SCALED_ELU for selu's factors."""
    if input_scale != 1:
        raise Refused(f"its input_scale is {input_scale}", NOT_YET)
    if scale == 1:
        return dml.activation_elu(x, alpha=alpha)
    return dml.activation_scaled_elu(x, alpha=alpha, gamma=scale)


def selu(n: Node, x: Value) -> Value:
    return dml.activation_scaled_elu(x, alpha=SELU[0], gamma=SELU[1])


def celu(n: Node, x: Value, alpha: Any = 1) -> Value:
    return dml.activation_celu(x, alpha=alpha)


def silu(n: Node, x: Value) -> Value:
    return dml.activation_swish(x)


def mish(n: Node, x: Value) -> Value:
    """x tanh(softplus(x)), of which each step is rounded."""
    return dml.element_wise_multiply(x, dml.element_wise_tanh(dml.activation_softplus(x)))


def softplus(n: Node, x: Value, beta: Any = 1, threshold: Any = 20) -> Value:
    """SOFTPLUS, and x where beta x is above the threshold, as torch documents it."""
    made = dml.activation_softplus(x, steepness=beta)
    scaled = x if beta == 1 else dml.element_wise_multiply(x, np.array(beta, x.dtype))
    return dml.element_wise_if(dml.element_wise_logical_greater_than(scaled, np.array(threshold, x.dtype)), x, made)


def log_sigmoid(n: Node, x: Value) -> Value:
    """-softplus(-x), rounded once."""
    return dml.element_wise_negate(dml.activation_softplus(dml.element_wise_negate(x)))


def leaky_relu(n: Node, x: Value, slope: Any = 0.01) -> Value:
    return dml.activation_leaky_relu(x, alpha=slope)


def prelu(n: Node, x: Value, weight: Value) -> Value:
    """PARAMETERIZED_RELU with a slope for each channel, or for all."""
    slopes = weight if x.ndim < 2 or weight.size == 1 else reshape(weight, (weight.size, *[1] * (x.ndim - 2)))
    return dml.activation_parameterized_relu(x, reshape(slopes, (1,) * x.ndim) if weight.size == 1 else slopes)


def hardtanh(n: Node, x: Value, low: Any = -1, high: Any = 1) -> Value:
    return dml.element_wise_clip1(x, min_max_data_type=x.dtype, min=low, max=high)


def _six(x: Value) -> Value:
    """relu6(x + 3); the sum is rounded."""
    return dml.element_wise_clip(dml.element_wise_add(x, np.array(3, x.dtype)), min=0.0, max=6.0)


def hard_sigmoid(n: Node, x: Value) -> Value:
    """relu6(x + 3) / 6: DirectML's factor of 1/6 would be rounded to float32."""
    return dml.element_wise_divide(_six(x), np.array(6, x.dtype))


def hard_swish(n: Node, x: Value) -> Value:
    """x relu6(x + 3) / 6, of which each step is rounded."""
    return dml.element_wise_divide(dml.element_wise_multiply(x, _six(x)), np.array(6, x.dtype))


def threshold(n: Node, x: Value, limit: Any, value: Any) -> Value:
    """x where it is above the limit, else the value."""
    above = dml.element_wise_logical_greater_than(x, np.array(limit, x.dtype))
    return dml.element_wise_if(above, x, np.array(value, x.dtype))


def glu(n: Node, x: Value, dim: int = -1) -> Value:
    """The first half times the sigmoid of the second half, which is rounded."""
    d = dim_of(dim, x.ndim)
    half = x.shape[d] // 2
    before = [slice(None)] * d
    first, second = part(x, [*before, slice(0, half)]), part(x, [*before, slice(half, None)])
    return dml.element_wise_multiply(first, dml.activation_sigmoid(second))


def sigmoid(n: Node, x: Value) -> Value:
    return dml.activation_sigmoid(floating(n, x))


def over_dim(function: str) -> Mapping:
    """The mapping of a softmax along one dimension."""

    def mapping(n: Node, x: Value, dim: int, converts: Any = None) -> Value:
        given = cast(x, n.types["self"], n.result)
        if not x.ndim:
            return reshape(getattr(dml, function)(reshape(given, (1,)), axes=[0]), ())
        return getattr(dml, function)(given, axes=[dim_of(dim, x.ndim)])

    return mapping


def native_dropout(n: Node, x: Value, p: Any, train: Any) -> Any:
    """The unchanged tensor, because nothing is dropped outside of training; the mask is true everywhere."""
    if train and p:
        raise Refused("it drops elements at random, in training mode; module.eval() ends it")
    return x, np.ones(tuple(x.shape), np.uint8)


def normal_elements(n: Node, x: Value, value: Any = 0.0, high: Any = None, low: Any = None) -> Value:
    """nan_to_num: NaN and infinities replaced; by default by 0 and by the largest numbers of the type."""
    ends = float_limits(DataType.of(x.dtype))
    found = dml.element_wise_if(dml.element_wise_is_nan(x), typed(0.0 if value is None else value, x.dtype), x)
    for limit, end, mode in ((high, ends.max, "POSITIVE"), (low, -ends.max, "NEGATIVE")):
        to = np.array(end if limit is None else limit, x.dtype)
        found = dml.element_wise_if(dml.element_wise_is_infinity(x, mode), to, found)
    return found


TABLE: dict[str, Mapping] = {
    "aten._log_softmax.default": over_dim("activation_log_softmax1"),
    "aten._softmax.default": over_dim("activation_softmax1"),
    "aten.celu.default": celu,
    "aten.elu.default": elu,
    "aten.gelu.default": gelu,
    "aten.glu.default": glu,
    "aten.hardsigmoid.default": hard_sigmoid,
    "aten.hardswish.default": hard_swish,
    "aten.hardtanh.default": hardtanh,
    "aten.leaky_relu.default": leaky_relu,
    "aten.log_sigmoid_forward.default": lambda n, x: (log_sigmoid(n, x), None),
    "aten.log_softmax.int": over_dim("activation_log_softmax1"),
    "aten.mish.default": mish,
    "aten.nan_to_num.default": normal_elements,
    "aten.native_dropout.default": native_dropout,
    "aten.prelu.default": prelu,
    "aten.selu.default": selu,
    "aten.sigmoid.default": sigmoid,
    "aten.silu.default": silu,
    "aten.softmax.int": over_dim("activation_softmax1"),
    "aten.softplus.default": softplus,
    "aten.threshold.default": threshold,
}
