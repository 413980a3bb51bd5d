"""GridSample, Unique and Det, for which DirectML has no operators: composed, or computed when the tensor is known."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from typing import Any

import numpy as np

from anydml.functional import functions as dml
from anydml.onnx.errors import INVALID, NOT_YET, Refused
from anydml.onnx.nodes import Node
from anydml.onnx.values import Array, Value, axis_of, converted, gathered, is_float, known, part, reshape, transpose

FLOAT32, INT32 = np.dtype(np.float32), np.dtype(np.int32)
MODES = {"bilinear": "linear", "linear": "linear", "nearest": "nearest", "bicubic": "cubic", "cubic": "cubic"}
CUBIC = -0.75  # the coefficient of cubic interpolation, fixed by ONNX
Tap = tuple[Value, Value, Value]  # indices along one dimension, their weights, whether they are inside


def _affine(x: Value, scale: float, bias: float) -> Value:
    return dml.element_wise_identity(x, scale_bias=(scale, bias))


def _reflected(x: Value, low: float, high: float) -> Value:
    """Coordinates reflected at both ends as often as needed: the distance from the lower end, modulo twice the width."""
    width = high - low
    if width <= 0:
        return _affine(x, 0.0, low)
    apart = dml.element_wise_modulus_floor(dml.element_wise_abs(_affine(x, 1.0, -low)), np.float32(2 * width))
    return _affine(dml.element_wise_abs(_affine(apart, 1.0, -width)), -1.0, low + width)


def _cubic(t: Value, near: bool) -> Value:
    """The weight at a distance t up to 1 (near), or from 1 to 2: the polynomial by Horner's rule, rounded at each step."""
    a, times = CUBIC, dml.element_wise_multiply
    if near:
        return _affine(times(times(_affine(t, a + 2, -(a + 3)), t), t), 1.0, 1.0)
    return _affine(times(_affine(times(_affine(t, a, -5 * a), t), 1.0, 8 * a), t), 1.0, -4 * a)


def _taps(c: Value, size: int, mode: str, padding: str, aligned: bool) -> list[Tap]:
    """The indices along a dimension that the points' coordinates c read, and their weights."""
    low, high = (0.0, size - 1.0) if aligned else (-0.5, size - 0.5)
    c = _affine(c, (size - 1) / 2 if aligned else size / 2, (size - 1) / 2)
    if mode == "nearest":
        c = dml.element_wise_round(c, "HALVES_TO_NEAREST_EVEN")
    if mode != "cubic":
        c = _padded(c, size, padding, low, high)
    ones = np.ones(c.shape, np.float32)
    if mode == "nearest":
        taps = [(c, ones)]
    else:
        floor = dml.element_wise_floor(c)
        t = dml.element_wise_subtract(c, floor)
        if mode == "linear":
            taps = [(floor, _affine(t, -1.0, 1.0)), (_affine(floor, 1.0, 1.0), t)]
        else:
            ahead = _affine(t, -1.0, 1.0)
            weights = [_cubic(_affine(t, 1.0, 1.0), False), _cubic(t, True), _cubic(ahead, True),
                       _cubic(_affine(ahead, 1.0, 1.0), False)]  # fmt: skip
            taps = [(_affine(floor, 1.0, i - 1.0), w) for i, w in enumerate(weights)]
    found = []
    for place, weight in taps:
        padded = _padded(place, size, padding, low, high)
        within = dml.element_wise_clip(padded, min=0.0, max=size - 1.0)
        inside = dml.element_wise_logical_equals(within, padded)
        found.append((dml.element_wise_if(inside, within, np.zeros_like(ones)), weight, inside))
    return found


def _padded(place: Value, size: int, padding: str, low: float, high: float) -> Value:
    """Coordinates outside of the tensor: moved to the nearest end, reflected, or unchanged."""
    if padding == "border":
        return dml.element_wise_clip(place, min=0.0, max=size - 1.0)
    return _reflected(place, low, high) if padding == "reflection" else place


