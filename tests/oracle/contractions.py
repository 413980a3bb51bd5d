"""GEMM, the integer convolutions, and MATRIX_MULTIPLY_INTEGER_TO_FLOAT."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from .activation import Attributes, Inputs, Outputs, Results, activation
from .arithmetic import add, multiply
from .numbers import Array, Value, exact, stored, values
from .reduce import groups
from .rows import softmax_row, ungroup
from .sums import products, scale


def stack(array: Array) -> Array:
    """Matrices, one after another."""
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


OPERATORS = {"GEMM": gemm}
