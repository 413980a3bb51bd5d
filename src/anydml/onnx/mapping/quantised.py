"""Quantized operators, with scales per tensor, per axis or per block."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from anydml.exact.float32 import products_in_float32
from anydml.functional import functions as dml
from anydml.functional.functions import matrix_multiply_integer, quantized_linear_matrix_multiply
from anydml.onnx.errors import INVALID, Refused
from anydml.onnx.mapping.products import batched
from anydml.onnx.mapping.windows import channels, convolved, filtered, pooled, pooling, window_of
from anydml.onnx.nodes import Node
from anydml.onnx.types import dtype_of
from anydml.onnx.values import Array, Value, axis_of, converted, expand, is_float, reshape, transpose
from anydml.tensor import EIGHT_BIT_FLOATS, of_ml_dtypes

EIGHT_BIT = (np.dtype(np.uint8), np.dtype(np.int8))


def _parameter(n: Node, p: Value, x: Value) -> Value:
    """A scale or zero point with a tensor's dimension count: one element, one for each index of the axis, or one per block."""
    if p is None:
        return None
    if p.ndim <= 1 and (p.ndim == 0 or p.shape[0] == 1):
        return reshape(p, (1,) * max(x.ndim, 1))
    if p.ndim == 1:
        axis = axis_of(n.get("axis", 1), x.ndim)
        return reshape(p, [p.shape[0] if i == axis else 1 for i in range(x.ndim)])
    if p.ndim != x.ndim:
        raise Refused(f"scales have {p.ndim} dimensions, and the tensor {x.ndim}", INVALID)
    return p


SIXTEEN_BIT = (np.dtype(np.uint16), np.dtype(np.int16))


def _in_blocks(x: Value, *parameters: Value) -> tuple[Value, list[Value]]:
    """A tensor and parameters that broadcast to it. If scales are per block, the elements of a block are another dimension."""
    sizes = parameters[0].shape
    found = [i for i, (a, b) in enumerate(zip(sizes, x.shape, strict=True)) if a not in (1, b)]
    if not found:
        return x, [*parameters]
    (axis,) = found
    if x.shape[axis] % sizes[axis]:
        raise Refused(f"{x.shape[axis]} elements are not divisible into {sizes[axis]} blocks", INVALID)
    each = x.shape[axis] // sizes[axis]
    wide = (*x.shape[:axis], sizes[axis], each, *x.shape[axis + 1 :])
    return reshape(x, wide), [
        p if p is None else reshape(p, (*p.shape[: axis + 1], 1, *p.shape[axis + 1 :])) for p in parameters
    ]


def _quantized_to_16(x: Value, by: Value, zero: Value, dtype: Any) -> Value:
    """Integers of 16 bits: DIVIDE in the scale's type, ROUND, CLIP, CAST to INT32, ADD the zero point, CLIP, CAST.

    Only the quotient is rounded, as ONNX defines it; the first CLIP keeps it in the range of integers.
    """
    x, (by, zero) = _in_blocks(x, by, zero)
    quotient = converted(dml.element_wise_divide(x, by), np.dtype(np.float32))
    near = dml.element_wise_clip(dml.element_wise_round(quotient), min=-float(1 << 17), max=float(1 << 17))
    whole = converted(near, np.dtype(np.int32))
    if zero is not None:
        whole = dml.element_wise_add(whole, converted(zero, np.dtype(np.int32)))
    limits = np.iinfo(dtype)
    return converted(
        dml.element_wise_clip1(whole, min_max_data_type=np.dtype(np.int32), min=int(limits.min), max=int(limits.max)), dtype
    )


