"""Arithmetic, functions, reductions, comparisons and quantisation."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from anydml.functional import functions as dml
from anydml.functional.call import call
from anydml.onnx.errors import INVALID, NOT_YET, Refused
from anydml.onnx.later import later
from anydml.onnx.values import Value, axis_of, expand, known, reshape, transpose
from anydml.tflite.mapping.values import (
    EIGHT_BIT,
    activated,
    clipped,
    converted,
    dequantised,
    in_layout,
    integer,
    ints,
    parameters,
    same_quantisation,
    squeezed,
)
from anydml.tflite.operators import FUNCTIONS
from anydml.tflite.read import Node, Tensor

SOME = "only some of its tensors have a scale"
SMALL = 4096  # elements up to which NumPy computes integer tensors, such as those of sizes
Mapping = Callable[..., Any]


def broadcast(a: Value, b: Value) -> tuple[Value, Value]:
    """Two tensors of the sizes to which both broadcast."""
    try:
        sizes = np.broadcast_shapes(tuple(a.shape), tuple(b.shape))
    except ValueError:
        raise Refused(f"sizes {tuple(a.shape)} and {tuple(b.shape)} do not broadcast", INVALID) from None
    return expand(a, sizes), expand(b, sizes)


def two(n: Node) -> tuple[Tensor, Tensor]:
    a, b = n.inputs[:2]
    assert a is not None
    assert b is not None
    return a, b


def small(*xs: Value) -> bool:
    return all(isinstance(x, np.ndarray) and x.dtype.kind in "iu" and x.size <= SMALL for x in xs)


def arithmetic(name: str, of_floats: Callable[..., Any], of_integers: Callable[..., Any] | None = None) -> Mapping:
    """The mapping of a function of two tensors with a fused activation. of_integers: NumPy's function for integers."""

    def mapping(n: Node, a: Value, b: Value) -> Value:
        x, y = two(n)
        if x.is_quantised != y.is_quantised or x.is_quantised != n.outputs[0].is_quantised:
            raise Refused(SOME, INVALID)
        if a.dtype != b.dtype:
            raise Refused(f"it has tensors of {a.dtype} and {b.dtype}", INVALID)
        a, b = broadcast(a, b)
        if x.is_quantised:
            return activated_if(n, in_layout(lambda p, q: quantised_pair(n, name, p, q), a, b))
        if of_integers is not None and small(a, b):
            return np.asarray(of_integers(a, b))
        return activated_if(n, in_layout(of_floats, a, b))

    return mapping


def activated_if(n: Node, y: Value) -> Value:
    """The fused activation, if the operator's options have one."""
    return activated(n, y) if hasattr(n.options[1], "FusedActivationFunction") else y


def quantised_pair(n: Node, name: str, a: Value, b: Value) -> Value:
    """A function of two quantised tensors: DirectML's sum of 8-bit integers, or an operator of TensorFlow Lite."""
    x, y = two(n)
    (sa, za), (sb, zb), (sy, zy) = parameters(x), parameters(y), parameters(n.outputs[0])
    if name == "ADD" and {a.dtype, b.dtype, n.outputs[0].dtype} <= {*EIGHT_BIT}:
        sa, sb, sy, za, zb, zy = (p.reshape((1,) * a.ndim) for p in (sa, sb, sy, za, zb, zy))
        return dml.element_wise_quantized_linear_add(a, sa, b, sb, sy, za, zb, zy)
    return call(f"TFLITE_{name}", (a, sa, za, b, sb, zb, sy, zy), ())


