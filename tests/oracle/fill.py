"""FILL_VALUE_CONSTANT and FILL_VALUE_SEQUENCE."""

from __future__ import annotations

from math import prod

import numpy as np
from gmpy2 import mpq

from .activation import Attributes, Inputs, Outputs, Results
from .arithmetic import add, multiply
from .numbers import exact, stored, to_integer_array


def sequence(attributes: Attributes, inputs: Inputs, outputs: Outputs) -> Results:
    """ValueStart + k * ValueDelta; for k = 0, there is no second term."""
    sizes, dtype = outputs["output_tensor"]
    start, delta = attributes["value_start"], attributes["value_delta"]
    count = prod(sizes)
    if np.dtype(dtype).kind in "iu":
        return {"output_tensor": to_integer_array((start + k * delta for k in range(count)), sizes, dtype)}
    first, step = exact(start), exact(delta)
    results = (add(first, multiply(mpq(k), step)) if k else first for k in range(count))
    return {"output_tensor": stored(results, sizes, dtype)}


def constant(attributes: Attributes, inputs: Inputs, outputs: Outputs) -> Results:
    sizes, dtype = outputs["output_tensor"]
    value = attributes["value"]
    if np.dtype(dtype).kind in "iu":
        return {"output_tensor": np.full(sizes, value, dtype)}
    return {"output_tensor": stored([exact(value)] * prod(sizes), sizes, dtype)}


OPERATORS = {"FILL_VALUE_CONSTANT": constant, "FILL_VALUE_SEQUENCE": sequence}
