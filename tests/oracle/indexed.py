"""Operators that put elements at indices which are data, in matrices, lines and images: bits are copied."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
from gmpy2 import mpq

from .activation import Attributes, Inputs, Outputs, Results
from .arithmetic import add, multiply
from .moving import constant
from .numbers import Array, bits, stored, to_integer_array, values


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
    ]  # sizes of 1 have no effect, and those before the last larger one are added later
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
    """The position for an index; negative ones count from the end, and others out of range raise an IndexError."""
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
        """The elements that contribute along a dimension, and their weights."""
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


def tuples(attributes: Attributes, inputs: Inputs) -> tuple[tuple[int, ...], Array, int]:
    """The relevant sizes of the input, the relevant indices, and the number of batch dimensions."""
    shape, indices = inputs["input_tensor"].shape, inputs["indices_tensor"]
    counting = indices.reshape(indices.shape[indices.ndim - attributes["indices_dimension_count"] :])
    return shape[len(shape) - attributes["input_dimension_count"] :], counting, attributes.get("batch_dimension_count", 0)


def gather_nd(attributes: Attributes, inputs: Inputs, outputs: Outputs) -> Results:
    sizes, dtype = outputs["output_tensor"]
    shape, indices, batches = tuples(attributes, inputs)
    source = bits(inputs["input_tensor"]).reshape(shape)
    parts = []
    for at in np.ndindex(*indices.shape[:-1]):
        named = tuple(map(place_of, indices[at], shape[batches:]))
        parts.append(source[at[:batches] + named])
    return {"output_tensor": np.array(parts, source.dtype).reshape(sizes).view(dtype)}


def scatter_elements(attributes: Attributes, inputs: Inputs, outputs: Outputs) -> Results:
    result, updates = bits(inputs["input_tensor"]).copy(), bits(inputs["updates_tensor"])
    indices, axis = inputs["indices_tensor"], attributes["axis"]
    for at in np.ndindex(*indices.shape):
        place = place_of(indices[at], result.shape[axis])
        result[tuple(place if a == axis else c for a, c in enumerate(at))] = updates[at]
    return {"output_tensor": result.view(outputs["output_tensor"][1])}


def scatter_nd(attributes: Attributes, inputs: Inputs, outputs: Outputs) -> Results:
    sizes, dtype = outputs["output_tensor"]
    shape, indices, _ = tuples(attributes, inputs)
    result = bits(inputs["input_tensor"]).copy().reshape(shape)
    updates = bits(inputs["updates_tensor"]).reshape((*indices.shape[:-1], *shape[indices.shape[-1] :]))
    for at in np.ndindex(*indices.shape[:-1]):
        result[tuple(map(place_of, indices[at], shape))] = updates[at]
    return {"output_tensor": result.reshape(sizes).view(dtype)}


def max_unpooling(attributes: Attributes, inputs: Inputs, outputs: Outputs) -> Results:
    sizes, dtype = outputs["output_tensor"]
    result = filled(sizes, dtype)
    for x, index in zip(bits(inputs["input_tensor"]).ravel(), inputs["indices_tensor"].ravel().tolist(), strict=True):
        result.reshape(-1)[place_of(index, result.size)] = x
    return {"output_tensor": result.view(dtype)}


def nonzero(attributes: Attributes, inputs: Inputs, outputs: Outputs) -> Results:
    x = inputs["input_tensor"]
    with np.errstate(invalid="ignore"):  # of NaNs, which are not 0
        found = [at for at in np.ndindex(*x.shape) if x[at] != 0]
    results: Results = {"output_count_tensor": np.full(outputs["output_count_tensor"][0], len(found), np.uint32)}
    sizes, _ = outputs["output_coordinates_tensor"]
    rows = np.zeros(sizes[-2:], np.uint32)
    for row, at in enumerate(found):
        rows[row] = at[x.ndim - sizes[-1] :]
    return results | {"output_coordinates_tensor": rows.reshape(sizes)}


Meeting = tuple[tuple[int, ...], tuple[int, int, int]]


def meetings(attributes: Attributes, image: tuple[int, ...]) -> list[Meeting]:
    """Pairs of an element of an image and an element of its columns that has the same value."""
    batch, channels, *spatial = image
    arrays = [attributes[name] for name in ("window_sizes", "strides", "dilations", "start_padding", "end_padding")]
    lines = []  # along each dimension: element of the window, position of the window, index in the image
    for size, window, stride, dilation, start, end in zip(spatial, *arrays, strict=True):
        places = (size + start + end - dilation * (window - 1) - 1) // stride + 1
        lines.append([[(b * stride + k * dilation - start) for b in range(places)] for k in range(window)])
    found = []
    windows = list(product(*(range(len(line)) for line in lines)))
    blocks = list(product(*(range(len(line[0])) for line in lines)))
    for (row, k), (column, b) in product(enumerate(windows), enumerate(blocks)):
        at = tuple(line[u][o] for line, u, o in zip(lines, k, b, strict=True))
        if all(0 <= p < size for p, size in zip(at, spatial, strict=True)):
            for n, c in product(range(batch), range(channels)):
                found.append(((n, c, *at), (n, c * len(windows) + row, column)))
    return found


def unfold(attributes: Attributes, inputs: Inputs, outputs: Outputs) -> Results:
    sizes, dtype = outputs["output_tensor"]
    image, result = bits(inputs["input_tensor"]), filled(sizes, dtype)
    for at, column in meetings(attributes, image.shape):
        result[column] = image[at]
    return {"output_tensor": result.view(dtype)}


def fold(attributes: Attributes, inputs: Inputs, outputs: Outputs) -> Results:
    sizes, dtype = outputs["output_tensor"]
    whole = np.dtype(dtype).kind in "iu"
    source = inputs["input_tensor"]
    x = np.empty(source.shape, object)
    x.ravel()[:] = source.ravel().tolist() if whole else values(source)
    result: Any = np.full(sizes, None, object)
    for at, column in meetings(attributes, tuple(sizes)):
        term = x[column]
        if result[at] is not None:
            term = result[at] + term if whole else add(result[at], term)
        result[at] = term
    terms: list[Any] = [(0 if whole else 0.0) if y is None else y for y in result.ravel()]
    return {"output_tensor": to_integer_array(terms, sizes, dtype) if whole else stored(terms, sizes, dtype)}


OPERATORS = {
    **dict.fromkeys(("GATHER_ND", "GATHER_ND1"), gather_nd),
    "FOLD": fold,
    "MAX_UNPOOLING": max_unpooling,
    "NONZERO_COORDINATES": nonzero,
    "SCATTER_ELEMENTS": scatter_elements,
    "SCATTER_ND": scatter_nd,
    "UNFOLD": unfold,
    **dict.fromkeys(("DIAGONAL_MATRIX", "DIAGONAL_MATRIX1"), diagonal),
    "GATHER_ELEMENTS": gather_elements,
    "ONE_HOT": one_hot,
    "REVERSE_SUBSEQUENCES": reverse_subsequences,
    "SLICE_GRAD": slice_grad,
    "UPSAMPLE_2D": upsample,
}
