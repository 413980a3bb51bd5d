"""Windows that slide over the spatial dimensions of a tensor: the rules, output sizes and statements of pooling.

A desc has InputTensor and OutputTensor, {BatchCount, ChannelCount, [Depth,] Height, Width}, and for each spatial dimension
Strides, WindowSize, StartPadding, EndPadding and, unless it is an older version, Dilations.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import reduce
from typing import Any

from anydml.schema.constraint import Constraint
from anydml.schema.expression import Indices, Sum, both, equal, maximum
from anydml.schema.node import Expr
from anydml.schema.operator import Outputs, defaults
from anydml.spelling import snake_case

COUNT = "The number of spatial dimensions, and of entries of the arrays."
STRIDES = "Elements from one window to the next."
WINDOW_SIZE = "Elements of a window."
START_PADDING = "Elements of padding before the input."
END_PADDING = "Elements of padding after the input."
DILATIONS = "Elements of the input from one element of a window to the next."

WINDOW_ERRATA = (
    "The text has the field WindowSize; the formula of the output's sizes spells it WindowSizes.",
    "The layout of five dimensions ends in Weight; it is Width.",
    "The page rounds the output's sizes down. Sizes rounded up are legal too, since clients use them for ONNX's ceil_mode, and "
    "a window longer than the padded input gives one output (our decision).",
    "The page does not say which strides and windows are legal: those of at least 1 (our decision).",
)
DILATED_ERRATA = (
    "The formula of the output's sizes leaves Dilations out; a window extends over 1 + (WindowSize - 1) * Dilation elements.",
)

_ARRAYS = ("strides", "window_size", "start_padding", "end_padding", "dilations")


def _each_spatial(n: int, tensor: str) -> Callable[[Any], tuple[int, ...]]:
    return lambda d: (n,) * (getattr(d, tensor).dimension_count - 2)


def window_defaults(tensor: str = "input_tensor", *, dilated: bool = False) -> Any:
    """The `eager` of an operator with windows; tensor: an input with the spatial dimensions."""
    ones, zeros = ("ones", _each_spatial(1, tensor)), ("zeros", _each_spatial(0, tensor))
    made = defaults(strides=ones, start_padding=zeros, end_padding=zeros)
    return {**made, **defaults(dilations=ones)} if dilated else made


EAGER, DILATED = window_defaults(), window_defaults(dilated=True)


def undilated(d: Any) -> Mapping[str, Any]:
    """The arrays of an older version's desc, as the newest version has them."""
    arrays = {name: getattr(d, name) for name in ("dimension_count", *_ARRAYS[:4])}
    return arrays | {"dilations": (1,) * len(d.strides)}


# --- sizes ---


def _room(d: Any, i: int, image: str, *, dilated: bool) -> int:
    """The number of elements by which a window can move in the padded input along a dimension; negative if it is too long."""
    padded = getattr(d, image).sizes[i + 2] + d.start_padding[i] + d.end_padding[i]
    room: int = padded - 1 - (d.window_size[i] - 1) * (d.dilations[i] if dilated else 1)
    return room


