"""CUMULATIVE_SUMMATION and CUMULATIVE_PRODUCT: one element after another, exactly."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from .activation import Attributes, Inputs, Operator, Outputs, Results
from .arithmetic import add, multiply
from .numbers import ONE, Value, stored, to_integer_array, values


def cumulative(combine: Callable[[Value, Value], Value], nothing: Value, exclusive: str) -> Operator:
    def compute(attributes: Attributes, inputs: Inputs, outputs: Outputs) -> Results:
        array = inputs["input_tensor"]
        sizes, dtype = outputs["output_tensor"]
        whole = array.dtype.kind in "iu"
        table = np.empty(array.shape, object)
        table.ravel()[:] = array.ravel().tolist() if whole else values(array)
        lines = np.moveaxis(table, attributes["axis"], -1)
        if attributes["axis_direction"] == "DECREASING":
            lines = lines[..., ::-1]
        for at in np.ndindex(lines.shape[:-1]):
            found: Any = None
            for place, x in enumerate(lines[at].tolist()):
                before = (int(nothing) if whole else nothing) if found is None else found
                if found is None:
                    found = x
                elif whole:
                    found = int(combine(found, x))
                else:
                    found = combine(found, x)
                lines[at][place] = before if attributes[exclusive] else found
        if whole:
            return {"output_tensor": to_integer_array(table.ravel().tolist(), sizes, dtype)}
        return {"output_tensor": stored(table.ravel().tolist(), sizes, dtype)}

    return compute


def sum_of(a: Value, b: Value) -> Value:
    return a + b if type(a) is int else add(a, b)


def product_of(a: Value, b: Value) -> Value:
    return a * b if type(a) is int else multiply(a, b)


OPERATORS = {
    "CUMULATIVE_SUMMATION": cumulative(sum_of, 0.0, "has_exclusive_sum"),
    "CUMULATIVE_PRODUCT": cumulative(product_of, ONE, "has_exclusive_product"),
}
