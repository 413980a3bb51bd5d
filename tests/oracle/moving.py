"""JOIN, SPLIT, GATHER, PADDING, TILE and operators on blocks, which copy bits."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from .activation import Attributes, Inputs, Outputs, Results
from .numbers import Array, bits, exact, stored, to_integer_array


def join(attributes: Attributes, inputs: Inputs, outputs: Outputs) -> Results:
    tensors = inputs["input_tensors"]
    sizes, dtype = outputs["output_tensor"]
    whole = np.concatenate([bits(tensor) for tensor in tensors], axis=attributes["axis"])
    return {"output_tensor": whole.view(dtype).reshape(sizes)}


def split(attributes: Attributes, inputs: Inputs, outputs: Outputs) -> Results:
    whole, axis = bits(inputs["input_tensor"]), attributes["axis"]
    parts, start = [], 0
    for sizes, dtype in outputs["output_tensors"]:
        part = np.take(whole, range(start, start + sizes[axis]), axis=axis)
        parts.append(np.ascontiguousarray(part).view(dtype).reshape(sizes))
        start += sizes[axis]
    if start != whole.shape[axis]:
        raise ValueError("the parts are not the whole")
    return {"output_tensors": parts}


def gather(attributes: Attributes, inputs: Inputs, outputs: Outputs) -> Results:
    """Negative indices count from the end; others out of range raise an IndexError."""
    source, indices, axis = bits(inputs["input_tensor"]), inputs["indices_tensor"], attributes["axis"]
    sizes, dtype = outputs["output_tensor"]
    taken = indices.reshape(indices.shape[indices.ndim - attributes["index_dimensions"] :])
    size = source.shape[axis]
    places = []
    for index in taken.ravel().tolist():
        place = index + size if index < 0 else index
        if not 0 <= place < size:
            raise IndexError(f"index {index} of {size}")
        places.append(place)
    # In row-major order, the dimensions of the indices replace the axis; dimensions of size 1 change nothing.
    result = np.take(source, np.array(places, np.intp), axis=axis)
    return {"output_tensor": np.ascontiguousarray(result).view(dtype).reshape(sizes)}


# --- padding ---


def edge(i: int, n: int) -> int:
    return min(max(i, 0), n - 1)


def reflection(i: int, n: int) -> int:
    if n == 1:
        return 0
    r = i % (2 * (n - 1))
    return r if r < n else 2 * (n - 1) - r


def symmetric(i: int, n: int) -> int:
    r = i % (2 * n)
    return r if r < n else 2 * n - 1 - r


SOURCES: dict[str, Callable[[int, int], int]] = {
    "CONSTANT": edge,  # elements beyond the border are replaced later
    "EDGE": edge,
    "REFLECTION": reflection,
    "SYMMETRIC": symmetric,
    "WRAP": lambda i, n: i % n,
}


def padding(attributes: Attributes, inputs: Inputs, outputs: Outputs) -> Results:
    source: Array = bits(inputs["input_tensor"])
    sizes, dtype = outputs["output_tensor"]
    mode, start = attributes["padding_mode"], attributes["start_padding"]
    places = [[c - p for c in range(size)] for size, p in zip(sizes, start, strict=True)]
    read = np.ix_(*([SOURCES[mode](i, n) for i in line] for line, n in zip(places, source.shape, strict=True)))
    result = source[read]
    if mode == "CONSTANT":
        within = [np.array([0 <= i < n for i in line]) for line, n in zip(places, source.shape, strict=True)]
        inside = np.logical_and.reduce(np.meshgrid(*within, indexing="ij"))
        result = np.where(inside, result, bits(constant(attributes["padding_value"], dtype)))
    return {"output_tensor": np.ascontiguousarray(result).view(dtype).reshape(sizes)}


def constant(value: float | int, dtype: Any) -> Array:
    """A number in an array of one element: rounded, or in an integer type truncated and saturated."""
    if isinstance(value, int):
        return to_integer_array([value], (1,), dtype)
    return stored([exact(value)], (1,), dtype)


# --- repeats and blocks ---


def tile(attributes: Attributes, inputs: Inputs, outputs: Outputs) -> Results:
    sizes, dtype = outputs["output_tensor"]
    return {"output_tensor": np.tile(bits(inputs["input_tensor"]), attributes["repeats"]).view(dtype).reshape(sizes)}


def depth_to_space(attributes: Attributes, inputs: Inputs, outputs: Outputs) -> Results:
    depth, block = bits(inputs["input_tensor"]), attributes["block_size"]
    sizes, dtype = outputs["output_tensor"]
    n, k, h, w = depth.shape
    if attributes.get("order", "DEPTH_COLUMN_ROW") == "DEPTH_COLUMN_ROW":
        apart = depth.reshape(n, block, block, k // block**2, h, w).transpose(0, 3, 4, 1, 5, 2)
    else:
        apart = depth.reshape(n, k // block**2, block, block, h, w).transpose(0, 1, 4, 2, 5, 3)
    return {"output_tensor": np.ascontiguousarray(apart).reshape(sizes).view(dtype)}


def space_to_depth(attributes: Attributes, inputs: Inputs, outputs: Outputs) -> Results:
    space, block = bits(inputs["input_tensor"]), attributes["block_size"]
    sizes, dtype = outputs["output_tensor"]
    n, c, y, x = space.shape
    apart = space.reshape(n, c, y // block, block, x // block, block)
    depth_first = attributes.get("order", "DEPTH_COLUMN_ROW") == "DEPTH_COLUMN_ROW"
    channels = apart.transpose(0, 3, 5, 1, 2, 4) if depth_first else apart.transpose(0, 1, 3, 5, 2, 4)
    return {"output_tensor": np.ascontiguousarray(channels).reshape(sizes).view(dtype)}


OPERATORS = {
    **dict.fromkeys(("DEPTH_TO_SPACE", "DEPTH_TO_SPACE1"), depth_to_space),
    **dict.fromkeys(("SPACE_TO_DEPTH", "SPACE_TO_DEPTH1"), space_to_depth),
    "TILE": tile,
    "JOIN": join,
    "SPLIT": split,
    "GATHER": gather,
    "PADDING": padding,
    "PADDING1": padding,
}
