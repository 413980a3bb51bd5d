"""Operators that put elements at places which indices say, in matrices, lines and images: bits are moved."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
from gmpy2 import mpq

from .activation import Attributes, Inputs, Outputs, Results
from .arithmetic import add, multiply
from .moving import constant
from .numbers import Array, bits, stored, values


def filled(sizes: Any, dtype: Any, pattern: int = 0) -> Array:
    return np.full(sizes, pattern, f"u{np.dtype(dtype).itemsize}")


def diagonal(attributes: Attributes, inputs: Inputs, outputs: Outputs) -> Results:
    sizes, dtype = outputs["output_tensor"]
    source = inputs.get("input_tensor")
    result = filled(sizes, dtype) if source is None else bits(source).copy()
    begin = attributes.get("diagonal_fill_begin", attributes.get("offset"))
    end = attributes.get("diagonal_fill_end", begin + 1)
    value = bits(constant(attributes["value"], dtype))[0]
    for y, x in product(range(sizes[-2]), range(sizes[-1])):
        if (end >= begin) ^ (x - y >= begin) ^ (x - y < end):
            result[..., y, x] = value
    return {"output_tensor": result.view(dtype)}


def one_hot(attributes: Attributes, inputs: Inputs, outputs: Outputs) -> Results:
    sizes, dtype = outputs["output_tensor"]
    off, on = bits(inputs["values_tensor"]).ravel()[
        :2
    ]  # sizes of 1 do not matter, and those before the last larger one come later
    axis, indices = attributes["axis"], inputs["indices_tensor"]
    lines = np.moveaxis(filled(sizes, dtype, off), axis, -1)
    places = np.moveaxis(indices, axis, -1)[..., 0]
    for at in np.ndindex(places.shape):
        place = int(places[at])
        place += sizes[axis] if place < 0 else 0
        if 0 <= place < sizes[axis]:
            lines[at][place] = on
    return {"output_tensor": np.ascontiguousarray(np.moveaxis(lines, -1, axis)).view(dtype)}


def reverse_subsequences(attributes: Attributes, inputs: Inputs, outputs: Outputs) -> Results:
    sizes, dtype = outputs["output_tensor"]
    axis = attributes["axis"]
    lines = np.moveaxis(bits(inputs["input_tensor"]).copy(), axis, -1)
    lengths = np.moveaxis(inputs["sequence_lengths_tensor"], axis, -1)[..., 0]
    for at in np.ndindex(lengths.shape):
        length = min(int(lengths[at]), sizes[axis])
        lines[at][:length] = lines[at][:length][::-1].copy()
    return {"output_tensor": np.ascontiguousarray(np.moveaxis(lines, -1, axis)).view(dtype)}


def place_of(index: Any, size: int) -> int:
    """Indices out of range raise an IndexError; negative ones count from the end."""
    place = int(index) + (size if index < 0 else 0)
    if not 0 <= place < size:
        raise IndexError(f"index {index} of {size}")
    return place


def gather_elements(attributes: Attributes, inputs: Inputs, outputs: Outputs) -> Results:
    source, indices, axis = bits(inputs["input_tensor"]), inputs["indices_tensor"], attributes["axis"]
    sizes, dtype = outputs["output_tensor"]
    result = filled(sizes, dtype)
    for at in np.ndindex(*sizes):
        place = place_of(indices[at], source.shape[axis])
        result[at] = source[tuple(place if a == axis else c for a, c in enumerate(at))]
    return {"output_tensor": result.view(dtype)}


def slice_grad(attributes: Attributes, inputs: Inputs, outputs: Outputs) -> Results:
    gradient = bits(inputs["input_gradient_tensor"])
    sizes, dtype = outputs["output_gradient_tensor"]
    result = filled(sizes, dtype)
    windows = [attributes[f"input_window_{name}"] for name in ("offsets", "sizes", "strides")]
    starts = [o if s > 0 else o + n - 1 for o, n, s in zip(*windows, strict=True)]
    for at in np.ndindex(*gradient.shape):
        result[tuple(start + s * c for start, s, c in zip(starts, windows[2], at, strict=True))] = gradient[at]
    return {"output_gradient_tensor": result.view(dtype)}


def upsample(attributes: Attributes, inputs: Inputs, outputs: Outputs) -> Results:
    image = inputs["input_tensor"]
    sizes, dtype = outputs["output_tensor"]
    width, height = attributes["scale_size"]
    if attributes["interpolation_mode"] == "NEAREST_NEIGHBOR":
        larger = bits(image).repeat(height, -2).repeat(width, -1)
        return {"output_tensor": np.ascontiguousarray(larger).view(dtype)}
    x = np.empty(image.shape, object)
    x.ravel()[:] = values(image)

    def taps(o: int, scale: int, size: int) -> list[tuple[int, Any]]:
        """The elements that count along a dimension, and how much."""
        at = (o + mpq(1, 2)) / scale - mpq(1, 2)
        low = at.numerator // at.denominator
        near = ((low, 1 - (at - low)), (low + 1, at - low))
        return [(int(min(max(place, 0), size - 1)), weight) for place, weight in near if weight]

    results = []
    for at in np.ndindex(*sizes):
        both = product(taps(at[-2], height, image.shape[-2]), taps(at[-1], width, image.shape[-1]))
        found: Any = None
        for (h, a), (w, b) in both:
            term = multiply(x[at[:-2]][h, w], a * b)
            found = term if found is None else add(found, term)
        results.append(found)
    return {"output_tensor": stored(results, sizes, dtype)}


OPERATORS = {
    **dict.fromkeys(("DIAGONAL_MATRIX", "DIAGONAL_MATRIX1"), diagonal),
    "GATHER_ELEMENTS": gather_elements,
    "ONE_HOT": one_hot,
    "REVERSE_SUBSEQUENCES": reverse_subsequences,
    "SLICE_GRAD": slice_grad,
    "UPSAMPLE_2D": upsample,
}
