"""Arithmetic, functions, comparisons, logic and casts of elements, broadcast as NumPy does."""

from __future__ import annotations

import math
from functools import reduce
from typing import Any

import numpy as np
import torch

from anydml.functional import functions as dml
from anydml.onnx.errors import NOT_YET, Refused
from anydml.onnx.values import Value, is_float
from anydml.torch.mapping.common import Mapping, cast, common, floating, truth, typed, unsigned
from anydml.torch.read import Node

MOST_FACTORS = 16  # of a power of integers of 64 bits
UNARY = {
    "acos": "acos", "acosh": "acosh", "asin": "asin", "asinh": "asinh", "atan": "atan", "atanh": "atanh", "cos": "cos",
    "cosh": "cosh", "erf": "erf", "exp": "exp", "log": "log", "reciprocal": "recip", "sin": "sin", "sinh": "sinh",
    "sqrt": "sqrt", "tan": "tan", "tanh": "tanh",
}  # fmt: skip
"""Functions of floats that are one operator of DirectML."""

COMPARISONS = {
    "eq": "equals", "ge": "greater_than_or_equal", "gt": "greater_than", "le": "less_than_or_equal", "lt": "less_than"
}  # fmt: skip


def _function(name: str) -> Mapping:
    def mapping(n: Node, x: Value) -> Value:
        return getattr(dml, f"element_wise_{name}")(floating(n, x))

    return mapping


def log1p(n: Node, x: Value) -> Value:
    """LOG of 1 x + 1, rounded once."""
    return dml.element_wise_log(floating(n, x), scale_bias=(1, 1))


def log_to(base: float) -> Mapping:
    """The mapping of a logarithm to a base: LOG, divided by the base's."""

    def mapping(n: Node, x: Value) -> Value:
        return dml.element_wise_divide(dml.element_wise_log(floating(n, x)), np.array(math.log(base), n.dtype))

    return mapping


def exp2(n: Node, x: Value) -> Value:
    """POW of 2, rounded once."""
    return dml.element_wise_pow(np.array(2, n.dtype), floating(n, x))


def expm1(n: Node, x: Value) -> Value:
    """ELU up to 0, rounded once; above it -ELU(-x) exp(x), so that nothing cancels."""
    x = floating(n, x)
    below = dml.activation_elu(x, alpha=1.0)
    opposite = dml.element_wise_negate(dml.activation_elu(dml.element_wise_negate(x), alpha=1.0))
    above = dml.element_wise_multiply(opposite, dml.element_wise_exp(x))
    return dml.element_wise_if(dml.element_wise_logical_greater_than(x, np.zeros((), n.dtype)), above, below)


def rsqrt(n: Node, x: Value) -> Value:
    """CONSTANT_POW of -1/2, rounded once."""
    return dml.element_wise_constant_pow(floating(n, x), exponent=-0.5)


def whole(function: Any) -> Mapping:
    """The mapping of a function to integers, which leaves integers unchanged."""

    def mapping(n: Node, x: Value) -> Value:
        return x if x.dtype.kind in "iu" else function(x)

    return mapping


def round_(n: Node, x: Value, decimals: int = 0) -> Value:
    if decimals:
        raise Refused(f"it rounds to {decimals} decimals", NOT_YET)
    return x if x.dtype.kind in "iu" else dml.element_wise_round(x)


def absolute(n: Node, x: Value) -> Value:
    return x if x.dtype.kind == "u" else dml.element_wise_abs(x)


def negated(n: Node, x: Value) -> Value:
    return dml.element_wise_subtract(np.zeros((), x.dtype), x) if x.dtype.kind == "u" else dml.element_wise_negate(x)


def sign(n: Node, x: Value) -> Value:
    return dml.element_wise_min(x, np.ones((), x.dtype)) if x.dtype.kind == "u" else dml.element_wise_sign(x)


def square(n: Node, x: Value) -> Value:
    return dml.element_wise_multiply(x, x)


def relu(n: Node, x: Value) -> Value:
    return dml.element_wise_max(x, np.zeros((), x.dtype)) if x.dtype.kind in "iu" else dml.activation_relu(x)


def _of_float16(n: Node, a: Value, b: Any, scale: bool) -> Value | None:
    """A float16 tensor plus or times a number by its ScaleBias: torch does not round the number to float16; else None."""
    if n.dtype != np.float16 or not isinstance(b, (int, float)) or not math.isfinite(b) or n.types.get("self") != torch.float16:
        return None
    return dml.element_wise_identity(a, scale_bias=(b, -0.0) if scale else (1.0, b))


