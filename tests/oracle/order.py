"""TOP_K and TOP_K1."""

from __future__ import annotations

from typing import Any

import numpy as np

from .activation import Attributes, Inputs, Outputs, Results
from .numbers import bits, to_integer_array


def top_k(attributes: Attributes, inputs: Inputs, outputs: Outputs) -> Results:
    """Elements are copied. NaN is above +infinity, zeros of both signs are equal, and equal elements are in the order of
    indices."""
    array, axis, k = inputs["input_tensor"], attributes["axis"], attributes["k"]
    decreasing = attributes.get("axis_direction", "DECREASING") == "DECREASING"
    lines = np.moveaxis(array, axis, -1)
    indices = np.empty((*lines.shape[:-1], k), object)
    for at in np.ndindex(lines.shape[:-1]):
        line = lines[at].tolist()

        def rank(index: int, line: list[Any] = line) -> tuple[bool, Any]:
            x = line[index]
            return (True, 0) if x != x else (False, x)

        indices[at] = sorted(range(len(line)), key=rank, reverse=decreasing)[:k]  # stable in both directions
    places = np.moveaxis(indices, -1, axis)
    value_sizes, value_type = outputs["output_value_tensor"]
    index_sizes, index_type = outputs["output_index_tensor"]
    taken = np.take_along_axis(bits(array), places.astype(np.intp), axis)
    return {
        "output_value_tensor": np.ascontiguousarray(taken).view(value_type).reshape(value_sizes),
        "output_index_tensor": to_integer_array(places.ravel().tolist(), index_sizes, index_type),
    }


OPERATORS = {"TOP_K": top_k, "TOP_K1": top_k}
