"""Known deviations of TensorFlow Lite's kernels from exact results, for operators that DirectML lacks."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import partial

import numpy as np

from anydml.explain.changes import Deviation
from anydml.explain.comparison import Cause
from anydml.explain.deviations.fixed_point import multiplied, multiplied_in_16_bits, multiplier_and_shift
from anydml.explain.search import Search
from anydml.onnx.values import Array
from anydml.tflite import sixteen_bits, tables
from anydml.tflite.read import Node, Tensor

Values = Mapping[str, Array]
GRID = 10  # binary places of the positions and weights of a resized image
FINE = 11  # binary places of XNNPACK's weights


def cause(node: Node, values: Values, exact: Array, actual: Array) -> Cause | None:
    """The deviation that explains most of the differing elements of a node's first output."""
    if node.operator not in FINDERS or exact.shape != actual.shape or exact.dtype != actual.dtype:
        return None
    search = Search(exact, actual)
    for name, sentence, output in FINDERS[node.operator](node, values):
        search.tried(Deviation(name, sentence, lambda: None, True), output)
    found = search.found()
    return found[0] if found else None


Tried = Iterator[tuple[str, str, Array]]


def _one(node: Node, values: Values, at: int = 0) -> tuple[Tensor, Array]:
    t = node.inputs[at]
    assert t is not None
    return t, values[t.name]


def _centred(t: Tensor, x: Array) -> Array:
    """The integers of a tensor without its zero point."""
    found: Array = x.astype(np.int64) - t.quantised.zero_points[0]
    return found


def _stored(t: Tensor, steps: Array) -> Array:
    """Steps from the zero point as elements of a tensor, saturated."""
    limits = np.iinfo(t.dtype)
    made: Array = np.clip(steps + t.quantised.zero_points[0], limits.min, limits.max).astype(t.dtype)
    return made


def _leaky(node: Node, values: Values) -> Tried:
    """Both slopes as multipliers of 31 bits, from scales divided in float32."""
    t, x = _one(node, values)
    to = node.outputs[0]
    if not to.is_quantised:
        return
    q, s, y = _centred(t, x), t.quantised.scales[0], to.quantised.scales[0]
    slope = np.float32(node.option("Alpha", 0.0))
    parts = [multiplied(q, *multiplier_and_shift(np.asarray(m, np.float64))) for m in (s / y, s * slope / y)]
    sentence = "fixed-point multipliers of both slopes, each product rounded twice"
    yield "fixed_point_slopes", sentence, _stored(to, np.where(q >= 0, parts[0], parts[1]))


def _reduced(node: Node, values: Values) -> Tried:
    """A sum times a multiplier into which the number of terms is divided, rounded down."""
    t, x = _one(node, values)
    to = node.outputs[0]
    if not to.is_quantised:
        return
    _, axes = _one(node, values, 1)
    along = tuple({int(a) % x.ndim for a in axes.reshape(-1)})
    count = int(np.prod([x.shape[a] for a in along]))
    total = _centred(t, x).sum(axis=along, keepdims=bool(node.option("KeepDims", False)))
    m, shift = multiplier_and_shift(np.asarray(np.float64(t.quantised.scales[0]) / np.float64(to.quantised.scales[0])))
    if node.operator == "MEAN":
        more = min(count.bit_length() - 1, 32, 31 + int(shift))
        m, shift = (m << more) // count, shift - more
    name, sentence = "fixed_point_mean", "a sum times a fixed-point multiplier divided by the number of terms"
    yield name, f"{sentence}, rounded twice", _stored(to, multiplied(total, m, shift))
    yield f"{name}_16_bits", f"{sentence}, of 16 bits", _stored(to, multiplied_in_16_bits(total, m, shift))
    if node.operator == "SUM" and x.dtype == np.int8:
        raw = x.view(np.uint8).astype(np.int64).sum(axis=along, keepdims=bool(node.option("KeepDims", False)))
        scaled = multiplied(raw - count * t.quantised.zero_points[0], m, shift) + to.quantised.zero_points[0]
        made = np.clip(scaled, 0, 255).astype(np.uint8).view(np.int8)
        yield "unsigned_elements", "a sum of elements that are read as uint8, saturated at 0 and 255", made
    wrapped = multiplied(total, m, shift) + to.quantised.zero_points[0]
    yield "wrapping_output", f"{sentence}, wrapped where it should saturate", wrapped.astype(to.dtype)