def quantize_linear(n: Node, x: Value, scale: Value, zero_point: Value = None) -> Value:
    """ELEMENT_WISE_QUANTIZE_LINEAR for 8 bits; QUANTIZE for others and for blocks. An absent zero point is 0."""
    declared = n.get("output_dtype") or None
    dtype = zero_point.dtype if zero_point is not None else dtype_of(declared) if declared else np.dtype(np.uint8)
    if of_ml_dtypes(dtype) in EIGHT_BIT_FLOATS:
        return _quantized_to_floats(n, x, scale, zero_point, dtype)
    x = _scaled(x, scale)
    by, zero = _parameter(n, scale, x), _parameter(n, zero_point, x)
    if dtype in EIGHT_BIT and all(a in (1, b) for a, b in zip(by.shape, x.shape, strict=False)):
        if zero is None and dtype != np.uint8:
            zero = np.zeros((1,) * max(x.ndim, 1), dtype)
        return reshape(dml.element_wise_quantize_linear(x, by, zero), x.shape)
    if dtype in SIXTEEN_BIT:
        led = converted(x, scale.dtype) if x.ndim else reshape(converted(x, scale.dtype), (1,))
        return reshape(_quantized_to_16(led, by, zero, dtype), x.shape)
    zero = np.zeros(by.shape, dtype) if zero is None else zero
    led = x if x.ndim else reshape(x, (1,))
    return reshape(dml.quantize(led, [by, zero], output_data_type=dtype), x.shape)


def _quantized_to_floats(n: Node, x: Value, scale: Value, zero_point: Value, dtype: Any) -> Value:
    """QUANTIZE to 8-bit floats, which saturates; without saturation DIVIDE in FLOAT32, ADD the zero point, CAST.

    A zero point whose elements are known to be 0 adds nothing, not even to -0.
    """
    if isinstance(zero_point, np.ndarray) and not zero_point.astype(np.float32).any():
        zero_point = None
    led = x if x.ndim else reshape(x, (1,))
    if not n.get("saturate", 1):
        single = np.dtype(np.float32)
        led, (by, zero) = _in_blocks(led, _parameter(n, scale, led), _parameter(n, zero_point, led))
        quotient = dml.element_wise_divide(converted(led, single), converted(by, single))
        if zero is not None:
            quotient = dml.element_wise_add(quotient, converted(zero, single))
        return reshape(converted(quotient, dtype), x.shape)
    led = _scaled(led, scale)
    parts = [p for p in (_parameter(n, scale, led), _parameter(n, zero_point, led)) if p is not None]
    return reshape(dml.quantize(led, parts, output_data_type=dtype), x.shape)


def _scaled(x: Value, scale: Value) -> Value:
    """The tensor converted to its scale's type, in which ONNX divides."""
    return x if x.dtype == scale.dtype or x.dtype == np.int32 else converted(x, scale.dtype)


def dequantize_linear(n: Node, x: Value, scale: Value, zero_point: Value = None) -> Value:
    """ELEMENT_WISE_DEQUANTIZE_LINEAR, for which 16 bits become INT32; DEQUANTIZE for 4 bits and for blocks."""
    by, zero = _parameter(n, scale, x), _parameter(n, zero_point, x)
    if x.dtype in SIXTEEN_BIT:
        led, (by, zero) = _in_blocks(x if x.ndim else reshape(x, (1,)), by, zero)
        whole, none = converted(led, np.dtype(np.int32)), None if zero is None else converted(zero, np.dtype(np.int32))
        return reshape(dml.element_wise_dequantize_linear(whole, by, none), x.shape)
    if x.dtype in (*EIGHT_BIT, np.dtype(np.int32)) and all(a in (1, b) for a, b in zip(by.shape, x.shape, strict=False)):
        if all(isinstance(p, np.ndarray) or p is None for p in (x, by, zero)) and by.dtype == np.float32 and _usual(by):
            return _dequantised(x, by, zero)
        return reshape(dml.element_wise_dequantize_linear(x, by, zero), x.shape)
    if zero is None and not is_float(x.dtype):
        zero = np.zeros(by.shape, x.dtype)
    led = x if x.ndim else reshape(x, (1,))
    return reshape(dml.dequantize(led, [by] if zero is None else [by, zero]), x.shape)


def _usual(scales: Array) -> bool:
    """Whether all scales are finite, positive and normal. Some threads' floating-point state replaces subnormals by zeros."""
    return bool((scales >= np.finfo(np.float32).tiny).all() and (scales < np.inf).all())


