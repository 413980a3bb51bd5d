"""DML_OPERATOR_UNFOLD: the positions of a window laid out as columns.

Source: ns-directml-dml_unfold_operator_desc.
"""

from __future__ import annotations

import math

from anydml.operators.shared.vocabulary import *
from anydml.spelling import snake_case

BOTH = "InputTensor OutputTensor"
COUNT = "The number of spatial dimensions, and of entries of the arrays."
WINDOW_SIZES, STRIDES = "Elements of a window.", "Elements from one window to the next."
DILATIONS = "Elements of the image from one element of a window to the next."
START_PADDING = "Elements before the image, for windows to begin in."
END_PADDING = "Elements after the image, for windows to end in."
ARRAYS = ("window_sizes", "strides", "dilations", "start_padding", "end_padding")
EAGER = defaults(
    **{
        name: (words, lambda d, n=n: (n,) * len(d.window_sizes))
        for name, words, n in (
            ("strides", "ones", 1), ("dilations", "ones", 1), ("start_padding", "zeros", 0), ("end_padding", "zeros", 0),
        )
    }
)  # fmt: skip
ERRATA = (
    "The page asks for equal dimension counts, which its own examples do not have: columns have three, an image as many more "
    "than two as there are spatial ones.",
    "The table has no data types: those of 8 bits and more are taken (our decision).",
    "The page does not say what strides, dilations and windows are legal: those of at least 1, and windows that have a place "
    "(our decision).",
)


def blocks(d: Any, spatial: Sequence[int]) -> tuple[int, ...]:
    """The number of positions of the window along each dimension of an image; ValueError if there is none."""
    if len({len(spatial), *(len(getattr(d, name)) for name in ARRAYS)}) > 1:
        raise ValueError("the arrays have other lengths")
    if min(*d.window_sizes, *d.strides, *d.dilations) < 1:
        raise ValueError("another rule is broken, so that no sizes follow")
    found = tuple(
        (size + start + end - dilation * (window - 1) - 1) // stride + 1
        for size, window, stride, dilation, start, end in zip(
            spatial, d.window_sizes, d.strides, d.dilations, d.start_padding, d.end_padding, strict=True
        )
    )
    if min(found) < 1:
        raise ValueError("the window has no place")
    return found


def columns(d: Any, image: tuple[int, ...]) -> tuple[int, ...]:
    """The sizes of an image's columns."""
    return image[0], image[1] * math.prod(d.window_sizes), math.prod(blocks(d, image[2:]))


def fold_rules(image: str, column: str) -> tuple[Constraint, ...]:
    """The rules of both operators: which tensor is the image, and which has its columns."""
    name = snake_case(image)

    def at_least_one(wire: str) -> Constraint:
        array = snake_case(wire)

        def zero(d: Any) -> Mapping[str, Any]:
            return {array: (0, *getattr(d, array)[1:])}

        return Constraint(
            f"{array}_not_zero", f"`{wire}` must be at least 1.", lambda d, i: getattr(d, array)[i] >= 1, each=wire, breaks=zero
        )

    def one_fewer(d: Any) -> Mapping[str, Any]:
        return {array: getattr(d, array)[1:] for array in ARRAYS} | {"dimension_count": len(d.strides) - 1}

    @constraint(
        f"The window must have a place: the spatial `{image}.Sizes` + `StartPadding` + `EndPadding` must be at least 1 + "
        "(`WindowSizes` - 1) * `Dilations`.",
        each="WindowSizes",
        breaks=lambda d: {"window_sizes": (99, *d.window_sizes[1:])},
    )
    def window_has_a_place(d: Any, i: int) -> bool:
        if d.window_sizes[i] < 1 or d.dilations[i] < 1:
            raise ValueError("another rule is broken")
        padded = getattr(d, name).sizes[i + 2] + d.start_padding[i] + d.end_padding[i]
        return bool(padded >= 1 + (d.window_sizes[i] - 1) * d.dilations[i])

    @constraint(
        f"`DimensionCount` must be at least 1, and equal `{image}.DimensionCount` - 2.",
        expected=lambda d: {"DimensionCount": getattr(d, name).dimension_count - 2},
        breaks=one_fewer,
    )
    def dimension_count_is_spatial(d: Any) -> bool:
        return bool(1 <= d.dimension_count == getattr(d, name).dimension_count - 2)

    def sizes(d: Any) -> tuple[int, ...]:
        return columns(d, getattr(d, name).sizes)

    return (
        dimension_count_is_spatial,
        *map(at_least_one, ("WindowSizes", "Strides", "Dilations")),
        window_has_a_place,
        sizes_are(
            column,
            f"`{column}.Sizes` must be {{BatchCount, ChannelCount * elements of a window, places of the window}}, as "
            f"`{image}.Sizes`, `WindowSizes`, `Strides`, `Dilations`, `StartPadding` and `EndPadding` have them.",
            sizes,
        ),
    )


