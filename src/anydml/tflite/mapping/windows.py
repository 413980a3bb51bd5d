"""Windows that slide over images whose channels are last: convolutions, fully connected layers, pooling."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from anydml.functional import functions as dml
from anydml.functional.call import call
from anydml.onnx.errors import INVALID, NOT_YET, Refused
from anydml.onnx.values import Array, Value, reshape, symbolic, transpose
from anydml.tflite.mapping.values import EIGHT_BIT, activated, dequantised, ints, moved, parameters, same_quantisation
from anydml.tflite.read import Node, Tensor

FIRST, LAST = (0, 3, 1, 2), (0, 2, 3, 1)  # the orders of dimensions in which channels are first and last
TOLERANCE = 0.02  # of a bias's scale, as in TensorFlow Lite: a share of the output's scale


class Window(NamedTuple):
    """A window over height and width."""

    strides: tuple[int, ...]
    dilations: tuple[int, ...]
    start_padding: tuple[int, ...]
    end_padding: tuple[int, ...]


def rank(x: Value, count: int, what: str) -> None:
    if x.ndim != count:
        raise Refused(f"{what} has {x.ndim} dimensions, and must have {count}", INVALID)


def window_of(n: Node, sizes: Sequence[int], filters: Sequence[int], *, dilated: bool) -> Window:
    """The window over an input of these spatial sizes. The padding is SAME, as large before as after or one less, or VALID."""
    strides = n.option("StrideH", 1), n.option("StrideW", 1)
    dilations = (n.option("DilationHFactor", 1), n.option("DilationWFactor", 1)) if dilated else (1, 1)
    if min((*strides, *dilations, *filters)) < 1:
        raise Refused(f"strides {strides}, dilations {dilations} and windows {tuple(filters)} must be at least 1", INVALID)
    return Window(strides, dilations, *padding_of(n, sizes, filters, strides, dilations))


def padding_of(
    n: Node, sizes: Sequence[int], filters: Sequence[int], strides: Sequence[int], dilations: Sequence[int]
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    if (padding := n.option("Padding")) not in (0, 1):
        raise Refused(f"its padding is number {padding}", INVALID)
    total = [
        0 if padding else max((-(-size // step) - 1) * step + (k - 1) * dilation + 1 - size, 0)
        for size, k, step, dilation in zip(sizes, filters, strides, dilations, strict=True)
    ]
    return tuple(t // 2 for t in total), tuple(t - t // 2 for t in total)


def tensors(n: Node) -> tuple[Tensor, Tensor, Tensor | None]:
    """The tensors of the image, the filters and the bias."""
    x, w, *rest = n.inputs
    assert x is not None
    assert w is not None
    return x, w, rest[0] if rest else None


def by_channel(w: Tensor, axis: int) -> Array:
    """The scale of the filters, or one for each output channel."""
    q = w.quantised
    if q.scales.size > 1 and q.axis != axis:
        raise Refused(f"{w.name} has a scale for each index of dimension {q.axis}, and must have them along {axis}", INVALID)
    return q.scales if q.scales.size == 1 else q.scales.reshape(1, -1, 1, 1)


def usual_bias(x: Tensor, w: Tensor, b: Tensor | None, y: Tensor) -> None:
    """Refused for a bias whose scale is not the product of those of input and filters, up to TensorFlow Lite's tolerance."""
    if b is None or b.quantisation is None:
        return
    due = x.quantised.scales.astype(np.float64) * w.quantised.scales.astype(np.float64)
    given = b.quantised.scales.astype(np.float64)
    fits = given.size in (1, due.size) and not (np.abs(due - given) > TOLERANCE * y.quantised.scales[0]).any()
    if not fits or b.quantised.zero_points.any():
        raise Refused(f"{b.name} must have the scale of the products, {due[0]:.9g}, and has {given[0]:.9g}", INVALID)


def convolved(n: Node, image: Value, filters: Value, bias: Value, axis: int, window: Window, groups: int = 1) -> Value:
    """The convolution of an image, channels first, by filters in DirectML's order; integers are quantised once.

    axis: the dimension of the filters, in the file, along which their scales may differ.
    """
    x, w, b = tensors(n)
    y = n.outputs[0]
    term = None if bias is None else reshape(bias, (1, math.prod(bias.shape), 1, 1))
    if not x.is_quantised:
        filters = filters if filters.dtype == x.dtype else dequantised_filters(filters, w, axis)
        return dml.convolution(image, filters, term, **window._asdict(), group_count=groups)
    usual_bias(x, w, b, y)
    (sx, zx), (sy, zy), sw = parameters(x), parameters(y), by_channel(w, axis)
    zw = w.quantised.zero_points
    if {x.dtype, w.dtype, y.dtype} <= {*EIGHT_BIT} and (b is None or b.dtype == np.int32):
        zero = zw[:1].astype(w.dtype) if (zw == zw[0]).all() else zw.astype(w.dtype).reshape(1, -1, 1, 1)
        return dml.quantized_linear_convolution(
            image, sx, filters, sw, sy, zx, zero, term, zy, **window._asdict(), group_count=groups
        )
    if zw.any():
        raise Refused(f"{w.name} has a zero point other than 0", NOT_YET)
    if (cut := in_bytes(image, filters, term, zx)) is not None:
        made = [dml.convolution_integer(part, filters, **window._asdict(), group_count=groups) for part in cut.parts]
        return call("TFLITE_REQUANTIZE", (*made, cut.bias, sx, sw, sy, zy), ())
    return quantised(image, filters, term, (sx, zx, sw, sy, zy), window, groups, forward=True)


