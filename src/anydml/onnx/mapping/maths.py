"""Arithmetic, comparisons, logic, bits and casts: an operator of DirectML for each, broadcast as NumPy does."""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce
from typing import Any

import ml_dtypes
import numpy as np
from onnx import TensorProto

from anydml.functional import functions as dml
from anydml.functional.tracing import GraphTensor
from anydml.onnx.errors import INVALID, NOT_IN_DIRECTML, Refused
from anydml.onnx.later import later
from anydml.onnx.nodes import Node
from anydml.onnx.types import BOOL, DTYPES, EIGHT_BIT_FLOATS, FOUR_BIT, dtype_of
from anydml.onnx.values import Value, axis_of, converted, is_float, number, reshape

SMALL = 4096  # elements up to which NumPy computes integer tensors, such as those of sizes

Mapping = Callable[..., Any]


def unary(function: Callable[..., Any]) -> Mapping:
    """The mapping of a function of one tensor."""

    def mapping(n: Node, x: Value) -> Value:
        return function(x)

    return mapping


def binary(function: Callable[..., Any], of_integers: Callable[..., Any] | None = None) -> Mapping:
    """The mapping of a function of two tensors. of_integers: NumPy's function with the same results for integers."""

    def mapping(n: Node, a: Value, b: Value) -> Value:
        if n.opset < 7 and not n.domain:
            b = aligned(n, a, b)
        if of_integers is not None and _small(a) and _small(b) and a.dtype == b.dtype:
            return np.asarray(of_integers(a, b))
        return function(a, b)

    return mapping


def aligned(n: Node, a: Value, b: Value) -> Value:
    """The second tensor, broadcast as in operator sets before 7: its dimensions are those of the first one from an axis on."""
    axis = n.get("axis")
    if not n.get("broadcast", 0) and tuple(a.shape) != tuple(b.shape):
        raise Refused(f"sizes {tuple(a.shape)} and {tuple(b.shape)} differ, and it does not broadcast", INVALID)
    if axis is None or not n.get("broadcast", 0):
        return b
    behind = a.ndim - axis_of(axis, a.ndim) - b.ndim
    if behind < 0:
        raise Refused(f"sizes {tuple(b.shape)} do not fit into {tuple(a.shape)} from axis {axis} on", INVALID)
    return reshape(b, (*b.shape, *[1] * behind))


def _small(x: Value) -> bool:
    return isinstance(x, np.ndarray) and x.dtype.kind in "iu" and x.size <= SMALL


def compared(function: Callable[..., Any], of_integers: Callable[..., Any]) -> Mapping:
    """The mapping of a comparison, whose result is truth values."""
    return binary(function, lambda a, b: of_integers(a, b).view(np.uint8))


def several(function: Callable[[Value, Value], Value]) -> Mapping:
    """The mapping of a function of two tensors to one or more tensors, from left to right."""

    def mapping(n: Node, *values: Value) -> Value:
        return reduce(function, values)

    return mapping


def mean(n: Node, *values: Value) -> Value:
    """The mean of tensors: ELEMENT_WISE_MEAN of two; of more, their sum from left to right, divided by their count."""
    if len(values) < 3:
        return reduce(dml.element_wise_mean, values)
    total = reduce(dml.element_wise_add, values)
    return dml.element_wise_divide(total, np.array(len(values), total.dtype))


def absolute(n: Node, x: Value) -> Value:
    return x if x.dtype.kind == "u" else dml.element_wise_abs(x)


def affine(n: Node, x: Value) -> Value:
    """Affine of operator sets before 10: IDENTITY with a ScaleBias."""
    return dml.element_wise_identity(x, scale_bias=(n.get("alpha", 1.0), n.get("beta", 0.0)))