def _times(n: Node, b: Any, alpha: Any) -> Any:
    """The second term of a sum: its product with alpha, rounded."""
    if isinstance(b, (int, float)) and isinstance(alpha, (int, float)):
        return b * alpha
    if alpha == 1:
        return b
    return dml.element_wise_multiply(typed(b, n.dtype), typed(alpha, n.dtype))


def add(n: Node, a: Value, b: Any, alpha: Any = 1) -> Value:
    """ADD, or SUBTRACT if alpha is -1; another alpha first multiplies the second tensor, which is rounded."""
    if n.result is torch.bool:
        return dml.element_wise_logical_or(a, typed(b, np.dtype(np.uint8)))
    if alpha == -1 and not isinstance(b, (int, float)):
        return dml.element_wise_subtract(typed(a, n.dtype), typed(b, n.dtype))
    b = _times(n, b, alpha)
    made = _of_float16(n, a, b, False)
    return dml.element_wise_add(typed(a, n.dtype), typed(b, n.dtype)) if made is None else made


def sub(n: Node, a: Value, b: Any, alpha: Any = 1) -> Value:
    if isinstance(b, (int, float)) and (made := _of_float16(n, a, -b * alpha, False)) is not None:
        return made
    return dml.element_wise_subtract(typed(a, n.dtype), typed(_times(n, b, alpha), n.dtype))


def rsub(n: Node, a: Value, b: Any, alpha: Any = 1) -> Value:
    return dml.element_wise_subtract(typed(b, n.dtype), typed(_times(n, a, alpha), n.dtype))


def mul(n: Node, a: Value, b: Any) -> Value:
    if n.result is torch.bool:
        return dml.element_wise_logical_and(a, typed(b, np.dtype(np.uint8)))
    made = _of_float16(n, a, b, True)
    return dml.element_wise_multiply(typed(a, n.dtype), typed(b, n.dtype)) if made is None else made


def div(n: Node, a: Value, b: Any, rounding_mode: str | None = None) -> Value:
    """DIVIDE; with a rounding mode, ROUND or FLOOR of the rounded quotient of floats, and the quotient of integers."""
    x, y = typed(a, n.dtype), typed(b, n.dtype)
    made = dml.element_wise_divide(x, y)
    if rounding_mode is None:
        return made
    if n.dtype.kind in "iu":
        if rounding_mode == "trunc" or n.dtype.kind == "u":
            return made
        rest = dml.element_wise_modulus_floor(x, y)  # has the divisor's sign, so that x - rest is a multiple of y, below x / y
        return dml.element_wise_divide(dml.element_wise_subtract(x, rest), y)
    return dml.element_wise_floor(made) if rounding_mode == "floor" else dml.element_wise_round(made, "TOWARD_ZERO")


def power(n: Node, x: Any, exponent: Any) -> Value:
    """CONSTANT_POW of floats for an exponent that float32 has, else POW."""
    if isinstance(exponent, (int, float)) and is_float(n.dtype) and float(np.float32(exponent)) == exponent:
        return dml.element_wise_constant_pow(typed(x, n.dtype), exponent=exponent)
    if n.dtype in (np.int64, np.uint64):  # POW takes integers of up to 32 bits
        if not isinstance(exponent, int) or not 1 <= exponent <= MOST_FACTORS:
            raise Refused(f"it raises integers of 64 bits to a power that is no number from 1 to {MOST_FACTORS}", NOT_YET)
        return reduce(dml.element_wise_multiply, [typed(x, n.dtype)] * exponent)
    return dml.element_wise_pow(typed(x, n.dtype), typed(exponent, n.dtype))


def binary(function: str) -> Mapping:
    """The mapping of a function of two tensors, or of a tensor and a number, in the type that torch computes in."""

    def mapping(n: Node, a: Any, b: Any) -> Value:
        dtype = common(n)
        return getattr(dml, function)(typed(a, dtype), typed(b, dtype))

    return mapping


def differs(n: Node, a: Any, b: Any) -> Value:
    return dml.element_wise_logical_not(binary("element_wise_logical_equals")(n, a, b))


