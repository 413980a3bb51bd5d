"""Convolutions and matrix products that onnxruntime's optimisers fuse with the activation that follows them.

If DirectML does not fuse the activation (Clip, Gelu, HardSwish), or a tensor is added before it, a second operator follows.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from anydml.functional import functions as dml
from anydml.onnx.errors import INVALID, Refused
from anydml.onnx.mapping.products import batched, gemm
from anydml.onnx.mapping.windows import channels, conv, conv_transpose, convolved, window_of
from anydml.onnx.nodes import Node
from anydml.onnx.values import Value, expand, ints, transpose
from anydml.operators import find

FUSED = {  # names of activations; DirectML's; the attributes of their parameters in order, with ONNX's defaults
    "Elu": ("ACTIVATION_ELU", (("alpha", 1.0),)),
    "Gelu": ("ACTIVATION_GELU", ()),
    "HardSigmoid": ("ACTIVATION_HARD_SIGMOID", (("alpha", 0.2), ("beta", 0.5))),
    "LeakyRelu": ("ACTIVATION_LEAKY_RELU", (("alpha", 0.01),)),
    "ParametricSoftplus": ("ACTIVATION_PARAMETRIC_SOFTPLUS", (("alpha", 1.0), ("beta", 1.0))),
    "Relu": ("ACTIVATION_RELU", ()),
    "ScaledTanh": ("ACTIVATION_SCALED_TANH", (("alpha", 1.0), ("beta", 1.0))),
    "Selu": ("ACTIVATION_SCALED_ELU", (("alpha", 1.67326319217681884765625), ("gamma", 1.05070102214813232421875))),
    "Sigmoid": ("ACTIVATION_SIGMOID", ()),
    "Softplus": ("ACTIVATION_SOFTPLUS", (("steepness", 1.0),)),
    "Softsign": ("ACTIVATION_SOFTSIGN", ()),
    "Tanh": ("ACTIVATION_TANH", ()),
    "ThresholdedRelu": ("ACTIVATION_THRESHOLDED_RELU", (("alpha", 1.0),)),
}


def fused(name: str, parameters: Sequence[float]) -> Any:
    """The desc of a fused activation; None if there is none, or if DirectML does not fuse it."""
    if name not in FUSED:
        return None
    operator, attributes = FUSED[name]
    values = [*parameters, *[default for _, default in attributes[len(parameters) :]]]
    cls: Any = find(operator)
    return cls(**{attribute: value for (attribute, _), value in zip(attributes, values, strict=False)})


def followed(name: str, parameters: Sequence[float], y: Value) -> Value:
    """An activation that DirectML does not fuse, as an operator of its own."""
    if name == "Clip":
        low, high = (*parameters, *(float("-inf"), float("inf"))[len(parameters) :])
        return dml.element_wise_clip(y, min=low, max=high)
    if name == "HardSwish":
        return dml.activation_hard_swish(y)
    if name == "Softmax":
        return dml.activation_softmax1(y, axes=[y.ndim - 1])
    raise Refused(f"there is no activation {name!r}", INVALID)


def with_activation(n: Node, made: Callable[[Any], Value], parameters: Sequence[float], added: Value = None) -> Value:
    """The value of `made`, a function of a fused activation, with a tensor added before the activation."""
    name = n.get("activation", "")
    desc = fused(name, parameters)
    if added is None:
        y = made(desc)
        return y if desc is not None or not name else followed(name, parameters, y)
    total = dml.element_wise_add1(made(None), added, desc) if desc else dml.element_wise_add(made(None), added)
    return total if desc is not None or not name else followed(name, parameters, total)


def fused_conv(n: Node, x: Value, w: Value, b: Value = None, z: Value = None) -> Value:
    """FusedConv: CONVOLUTION with its activation; if a tensor is added first, ADD1 has the activation."""
    found = window_of(n, x.shape[2:], w.shape[2:])

    def made(desc: Any) -> Value:
        arguments = convolved(found)
        return dml.convolution(x, w, channels(b, x.ndim), **arguments, group_count=n.get("group", 1), fused_activation=desc)

    return with_activation(n, made, n.get("activation_params", ()), z)


def _nhwc(function: Callable[..., Value]) -> Callable[..., Value]:
    """The mapping of an operator whose images have their channels last, by strides."""

    def mapping(n: Node, x: Value, w: Value, b: Value = None, z: Value = None) -> Value:
        first, last = (0, x.ndim - 1, *range(1, x.ndim - 1)), (0, *range(2, x.ndim), 1)
        more = () if z is None else (transpose(z, first),)
        return transpose(function(n, transpose(x, first), w, b, *more), last)

    return mapping


def nhwc_conv(n: Node, x: Value, w: Value, b: Value = None) -> Value:
    """NhwcConv: CONVOLUTION of images with channels last, and filters {output channels, height, width, input channels}."""
    own = (0, w.ndim - 1, *range(1, w.ndim - 1))
    return _nhwc(conv)(n, x, transpose(w, own), b)


def conv_transpose_with_pads(n: Node, x: Value, w: Value, pads: Value = None, b: Value = None) -> Value:
    """ConvTranspose whose pads are a tensor."""
    return conv_transpose(n if pads is None else n.having(pads=list(ints(pads))), x, w, b)


def _parameters(n: Node) -> list[float]:
    found = [n.get(f"activation_{name}") for name in ("alpha", "beta", "gamma")]
    if n.get("activation") == "Selu":
        found.pop(1)
    return [x for x in found if x is not None]


def _transposed(x: Value, swap: bool, batch: bool) -> Value:
    """A factor as FusedMatMul reads it.

    batch: the first dimension becomes the last but one, after those of the batches. swap: the last two dimensions are swapped.
    """
    if x.ndim < 2:
        return x
    axes = [*range(x.ndim)]
    if batch:
        axes = [*axes[1:-1], 0, axes[-1]]
    if swap:
        axes[-2:] = axes[:-3:-1]
    return transpose(x, axes)


def fused_matmul(n: Node, a: Value, b: Value) -> Value:
    """FusedMatMul, TransposeMatMul and FusedMatMulActivation: GEMM of permuted factors, with alpha and an activation."""
    left = _transposed(a, bool(n.get("transA", 0)), bool(n.get("transBatchA", 0)))
    right = _transposed(b, bool(n.get("transB", 0)), bool(n.get("transBatchB", 0)))
    alpha = n.get("alpha", 1.0)

    def made(desc: Any) -> Value:
        return batched(left, right, lambda x, y: dml.gemm(x, y, alpha=alpha, fused_activation=desc))

    return with_activation(n, made, _parameters(n))


def fused_gemm(n: Node, a: Value, b: Value, c: Value = None) -> Value:
    """FusedGemm: GEMM with its activation."""
    desc = fused(n.get("activation", ""), _parameters(n))
    y = gemm(n, a, b, c, desc)
    return y if desc is not None or not n.get("activation") else followed(n.get("activation"), _parameters(n), y)


def bias_gelu(n: Node, x: Value, bias: Value) -> Value:
    """Gelu of a sum: ADD1 with GELU."""
    return dml.element_wise_add1(x, expand(bias, tuple(x.shape)), fused("Gelu", ()))


def fast_gelu(n: Node, x: Value, bias: Value = None) -> Value:
    """Gelu approximated by tanh: x / 2 * (1 + tanh(a x + b x^3)), which is x * sigmoid(2 a x + 2 b x^3).

    a is 0.7978845608, sqrt(2 / pi), and b is 0.0356774081, 0.044715 * a. The function is composed, with a rounding after each
    step: the sum with the bias, x^2, 2 a + 2 b x^2, its product with x, the sigmoid, and the product.
    """
    total = x if bias is None else dml.element_wise_add(x, expand(bias, tuple(x.shape)))
    square = dml.element_wise_multiply(total, total)
    factor = dml.element_wise_identity(square, scale_bias=(2 * 0.035677408136300125, 2 * 0.7978845608028654))
    return dml.element_wise_multiply(total, dml.activation_sigmoid(dml.element_wise_multiply(total, factor)))


def bias_split_gelu(n: Node, x: Value, bias: Value) -> Value:
    """The left half of a sum, times Gelu of the right half: a sum, a split, GELU and a product."""
    total = dml.element_wise_add(x, expand(bias, tuple(x.shape)))
    half = (*x.shape[:-1], x.shape[-1] // 2)
    left, right = dml.split(total, axis=x.ndim - 1, output_sizes=[half, half])
    return dml.element_wise_multiply(left, dml.activation_gelu(right))


def bias_add(n: Node, x: Value, bias: Value, skip: Value) -> Value:
    """BiasAdd: the sum of a tensor, a bias along its last dimension and another tensor."""
    return dml.element_wise_add(dml.element_wise_add(x, expand(bias, tuple(x.shape))), skip)


MICROSOFT: dict[str, Callable[..., Any]] = {
    "BiasAdd": bias_add,
    "BiasGelu": bias_gelu,
    "BiasSplitGelu": bias_split_gelu,
    "ConvTransposeWithDynamicPads": conv_transpose_with_pads,
    "FastGelu": fast_gelu,
    "FusedConv": fused_conv,
    "FusedGemm": fused_gemm,
    "FusedMatMul": fused_matmul,
    "FusedMatMulActivation": fused_matmul,
    "Gelu": lambda n, x: dml.activation_gelu(x),
    "NhwcConv": nhwc_conv,
    "NhwcFusedConv": _nhwc(fused_conv),
    "QuickGelu": lambda n, x: dml.activation_swish(x, sigmoid_input_scale=n.get("alpha", 1.702)),
    "TransposeMatMul": fused_matmul,
}

TABLE = {f"com.microsoft.{name}": mapping for name, mapping in MICROSOFT.items()}