def image_scaler(n: Node, x: Value) -> Value:
    """ImageScaler of operator sets before 10: VALUE_SCALE_2D for 1 or 3 channels, else BATCH_NORMALIZATION by 0 and 1."""
    scale, bias = n.get("scale", 1.0), n.get("bias") or [0.0] * x.shape[1]
    if len(bias) in (1, 3):
        return dml.value_scale_2d(x, scale=scale, bias=bias)
    factor, term = (np.reshape(np.array(p, x.dtype), (1, -1, 1, 1)) for p in ([scale], bias))
    return dml.batch_normalization(x, np.zeros_like(factor), np.ones_like(factor), factor, term, epsilon=0.0)


def power(n: Node, x: Value, exponent: Value) -> Value:
    """ELEMENT_WISE_CONSTANT_POW if the exponent is one known element, else ELEMENT_WISE_POW. The result has the base's type."""
    if is_float(x.dtype):
        constant = not isinstance(exponent, GraphTensor) and exponent.size == 1
        if constant and exponent.ndim <= x.ndim and float(np.float32(number(exponent))) == number(exponent):
            return dml.element_wise_constant_pow(x, exponent=number(exponent))
        return dml.element_wise_pow(x, converted(exponent, x.dtype))
    if is_float(exponent.dtype):
        return dml.cast(dml.element_wise_pow(dml.cast(x, output_data_type=exponent.dtype), exponent), output_data_type=x.dtype)
    return dml.element_wise_pow(x, converted(exponent, x.dtype))


def modulus(n: Node, a: Value, b: Value) -> Value:
    if n.get("fmod", 0):
        return binary(dml.element_wise_modulus_truncate, np.fmod)(n, a, b)
    return binary(dml.element_wise_modulus_floor, np.mod)(n, a, b)


def shift(n: Node, a: Value, b: Value) -> Value:
    """Shifts of the unsigned bits. A negative number is shifted to the right as the complement of its shifted complement."""
    bits, by = unsigned(a), unsigned(b)
    if n.get("direction") == "LEFT":
        return dml.element_wise_bit_shift_left(bits, by).view(a.dtype)
    shifted = dml.element_wise_bit_shift_right(bits, by)
    if a.dtype.kind == "u":
        return shifted
    inverted = dml.element_wise_bit_not(dml.element_wise_bit_shift_right(dml.element_wise_bit_not(bits), by))
    below = dml.element_wise_logical_less_than(a, np.zeros((), a.dtype))
    return dml.element_wise_if(below, inverted, shifted).view(a.dtype)


def unsigned(x: Value) -> Value:
    """The bits of integers as unsigned integers."""
    return x.view(np.dtype(f"u{x.dtype.itemsize}"))


def bit_cast(n: Node, x: Value) -> Value:
    """The same bits as elements of another type of the same size."""
    to = n.get("to")
    if to is None or to == BOOL or to in FOUR_BIT or dtype_of(to).itemsize != x.dtype.itemsize:
        raise Refused("the elements of both types must have the same size", NOT_IN_DIRECTML)
    return x.view(dtype_of(to))


def is_infinite(n: Node, x: Value) -> Value:
    """IsInf: infinities of the signs that the attributes name; if they name neither, none."""
    signs = bool(n.get("detect_positive", 1)), bool(n.get("detect_negative", 1))
    if signs == (False, False):
        return np.zeros(x.shape, np.uint8)
    mode = {(True, True): "EITHER", (True, False): "POSITIVE", (False, True): "NEGATIVE"}[signs]
    return dml.element_wise_is_infinity(x, mode)


def clip(n: Node, x: Value, low: Value = None, high: Value = None) -> Value:
    """Clip: the limits are attributes in old operator sets, else inputs. Known limits become attributes of CLIP."""
    if low is None and high is None and n.opset < 11:
        return dml.element_wise_clip(x, min=n.get("min", -3.4028234663852886e38), max=n.get("max", 3.4028234663852886e38))
    if any(isinstance(limit, GraphTensor) for limit in (low, high)):
        raised = x if low is None else dml.element_wise_max(x, low)
        return raised if high is None else dml.element_wise_min(raised, high)
    lowest, highest = _limits(x.dtype)
    ends = [end if limit is None else number(limit) for limit, end in ((low, lowest), (high, highest))]
    if ends[0] > ends[1]:
        ends[0] = ends[1]  # in ONNX, every element becomes max if min is above max
    return dml.element_wise_clip1(x, min_max_data_type=x.dtype, min=ends[0], max=ends[1])


