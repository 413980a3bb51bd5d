"""Windows that slide over images: convolutions and pooling, with ONNX's padding."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from anydml.functional import functions as dml
from anydml.onnx.errors import INVALID, NOT_IN_DIRECTML, Refused
from anydml.onnx.nodes import Node
from anydml.onnx.values import Value, ints, known, reshape

SAME = ("SAME_UPPER", "SAME_LOWER")


class Window(NamedTuple):
    """A window, with an entry for each spatial dimension. past: the elements that ceil_mode adds after the end padding."""

    size: tuple[int, ...]
    strides: tuple[int, ...]
    dilations: tuple[int, ...]
    start: tuple[int, ...]
    end: tuple[int, ...]
    past: tuple[int, ...]

    def flat(self, count: int) -> Window:
        """The same window with leading dimensions of size 1, so that there are `count`."""
        more = count - len(self.size)
        return Window(*((one,) * more + field for one, field in zip((1, 1, 1, 0, 0, 0), self, strict=True)))


def spatial(n: Node, name: str, count: int, default: int) -> tuple[int, ...]:
    """An attribute with an entry for each spatial dimension."""
    if count < 1:
        raise Refused("its input has no spatial dimensions", INVALID)
    given = tuple(n.get(name, (default,) * count))
    if len(given) != count:
        raise Refused(f"{name} has {len(given)} entries for {count} spatial dimensions", INVALID)
    return given


def auto_pad(n: Node) -> str:
    """The attribute auto_pad. As in onnxruntime, an empty text is NOTSET."""
    mode: str = n.get("auto_pad", "") or "NOTSET"
    if mode not in ("NOTSET", "VALID", *SAME):
        raise Refused(f"its auto_pad is {mode!r}", INVALID)
    return mode


def window_of(n: Node, sizes: Sequence[int], kernel: Sequence[int]) -> Window:
    """The window of a node over spatial sizes, with its padding computed."""
    count = len(sizes)
    if len(kernel) != count:
        raise Refused(f"the window has {len(kernel)} dimensions, and the input {count} spatial ones", INVALID)
    strides, dilations = spatial(n, "strides", count, 1), spatial(n, "dilations", count, 1)
    if min((*strides, *dilations, *kernel), default=1) < 1:
        raise Refused("strides, dilations and window sizes must be at least 1", INVALID)
    reach = [(k - 1) * d + 1 for k, d in zip(kernel, dilations, strict=True)]
    mode = auto_pad(n)
    pads = spatial(n, "pads", 2 * count, 0) if mode == "NOTSET" else (0,) * 2 * count
    start, end, past = list(pads[:count]), list(pads[count:]), [0] * count
    for i, (size, step, span) in enumerate(zip(sizes, strides, reach, strict=True)):
        if mode in SAME:
            total = max((-(-size // step) - 1) * step + span - size, 0)
            start[i] = total // 2 if mode == "SAME_UPPER" else total - total // 2
            end[i] = total - start[i]
        elif n.get("ceil_mode", 0):
            padded = size + start[i] + end[i]
            places = -(-(padded - span) // step) + 1
            if (places - 1) * step >= size + start[i]:
                places -= 1  # a window that begins after the input is left out
            past[i] = max((places - 1) * step + span - padded, 0)
    if min(*start, *end, 0) < 0:
        raise Refused("its padding is negative")
    return Window(tuple(kernel), strides, dilations, tuple(start), tuple(end), tuple(past))


def conv(n: Node, x: Value, w: Value, b: Value = None) -> Value:
    found = window_of(n, x.shape[2:], filtered(n, w))
    return dml.convolution(x, w, channels(b, x.ndim), **convolved(found), group_count=n.get("group", 1))


def filtered(n: Node, w: Value) -> tuple[int, ...]:
    """The spatial sizes of the filters, which kernel_shape may repeat."""
    own = tuple(w.shape[2:])
    if (named := tuple(n.get("kernel_shape", own))) != own:
        raise Refused(f"its kernel_shape is {named}, and its filters have sizes {own}", INVALID)
    return own


def channels(b: Value, rank: int) -> Value:
    """A number for each channel, with the sizes of a convolution's bias."""
    if b is not None and b.ndim != 1:
        raise Refused(f"its bias has {b.ndim} dimensions, and must have one", INVALID)
    return None if b is None else reshape(b, (1, b.shape[0], *[1] * (rank - 2)))


