"""onnxruntime's rotary embeddings: pairs of elements are rotated by the angle of their position."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from anydml.functional import functions as dml
from anydml.onnx.errors import INVALID, NOT_YET, Refused
from anydml.onnx.nodes import Node
from anydml.onnx.values import Value, gathered, part, reshape, symbolic, transpose


def rotated(x: Value, cosines: Value, sines: Value, interleaved: bool) -> Value:
    """A tensor {batch, length, heads, size} whose first elements are rotated in pairs; the rest is unchanged.

    cosines, sines: {batch or 1, length, 1, pairs}. The elements of a pair are neighbours if interleaved, else in two halves.
    Each product, and their sum or difference, is rounded.
    """
    pairs, size = cosines.shape[-1], x.shape[-1]
    if 2 * pairs > size:
        raise Refused(f"{pairs} pairs do not fit into {size} elements", INVALID)
    lead = [slice(None)] * 3
    first, rest = part(x, [*lead, slice(0, 2 * pairs)]), part(x, [*lead, slice(2 * pairs, size)])
    if interleaved:
        even, odd = (part(first, [*lead, slice(i, None, 2)]) for i in (0, 1))
    else:
        even, odd = part(first, [*lead, slice(0, pairs)]), part(first, [*lead, slice(pairs, 2 * pairs)])
    multiply = dml.element_wise_multiply
    one = dml.element_wise_subtract(multiply(even, cosines), multiply(odd, sines))
    two = dml.element_wise_add(multiply(even, sines), multiply(odd, cosines))
    if interleaved:
        sizes = (*one.shape, 1)
        made = reshape(dml.join([reshape(one, sizes), reshape(two, sizes)], axis=4), first.shape)
        return made if 2 * pairs == size else dml.join([made, rest], axis=3)
    return dml.join([one, two] if 2 * pairs == size else [one, two, rest], axis=3)


def at_places(table: Value, at: Value) -> Value:
    """The rows of a table of cosines or sines at given positions, {batch or 1, length, 1, pairs}."""
    found = gathered(table, at)
    batch, length, pairs = found.shape
    return reshape(found, (batch, length, 1, pairs))


def counted(start: Value, length: int) -> Value:
    """Consecutive positions {1, length}, beginning at `start`, {1}."""
    if symbolic(start):
        return dml.element_wise_add(reshape(start, (1, 1)), np.arange(length, dtype=start.dtype)[None])
    return start.reshape(1, 1) + np.arange(length, dtype=start.dtype)[None]


def rotary_embedding(n: Node, x: Value, at: Value, cosines: Value, sines: Value) -> Value:
    """onnxruntime's RotaryEmbedding: heads {batch, length, heads * size} or {batch, heads, length, size}.

    Without num_heads, the tables determine the size of a head. A single position is that of the first element, and the others
    follow it. Batches that are packed one after another have positions of their own; nothing else is different.
    """
    if n.get("scale", 1.0) != 1.0:
        raise Refused("it has scale, and its definition does not say where it is applied", NOT_YET)
    four = transpose(x, (0, 2, 1, 3)) if x.ndim == 4 else None
    if four is None:
        heads = n.get("num_heads", 0)
        size = x.shape[2] // heads if heads else 2 * cosines.shape[1]
        if x.shape[2] % size:
            raise Refused(f"{x.shape[2]} elements are not divisible into heads of {size}", INVALID)
        four = reshape(x, (*x.shape[:2], x.shape[2] // size, size))
    if at.ndim == 2 and at.shape[0] not in (1, x.shape[0]):
        raise Refused(f"positions of sizes {tuple(at.shape)} do not fit a batch of {x.shape[0]}", INVALID)
    found = counted(at, four.shape[1]) if at.ndim < 2 else at
    made = rotated(four, at_places(cosines, found), at_places(sines, found), bool(n.get("interleaved", 0)))
    return transpose(made, (0, 2, 1, 3)) if x.ndim == 4 else reshape(made, x.shape)


TABLE: dict[str, Callable[..., Any]] = {"com.microsoft.RotaryEmbedding": rotary_embedding}