def _limits(dtype: np.dtype[Any]) -> tuple[Any, Any]:
    if is_float(dtype):
        return float("-inf"), float("inf")
    return int(np.iinfo(dtype).min), int(np.iinfo(dtype).max)


def where(n: Node, condition: Value, a: Value, b: Value) -> Value:
    if isinstance(condition, np.ndarray) and _small(a) and _small(b):
        return np.where(condition.astype(np.bool_), a, b)
    return dml.element_wise_if(condition, a, b)


def cast(n: Node, x: Value) -> Value:
    return _cast(n, x, n.types[0], n.get("to"))


def cast_like(n: Node, x: Value, like: Value) -> Value:
    return _cast(n, x, n.types[0], n.types[1])


def _cast(n: Node, x: Value, own: int | None, to: int | None) -> Value:
    """The tensor as another element type. Elements that are not 0 are true; integers keep their low bits, as in ONNX."""
    if to is None:
        raise Refused("the type that it casts to is not known", INVALID)
    dtype = dtype_of(to)
    if own in EIGHT_BIT_FLOATS and to != own:  # float32 has their numbers
        x, own = dml.cast(x, output_data_type="FLOAT32"), TensorProto.FLOAT
    if to == BOOL:
        if own == BOOL:
            return x
        return dml.element_wise_logical_not(dml.element_wise_logical_equals(x, np.zeros((), x.dtype)))
    if own == to:
        return x
    if _small(x) and dtype.kind in "iu":
        return x.astype(dtype)
    if to in EIGHT_BIT_FLOATS:
        if own in FOUR_BIT:
            x = _from_four_bit(x)
        return _saturated(x, dtype) if n.get("saturate", 1) else dml.cast(x, output_data_type=dtype)
    if own in FOUR_BIT:
        return _cast(n, _from_four_bit(x), TensorProto.FLOAT, to)
    if to in FOUR_BIT:
        return _to_four_bit(_cast(n, x, own, TensorProto.INT32), dtype)
    return dml.cast(x, output_data_type=dtype)


def _saturated(x: Value, dtype: np.dtype[Any]) -> Value:
    """The tensor as 8-bit floats, in which numbers beyond the largest and infinities become the largest: CLIP, then CAST."""
    largest = int(ml_dtypes.finfo(dtype).max)  # type: ignore[no-untyped-call]
    if x.dtype == np.float64:  # which CLIP does not take; those that round to the largest in FLOAT32 saturate
        single = dml.cast(x, output_data_type="FLOAT32")
        large = dml.element_wise_logical_greater_than_or_equal(dml.element_wise_abs(single), np.float32(largest))
        return dml.element_wise_if(large, _saturated(single, dtype), dml.cast(x, output_data_type=dtype))
    least, most = _limits(x.dtype)
    low, high = max(-largest, least), min(largest, most)
    return dml.cast(dml.element_wise_clip1(x, min_max_data_type=x.dtype, min=low, max=high), output_data_type=dtype)


def _from_four_bit(x: Value) -> Value:
    """DEQUANTIZE by a scale of 1, because CAST has no types of 4 bits."""
    sizes = (1,) * max(x.ndim, 1)
    parts = [np.ones(sizes, np.float32), np.zeros(sizes, x.dtype)]
    return reshape(dml.dequantize(reshape(x, x.shape or (1,)), parts), x.shape)