class InBytes(NamedTuple):
    """An image of 16 bits as its upper and its lower bytes, and a bias of 32 bits."""

    parts: tuple[Value, Value]
    bias: Value


def in_bytes(image: Value, filters: Value, bias: Value, zero_point: Array) -> InBytes | None:
    """An image whose convolution by int8 is two of bytes, with sums of 32 bits; None for one that is not of this kind."""
    terms = math.prod(filters.shape[1:])
    if image.dtype != np.int16 or filters.dtype != np.int8 or zero_point.any() or terms * 255 * 128 >= 1 << 31:
        return None
    if bias is not None:
        if symbolic(bias) or np.abs(bias.astype(np.float64)).max(initial=0) >= 1 << 31:
            return None
        bias = bias.astype(np.int32)
    bits = image.view(np.uint16)
    upper = dml.cast(dml.element_wise_bit_shift_right(bits, np.full((), 8, np.uint16)), output_data_type="UINT8")
    return InBytes((upper.view(np.int8), dml.cast(bits, output_data_type="UINT8")), bias)


def quantised(
    image: Value,
    filters: Value,
    bias: Value,
    scales: tuple[Array, ...],
    window: Window,
    groups: int,
    *,
    forward: bool,
) -> Value:
    """TFLITE_CONVOLUTION, forward or transposed."""
    sx, zx, sw, sy, zy = scales
    direction = "FORWARD" if forward else "BACKWARD"
    return call(
        "TFLITE_CONVOLUTION",
        (image, filters, bias, sx, zx, sw, sy, zy),
        ("CROSS_CORRELATION", direction, *window, (0, 0), groups),
    )


def dequantised_filters(filters: Value, w: Tensor, axis: int) -> Value:
    """Integer filters of a float convolution, in DirectML's order, as floats."""
    q = w.quantised
    by_channel(w, axis)
    placed = w._replace(quantisation=q._replace(axis=0))
    return dequantised(filters, placed)