def truncated(a: Value, b: Value) -> Value:
    """Division of integers towards zero, as in C."""
    if not np.all(b):
        raise Refused("it divides by 0", INVALID)
    return (np.sign(a) * np.sign(b) * (np.abs(a.astype(np.int64)) // np.abs(b.astype(np.int64)))).astype(a.dtype)


def unary(name: str, of_numbers: Callable[..., Any]) -> Mapping:
    """The mapping of a function of one tensor."""

    def mapping(n: Node, x: Value) -> Value:
        of = n.inputs[0]
        assert of is not None
        if of.is_quantised != n.outputs[0].is_quantised:
            raise Refused(SOME, INVALID)
        if not of.is_quantised:
            return in_layout(of_numbers, x)
        if not name:
            raise Refused("its elements are integers with a scale", NOT_YET)
        return converted(x, of, n.outputs[0], name)

    return mapping


def function(name: str) -> Callable[[Value], Value]:
    """A function of floats that DirectML lacks, or has with parameters that are not exact."""
    return lambda x: call("TFLITE_CONVERT", (x, None, None, None, None), (FUNCTIONS.index(name), 0.0))


def limited(name: str, low: int, high: int | None) -> Mapping:
    """The mapping of a RELU between two bounds."""

    def mapping(n: Node, x: Value) -> Value:
        of = n.inputs[0]
        assert of is not None
        if not same_quantisation(of, n.outputs[0]):
            return converted(x, of, n.outputs[0], name)
        return in_layout(lambda x: clipped(x, n.outputs[0], low, high), x)

    return mapping


def leaky_relu(n: Node, x: Value) -> Value:
    of = n.inputs[0]
    assert of is not None
    alpha = float(n.option("Alpha", 0.0))
    if not np.isfinite(alpha):
        raise Refused(f"its alpha is {alpha}", INVALID)
    if of.is_quantised:
        return converted(x, of, n.outputs[0], "LEAKY_RELU", alpha)
    return in_layout(lambda x: dml.activation_leaky_relu(x, alpha=alpha), x)


def prelu(n: Node, x: Value, slope: Value) -> Value:
    x, slope = broadcast(x, slope)
    if two(n)[0].is_quantised:
        return in_layout(lambda p, q: quantised_pair(n, "PRELU", p, q), x, slope)
    return in_layout(dml.activation_parameterized_relu, x, slope)


def softmax(n: Node, x: Value) -> Value:
    return _softmax(n, x, float(n.option("Beta", 1.0)), logarithm=False)


def log_softmax(n: Node, x: Value) -> Value:
    return _softmax(n, x, 1.0, logarithm=True)


def _softmax(n: Node, x: Value, beta: float, *, logarithm: bool) -> Value:
    of = n.inputs[0]
    assert of is not None
    if not np.isfinite(beta) or beta <= 0:
        raise Refused(f"its beta is {beta}", INVALID)
    if of.is_quantised:
        (sx, _), (sy, zy) = parameters(of), parameters(n.outputs[0])
        return call("TFLITE_SOFTMAX", (x, sx, sy, zy), (beta, logarithm))
    if beta != 1:
        raise Refused(f"its beta is {beta}, and its elements are floats", NOT_YET)
    made = dml.activation_log_softmax1 if logarithm else dml.activation_softmax1
    return made(x, axes=[x.ndim - 1])


def reduction(of_numbers: str, moves: bool = False) -> Mapping:
    """The mapping of a reduction along axes, with DirectML's name. moves: whether the results are elements of the input."""

    def mapping(n: Node, x: Value, axes: Value) -> Value:
        of, to = n.inputs[0], n.outputs[0]
        assert of is not None
        along = sorted({axis_of(a, x.ndim) for a in ints(axes)})
        kept = tuple(1 if a in along else size for a, size in enumerate(x.shape))
        sizes = kept if n.option("KeepDims", False) else tuple(size for a, size in enumerate(x.shape) if a not in along)
        if not along:
            made = x
        elif moves and not same_quantisation(of, to):
            raise Refused("its input and output have different scales", NOT_YET)
        elif of.is_quantised and not moves:
            if of_numbers not in ("AVERAGE", "SUM"):
                raise Refused(f"it is a {of_numbers} of integers with scales", NOT_YET)
            (sx, zx), (sy, zy) = parameters(of), parameters(to)
            made = call("TFLITE_REDUCE", (x, sx, zx, sy, zy), (of_numbers == "AVERAGE", tuple(along)))
        else:
            made = dml.reduce(x, of_numbers, along)
        return squeezed(made, sizes)

    return mapping


def compared(function: Callable[..., Any], of_integers: Callable[..., Any]) -> Mapping:
    def mapping(n: Node, a: Value, b: Value) -> Value:
        if not same_quantisation(*two(n)) or two(n)[0].is_quantised != two(n)[1].is_quantised:
            raise Refused("its inputs have different scales", NOT_YET)
        a, b = broadcast(a, b)
        return of_integers(a, b).view(np.uint8) if small(a, b) else in_layout(function, a, b)

    return mapping


def logical(function: Callable[..., Any]) -> Mapping:
    def mapping(n: Node, a: Value, b: Value) -> Value:
        return function(*broadcast(a, b))

    return mapping


def negated(n: Node, x: Value) -> Value:
    return later.element_wise_logical_not(x)


def selected(n: Node, condition: Value, a: Value, b: Value) -> Value:
    """SELECT and SELECT_V2; SELECT's condition may have one element for each of the first dimension."""
    _, x, y = n.inputs
    assert x is not None
    assert y is not None
    if not (same_quantisation(x, y) and same_quantisation(x, n.outputs[0])):
        raise Refused("its tensors have different scales", NOT_YET)
    if n.operator == "SELECT" and condition.ndim == 1 and a.ndim > 1:
        condition = reshape(condition, (condition.shape[0], *[1] * (a.ndim - 1)))
    a, b = broadcast(a, b)
    condition, a = broadcast(condition, a)
    _, b = broadcast(condition, b)
    return dml.element_wise_if(condition, a, b)


def largest_of(function: Callable[..., Any], of_integers: Callable[..., Any]) -> Mapping:
    """The mapping of MAXIMUM or MINIMUM."""

    def mapping(n: Node, a: Value, b: Value) -> Value:
        x, y = two(n)
        if not (same_quantisation(x, y) and same_quantisation(x, n.outputs[0])):
            raise Refused("its tensors have different scales", NOT_YET)
        a, b = broadcast(a, b)
        return np.asarray(of_integers(a, b)) if small(a, b) else in_layout(function, a, b)

    return mapping


def quantize(n: Node, x: Value) -> Value:
    """Floats as integers, or integers of one quantisation as those of another; each is rounded once."""
    of, to = n.inputs[0], n.outputs[0]
    assert of is not None
    if not to.is_quantised:
        raise Refused("its output has no scale", INVALID)
    if x.dtype.kind != "f" and not of.is_quantised:
        raise Refused("its input has no scale", INVALID)
    return converted(x, of, to)


def dequantize(n: Node, x: Value) -> Value:
    of, to = n.inputs[0], n.outputs[0]
    assert of is not None
    if x.dtype == np.float16:
        return dml.cast(x, output_data_type=np.dtype(np.float32))
    if of.quantised.scales.size > 1:
        known(x)
        return dequantised(x, of)
    return converted(x, of, to)


def cast(n: Node, x: Value) -> Value:
    """Truth values become 1 and 0, and numbers other than 0 become true."""
    if n.outputs[0].dtype == np.bool_:
        return dml.element_wise_logical_not(dml.element_wise_logical_equals(x, np.zeros((1,) * x.ndim, x.dtype)))
    to = n.outputs[0].dtype
    return x if x.dtype == to else x.astype(to) if small(x) and to.kind in "iu" else dml.cast(x, output_data_type=to)


def argument(function: Callable[..., Any]) -> Mapping:
    """The mapping of ARG_MAX or ARG_MIN: the first index."""

    def mapping(n: Node, x: Value, axis: Value) -> Value:
        along = axis_of(integer(axis), x.ndim)
        sizes = tuple(size for a, size in enumerate(x.shape) if a != along)
        made = squeezed(function(x, axes=[along]), sizes)
        return made if made.dtype == n.outputs[0].dtype else dml.cast(made, output_data_type=n.outputs[0].dtype)

    return mapping


def batch_matmul(n: Node, a: Value, b: Value) -> Value:
    """GEMM of the last two dimensions; AdjX and AdjY transpose them."""
    x, y = two(n)
    if n.option("AdjX", False):
        a = transpose(a, (*range(a.ndim - 2), a.ndim - 1, a.ndim - 2))
    if n.option("AdjY", False):
        b = transpose(b, (*range(b.ndim - 2), b.ndim - 1, b.ndim - 2))
    if min(a.ndim, b.ndim) < 2 or a.shape[-1] != b.shape[-2]:
        raise Refused(f"matrices of sizes {tuple(a.shape)} and {tuple(b.shape)} have no product", INVALID)
    try:
        lead = np.broadcast_shapes(tuple(a.shape[:-2]), tuple(b.shape[:-2]))
    except ValueError:
        raise Refused(f"sizes {tuple(a.shape)} and {tuple(b.shape)} do not broadcast", INVALID) from None
    a, b = expand(a, (*lead, *a.shape[-2:])), expand(b, (*lead, *b.shape[-2:]))
    if x.is_quantised:
        (sa, za), (sb, zb), (sy, zy) = parameters(x), parameters(y), parameters(n.outputs[0])
        if not {x.dtype, y.dtype, n.outputs[0].dtype} <= {*EIGHT_BIT}:
            raise Refused("its integers have 16 bits", NOT_YET)
        single = [p.reshape((1,) * a.ndim) for p in (sa, za, sb, zb, sy, zy)]
        return dml.quantized_linear_matrix_multiply(
            a, single[0], single[1], b, single[2], single[3], single[4], single[5], output_data_type=n.outputs[0].dtype
        )
    if x.dtype != y.dtype:
        raise Refused(f"it has matrices of {x.dtype} and {y.dtype}", NOT_YET)
    flat = a.ndim > 4
    left, right = (reshape(m, (math.prod(lead), *m.shape[-2:])) if flat else m for m in (a, b))
    made = dml.gemm(left, right)
    return reshape(made, (*lead, a.shape[-2], b.shape[-1]))


def add_n(n: Node, first: Value, *others: Value) -> Value:
    if n.outputs[0].is_quantised:
        raise Refused("it adds integers with scales", NOT_YET)
    total = first
    for x in others:
        total = dml.element_wise_add(total, x)
    return total


def l2_normalization(n: Node, x: Value) -> Value:
    if n.outputs[0].is_quantised:
        raise Refused("its elements are integers with scales", NOT_YET)
    return dml.lp_normalization(x, axis=x.ndim - 1, epsilon=0.0, p=2)


TABLE: dict[str, tuple[Mapping, str]] = {
    "ABS": (unary("ABS", later.element_wise_abs), ""),
    "ADD": (arithmetic("ADD", later.element_wise_add, np.add), "AddOptions"),
    "ADD_N": (add_n, ""),
    "ARG_MAX": (argument(later.argmax), ""),
    "ARG_MIN": (argument(later.argmin), ""),
    "BATCH_MATMUL": (batch_matmul, "BatchMatMulOptions"),
    "CAST": (cast, ""),
    "CEIL": (unary("", later.element_wise_ceil), ""),
    "COS": (unary("COS", later.element_wise_cos), ""),
    "DEQUANTIZE": (dequantize, ""),
    "DIV": (arithmetic("DIV", later.element_wise_divide, truncated), "DivOptions"),
    "ELU": (unary("ELU", later.activation_elu), ""),
    "EQUAL": (compared(later.element_wise_logical_equals, np.equal), ""),
    "EXP": (unary("EXP", later.element_wise_exp), ""),
    "FLOOR": (unary("", later.element_wise_floor), ""),
    "GELU": (unary("GELU", later.activation_gelu), ""),
    "GREATER": (compared(later.element_wise_logical_greater_than, np.greater), ""),
    "GREATER_EQUAL": (compared(later.element_wise_logical_greater_than_or_equal, np.greater_equal), ""),
    "HARD_SWISH": (unary("HARD_SWISH", function("HARD_SWISH")), ""),
    "L2_NORMALIZATION": (l2_normalization, "L2NormOptions"),
    "LEAKY_RELU": (leaky_relu, "LeakyReluOptions"),
    "LESS": (compared(later.element_wise_logical_less_than, np.less), ""),
    "LESS_EQUAL": (compared(later.element_wise_logical_less_than_or_equal, np.less_equal), ""),
    "LOG": (unary("LOG", later.element_wise_log), ""),
    "LOGICAL_AND": (logical(later.element_wise_logical_and), ""),
    "LOGICAL_NOT": (negated, ""),
    "LOGICAL_OR": (logical(later.element_wise_logical_or), ""),
    "LOGISTIC": (unary("LOGISTIC", later.activation_sigmoid), ""),
    "LOG_SOFTMAX": (log_softmax, ""),
    "MAXIMUM": (largest_of(later.element_wise_max, np.maximum), ""),
    "MEAN": (reduction("AVERAGE"), "ReducerOptions"),
    "MINIMUM": (largest_of(later.element_wise_min, np.minimum), ""),
    "MUL": (arithmetic("MUL", later.element_wise_multiply, np.multiply), "MulOptions"),
    "NEG": (unary("NEG", later.element_wise_negate), ""),
    "NOT_EQUAL": (
        compared(lambda a, b: later.element_wise_logical_not(later.element_wise_logical_equals(a, b)), np.not_equal), ""
    ),
    "POW": (logical(later.element_wise_pow), ""),
    "PRELU": (prelu, ""),
    "QUANTIZE": (quantize, ""),
    "REDUCE_MAX": (reduction("MAX", True), "ReducerOptions"),
    "REDUCE_MIN": (reduction("MIN", True), "ReducerOptions"),
    "REDUCE_PROD": (reduction("MULTIPLY"), "ReducerOptions"),
    "RELU": (limited("RELU", 0, None), ""),
    "RELU6": (limited("RELU6", 0, 6), ""),
    "RELU_0_TO_1": (limited("RELU_0_TO_1", 0, 1), ""),
    "RELU_N1_TO_1": (limited("RELU_N1_TO_1", -1, 1), ""),
    "ROUND": (unary("", later.element_wise_round), ""),
    "RSQRT": (unary("RSQRT", function("RSQRT")), ""),
    "SELECT": (selected, ""),
    "SELECT_V2": (selected, ""),
    "SIN": (unary("SIN", later.element_wise_sin), ""),
    "SOFTMAX": (softmax, "SoftmaxOptions"),
    "SQRT": (unary("SQRT", later.element_wise_sqrt), ""),
    "SQUARE": (unary("SQUARE", lambda x: later.element_wise_multiply(x, x)), ""),
    "SQUARED_DIFFERENCE": (arithmetic("SQUARED_DIFFERENCE", later.element_wise_difference_square), ""),
    "SUB": (arithmetic("SUB", later.element_wise_subtract, np.subtract), "SubOptions"),
    "SUM": (reduction("SUM"), "ReducerOptions"),
    "TANH": (unary("TANH", later.element_wise_tanh), ""),
}  # fmt: skip
