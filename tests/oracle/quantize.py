"""Operators that convert numbers to integers of few bits, and such integers to numbers.

4-bit elements are in arrays of ml_dtypes' int4 and uint4, one in each byte.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import DTypeLike

from .activation import Attributes, Inputs, Outputs, Results
from .arithmetic import add, divide, greater, is_nan, maximum, minimum, multiply, subtract
from .numbers import FORMATS, ONE, Array, Value, exact, format_of, from_bits, half_even, rounded, stored, values

FLOAT32 = np.dtype(np.float32)


def ends(dtype: DTypeLike) -> tuple[int, int]:
    """The smallest and the largest integer of a type."""
    name = np.dtype(dtype).name
    bits = int(name.lstrip("uint"))
    return (0, 2**bits - 1) if name.startswith("u") else (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)


def integers(array: Array) -> list[int]:
    """The elements in row-major order."""
    found: list[int] = array.astype(np.int64).ravel().tolist()
    return found


def to_array(results: Iterable[int], sizes: Sequence[int], dtype: DTypeLike) -> Array:
    return np.array(list(results), np.int64).astype(dtype).reshape(sizes)


def stepped(quotient: Value, zero_point: int, dtype: DTypeLike) -> int:
    """A quotient rounded half to even, plus the zero point; NaN gives the smallest integer, infinities saturate."""
    lo, hi = ends(dtype)
    if type(quotient) is float and quotient != 0:
        return hi if greater(quotient, 0.0) else lo
    return min(max((half_even(quotient) if quotient else 0) + zero_point, lo), hi)


def quantized(x: Value, s: Value, zero_point: int, dtype: DTypeLike) -> int:
    """The quotient is rounded to float32, and then to an integer."""
    return stepped(rounded(divide(x, s), FLOAT32), zero_point, dtype)


def dequantized(x: int, s: Value, zero_point: int) -> Value:
    return multiply(exact(x - zero_point), s)


# --- element by element ---


def quantize_linear(attributes: Attributes, inputs: Inputs, outputs: Outputs) -> Results:
    x, scale, zero_point = inputs["input_tensor"], inputs["scale_tensor"], inputs.get("zero_point_tensor")
    sizes, dtype = outputs["output_tensor"]
    zero_points = [0] * x.size if zero_point is None else integers(zero_point)
    triples = zip(values(x), values(scale), zero_points, strict=True)
    return {"output_tensor": to_array((quantized(a, s, z, dtype) for a, s, z in triples), sizes, dtype)}


def dequantize_linear(attributes: Attributes, inputs: Inputs, outputs: Outputs) -> Results:
    x, zero_point = integers(inputs["input_tensor"]), inputs.get("zero_point_tensor")
    zero_points = [0] * len(x) if zero_point is None else integers(zero_point)
    results = map(dequantized, x, values(inputs["scale_tensor"]), zero_points)
    return {"output_tensor": stored(results, *outputs["output_tensor"])}


def quantized_linear_add(attributes: Attributes, inputs: Inputs, outputs: Outputs) -> Results:
    def of(name: str) -> tuple[Value, int]:
        (scale,) = values(inputs[f"{name}_scale_tensor"])
        zero_point = inputs.get(f"{name}_zero_point_tensor")
        return scale, 0 if zero_point is None else integers(zero_point)[0]

    (sa, za), (sb, zb), (sy, zy) = map(of, ("a", "b", "output"))
    sizes, dtype = outputs["output_tensor"]
    pairs = zip(integers(inputs["a_tensor"]), integers(inputs["b_tensor"]), strict=True)
    totals = (add(dequantized(a, sa, za), dequantized(b, sb, zb)) for a, b in pairs)
    return {"output_tensor": to_array((stepped(divide(t, sy), zy, dtype) for t in totals), sizes, dtype)}


def dynamic_quantize_linear(attributes: Attributes, inputs: Inputs, outputs: Outputs) -> Results:
    x = values(inputs["input_tensor"])
    sizes, dtype = outputs["output_tensor"]
    lo, hi = ends(dtype)
    least: Value = 0.0
    greatest: Value = 0.0
    for value in x:
        if not is_nan(value):
            least, greatest = minimum(least, value), maximum(greatest, value)
    scale = rounded(divide(subtract(greatest, least), exact(hi - lo)), FLOAT32)
    if type(scale) is float and scale == 0:
        scale, zero_point = ONE, 0
    else:
        steps = rounded(divide(least, scale), FLOAT32)
        zero_point = lo if is_nan(steps) else stepped(subtract(exact(lo), steps), 0, dtype)
    return {
        "output_tensor": to_array((quantized(a, scale, zero_point, dtype) for a in x), sizes, dtype),
        "output_scale_tensor": stored([scale], *outputs["output_scale_tensor"]),
        "output_zero_point_tensor": to_array([zero_point], *outputs["output_zero_point_tensor"]),
    }


# --- in blocks ---


def expanded(array: Array, sizes: Sequence[int]) -> Array:
    """The array with each element repeated for its block."""
    for axis, size in enumerate(sizes):
        array = np.repeat(array, size // array.shape[axis], axis)
    return array


def block_parameters(inputs: Inputs, sizes: Sequence[int], dtype: DTypeLike) -> tuple[list[Value], list[int]]:
    """Scales and zero points, one for each element; default zero points are the middle of an unsigned type, else 0."""
    scale, *rest = (expanded(array, sizes) for array in inputs["quantization_tensors"])
    lo, hi = ends(dtype)
    zero_points = integers(rest[0]) if rest else [(hi + 1) // 2 if lo == 0 else 0] * scale.size
    return values(scale), zero_points


def quantize(attributes: Attributes, inputs: Inputs, outputs: Outputs) -> Results:
    sizes, dtype = outputs["output_tensor"]
    if np.dtype(dtype) in FORMATS:
        return {"output_tensor": stored(_saturated(inputs, sizes, dtype), sizes, dtype)}
    scales, zero_points = block_parameters(inputs, sizes, dtype)
    triples = zip(values(inputs["input_tensor"]), scales, zero_points, strict=True)
    return {"output_tensor": to_array((quantized(a, s, z, dtype) for a, s, z in triples), sizes, dtype)}


def _saturated(inputs: Inputs, sizes: Sequence[int], dtype: DTypeLike) -> list[Value]:
    """The quotients, rounded to float32, plus the zero points, within the largest numbers of a type of 8-bit floats."""
    scale, *rest = (values(expanded(array, sizes)) for array in inputs["quantization_tensors"])
    quotients = [rounded(divide(x, s), FLOAT32) for x, s in zip(values(inputs["input_tensor"]), scale, strict=True)]
    totals = list(map(add, quotients, *rest)) if rest else quotients
    largest = from_bits(format_of(dtype).largest, dtype)
    return [minimum(largest, maximum(-largest, x)) for x in totals]


def dequantize(attributes: Attributes, inputs: Inputs, outputs: Outputs) -> Results:
    x = inputs["input_tensor"]
    sizes, dtype = outputs["output_tensor"]
    if x.dtype in FORMATS:
        scale, *rest = (values(expanded(array, sizes)) for array in inputs["quantization_tensors"])
        differences = map(subtract, values(x), *rest) if rest else values(x)
        return {"output_tensor": stored(map(multiply, differences, scale), sizes, dtype)}
    scales, zero_points = block_parameters(inputs, sizes, x.dtype)
    return {"output_tensor": stored(map(dequantized, integers(x), scales, zero_points), sizes, dtype)}


# --- other conversions ---


def cast(attributes: Attributes, inputs: Inputs, outputs: Outputs) -> Results:
    x: Array = inputs["input_tensor"]
    sizes, dtype = outputs["output_tensor"]
    if x.dtype == dtype:
        return {"output_tensor": x.copy()}
    if x.dtype.kind in "iu" and np.dtype(dtype).kind in "iu":
        lo, hi = ends(dtype)
        return {"output_tensor": np.array([(n - lo) % (hi - lo + 1) + lo for n in x.ravel().tolist()], dtype).reshape(sizes)}
    return {"output_tensor": stored(values(x), sizes, dtype)}


def value_scale(attributes: Attributes, inputs: Inputs, outputs: Outputs) -> Results:
    x = inputs["input_tensor"]
    scale = exact(attributes["scale"])
    area = x.shape[2] * x.shape[3]
    terms = [exact(term) for _ in range(x.shape[0]) for term in attributes["bias"] for _ in range(area)]
    results = (add(multiply(value, scale), term) for value, term in zip(values(x), terms, strict=True))
    return {"output_tensor": stored(results, *outputs["output_tensor"])}


OPERATORS: dict[str, Any] = {
    "CAST": cast,
    "DEQUANTIZE": dequantize,
    "DYNAMIC_QUANTIZE_LINEAR": dynamic_quantize_linear,
    "ELEMENT_WISE_DEQUANTIZE_LINEAR": dequantize_linear,
    "ELEMENT_WISE_QUANTIZED_LINEAR_ADD": quantized_linear_add,
    "ELEMENT_WISE_QUANTIZE_LINEAR": quantize_linear,
    "QUANTIZE": quantize,
    "VALUE_SCALE_2D": value_scale,
}