def _resized(node: Node, values: Values) -> Tried:
    """Positions and weights on a grid of 2^-10, or positions in float32 and weights of 11 bits."""
    _, x = _one(node, values)
    _, sizes = _one(node, values, 1)
    if x.dtype.kind not in "iu" or x.ndim != 4:
        return
    corners, centres = node.option("AlignCorners", False), node.option("HalfPixelCenters", False)

    def taps(n: int, m: int) -> tuple[Array, Array, Array]:
        step = ((n - 1 << GRID) + (m - 1) // 2) // (m - 1) if corners and m > 1 else ((n << GRID) + m // 2) // m
        at = np.arange(m) * step + (step // 2 - (1 << GRID - 1) if centres else 0)
        low = np.maximum(np.trunc(at / (1 << GRID)).astype(np.int64), 0)
        high = np.minimum(np.trunc((at + (1 << GRID) - 1) / (1 << GRID)).astype(np.int64), n - 1)
        return low, high, at - (low << GRID)

    def taps_of_floats(n: int, m: int) -> tuple[Array, Array, Array]:
        less = int(corners and m > 1)
        step = np.float32(n - less) / np.float32(m - less)
        shift = np.float32(0.5) * step - np.float32(0.5) if centres and not corners else np.float32(0)
        at = np.clip(np.arange(m, dtype=np.float32) * step + shift, np.float32(0), np.float32(n - 1))
        low = at.astype(np.int64)
        return low, np.minimum(low + 1, n - 1), np.rint((at - low.astype(np.float32)) * (1 << FINE)).astype(np.int64)

    wide = x.astype(np.int64)

    def total(places: Callable[[int, int], tuple[Array, Array, Array]], one: int) -> Array:
        y0, y1, v = places(x.shape[1], int(sizes[0]))
        x0, x1, u = places(x.shape[2], int(sizes[1]))
        v, u = v[:, None, None], u[None, :, None]
        top = wide[:, y0][:, :, x0] * (one - u) + wide[:, y0][:, :, x1] * u
        bottom = wide[:, y1][:, :, x0] * (one - u) + wide[:, y1][:, :, x1] * u
        return np.asarray(top * (one - v) + bottom * v)

    coarse = total(taps, 1 << GRID)
    rounded = np.sign(coarse) * (np.abs(coarse) + (1 << 2 * GRID - 1) >> 2 * GRID)
    yield (
        "fixed_point_positions",
        "a mean by positions rounded to 1/1024, rounded half away from zero",
        rounded.astype(x.dtype),
    )
    rounded = total(taps_of_floats, 1 << FINE) + (1 << 2 * FINE - 1) >> 2 * FINE
    yield "weights_of_11_bits", "a mean by weights rounded to 1/2048, rounded half up", rounded.astype(x.dtype)


def _of_16_bits(
    table: Callable[[Array, float], Array], whole: Mapping[float, Callable[[Array], Array]]
) -> Callable[[Node, Values], Tried]:
    """By a table, as the reference kernels do. whole: by the input's scale, what faster kernels compute instead."""

    def found(node: Node, values: Values) -> Tried:
        t, x = _one(node, values)
        if x.dtype == np.int16 and t.is_quantised:
            q, scale = x.astype(np.int64), float(t.quantised.scales[0])
            yield "interpolated_table", "interpolation in a table of sigmoid", _stored(node.outputs[0], table(q, scale))
            if scale in whole:
                sentence = "exp and a division in fixed point of 16 bits"
                yield "fixed_point_exp", sentence, _stored(node.outputs[0], whole[scale](q))

    return found


def _softmax(node: Node, values: Values) -> Tried:
    """By tables of exp and of the reciprocal."""
    t, x = _one(node, values)
    if x.dtype == np.int16 and t.is_quantised:
        made = tables.softmax(x.astype(np.int64), float(t.quantised.scales[0]), float(node.option("Beta", 1.0)))
        sentence = "interpolation in tables of exp and of 1 / (1 + x)"
        yield "interpolated_table", sentence, _stored(node.outputs[0], made)


def _divided(node: Node, values: Values) -> Tried:
    """A reciprocal of 31 bits, and a shift to the right whose count may exceed 31; then only five bits of it count on x86."""
    (t, x), (u, w), to = _one(node, values), _one(node, values, 1), node.outputs[0]
    if not (to.is_quantised and x.dtype.itemsize == 1):
        return
    x, w = np.broadcast_arrays(_centred(t, x), _centred(u, w))
    if not w.all():
        return
    m, shift = multiplier_and_shift(
        np.asarray(t.quantised.scales[0] / (np.float64(u.quantised.scales[0]) * to.quantised.scales[0]), np.float64)
    )
    size = np.abs(w)
    zeros = 32 - np.frexp(size.astype(np.float64))[1].astype(np.int64)
    reciprocal = np.minimum((1 << 62 - zeros) // size, (1 << 31) - 1) * np.sign(w)
    room = 31 - np.frexp(np.where(x < 0, -1 - x, x).astype(np.float64))[1].astype(np.int64)
    quotient = _high(_high(x << room, reciprocal), m)
    count = 31 - zeros + room - shift
    mask = np.where(count > 31, -1, (1 << np.minimum(count, 31)) - 1)
    made = (quotient >> (count & 31)) + ((quotient & mask) > (mask >> 1) + (quotient < 0))
    yield "shift_beyond_31", "a fixed-point division whose shifts of more than 31 places are taken modulo 32", _stored(to, made)


def _high(x: Array, m: Array) -> Array:
    """x * m / 2^31, rounded half away from zero."""
    product = x * m
    return np.asarray(np.sign(product) * (np.abs(product) + (1 << 30) >> 31))


FINDERS: dict[str, Callable[[Node, Values], Tried]] = {
    "DIV": _divided,
    "LEAKY_RELU": _leaky,
    "LOGISTIC": _of_16_bits(tables.sigmoid, {2**-12: sixteen_bits.sigmoid}),
    "MEAN": _reduced,
    "RESIZE_BILINEAR": _resized,
    "SOFTMAX": _softmax,
    "SUM": _reduced,
    "TANH": _of_16_bits(tables.tanh, {2**-12: partial(sixteen_bits.tanh, left=0), 2**-11: partial(sixteen_bits.tanh, left=1)}),
}