def conv_2d(n: Node, x: Value, w: Value, b: Value = None) -> Value:
    rank(x, 4, "its input")
    rank(w, 4, "its filters")
    if w.shape[3] < 1 or x.shape[3] % w.shape[3]:
        raise Refused(f"filters of {w.shape[3]} channels do not divide {x.shape[3]} channels", INVALID)
    window = window_of(n, x.shape[1:3], w.shape[1:3], dilated=True)
    made = convolved(n, transpose(x, FIRST), packed(w, FIRST), b, 0, window, x.shape[3] // w.shape[3])
    return transpose(activated(n, made), LAST)


def depthwise_conv_2d(n: Node, x: Value, w: Value, b: Value = None) -> Value:
    rank(x, 4, "its input")
    rank(w, 4, "its filters")
    if w.shape[0] != 1 or w.shape[3] % x.shape[3]:
        raise Refused(f"filters of sizes {tuple(w.shape)} do not fit {x.shape[3]} channels", INVALID)
    window = window_of(n, x.shape[1:3], w.shape[1:3], dilated=True)
    made = convolved(n, transpose(x, FIRST), packed(w, (3, 0, 1, 2)), b, 3, window, x.shape[3])
    return transpose(activated(n, made), LAST)


def packed(w: Value, order: Sequence[int]) -> Value:
    """Filters in another order of dimensions."""
    made = transpose(w, order)
    return np.ascontiguousarray(made) if isinstance(made, np.ndarray) else made


def fully_connected(n: Node, x: Value, w: Value, b: Value = None) -> Value:
    """A convolution of images of one pixel; of floats, a GEMM."""
    rank(w, 2, "its weights")
    if n.option("WeightsFormat"):
        raise Refused("its weights are shuffled", NOT_YET)
    m, k = w.shape
    if math.prod(x.shape) % k:
        raise Refused(f"weights of {k} columns do not divide {math.prod(x.shape)} elements", INVALID)
    rows = math.prod(x.shape) // k
    if n.option("KeepNumDims", False) and x.shape[-1] != k:
        raise Refused(f"weights of {k} columns do not fit rows of {x.shape[-1]}", INVALID)
    sizes = (*x.shape[:-1], m) if n.option("KeepNumDims", False) else (rows, m)
    of_x, of_w, _ = tensors(n)
    if of_x.is_quantised:
        image, filters = reshape(x, (rows, k, 1, 1)), reshape(w, (m, k, 1, 1))
        made = convolved(n, image, filters, b, 0, Window((1, 1), (1, 1), (0, 0), (0, 0)))
    else:
        weights = w if w.dtype == x.dtype else dequantised(w, of_w)
        made = dml.gemm(reshape(x, (rows, k)), weights, None if b is None else reshape(b, (1, m)), trans_b="TRANSPOSE")
    return reshape(activated(n, reshape(made, (rows, m))), sizes)


def transpose_conv(n: Node, sizes: Value, w: Value, x: Value, b: Value = None) -> Value:
    """A convolution backward, into an output of given sizes; those of the file, if the input that gives them is no constant."""
    rank(x, 4, "its input")
    rank(w, 4, "its filters")
    output = n.outputs[0].sizes if symbolic(sizes) else ints(sizes)
    if len(output) != 4 or w.shape[3] != x.shape[3] or w.shape[0] != output[3] or output[0] != x.shape[0]:
        raise Refused(f"filters of sizes {tuple(w.shape)} do not lead from {tuple(x.shape)} to {output}", INVALID)
    strides = n.option("StrideH", 1), n.option("StrideW", 1)
    if min(strides) < 1:
        raise Refused(f"strides {strides} must be at least 1", INVALID)
    start, _ = padding_of(n, output[1:3], w.shape[1:3], strides, (1, 1))
    whole = [(size - 1) * step + k - a for size, step, k, a in zip(x.shape[1:3], strides, w.shape[1:3], start, strict=True)]
    over = [a - b for a, b in zip(whole, output[1:3], strict=True)]
    window = Window(strides, (1, 1), start, tuple(max(o, 0) for o in over))
    more = tuple(max(-o, 0) for o in over)
    image, filters = transpose(x, FIRST), packed(w, (3, 0, 1, 2))
    bias = None if b is None else reshape(b, (1, math.prod(b.shape), 1, 1))
    _, of_w, of_x, *_ = n.inputs
    assert of_w is not None
    assert of_x is not None
    if not of_x.is_quantised:
        made = dml.convolution(
            image, filters, bias, direction="BACKWARD", **window._asdict(), output_padding=more, group_count=1
        )
    else:
        if any(more) or of_w.quantised.zero_points.any():
            raise Refused("it writes elements that no input reaches, or its filters have a zero point", NOT_YET)
        (sx, zx), (sy, zy) = parameters(of_x), parameters(n.outputs[0])
        made = quantised(image, filters, bias, (sx, zx, by_channel(of_w, 0), sy, zy), window, 1, forward=False)
    return transpose(activated(n, made), LAST)


def pooled(function: Callable[[Node, Value, dict[str, Any]], Value]) -> Callable[..., Value]:
    """The mapping of a function of an image, channels first, and of the arguments of a window."""

    def mapping(n: Node, x: Value) -> Value:
        rank(x, 4, "its input")
        size = n.option("FilterHeight", 1), n.option("FilterWidth", 1)
        window = window_of(n, x.shape[1:3], size, dilated=False)
        arguments = dict(window._asdict(), window_size=size)
        return transpose(activated(n, moved(n, function(n, transpose(x, FIRST), arguments))), LAST)

    return mapping


def average(n: Node, image: Value, window: dict[str, Any]) -> Value:
    x = n.inputs[0]
    assert x is not None
    if image.dtype.kind == "f":
        return dml.average_pooling1(image, **window)
    if image.dtype in EIGHT_BIT and same_quantisation(x, n.outputs[0]):
        scale, zero = parameters(x)
        return dml.quantized_linear_average_pooling(image, scale, scale, zero, zero, **window)
    names = ("strides", "window_size", "start_padding", "end_padding")
    if not same_quantisation(x, n.outputs[0]):
        raise Refused("its input and output have different scales", INVALID)
    return call("TFLITE_AVERAGE_POOLING", (image, parameters(x)[1]), (*(window[name] for name in names), False))


def largest(n: Node, image: Value, window: dict[str, Any]) -> Value:
    return dml.max_pooling2(image, **window).output


TABLE: dict[str, tuple[Callable[..., Any], str]] = {
    "AVERAGE_POOL_2D": (pooled(average), "Pool2DOptions"),
    "CONV_2D": (conv_2d, "Conv2DOptions"),
    "DEPTHWISE_CONV_2D": (depthwise_conv_2d, "DepthwiseConv2DOptions"),
    "FULLY_CONNECTED": (fully_connected, "FullyConnectedOptions"),
    "MAX_POOL_2D": (pooled(largest), "Pool2DOptions"),
    "TRANSPOSE_CONV": (transpose_conv, "TransposeConvOptions"),
}