def logical(function: str) -> Mapping:
    """The mapping of a function of truth values."""

    def mapping(n: Node, *given: Value) -> Value:
        names = ("self", "other")
        parts = [x if n.types[name] is torch.bool else truth(x) for name, x in zip(names, given, strict=False)]
        return getattr(dml, f"element_wise_logical_{function}")(*parts)

    return mapping


def bitwise(function: str, of_truth: str) -> Mapping:
    """The mapping of a function of the bits of integers, and of truth values."""

    def mapping(n: Node, a: Any, b: Any) -> Value:
        dtype = common(n)
        x, y = typed(a, dtype), typed(b, dtype)
        if n.result is torch.bool:
            return getattr(dml, f"element_wise_logical_{of_truth}")(x, y)
        return getattr(dml, f"element_wise_bit_{function}")(unsigned(x), unsigned(y)).view(dtype)

    return mapping


def inverted(n: Node, x: Value) -> Value:
    if n.result is torch.bool:
        return dml.element_wise_logical_not(x)
    return dml.element_wise_bit_not(unsigned(x)).view(x.dtype)


def is_nan(n: Node, x: Value) -> Value:
    return dml.element_wise_is_nan(x) if is_float(x.dtype) else np.zeros(x.shape, np.uint8)


def is_infinite(n: Node, x: Value) -> Value:
    return dml.element_wise_is_infinity(x) if is_float(x.dtype) else np.zeros(x.shape, np.uint8)


def where(n: Node, condition: Value, a: Any, b: Any) -> Value:
    return dml.element_wise_if(condition, typed(a, n.dtype), typed(b, n.dtype))


def masked_fill(n: Node, x: Value, mask: Value, value: Any) -> Value:
    return dml.element_wise_if(mask, typed(value, n.dtype), typed(x, n.dtype))


def clamp(n: Node, x: Value, low: Any = None, high: Any = None) -> Value:
    """CLIP by numbers. If the lowest is above the highest, all elements are the highest."""
    if any(limit is not None and not isinstance(limit, (int, float)) for limit in (low, high)):
        x = typed(x, n.dtype)
        x = x if low is None else dml.element_wise_max(x, typed(low, n.dtype))
        return x if high is None else dml.element_wise_min(x, typed(high, n.dtype))
    ends = (-math.inf, math.inf) if is_float(n.dtype) else (int(np.iinfo(n.dtype).min), int(np.iinfo(n.dtype).max))
    least, most = (end if limit is None else limit for limit, end in zip((low, high), ends, strict=True))
    if math.isnan(least) or math.isnan(most):
        return np.full(tuple(x.shape), np.nan, n.dtype)
    if n.dtype.kind in "iu":
        least, most = (min(max(limit, ends[0]), ends[1]) for limit in (least, most))
    return dml.element_wise_clip1(typed(x, n.dtype), min_max_data_type=n.dtype, min=min(least, most), max=most)


def to_type(n: Node, x: Value, *_: Any, **__: Any) -> Value:
    return cast(x, n.types["self"], n.result)


def shifted(left: bool) -> Mapping:
    """The mapping of a shift of the unsigned bits; a negative number is shifted right as the complement of its complement."""

    def mapping(n: Node, a: Any, b: Any) -> Value:
        dtype = common(n)
        x, by = typed(a, dtype), unsigned(typed(b, dtype))
        if left:
            return dml.element_wise_bit_shift_left(unsigned(x), by).view(dtype)
        made = dml.element_wise_bit_shift_right(unsigned(x), by)
        if dtype.kind == "u":
            return made
        inverted_bits = dml.element_wise_bit_not(dml.element_wise_bit_shift_right(dml.element_wise_bit_not(unsigned(x)), by))
        return dml.element_wise_if(dml.element_wise_logical_less_than(x, np.zeros((), dtype)), inverted_bits, made).view(dtype)

    return mapping


def addcmul(divides: bool) -> Mapping:
    """The mapping of x + value a b, or x + value a / b: the product or quotient, its product with the value, and the sum."""

    def mapping(n: Node, x: Value, a: Value, b: Value, value: Any = 1) -> Value:
        a, b = typed(a, n.dtype), typed(b, n.dtype)
        term = dml.element_wise_divide(a, b) if divides else dml.element_wise_multiply(a, b)
        return dml.element_wise_add(typed(x, n.dtype), _times(n, term, value))

    return mapping


