"""Convolutions, pooling, resizing, and patches of images."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from anydml.functional import functions as dml
from anydml.onnx.errors import INVALID, NOT_YET, Refused
from anydml.onnx.values import Value, converted, part, reshape
from anydml.torch.mapping.common import INT64, Mapping, each
from anydml.torch.mapping.reductions import reduced
from anydml.torch.mapping.shapes import joined
from anydml.torch.read import Node


def convolution(
    n: Node, x: Value, weight: Value, bias: Value, stride: Any, padding: Any, dilation: Any, transposed: bool,
    output_padding: Any, groups: int,
) -> Value:  # fmt: skip
    """CONVOLUTION with the bias: one rounding. A transposed one goes BACKWARD; additional elements are computed ones."""
    batched = x.ndim == weight.ndim
    image = x if batched else reshape(x, (1, *x.shape))
    count = image.ndim - 2
    strides, pads, dilations, more = (each(v, count) for v in (stride, padding, dilation, output_padding))
    given: dict[str, Any] = dict(strides=strides, dilations=dilations, group_count=groups)
    term = None if bias is None else reshape(bias, (1, bias.size, *[1] * count))
    if transposed:
        end = [p - o for p, o in zip(pads, more, strict=True)]
        given |= dict(
            direction="BACKWARD",
            start_padding=pads,
            end_padding=[max(e, 0) for e in end],
            output_padding=[max(-e, 0) for e in end],
        )
    else:
        given |= dict(start_padding=pads, end_padding=pads)
    made = dml.convolution(image, weight, term, **given)
    return made if batched else reshape(made, made.shape[1:])


def _flat(x: Value, count: int) -> tuple[Value, int]:
    """An image {batch, channels, ..} with at least two spatial dimensions, and how many were added."""
    wide = x if x.ndim == count + 2 else reshape(x, (1, *x.shape))
    more = max(2 - count, 0)
    return reshape(wide, (*wide.shape[:2], *[1] * more, *wide.shape[2:])), more


def _back(y: Value, x: Value, count: int) -> Value:
    """A result without the dimensions that its image gained."""
    return reshape(y, (*x.shape[: x.ndim - count], *y.shape[y.ndim - count :]))


def _past(size: int, pad: int, window: int, stride: int, dilation: int, ceil: bool) -> int:
    """Elements that ceil_mode adds behind the padding. A window that begins behind the padded input is left out."""
    reach = (window - 1) * dilation + 1
    if not ceil:
        return 0
    places = -(-(size + 2 * pad - reach) // stride) + 1
    if (places - 1) * stride >= size + pad:
        places -= 1
    return max((places - 1) * stride + reach - size - 2 * pad, 0)


def _window(x: Value, count: int, kernel: Any, stride: Any, padding: Any, dilation: Any, ceil: bool) -> dict[str, Any]:
    size, pads, dilations = each(kernel, count), each(padding, count), each(dilation, count)
    strides = each(stride, count) if not isinstance(stride, Sequence) or len(stride) else size
    sizes = x.shape[x.ndim - count :]
    past = [_past(*one, ceil) for one in zip(sizes, pads, size, strides, dilations, strict=True)]
    more = max(2 - count, 0)
    return dict(
        window_size=[*[1] * more, *size],
        strides=[*[1] * more, *strides],
        dilations=[*[1] * more, *dilations],
        start_padding=[*[0] * more, *pads],
        end_padding=[*[0] * more, *(a + b for a, b in zip(pads, past, strict=True))],
    )


def max_pool(count: int, places: bool) -> Mapping:
    """The mapping of the largest elements of windows, with their places in the image if asked for."""

    def mapping(
        n: Node, x: Value, kernel: Any, stride: Any = (), padding: Any = 0, dilation: Any = 1, ceil: bool = False
    ) -> Any:
        window = _window(x, count, kernel, stride, padding, dilation, ceil)
        image, _ = _flat(x, count)
        if not places:
            if max(window["dilations"]) == 1:
                window.pop("dilations")
                return _back(dml.max_pooling(image, **window), x, count)
            return _back(dml.max_pooling2(image, **window).output, x, count)
        used = any(user.args[1] == 1 for user in n.inner.users if len(user.args) > 1 and isinstance(user.args[1], int))
        if not used:
            return [mapping_of_values(n, x, kernel, stride, padding, dilation, ceil), None]
        largest, at = dml.max_pooling2(image, **window)
        assert at is not None  # the eager function always gives them
        plane = np.array(math.prod(x.shape[x.ndim - count :]), np.int64)  # DirectML counts places in the whole tensor
        return [_back(largest, x, count), _back(dml.element_wise_modulus_floor(converted(at, INT64), plane), x, count)]

    mapping_of_values = max_pool(count, False) if places else mapping
    return mapping


def average_pool(count: int) -> Mapping:
    """The mapping of the means of windows. Padding counts if count_include_pad says so; what ceil_mode adds never does."""

    def mapping(
        n: Node, x: Value, kernel: Any, stride: Any = (), padding: Any = 0, ceil: bool = False, counted: bool = True,
        divisor: Any = None,
    ) -> Value:  # fmt: skip
        if divisor is not None:
            raise Refused("it has a divisor_override", NOT_YET)
        window = _window(x, count, kernel, stride, padding, 1, ceil)
        image, more = _flat(x, count)
        pads = each(padding, count)
        if counted and ceil and any(pads):  # AVERAGE_POOLING would count what ceil_mode adds as well
            sides = [0, 0, *[0] * more, *pads]
            image = dml.padding1(
                image, padding_value_data_type=x.dtype, padding_value=0.0, start_padding=sides, end_padding=sides
            )
            start, end = window["start_padding"], window["end_padding"]
            window |= dict(start_padding=[0] * len(start), end_padding=[e - s for s, e in zip(start, end, strict=True)])
            counted = False
        made = dml.average_pooling1(image, **window, include_padding=counted and not ceil)
        return _back(made, x, count)

    return mapping


def adaptive_average(count: int) -> Mapping:
    """The mapping of the means of parts of an image: a REDUCE or AVERAGE_POOLING if they are equal, else a REDUCE each."""

    def mapping(n: Node, x: Value, sizes: Any) -> Value:
        wanted = [
            own if size is None else size for own, size in zip(x.shape[x.ndim - count :], each(sizes, count), strict=True)
        ]
        own = x.shape[x.ndim - count :]
        if all(size == 1 for size in wanted):
            return reduced(x, "AVERAGE", [*range(x.ndim - count, x.ndim)], True)
        if all(a % b == 0 for a, b in zip(own, wanted, strict=True)):
            step = [a // b for a, b in zip(own, wanted, strict=True)]
            return average_pool(count)(n, x, step, step)
        return _of_parts(x, wanted, "AVERAGE")

    return mapping


def _of_parts(x: Value, wanted: Sequence[int], function: str) -> Value:
    """A reduction of each of the parts that overlap, joined along the dimensions one after another."""
    first = x.ndim - len(wanted)

    def along(d: int, value: Value) -> Value:
        if d == x.ndim:
            return reduced(value, function, [*range(first, x.ndim)], True)
        size, count = x.shape[d], wanted[d - first]
        ends = [(i * size // count, -(-(i + 1) * size // count)) for i in range(count)]
        return joined([along(d + 1, part(value, [*[slice(None)] * d, slice(a, b)])) for a, b in ends], d, x.dtype)

    if math.prod(wanted) > MOST_PARTS:
        raise Refused(f"it has {math.prod(wanted)} windows of different sizes; at most {MOST_PARTS} are supported", NOT_YET)
    return along(first, x)


MOST_PARTS = 256  # windows of different sizes at most


def adaptive_max(n: Node, x: Value, sizes: Any) -> Any:
    wanted = each(sizes, 2)
    own = x.shape[-2:]
    if any(a % b for a, b in zip(own, wanted, strict=True)):
        return [_of_parts(x, wanted, "MAX"), None]
    step = [a // b for a, b in zip(own, wanted, strict=True)]
    return max_pool(2, True)(n, x, step, step)


def nearest(n: Node, x: Value, sizes: Any, *scales: Any) -> Value:
    """RESAMPLE3 to the element at floor(index / scale)."""
    return _resampled(x, sizes, scales, False, True)


def linear(n: Node, x: Value, sizes: Any, aligned: bool, *scales: Any) -> Value:
    """RESAMPLE3 with linear weights, which are exact: one rounding."""
    return _resampled(x, sizes, scales, aligned, False)


def _resampled(x: Value, sizes: Any, scales: Sequence[Any], aligned: bool, nearest: bool) -> Value:
    count = x.ndim - 2
    own = x.shape[2:]
    given: list[Any] = [None] * count
    if len(scales) == 1 and isinstance(scales[0], Sequence):
        given = [*scales[0]]
    elif len(scales) == count:
        given = [*scales]
    if sizes is None:
        wanted = [math.floor(size * scale) for size, scale in zip(own, given, strict=True)]
    else:
        wanted = list(each(sizes, count))
    if min(*own, *wanted) < 1:
        raise Refused("it has no elements to resize", INVALID)
    by = [b / a if scale is None else scale for a, b, scale in zip(own, wanted, given, strict=True)]
    if aligned:
        by = [(b - 1) / (a - 1) if a > 1 and b > 1 else 1.0 for a, b in zip(own, wanted, strict=True)]
    half = not aligned and not nearest
    moves = [a != b or s != 1 for a, b, s in zip(own, wanted, by, strict=True)]
    made = dml.resample3(
        reshape(x, (x.shape[0] * x.shape[1], *own)),
        "NEAREST_NEIGHBOR" if nearest else "LINEAR",
        "DECREASING",
        [1.0, *by],
        [0.0, *(0.5 if half and m else 0.0 for m in moves)],
        [0.0, *(-0.5 if half and m else 0.0 for m in moves)],
        output_sizes=[x.shape[0] * x.shape[1], *wanted],
    )
    return reshape(made, (*x.shape[:2], *wanted))


def patches(n: Node, x: Value, kernel: Any, dilation: Any, padding: Any, stride: Any) -> Value:
    """im2col: the windows of an image as columns."""
    image = x if x.ndim == 4 else reshape(x, (1, *x.shape))
    pads = each(padding, 2)
    made = dml.unfold(
        image, window_sizes=each(kernel, 2), strides=each(stride, 2), dilations=each(dilation, 2),
        start_padding=pads, end_padding=pads,
    )  # fmt: skip
    return made if x.ndim == 4 else reshape(made, made.shape[1:])


def folded(n: Node, x: Value, sizes: Any, kernel: Any, dilation: Any, padding: Any, stride: Any) -> Value:
    """col2im: columns added up at the places of their windows."""
    columns = x if x.ndim == 3 else reshape(x, (1, *x.shape))
    window, pads = each(kernel, 2), each(padding, 2)
    made = dml.fold(
        columns, window_sizes=window, strides=each(stride, 2), dilations=each(dilation, 2), start_padding=pads,
        end_padding=pads, output_sizes=(columns.shape[0], columns.shape[1] // math.prod(window), *sizes),
    )  # fmt: skip
    return made if x.ndim == 3 else reshape(made, made.shape[1:])


TABLE: dict[str, Mapping] = {
    "aten._adaptive_avg_pool2d.default": adaptive_average(2),
    "aten._adaptive_avg_pool3d.default": adaptive_average(3),
    "aten.adaptive_avg_pool1d.default": adaptive_average(1),
    "aten.adaptive_avg_pool2d.default": adaptive_average(2),
    "aten.adaptive_avg_pool3d.default": adaptive_average(3),
    "aten.adaptive_max_pool2d.default": adaptive_max,
    "aten.avg_pool1d.default": average_pool(1),
    "aten.avg_pool2d.default": average_pool(2),
    "aten.avg_pool3d.default": average_pool(3),
    "aten.col2im.default": folded,
    "aten.convolution.default": convolution,
    "aten.im2col.default": patches,
    "aten.max_pool1d.default": max_pool(1, False),
    "aten.max_pool2d.default": max_pool(2, False),
    "aten.max_pool2d_with_indices.default": max_pool(2, True),
    "aten.max_pool3d.default": max_pool(3, False),
    "aten.max_pool3d_with_indices.default": max_pool(3, True),
    "aten.upsample_bilinear2d.vec": linear,
    "aten.upsample_linear1d.default": linear,
    "aten.upsample_linear1d.vec": linear,
    "aten.upsample_nearest1d.default": nearest,
    "aten.upsample_nearest1d.vec": nearest,
    "aten.upsample_nearest2d.default": nearest,
    "aten.upsample_nearest2d.vec": nearest,
    "aten.upsample_nearest3d.default": nearest,
    "aten.upsample_nearest3d.vec": nearest,
    "aten.upsample_trilinear3d.default": linear,
    "aten.upsample_trilinear3d.vec": linear,
}