def _dequantised(x: Array, scales: Array, zero: Array | None) -> Array:
    """ELEMENT_WISE_DEQUANTIZE_LINEAR of constants, by usual scales: without compiling one for each of their sizes."""
    wide = np.int16 if x.dtype in EIGHT_BIT else np.int64  # which holds all differences, and products with 24 bits
    if zero is not None and zero.any():
        x = np.subtract(x, zero, dtype=wide)
    return products_in_float32(x if x.dtype.itemsize < 4 else x.astype(wide), scales)


def dynamic_quantize_linear(n: Node, x: Value) -> tuple[Value, Value, Value]:
    found = dml.dynamic_quantize_linear(x, output_data_type="UINT8")
    return reshape(found.output, x.shape), reshape(found.output_scale, ()), reshape(found.output_zero_point, ())


def _lined(p: Value, rank: int, axis: int) -> Value:
    """A parameter of a matrix: one element, or one for each row (axis -2) or column (axis -1)."""
    if p is None:
        return None
    if p.ndim == 0 or p.shape == (1,):
        return reshape(p, (1,) * rank)
    if p.ndim == 1:
        return reshape(p, [p.shape[0] if i == rank + axis else 1 for i in range(rank)])
    return reshape(p, (1,) * (rank - p.ndim) + tuple(p.shape))


def qlinear_matmul(n: Node, a: Value, sa: Value, za: Value, b: Value, sb: Value, zb: Value, sy: Value, zy: Value) -> Value:
    def product(x: Value, y: Value) -> Value:
        rank = x.ndim
        return quantized_linear_matrix_multiply(
            x, _lined(sa, rank, -2), _lined(za, rank, -2), y, _lined(sb, rank, -1), _lined(zb, rank, -1),
            _lined(sy, rank, -2), _lined(zy, rank, -2), output_data_type=zy.dtype,
        )  # fmt: skip

    if any(p.dtype == np.float16 for p in (sa, sb, sy)):
        sa, sb, sy = (converted(p, np.dtype(np.float32)) for p in (sa, sb, sy))
    return batched(a, b, product)


def matmul_integer(n: Node, a: Value, b: Value, za: Value = None, zb: Value = None) -> Value:
    def product(x: Value, y: Value) -> Value:
        return matrix_multiply_integer(x, y, _lined(za, x.ndim, -2), _lined(zb, y.ndim, -1))

    return batched(a, b, product)


def _by_filter(p: Value, rank: int) -> Value:
    """A parameter of filters: one element, or one for each filter."""
    if p is None:
        return None
    return reshape(p, (1, p.shape[0] if p.ndim else 1, *[1] * (rank - 2)))


def _image(n: Node, x: Value, w: Value) -> tuple[Value, Value, dict[str, Any]]:
    """The image and the filters with at least two spatial dimensions, and the arguments of the window."""
    found = window_of(n, x.shape[2:], filtered(n, w))
    count = max(x.ndim - 2, 2)
    wide = [reshape(v, (*v.shape[:2], *[1] * (count - v.ndim + 2), *v.shape[2:])) for v in (x, w)]
    return wide[0], wide[1], convolved(found.flat(count))


def qlinear_conv(
    n: Node, x: Value, sx: Value, zx: Value, w: Value, sw: Value, zw: Value, sy: Value, zy: Value, b: Value = None
) -> Value:
    image, filters, arguments = _image(n, x, w)
    rank = image.ndim
    scales = [_by_filter(p, rank) for p in (sx, sw, sy)]
    zeros = [_by_filter(p, rank) for p in (zx, zw, zy)]
    made = dml.quantized_linear_convolution(
        image, scales[0], filters, scales[1], scales[2], zeros[0], zeros[1], channels(b, rank), zeros[2],
        **arguments, group_count=n.get("group", 1),
    )  # fmt: skip
    return reshape(made, (*made.shape[:2], *made.shape[rank - x.ndim + 2 :]))


def conv_integer(n: Node, x: Value, w: Value, zx: Value = None, zw: Value = None) -> Value:
    image, filters, arguments = _image(n, x, w)
    rank = image.ndim
    zero, by_filter = _by_filter(zx, rank), _by_filter(zw, rank)
    made = dml.convolution_integer(image, filters, zero, by_filter, **arguments, group_count=n.get("group", 1))
    return reshape(made, (*made.shape[:2], *made.shape[rank - x.ndim + 2 :]))


