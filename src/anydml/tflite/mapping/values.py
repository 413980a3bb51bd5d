"""Parts of several mappings: quantised tensors, fused activations, layouts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Any

import numpy as np

from anydml.exact.float32 import products_in_float32
from anydml.functional import functions as dml
from anydml.functional.call import call
from anydml.functional.tracing import GraphTensor
from anydml.onnx import values
from anydml.onnx.errors import INVALID, NOT_YET, Refused
from anydml.onnx.values import Array, Value, reshape, transpose
from anydml.tflite.operators import FUNCTIONS
from anydml.tflite.read import Node, Quantisation, Tensor

ACTIVATIONS = ("NONE", "RELU", "RELU_N1_TO_1", "RELU6", "TANH", "SIGN_BIT")
BOUNDS: dict[str, tuple[int | None, int | None]] = {
    "NONE": (None, None), "RELU": (0, None), "RELU_N1_TO_1": (-1, 1), "RELU6": (0, 6),
}  # fmt: skip
EIGHT_BIT = (np.dtype(np.int8), np.dtype(np.uint8))


def ints(x: Value) -> tuple[int, ...]:
    """The integers of a tensor; Refused if it holds others."""
    if x.dtype.kind not in "iu":
        raise Refused(f"a tensor of {x.dtype} gives what must be integers", INVALID)
    return values.ints(x)


def integer(x: Value) -> int:
    """The one integer of a tensor."""
    found = ints(x)
    if len(found) != 1:
        raise Refused(f"it takes one integer, and the tensor has {len(found)}", INVALID)
    return found[0]


def parameters(t: Tensor) -> tuple[Array, Array]:
    """The scale and the zero point, of its type, of a tensor that has one of each."""
    q = t.quantised
    if q.scales.size != 1:
        raise Refused(f"{t.name} has {q.scales.size} scales, and takes one", INVALID)
    return q.scales, q.zero_points.astype(t.dtype)


def same_quantisation(a: Tensor, b: Tensor) -> bool:
    """Whether two tensors hold the same numbers as the same elements."""
    if not (a.is_quantised and b.is_quantised):
        return True
    x, y = a.quantised, b.quantised
    return a.dtype == b.dtype and np.array_equal(x.scales, y.scales) and np.array_equal(x.zero_points, y.zero_points)


def converted(x: Value, of: Tensor, to: Tensor, function: str = "IDENTITY", alpha: float = 0.0) -> Value:
    """A function of the numbers that a tensor's elements stand for, quantised as another tensor."""
    before = parameters(of) if of.is_quantised else (None, None)
    after = parameters(to) if to.is_quantised else (None, None)
    at = FUNCTIONS.index(function)

    def apply(x: Value) -> Value:
        return call("TFLITE_CONVERT", (x, *before, *after), (at, alpha))

    return in_layout(apply, x)


def moved(n: Node, y: Value, source: int = 0) -> Value:
    """Elements that were moved, quantised again if the output has another quantisation than that input."""
    of = n.inputs[source]
    assert of is not None
    return y if same_quantisation(of, n.outputs[0]) else converted(y, of, n.outputs[0])


def in_layout(function: Callable[..., Value], *xs: Value) -> Value:
    """A function of elements, called with the dimensions in the order in which the first tensor of a graph has them in memory.

    Images have their channels last, and convolutions write them first: so nothing is copied to another order.
    """
    first = next((x for x in xs if isinstance(x, GraphTensor) and x.ndim > 1), None)
    if first is None or any(x.ndim != first.ndim for x in xs):
        return function(*xs)
    strides = first.tensor.explicit_strides
    order = sorted(range(first.ndim), key=lambda a: (-strides[a], a))
    if order == [*range(first.ndim)]:
        return function(*xs)
    made = function(*(transpose(x, order) for x in xs))
    return transpose(made, np.argsort(order).tolist())


def quantised_bound(value: int, q: Quantisation, dtype: np.dtype[Any]) -> int:
    """A number as a tensor of this quantisation stores it."""
    limits = np.iinfo(dtype)
    found = round(Fraction(value) / Fraction(float(q.scales[0]))) + int(q.zero_points[0])  # half to even
    return min(max(found, int(limits.min)), int(limits.max))


def activation_of(n: Node) -> str:
    """The name of the fused activation."""
    number = n.option("FusedActivationFunction")
    name = ACTIVATIONS[number] if 0 <= number < len(ACTIVATIONS) else f"number {number}"
    if name not in BOUNDS and name != "TANH":
        raise Refused(f"its fused activation is {name}", NOT_YET)
    return name


def activated(n: Node, y: Value) -> Value:
    """The fused activation of a node's results: integers as the output stores them, or floats."""
    name, to = activation_of(n), n.outputs[0]
    if name == "NONE":
        return y
    if name == "TANH":
        if to.is_quantised:
            raise Refused("its fused activation is TANH of integers", NOT_YET)
        return dml.element_wise_tanh(y)
    return clipped(y, to, *BOUNDS[name])


def clipped(y: Value, to: Tensor, low: int | None, high: int | None) -> Value:
    """Elements, as a tensor stores them, limited to numbers. Rounding keeps order, so it does not matter which comes first."""
    if not to.is_quantised:
        if y.dtype.kind == "f":
            return dml.activation_relu(y) if high is None and low == 0 else dml.element_wise_clip(y, min=low, max=high)
        limits = np.iinfo(y.dtype)
        bounds = [limits.min if low is None else low, limits.max if high is None else high]
    else:
        limits, q = np.iinfo(y.dtype), to.quantised
        bounds = [
            limits.min if low is None else quantised_bound(low, q, to.dtype),
            limits.max if high is None else quantised_bound(high, q, to.dtype),
        ]
    if bounds == [limits.min, limits.max]:
        return y
    return dml.element_wise_clip1(y, min_max_data_type=y.dtype, min=int(bounds[0]), max=int(bounds[1]))


def dequantised(w: Value, of: Tensor) -> Value:
    """Constant weights as float32: each product with its scale is rounded once."""
    if isinstance(w, GraphTensor):
        return converted(w, of, of._replace(type=0, quantisation=None))
    q = of.quantised
    shape = [-1 if a == q.axis and q.scales.size > 1 else 1 for a in range(w.ndim)]
    centred = np.subtract(w, q.zero_points.reshape(shape), dtype=np.int16 if w.dtype in EIGHT_BIT else np.int64)
    return products_in_float32(centred, q.scales.reshape(shape))


def squeezed(x: Value, sizes: Sequence[int]) -> Value:
    """A tensor with other sizes; without dimensions, it has sizes (1,)."""
    return reshape(x, tuple(sizes) or (1,))