def float32(*sizes: int) -> TensorDesc:
    return TensorDesc(DataType.FLOAT32, sizes)


def count(*sizes: int) -> NDArray[Any]:
    """0, 1, 2, .. in this order."""
    return np.arange(math.prod(sizes), dtype=np.float32).reshape(sizes)


def square(**others: Any) -> dict[str, Any]:
    """The arrays of the examples: a window of 3 x 3."""
    ones, zeros = dict.fromkeys(("strides", "dilations"), (1, 1)), dict.fromkeys(("start_padding", "end_padding"), (0, 0))
    return dict(window_sizes=(3, 3)) | ones | zeros | others


@operator("DML_OPERATOR_UNFOLD", 177, since=FeatureLevel.FL_6_4)
class Unfold(Desc):
    """Copies the elements of each position of a window to a column: Output[n, c * K + k, b] = Input[n, c, p].

    Here p = b * Stride + k * Dilation - StartPadding, where b is a position of the window and k one of its K elements, each
    counted in row-major order. Elements outside of the input are 0. Bits are copied unchanged.
    """

    input_tensor: TensorDesc = field.input("InputTensor", "The image, {BatchCount, ChannelCount, ..}.")
    output_tensor: TensorDesc = field.output("OutputTensor", "The columns, {BatchCount, ChannelCount * K, places}.")
    dimension_count: int | None = field.count("DimensionCount", COUNT, default=None)
    window_sizes: tuple[int, ...] = field.attribute("WindowSizes", field.UINT, WINDOW_SIZES, sized_by="DimensionCount")
    strides: tuple[int, ...] = field.attribute("Strides", field.UINT, STRIDES, sized_by="DimensionCount")
    dilations: tuple[int, ...] = field.attribute("Dilations", field.UINT, DILATIONS, sized_by="DimensionCount")
    start_padding: tuple[int, ...] = field.attribute("StartPadding", field.UINT, START_PADDING, sized_by="DimensionCount")
    end_padding: tuple[int, ...] = field.attribute("EndPadding", field.UINT, END_PADDING, sized_by="DimensionCount")

    eager = EAGER

    eight_bit_floats = BOTH
    rows = (support("6_4", "InputTensor", (3, 8), ELEVEN), support("6_4", "OutputTensor", (3, 3), ELEVEN))
    same = same("DataType", BOTH)
    folding = fold_rules("InputTensor", "OutputTensor")

    def outputs(d) -> Outputs:
        return {"output_tensor": (columns(d, d.input_tensor.sizes), d.input_tensor.data_type)}

    def statement(d, x: Tensor) -> Nest:
        n, r, b = i = each(d.output_tensor.sizes)
        length = math.prod(d.window_sizes)
        element, place = unraveled(r % length, d.window_sizes), unraveled(b, blocks(d, x.sizes[2:]))
        at: list[Expr] = [
            o * stride + k * dilation - start
            for o, k, stride, dilation, start in zip(place, element, d.strides, d.dilations, d.start_padding, strict=True)
        ]
        return move(i, x.or_else([n, r // length, *at], 0))

    examples = (
        Example(
            "Page: places of 3 x 3 in 5 x 5",
            dict(input_tensor=float32(1, 1, 5, 5), output_tensor=float32(1, 9, 9)) | square(),
            dict(input_tensor=count(1, 1, 5, 5)),
            np.array([[[10 * (b // 3) // 2 + b % 3 + 5 * (k // 3) + k % 3 for b in range(9)] for k in range(9)]], np.float32),
        ),
        Example(
            "A line with padding",
            dict(
                input_tensor=float32(1, 1, 3), output_tensor=float32(1, 2, 4),
                window_sizes=(2,), strides=(1,), dilations=(1,), start_padding=(1,), end_padding=(1,),
            ),
            dict(input_tensor=np.array([[[1, 2, 3]]], np.float32)),
            np.array([[[0, 1, 2, 3], [1, 2, 3, 0]]], np.float32),
        ),
    )  # fmt: skip
    rejecting = ()
    errata = ("Example 2 is titled as one of FOLD.", *ERRATA)