def qlinear_add(n: Node, a: Value, sa: Value, za: Value, b: Value, sb: Value, zb: Value, sy: Value, zy: Value = None) -> Value:
    return dml.element_wise_quantized_linear_add(a, sa, b, sb, sy, za, zb, zy)


def _single(p: Value, rank: int) -> Value:
    """A parameter of a whole tensor."""
    return None if p is None else reshape(p, (1,) * rank)


def channels_first(function: Callable[..., Value]) -> Callable[..., Value]:
    """The mapping of an operator whose images may have their channels last, by strides."""

    def mapping(n: Node, x: Value, *rest: Value) -> Value:
        if not n.get("channels_last", 0):
            return function(n, x, *rest)
        image = transpose(x, (0, x.ndim - 1, *range(1, x.ndim - 1)))
        return transpose(function(n, image, *rest), (0, *range(2, x.ndim), 1))

    return mapping


def qlinear_average_pool(n: Node, x: Value, sx: Value, zx: Value, sy: Value, zy: Value = None) -> Value:
    image, found = pooling(n, x)
    if any(found.past) and n.get("count_include_pad", 0):
        raise Refused("it has both ceil_mode and count_include_pad")
    rank = image.ndim
    scale, of_output, zero, zero_of_output = (_single(p, rank) for p in (sx, sy, zx, zy))
    made = dml.quantized_linear_average_pooling(
        image,
        scale,
        of_output,
        zero,
        zero_of_output,
        **pooled(found),
        dilations=found.dilations,
        include_padding=bool(n.get("count_include_pad", 0)),
    )
    return reshape(made, (*made.shape[:2], *made.shape[rank - x.ndim + 2 :]))


def qlinear_global_average_pool(n: Node, x: Value, sx: Value, zx: Value, sy: Value, zy: Value = None) -> Value:
    count = max(x.ndim - 2, 2)
    image = reshape(x, (*x.shape[:2], *[1] * (count - x.ndim + 2), *x.shape[2:]))
    scale, of_output, zero, zero_of_output = (_single(p, image.ndim) for p in (sx, sy, zx, zy))
    made = dml.quantized_linear_average_pooling(image, scale, of_output, zero, zero_of_output, window_size=image.shape[2:])
    return reshape(made, (*x.shape[:2], *[1] * (x.ndim - 2)))


def matmul_integer_to_float(
    n: Node, a: Value, b: Value, sa: Value, sb: Value, za: Value = None, zb: Value = None, bias: Value = None
) -> Value:
    def product(x: Value, y: Value) -> Value:
        rank = x.ndim
        term = None if bias is None else expand(bias, (*x.shape[:-1], y.shape[-1]))
        return dml.matrix_multiply_integer_to_float(
            x, _lined(sa, rank, -2), y, _lined(sb, rank, -1), _lined(za, rank, -2), _lined(zb, rank, -1), term
        )

    return batched(a, b, product)


MICROSOFT: dict[str, Callable[..., Any]] = {
    "DequantizeLinear": dequantize_linear,
    "MatMulIntegerToFloat": matmul_integer_to_float,
    "QLinearAdd": qlinear_add,
    "QLinearAveragePool": channels_first(qlinear_average_pool),
    "QLinearConv": channels_first(qlinear_conv),
    "QLinearGlobalAveragePool": channels_first(qlinear_global_average_pool),
    "QuantizeLinear": quantize_linear,
}

TABLE: dict[str, Callable[..., Any]] = {
    "ConvInteger": conv_integer,
    "DequantizeLinear": dequantize_linear,
    "DynamicQuantizeLinear": dynamic_quantize_linear,
    "MatMulInteger": matmul_integer,
    "QLinearConv": qlinear_conv,
    "QLinearMatMul": qlinear_matmul,
    "QuantizeLinear": quantize_linear,
    **{f"com.microsoft.{name}": mapping for name, mapping in MICROSOFT.items()},
}