def _to_four_bit(x: Value, dtype: np.dtype[Any]) -> Value:
    """QUANTIZE by a scale of 1, of the low 4 bits of INT32."""
    low = dml.element_wise_bit_and(unsigned(x), np.full((), 15, np.uint32))
    if dtype == DTYPES[TensorProto.INT4]:  # numbers with the top bit are negative
        real = dml.cast(dml.element_wise_bit_xor(low, np.full((), 8, np.uint32)), output_data_type="FLOAT32")
        real = dml.element_wise_subtract(real, np.full((), 8, np.float32))
    else:
        real = dml.cast(low, output_data_type="FLOAT32")
    sizes = (1,) * max(x.ndim, 1)
    parts = [np.ones(sizes, np.float32), np.zeros(sizes, dtype)]
    return reshape(dml.quantize(reshape(real, x.shape or (1,)), parts, output_data_type=dtype), x.shape)


TABLE: dict[str, Mapping] = {
    "Abs": absolute,
    "Acos": unary(later.element_wise_acos),
    "Acosh": unary(later.element_wise_acosh),
    "Affine": affine,
    "Add": binary(later.element_wise_add, np.add),
    "And": binary(later.element_wise_logical_and, lambda a, b: np.logical_and(a, b).view(np.uint8)),
    "Asin": unary(later.element_wise_asin),
    "Asinh": unary(later.element_wise_asinh),
    "Atan": unary(later.element_wise_atan),
    "Atanh": unary(later.element_wise_atanh),
    "BitCast": bit_cast,
    "BitShift": shift,
    "BitwiseAnd": binary(later.element_wise_bit_and, np.bitwise_and),
    "BitwiseNot": unary(later.element_wise_bit_not),
    "BitwiseOr": binary(later.element_wise_bit_or, np.bitwise_or),
    "BitwiseXor": binary(later.element_wise_bit_xor, np.bitwise_xor),
    "Cast": cast,
    "CastLike": cast_like,
    "Ceil": unary(later.element_wise_ceil),
    "Clip": clip,
    "Cos": unary(later.element_wise_cos),
    "Cosh": unary(later.element_wise_cosh),
    "Div": binary(later.element_wise_divide),
    "Equal": compared(later.element_wise_logical_equals, np.equal),
    "Erf": unary(later.element_wise_erf),
    "Exp": unary(later.element_wise_exp),
    "Floor": unary(later.element_wise_floor),
    "Greater": compared(later.element_wise_logical_greater_than, np.greater),
    "GreaterOrEqual": compared(later.element_wise_logical_greater_than_or_equal, np.greater_equal),
    "ImageScaler": image_scaler,
    "IsInf": is_infinite,
    "IsNaN": unary(later.element_wise_is_nan),
    "Less": compared(later.element_wise_logical_less_than, np.less),
    "LessOrEqual": compared(later.element_wise_logical_less_than_or_equal, np.less_equal),
    "Log": unary(later.element_wise_log),
    "Max": several(later.element_wise_max),
    "Mean": mean,
    "Min": several(later.element_wise_min),
    "Mod": modulus,
    "Mul": binary(later.element_wise_multiply, np.multiply),
    "Neg": unary(later.element_wise_negate),
    "Not": unary(later.element_wise_logical_not),
    "Or": binary(later.element_wise_logical_or, lambda a, b: np.logical_or(a, b).view(np.uint8)),
    "Pow": power,
    "Reciprocal": unary(later.element_wise_recip),
    "Round": unary(later.element_wise_round),
    "Sign": unary(later.element_wise_sign),
    "Sin": unary(later.element_wise_sin),
    "Sinh": unary(later.element_wise_sinh),
    "Sqrt": unary(later.element_wise_sqrt),
    "Sub": binary(later.element_wise_subtract, np.subtract),
    "Sum": several(later.element_wise_add),
    "Tan": unary(later.element_wise_tan),
    "Tanh": unary(later.element_wise_tanh),
    "Where": where,
    "Xor": binary(later.element_wise_logical_xor),
}