def grid_sample(n: Node, x: Value, grid: Value) -> Value:
    """GridSample: indices and weights by element-wise operators, GATHER of the elements of each point, products and sums.

    All steps are in FLOAT32, with a rounding after each; the result is rounded to the input's type. Elements outside are 0. A
    point with a NaN coordinate gives NaN.
    """
    mode, padding = MODES.get(n.get("mode", "linear")), n.get("padding_mode", "zeros")
    count = x.ndim - 2
    if mode is None or padding not in ("zeros", "border", "reflection"):
        raise Refused(f"its mode is {n.get('mode')!r}, its padding_mode {padding!r}", INVALID)
    if count < 1 or grid.ndim != x.ndim or grid.shape[-1] != count or grid.shape[0] != x.shape[0]:
        raise Refused(f"a grid of sizes {tuple(grid.shape)} does not fit {tuple(x.shape)}", INVALID)
    if not is_float(x.dtype):
        raise Refused(f"it samples elements of {x.dtype.name}", NOT_YET)
    batch, channels, *spatial = x.shape
    every, points = math.prod(spatial), math.prod(grid.shape[1:-1])
    out = (*grid.shape[1:-1],)
    if 0 in (*x.shape, *grid.shape):
        return np.zeros((batch, channels, *out), x.dtype)
    flat = reshape(converted(grid, FLOAT32), (batch * points, count))
    table = reshape(transpose(converted(x, FLOAT32), (0, *range(2, x.ndim), 1)), (batch * every, channels))
    taps = []
    for i, size in enumerate(spatial):  # the last coordinate is that of the first dimension
        at = count - 1 - i
        c = reshape(part(flat, [slice(None), slice(at, at + 1)]), (batch * points,))
        taps.append(_taps(c, size, mode, padding, bool(n.get("align_corners", 0))))
    own = np.repeat(np.arange(batch, dtype=np.int32) * every, points)
    total = None
    for chosen in itertools.product(*taps):
        place, weight, inside = own, None, None
        for i, (at, w, within) in enumerate(chosen):
            inside = within if inside is None else dml.element_wise_logical_and(inside, within)
            step = dml.element_wise_multiply(dml.cast(at, output_data_type=INT32), np.int32(math.prod(spatial[i + 1 :])))
            place = dml.element_wise_add(step, place)
            weight = w if weight is None else dml.element_wise_multiply(weight, w)
        read = dml.element_wise_if(reshape(inside, (batch * points, 1)), gathered(table, place), np.zeros((1, 1), np.float32))
        one = dml.element_wise_multiply(read, reshape(weight, (batch * points, 1)))
        total = one if total is None else dml.element_wise_add(total, one)
    made = reshape(converted(total, x.dtype), (batch, points, channels))
    return reshape(transpose(made, (0, 2, 1)), (batch, channels, *out))


def det(n: Node, x: Value) -> Value:
    """Determinants of matrices up to 3 x 3, by minors of the first row: products and differences, each rounded."""
    if x.ndim < 2 or x.shape[-1] != x.shape[-2]:
        raise Refused(f"sizes {tuple(x.shape)} are not those of square matrices", INVALID)
    size, sizes = x.shape[-1], (*x.shape[:-2],)
    if not 1 <= size <= 3:
        raise Refused(f"matrices of {size} x {size} need pivots, and DirectML has no factorisation")
    lead = [slice(None)] * len(sizes)

    def element(i: int, j: int) -> Value:
        return reshape(part(x, [*lead, slice(i, i + 1), slice(j, j + 1)]), sizes)

    def minor(rows: tuple[int, int], columns: tuple[int, int]) -> Value:
        (a, b), (c, d) = rows, columns
        return dml.element_wise_subtract(times(element(a, c), element(b, d)), times(element(a, d), element(b, c)))

    times = dml.element_wise_multiply
    if size == 1:
        return element(0, 0)
    if size == 2:
        return minor((0, 1), (0, 1))
    one, two, three = (
        times(element(0, j), minor((1, 2), columns)) for j, columns in enumerate(((1, 2), (0, 2), (0, 1)))
    )  # fmt: skip
    return dml.element_wise_add(dml.element_wise_subtract(one, two), three)


def unique(n: Node, x: Value) -> list[Array]:
    """The different elements, or parts along an axis. Their number depends on the elements, so x must be known.

    They are sorted, or in the order of their first positions. Other outputs are these positions, the index of each element in
    the result, and counts.
    """
    given = known(x)
    axis = n.get("axis")
    if axis is not None:
        axis = axis_of(axis, given.ndim)
    found = np.unique(given, return_index=True, return_inverse=True, return_counts=True, axis=axis, equal_nan=False)
    y, first, inverse, counts = found[0], found[1], found[2].reshape(-1), found[3]
    if not n.get("sorted", 1):
        order = np.argsort(first, kind="stable")
        places = np.empty_like(order)
        places[order] = np.arange(len(order))
        y, first, inverse, counts = y.take(order, axis or 0), first[order], places[inverse], counts[order]
    return [y, *(p.astype(np.int64) for p in (first, inverse, counts))]


TABLE: dict[str, Callable[..., Any]] = {"Det": det, "GridSample": grid_sample, "Unique": unique}