def output_range(d: Any, i: int, *, dilated: bool = True, image: str = "input_tensor") -> range:
    """The sizes that the output may have along a spatial dimension: rounded down or up, and at least 1."""
    room, stride = _room(d, i, image, dilated=dilated), d.strides[i]
    return range(max(1 + room // stride, 1), max(1 - -room // stride, 1) + 1)


def pooled_sizes(d: Any, *, dilated: bool = True) -> tuple[int, ...]:
    """The output's sizes, rounded down."""
    spatial = (output_range(d, i, dilated=dilated)[0] for i in range(len(d.strides)))
    return (*d.input_tensor.sizes[:2], *spatial)


def pooled(d: Any) -> Outputs:
    """The `outputs` of a pooling operator with one output."""
    return {"output_tensor": (pooled_sizes(d, dilated=hasattr(d, "dilations")), d.input_tensor.data_type)}


# --- rules ---


def _resized(d: Any, name: str, sizes: tuple[int, ...]) -> Mapping[str, Any]:
    """Changed sizes for a tensor, or for all outputs if it is one of them."""
    names = [f.name for f in d.spec.outputs]
    there = [(n, getattr(d, n)) for n in (names if name in names else [name])]
    return {n: replace(t, sizes=sizes, strides=None) for n, t in there if t is not None}


def _at_least_one(field: str, name: str) -> Constraint:
    array = {"Strides": "strides", "WindowSize": "window_size", "Dilations": "dilations"}[field]
    return Constraint(
        name,
        f"`{field}` must be at least 1.",
        lambda d, i: getattr(d, array)[i] >= 1,
        each=field,
        breaks=lambda d: {array: (0, *getattr(d, array)[1:])},
    )


def window_rules(*, dilated: bool = True, image: str = "InputTensor", output: str = "OutputTensor") -> tuple[Constraint, ...]:
    """The rules of windows; dilated: whether there are Dilations.

    image: the tensor that windows slide over; output: the tensor with an element for each window.
    """
    x, y = snake_case(image), snake_case(output)

    def one_fewer(d: Any) -> Mapping[str, Any]:
        arrays = {name: getattr(d, name)[1:] for name in _ARRAYS[: 5 if dilated else 4]}
        return arrays | {"dimension_count": len(d.strides) - 1}

    def one_more(d: Any) -> Mapping[str, Any]:
        largest = output_range(d, len(d.strides) - 1, dilated=dilated, image=x)[-1]
        return _resized(d, y, (*getattr(d, y).sizes[:-1], largest + 1))

    def follows(d: Any, i: int) -> bool:
        if d.window_size[i] < 1 or (dilated and d.dilations[i] < 1):
            raise ValueError("another rule is broken, so that no output size follows")
        if len(getattr(d, y).sizes) != len(getattr(d, x).sizes):
            raise ValueError("the rule about dimension counts is broken, so that sizes cannot be compared")
        return getattr(d, y).sizes[i + 2] in output_range(d, i, dilated=dilated, image=x)

    extent = "(`WindowSize` - 1) * `Dilations`" if dilated else "(`WindowSize` - 1)"
    return (
        Constraint(
            "dimension_count_is_spatial",
            f"`DimensionCount` must equal `{image}.DimensionCount` - 2.",
            lambda d: d.dimension_count == getattr(d, x).dimension_count - 2,
            expected=lambda d: {"DimensionCount": getattr(d, x).dimension_count - 2},
            breaks=one_fewer,
        ),
        _at_least_one("Strides", "stride_not_zero"),
        _at_least_one("WindowSize", "window_not_empty"),
        *((_at_least_one("Dilations", "dilation_not_zero"),) if dilated else ()),
        Constraint(
            "batch_and_channels_match",
            f"`{output}.Sizes` must begin as `{image}.Sizes`, with BatchCount and ChannelCount.",
            lambda d: getattr(d, y).sizes[:2] == getattr(d, x).sizes[:2],
            expected=lambda d: {f"{output}.Sizes": (*getattr(d, x).sizes[:2], *getattr(d, y).sizes[2:])},
            breaks=lambda d: _resized(d, y, (getattr(d, y).sizes[0] + 1, *getattr(d, y).sizes[1:])),
        ),
        Constraint(
            "output_sizes",
            f"The spatial `{output}.Sizes` must be 1 + (`{image}.Sizes` + `StartPadding` + `EndPadding` - 1 - "
            f"{extent}) / `Strides`, rounded down or up, and at least 1.",
            follows,
            each="Strides",
            expected=lambda d, i: {f"{output}.Sizes[{i + 2}]": output_range(d, i, dilated=dilated, image=x)},
            breaks=one_more,
        ),
    )


# --- statements ---


def positions(d: Any, o: Sequence[Expr], k: Sequence[Expr]) -> list[Expr]:
    """The indices in the input's spatial dimensions of a window's element: o * Stride + k * Dilation - StartPadding."""
    window = zip(o, k, d.strides, dilations(d), d.start_padding, strict=True)
    return [p * stride + u * dilation - start for p, u, stride, dilation, start in window]


def dilations(d: Any) -> Sequence[Any]:
    """The dilations of a desc; ones if it has none."""
    return getattr(d, "dilations", (1,) * len(d.strides))


def places(d: Any, p: Sequence[Expr], k: Sequence[Expr], sizes: Sequence[Any]) -> tuple[list[Expr], Expr]:
    """The index of the window whose element k is at indices p, and whether there is such a window; sizes: of the windows."""
    at: list[Expr] = []
    met: list[Expr] = []
    for o, u, size, stride, dilation, start in zip(p, k, sizes, d.strides, dilations(d), d.start_padding, strict=True):
        steps = o + start - u * dilation
        place = steps // stride
        at.append(place)
        met += [equal(steps % stride, 0)] if stride > 1 else []
        met += [place >= 0, place < size]
    return at, reduce(both, met)


def inside(at: Sequence[Expr], sizes: Sequence[Any]) -> Expr:
    """Whether indices are inside a tensor of these sizes."""
    return reduce(both, [end for p, size in zip(at, sizes, strict=True) for end in (p >= 0, p < size)])


def divisor(d: Any, k: Indices, at: Sequence[Expr], sizes: Sequence[Any]) -> Expr:
    """The number of elements in an average: those in the input, or in the padded input; 1 if there are none.

    sizes: the input's spatial sizes.
    """
    if d.include_padding:  # no window begins before the start
        counted = reduce(both, [p < size + end for p, size, end in zip(at, sizes, d.end_padding, strict=True)])
    else:
        counted = inside(at, sizes)
    return maximum(Sum(k, 1, counted), 1)
