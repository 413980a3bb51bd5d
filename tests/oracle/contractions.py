"""GEMM, the integer convolutions, and MATRIX_MULTIPLY_INTEGER_TO_FLOAT."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from typing import Any

import numpy as np

from .activation import Attributes, Inputs, Outputs, Results, activation
from .arithmetic import add, multiply
from .numbers import Array, Value, exact, half_even, saturated, stored, to_integer_array, values
from .reduce import groups
from .rows import softmax_row, ungroup
from .sums import products, scale


def stack(array: Array) -> Array:
    """Matrices in a single list of batches."""
    stacked: Array = array.reshape(-1, *array.shape[-2:])
    return stacked


def swapped(array: Array) -> Array:
    turned: Array = array.swapaxes(-1, -2)
    return turned


def softmax(results: list[Value], sizes: Sequence[int], dtype: Any, axes: Sequence[int]) -> Array:
    table = np.empty(len(results), object)
    table[:] = results
    rows = groups(table.reshape(sizes), axes)
    return ungroup(stored([x for row in rows for x in softmax_row(list(row))], rows.shape, dtype), sizes, axes)


def gemm(attributes: Attributes, inputs: Inputs, outputs: Outputs) -> Results:
    a, b, c = inputs["a_tensor"], inputs["b_tensor"], inputs.get("c_tensor")
    sizes, dtype = outputs["output_tensor"]
    rows = stack(swapped(a) if attributes["trans_a"] == "TRANSPOSE" else a)
    columns = stack(b if attributes["trans_b"] == "TRANSPOSE" else swapped(b))
    alpha, beta = exact(attributes["alpha"]), exact(attributes["beta"])
    results = [multiply(alpha, x) for i, j in zip(rows, columns, strict=True) for x in products(scale(i), scale(j))]
    if c is not None:
        results = [add(x, multiply(beta, y)) for x, y in zip(results, values(c), strict=True)]
    name, fused = attributes.get("fused_activation") or ("", dict[str, Any]())
    if name in ("ACTIVATION_SOFTMAX", "ACTIVATION_SOFTMAX1"):
        return {"output_tensor": softmax(results, sizes, dtype, fused.get("axes", (len(sizes) - 1,)))}
    function = activation(attributes.get("fused_activation"))
    return {"output_tensor": stored(map(function, results), sizes, dtype)}


# --- of integers ---


def by_channel(array: Array, channels: int) -> list[Value]:
    """A scale for each output channel."""
    found = values(array)
    return found * channels if len(found) == 1 else found


def convolved(attributes: Attributes, inputs: Inputs, sizes: Sequence[int]) -> Array:
    """The exact sums: each position of the filter is multiplied by a strided part of the input, which is centred and padded
    with 0."""
    x, f = (inputs[f"{name}_tensor"].astype(np.int64) for name in ("input", "filter"))
    for name, array in (("input", x), ("filter", f)):
        zero_point = inputs.get(f"{name}_zero_point_tensor")
        if zero_point is not None:
            array -= zero_point.astype(np.int64).reshape(-1, *(1,) * (array.ndim - 1))
    padding = zip(attributes["start_padding"], attributes["end_padding"], strict=True)
    x = np.pad(x, [(0, 0), (0, 0), *padding])
    groups = attributes["group_count"]
    read, written = x.shape[1] // groups, f.shape[0] // groups
    total = np.zeros(sizes, np.int64)
    for at, tap in enumerate(product(*map(range, f.shape[2:]))):
        steps = zip(tap, attributes["dilations"], attributes["strides"], sizes[2:], strict=True)
        place = (slice(None), slice(None), *(slice(t * d, t * d + (n - 1) * s + 1, s) for t, d, s, n in steps))
        part, weights = x[place], f.reshape(*f.shape[:2], -1)[:, :, at]
        for group in range(groups):
            outward = slice(group * written, (group + 1) * written)
            total[:, outward] += np.einsum("nc...,mc->nm...", part[:, group * read : (group + 1) * read], weights[outward])
    return total


def convolution_integer(attributes: Attributes, inputs: Inputs, outputs: Outputs) -> Results:
    sizes, dtype = outputs["output_tensor"]
    return {"output_tensor": to_integer_array(convolved(attributes, inputs, sizes).ravel().tolist(), sizes, dtype)}


def quantized_linear_convolution(attributes: Attributes, inputs: Inputs, outputs: Outputs) -> Results:
    sizes, dtype = outputs["output_tensor"]
    totals = convolved(attributes, inputs, sizes)
    if inputs.get("bias_tensor") is not None:
        totals = totals + inputs["bias_tensor"].astype(np.int64)
    (x_scale,), (y_scale,) = (values(inputs[f"{name}_scale_tensor"]) for name in ("input", "output"))
    zero_point = inputs.get("output_zero_point_tensor")
    shift = 0 if zero_point is None else zero_point.item()
    factors = [x_scale * f_scale / y_scale for f_scale in by_channel(inputs["filter_scale_tensor"], sizes[1])]
    channels = np.broadcast_to(np.arange(sizes[1]).reshape(-1, *(1,) * (len(sizes) - 2)), sizes)
    steps = (half_even(q * factors[m]) for q, m in zip(totals.ravel().tolist(), channels.ravel().tolist(), strict=True))
    return {"output_tensor": np.array([saturated(n + shift, dtype) for n in steps], dtype).reshape(sizes)}


def four(array: Array) -> Array:
    """Sizes extended to four dimensions by leading ones."""
    made: Array = array.reshape((1,) * (4 - array.ndim) + array.shape)
    return made


def matrix_multiply_integer_to_float(attributes: Attributes, inputs: Inputs, outputs: Outputs) -> Results:
    sizes, dtype = outputs["output_tensor"]
    centred = {}
    for name in "ab":
        zero_point = inputs.get(f"{name}_zero_point_tensor")
        matrix = four(inputs[f"{name}_tensor"]).astype(object)
        centred[name] = matrix if zero_point is None else matrix - four(zero_point).astype(object)
    sums = centred["a"] @ centred["b"]
    scales = (values(np.broadcast_to(four(inputs[f"{name}_scale_tensor"]), sums.shape)) for name in "ab")
    results = [multiply(multiply(exact(q), a), b) for q, a, b in zip(sums.ravel().tolist(), *scales, strict=True)]
    if inputs.get("bias_tensor") is not None:
        results = list(map(add, results, values(inputs["bias_tensor"])))
    return {"output_tensor": stored(results, sizes, dtype)}


OPERATORS = {
    "CONVOLUTION_INTEGER": convolution_integer,
    "GEMM": gemm,
    "MATRIX_MULTIPLY_INTEGER_TO_FLOAT": matrix_multiply_integer_to_float,
    "QUANTIZED_LINEAR_CONVOLUTION": quantized_linear_convolution,
}