def lerp(n: Node, a: Value, b: Value, weight: Any) -> Value:
    """a + weight (b - a), of which each step is rounded."""
    apart = dml.element_wise_subtract(b, a)
    return dml.element_wise_add(a, dml.element_wise_multiply(apart, typed(weight, n.dtype)))


TABLE: dict[str, Mapping] = {
    **{f"aten.{name}.default": _function(function) for name, function in UNARY.items()},
    **{
        f"aten.{name}.{kind}": binary(f"element_wise_logical_{function}")
        for name, function in COMPARISONS.items()
        for kind in ("Tensor", "Scalar")
    },
    "aten._to_copy.default": to_type,
    "aten.abs.default": absolute,
    "aten.add.Scalar": add,
    "aten.add.Tensor": add,
    "aten.addcdiv.default": addcmul(True),
    "aten.addcmul.default": addcmul(False),
    "aten.atan2.default": binary("element_wise_atan_yx"),
    "aten.bitwise_and.Scalar": bitwise("and", "and"),
    "aten.bitwise_and.Tensor": bitwise("and", "and"),
    "aten.bitwise_left_shift.Tensor": shifted(True),
    "aten.bitwise_not.default": inverted,
    "aten.bitwise_or.Scalar": bitwise("or", "or"),
    "aten.bitwise_or.Tensor": bitwise("or", "or"),
    "aten.bitwise_right_shift.Tensor": shifted(False),
    "aten.bitwise_xor.Scalar": bitwise("xor", "xor"),
    "aten.bitwise_xor.Tensor": bitwise("xor", "xor"),
    "aten.ceil.default": whole(lambda x: dml.element_wise_ceil(x)),
    "aten.clamp.Tensor": clamp,
    "aten.clamp.default": clamp,
    "aten.clamp_max.default": lambda n, x, high: clamp(n, x, None, high),
    "aten.clamp_min.default": clamp,
    "aten.div.Scalar": div,
    "aten.div.Scalar_mode": div,
    "aten.div.Tensor": div,
    "aten.div.Tensor_mode": div,
    "aten.exp2.default": exp2,
    "aten.expm1.default": expm1,
    "aten.floor.default": whole(lambda x: dml.element_wise_floor(x)),
    "aten.floor_divide.default": lambda n, a, b: div(n, a, b, "floor"),
    "aten.fmod.Scalar": binary("element_wise_modulus_truncate"),
    "aten.fmod.Tensor": binary("element_wise_modulus_truncate"),
    "aten.isinf.default": is_infinite,
    "aten.isnan.default": is_nan,
    "aten.lerp.Scalar": lerp,
    "aten.lerp.Tensor": lerp,
    "aten.log10.default": log_to(10),
    "aten.log1p.default": log1p,
    "aten.log2.default": log_to(2),
    "aten.logical_and.default": logical("and"),
    "aten.logical_not.default": logical("not"),
    "aten.logical_or.default": logical("or"),
    "aten.logical_xor.default": logical("xor"),
    "aten.masked_fill.Scalar": masked_fill,
    "aten.masked_fill.Tensor": masked_fill,
    "aten.maximum.default": binary("element_wise_max"),
    "aten.minimum.default": binary("element_wise_min"),
    "aten.mul.Scalar": mul,
    "aten.mul.Tensor": mul,
    "aten.ne.Scalar": differs,
    "aten.ne.Tensor": differs,
    "aten.neg.default": negated,
    "aten.pow.Scalar": power,
    "aten.pow.Tensor_Scalar": power,
    "aten.pow.Tensor_Tensor": power,
    "aten.relu.default": relu,
    "aten.remainder.Scalar": binary("element_wise_modulus_floor"),
    "aten.remainder.Tensor": binary("element_wise_modulus_floor"),
    "aten.round.decimals": round_,
    "aten.round.default": round_,
    "aten.rsqrt.default": rsqrt,
    "aten.rsub.Scalar": rsub,
    "aten.rsub.Tensor": rsub,
    "aten.sign.default": sign,
    "aten.square.default": square,
    "aten.sub.Scalar": sub,
    "aten.sub.Tensor": sub,
    "aten.trunc.default": whole(lambda x: dml.element_wise_round(x, "TOWARD_ZERO")),
    "aten.where.ScalarOther": where,
    "aten.where.ScalarSelf": where,
    "aten.where.self": where,
}