def convolved(found: Window) -> dict[str, Any]:
    return dict(strides=found.strides, dilations=found.dilations, start_padding=found.start, end_padding=found.end)


def conv_transpose(n: Node, x: Value, w: Value, b: Value = None) -> Value:
    """A BACKWARD CONVOLUTION. output_shape and auto_pad determine the padding, which may add elements at the end."""
    count = x.ndim - 2
    strides, dilations = spatial(n, "strides", count, 1), spatial(n, "dilations", count, 1)
    more, mode = spatial(n, "output_padding", count, 0), auto_pad(n)
    reach = [(k - 1) * d + 1 for k, d in zip(filtered(n, w), dilations, strict=True)]
    whole = [(size - 1) * step + span + o for size, step, span, o in zip(x.shape[2:], strides, reach, more, strict=True)]
    pads = spatial(n, "pads", 2 * count, 0)
    start, end = list(pads[:count]), list(pads[count:])
    wanted = n.get("output_shape")
    if wanted is None and mode in SAME:
        wanted = [size * step for size, step in zip(x.shape[2:], strides, strict=True)]
    if wanted is not None:
        total = [a - b for a, b in zip(whole, wanted[-count:], strict=True)]
        start = [t // 2 if mode == "SAME_UPPER" else t - t // 2 for t in total]
        end = [t - s for t, s in zip(total, start, strict=True)]
    elif mode == "VALID":
        start, end = [0] * count, [0] * count
    end = [e - o for e, o in zip(end, more, strict=True)]  # additional elements are computed ones of which fewer are cut off
    if min(start) < 0:
        raise Refused("its padding is negative")
    return dml.convolution(
        x,
        w,
        channels(b, x.ndim),
        direction="BACKWARD",
        strides=strides,
        dilations=dilations,
        start_padding=start,
        end_padding=[max(e, 0) for e in end],
        output_padding=[max(-e, 0) for e in end],
        group_count=n.get("group", 1),
    )


def pooling(n: Node, x: Value) -> tuple[Value, Window]:
    """The image with at least two spatial dimensions, and the window over it."""
    found = window_of(n, x.shape[2:], n.get("kernel_shape", ()))
    count = max(x.ndim - 2, 2)
    return reshape(x, (*x.shape[:2], *[1] * (count - x.ndim + 2), *x.shape[2:])), found.flat(count)


def pooled(found: Window) -> dict[str, Any]:
    end = [a + b for a, b in zip(found.end, found.past, strict=True)]
    return dict(strides=found.strides, window_size=found.size, start_padding=found.start, end_padding=end)


def narrowed(y: Value, rank: int) -> Value:
    """The result without the spatial dimensions that its image gained."""
    return reshape(y, (*y.shape[:2], *y.shape[y.ndim - rank + 2 :]))


def average_pool(n: Node, x: Value) -> Value:
    """AVERAGE_POOLING1. A mean never counts elements that ceil_mode adds; padding that it counts is then added by PADDING."""
    image, found = pooling(n, x)
    counted = bool(n.get("count_include_pad", 0))
    if counted and any(found.past):
        sides = [(0, 0, *found.start), (0, 0, *found.end)]
        image = dml.padding1(
            image, padding_value_data_type=x.dtype, padding_value=0.0, start_padding=sides[0], end_padding=sides[1]
        )
        none = (0,) * len(found.size)
        counted, found = False, found._replace(start=none, end=none)
    made = dml.average_pooling1(image, **pooled(found), dilations=found.dilations, include_padding=counted)
    return narrowed(made, x.ndim)


def max_pool(n: Node, x: Value) -> Any:
    image, found = pooling(n, x)
    if not n.wants(1):
        if max(found.dilations) == 1:
            return narrowed(dml.max_pooling(image, **pooled(found)), x.ndim)
        return narrowed(dml.max_pooling2(image, **pooled(found), dilations=found.dilations).output, x.ndim)
    if n.get("storage_order", 0):
        raise Refused("it has storage_order 1, and MAX_POOLING2 counts positions in row-major order", NOT_IN_DIRECTML)
    largest, places = dml.max_pooling2(image, **pooled(found), dilations=found.dilations)
    assert places is not None  # the eager function always gives them
    return narrowed(largest, x.ndim), narrowed(dml.cast(places, output_data_type="INT64"), x.ndim)


def lp_pool(n: Node, x: Value) -> Value:
    image, found = pooling(n, x)
    return narrowed(dml.lp_pooling1(image, **pooled(found), dilations=found.dilations, p=n.get("p", 2)), x.ndim)


def over_image(function: str) -> Callable[..., Any]:
    """The mapping of a pooling whose window is the whole image."""

    def mapping(n: Node, x: Value) -> Value:
        return dml.reduce(x, function, [*range(2, x.ndim)])

    return mapping


def global_lp_pool(n: Node, x: Value) -> Value:
    p = n.get("p", 2)
    if p in (1, 2):
        return dml.reduce(x, f"L{p}", [*range(2, x.ndim)])
    count = max(x.ndim - 2, 2)
    image = reshape(x, (*x.shape[:2], *[1] * (count - x.ndim + 2), *x.shape[2:]))
    return narrowed(dml.lp_pooling(image, window_size=image.shape[2:], p=p), x.ndim)


def max_unpool(n: Node, x: Value, places: Value, sizes: Value = None) -> Value:
    """MaxUnpool: the output's sizes are an input, or follow from the attributes; positions are those in the latter sizes."""
    count = x.ndim - 2
    kernel, strides, pads = n.get("kernel_shape", ()), spatial(n, "strides", count, 1), spatial(n, "pads", 2 * count, 0)
    own = [
        (size - 1) * step + k - pads[i] - pads[i + count]
        for i, (size, step, k) in enumerate(zip(x.shape[2:], strides, kernel, strict=True))
    ]
    wanted = (*x.shape[:2], *own)
    if sizes is not None and ints(sizes) != wanted:
        wanted, inferred = ints(sizes), wanted
        rest = known(places)  # positions in the sizes that follow from the attributes
        places = np.ravel_multi_index(np.unravel_index(rest, inferred), wanted).astype(np.int64)
    flat = [reshape(v, (*v.shape[:2], *[1] * (2 - count), *v.shape[2:])) for v in (x, places.view(np.uint64))]
    made = dml.max_unpooling(*flat, output_sizes=(*wanted[:2], *[1] * (2 - count), *wanted[2:]))
    return narrowed(made, x.ndim)


def fold(n: Node, x: Value, image: Value, block: Value) -> Value:
    """Col2Im: columns of blocks, added up at their positions in the image."""
    sizes, blocks = ints(image), ints(block)
    count = len(sizes)
    pads = spatial(n, "pads", 2 * count, 0)
    return dml.fold(
        x,
        window_sizes=blocks,
        strides=spatial(n, "strides", count, 1),
        dilations=spatial(n, "dilations", count, 1),
        start_padding=pads[:count],
        end_padding=pads[count:],
        output_sizes=(x.shape[0], x.shape[1] // math.prod(blocks), *sizes),
    )


TABLE: dict[str, Callable[..., Any]] = {
    "AveragePool": average_pool,
    "Col2Im": fold,
    "Conv": conv,
    "ConvTranspose": conv_transpose,
    "GlobalAveragePool": over_image("AVERAGE"),
    "GlobalLpPool": global_lp_pool,
    "GlobalMaxPool": over_image("MAX"),
    "LpPool": lp_pool,
    "MaxPool": max_pool,
    "MaxUnpool": max_unpool,
}
