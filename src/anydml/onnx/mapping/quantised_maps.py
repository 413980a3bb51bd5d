"""onnxruntime's operators that compute floats from quantised tensors: dequantised, computed, quantised, each step rounded.

The QDQ form of the same model means the same. onnxruntime uses tables or float32 steps, and may differ by one step next to a
tie.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from anydml.functional import functions as dml
from anydml.onnx.mapping.quantised import matmul_integer, matmul_integer_to_float, qlinear_matmul
from anydml.onnx.nodes import Node
from anydml.onnx.values import Value, axis_of, expand, is_float, reshape, transpose


def real(x: Value, scale: Value, zero: Value) -> Value:
    """The numbers that a quantised tensor represents."""
    return dml.element_wise_dequantize_linear(x, reshape(scale, ()), None if zero is None else reshape(zero, ()))


def stored(x: Value, scale: Value, zero: Value, like: Any) -> Value:
    """Numbers quantised to the zero point's type or, without one, to that of `like`."""
    zero = np.zeros((), like) if zero is None else reshape(zero, ())
    return dml.element_wise_quantize_linear(x, reshape(scale, ()), zero)


def computed(function: Callable[[Node, Value], Value]) -> Callable[..., Value]:
    """The mapping of a function of one tensor."""

    def mapping(n: Node, x: Value, sx: Value, zx: Value, sy: Value, zy: Value = None) -> Value:
        return stored(function(n, real(x, sx, zx)), sy, zy, x.dtype)

    return mapping


def softmax(n: Node, x: Value) -> Value:
    """Softmax along one axis; in operator sets before 13, over all dimensions from this axis on."""
    axis = axis_of(n.get("axis", -1), x.ndim)
    return dml.activation_softmax1(x, axes=[axis] if n.get("opset", 13) >= 13 else [*range(axis, x.ndim)])


def mean(n: Node, x: Value) -> Value:
    axes = [axis_of(a, x.ndim) for a in n.get("axes", range(x.ndim))] or [*range(x.ndim)]
    y = dml.reduce(x, "AVERAGE", axes)
    return y if n.get("keepdims", 1) else reshape(y, [s for i, s in enumerate(x.shape) if i not in axes])


def multiply(n: Node, a: Value, sa: Value, za: Value, b: Value, sb: Value, zb: Value, sc: Value, zc: Value = None) -> Value:
    return stored(dml.element_wise_multiply(real(a, sa, za), real(b, sb, zb)), sc, zc, a.dtype)


def where(
    n: Node, condition: Value, x: Value, sx: Value, zx: Value, y: Value, sy: Value, zy: Value, sz: Value, zz: Value
) -> Value:
    return stored(dml.element_wise_if(condition, real(x, sx, zx), real(y, sy, zy)), sz, zz, x.dtype)


def concat(n: Node, sy: Value, zy: Value, *values: Value) -> Value:
    """Inputs dequantised by their own scales, joined, and quantised by the output's. Floats are joined unchanged."""
    parts = [
        x if is_float(x.dtype) else real(x, sx, zx) for x, sx, zx in zip(values[::3], values[1::3], values[2::3], strict=True)
    ]
    joined = parts[0] if len(parts) == 1 else dml.join(parts, axis=axis_of(n.get("axis", 0), parts[0].ndim))
    return stored(joined, sy, zy, zy.dtype)


def gemm(
    n: Node, a: Value, sa: Value, za: Value, b: Value, sb: Value, zb: Value, c: Value = None, sy: Value = None,
    zy: Value = None,
) -> Value:  # fmt: skip
    """QGemm: without C, one QUANTIZED_LINEAR_MATRIX_MULTIPLY, or MATRIX_MULTIPLY_INTEGER_TO_FLOAT if Y is float.

    C is in units of the product of both scales. MATRIX_MULTIPLY_INTEGER and the INT32 sum with C are exact. The product of the
    scales, its product with the sum, and the quantisation by Y's scale are rounded each. Alpha multiplies the scale of A,
    rounded.
    """
    a = transpose(a, (1, 0)) if n.get("transA", 0) else a
    b = transpose(b, (1, 0)) if n.get("transB", 0) else b
    if (alpha := n.get("alpha", 1.0)) != 1.0:
        sa = dml.element_wise_multiply(sa, np.float32(alpha))
    if c is None and sy is not None:
        return qlinear_matmul(n, a, sa, za, b, sb, zb, sy, zy)
    if c is None:
        return matmul_integer_to_float(n, a, b, sa, sb, za, zb)
    sums = matmul_integer(n, a, b, za, zb)
    total = dml.element_wise_add(sums, expand(c, tuple(sums.shape)))
    y = dml.element_wise_dequantize_linear(total, dml.element_wise_multiply(reshape(sa, ()), sb))
    return y if sy is None else stored(y, sy, zy, np.int8)


def dynamic_quantize_matmul(n: Node, a: Value, b: Value, sb: Value, zb: Value = None, bias: Value = None) -> Value:
    """DYNAMIC_QUANTIZE_LINEAR of A, and MATRIX_MULTIPLY_INTEGER_TO_FLOAT with the bias. Without rows, the result is empty."""
    if 0 in a.shape[:-1]:
        return np.empty((*a.shape[:-1], b.shape[-1]), np.float32)
    found = dml.dynamic_quantize_linear(a, output_data_type="UINT8")
    scale, zero = reshape(found.output_scale, ()), reshape(found.output_zero_point, ())
    return matmul_integer_to_float(n, reshape(found.output, a.shape), b, scale, sb, zero, zb, bias)


MICROSOFT: dict[str, Callable[..., Any]] = {
    "DynamicQuantizeMatMul": dynamic_quantize_matmul,
    "QGemm": gemm,
    "QLinearConcat": concat,
    "QLinearLeakyRelu": computed(lambda n, x: dml.activation_leaky_relu(x, alpha=n.get("alpha", 0.01))),
    "QLinearMul": multiply,
    "QLinearReduceMean": computed(mean),
    "QLinearSigmoid": computed(lambda n, x: dml.activation_sigmoid(x)),
    "QLinearSoftmax": computed(softmax),
    "QLinearWhere": where,
}

TABLE = {f"com.microsoft.{name}": mapping for name, mapping in MICROSOFT.items()}
