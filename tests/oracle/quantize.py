"""ELEMENT_WISE_QUANTIZE_LINEAR."""

from __future__ import annotations

import numpy as np

from .activation import Attributes, Inputs, Outputs, Results
from .arithmetic import divide, greater
from .numbers import Value, half_even, limits, rounded, saturated, values


def quantized(x: Value, s: Value, zero_point: int, dtype: np.dtype[np.generic]) -> int:
    """The quotient is rounded to float32, that half to even; NaN gives the least integer, infinities saturate."""
    lo, hi = limits(dtype)
    quotient = rounded(divide(x, s), np.dtype(np.float32))
    if type(quotient) is float and quotient != 0:
        return hi if greater(quotient, 0.0) else lo
    return saturated((half_even(quotient) if quotient else 0) + zero_point, dtype)


def quantize_linear(attributes: Attributes, inputs: Inputs, outputs: Outputs) -> Results:
    x, scale, zero_point = inputs["input_tensor"], inputs["scale_tensor"], inputs.get("zero_point_tensor")
    sizes, dtype = outputs["output_tensor"]
    zero_points = [0] * x.size if zero_point is None else zero_point.ravel().tolist()
    triples = zip(values(x), values(scale), zero_points, strict=True)
    results = [quantized(a, s, z, np.dtype(dtype)) for a, s, z in triples]
    return {"output_tensor": np.array(results, dtype).reshape(sizes)}


OPERATORS = {"ELEMENT_WISE_QUANTIZE_LINEAR": quantize_linear}
