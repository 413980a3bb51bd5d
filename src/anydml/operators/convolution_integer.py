"""DML_OPERATOR_CONVOLUTION_INTEGER: the convolution of 8-bit integers, in INT32.

Source: ns-directml-dml_convolution_integer_operator_desc.
"""

from __future__ import annotations

from dataclasses import replace

from anydml.operators.convolution import Convolution, channel, extent, padded, positions, window
from anydml.operators.shared.vocabulary import *
from anydml.spelling import snake_case

DATA = "InputTensor FilterTensor OutputTensor"


def uint8(*sizes: int) -> TensorDesc:
    return TensorDesc(DataType.UINT8, sizes)


def int8(*sizes: int) -> TensorDesc:
    return TensorDesc(DataType.INT8, sizes)


def int32(*sizes: int) -> TensorDesc:
    return TensorDesc(DataType.INT32, sizes)


def channel_place(count: int) -> int:
    """The channel dimension of a tensor with one element for each channel, by its dimension count."""
    return min(1, count - 1)


def by_channel(wire: str) -> Constraint:
    """The rule of a scale or zero point: of the whole filter, or one for each output channel."""
    name = snake_case(wire)

    def finest(d: Any) -> tuple[int, ...]:
        count = len(getattr(d, name).sizes)
        return tuple(d.output_tensor.sizes[1] if a == channel_place(count) else 1 for a in range(count))

    def fits(d: Any) -> bool:
        t = getattr(d, name)
        return t is None or t.sizes.count(1) == len(t.sizes) or t.sizes == finest(d)

    def more(d: Any) -> Mapping[str, Any]:
        t = getattr(d, name)
        at = channel_place(len(t.sizes))
        return {name: replace(t, sizes=(*t.sizes[:at], d.output_tensor.sizes[1] + 1, *t.sizes[at + 1 :]), strides=None)}

    return Constraint(
        f"{name.removesuffix('_tensor')}_sizes",
        f"`{wire}.Sizes` must be all 1, or equal OutputChannelCount, the second of `OutputTensor.Sizes`, in the second place "
        "alone; of one dimension, in that.",
        fits,
        expected=lambda d: {f"{wire}.Sizes": list(dict.fromkeys([(1,) * len(getattr(d, name).sizes), finest(d)]))},
        breaks=more,
    )


def of_channel(t: Tensor, m: Expr) -> Expr:
    """The element of a scale or zero point for an output channel."""
    place = channel_place(len(t.sizes))
    return t[[m if a == place and n != 1 else 0 for a, n in enumerate(t.sizes)]]


def convolved(
    d: Any, i: Indices, x: Tensor, x_zero_point: Tensor | None, filters: Tensor, filter_zero_point: Tensor | None
) -> Expr:
    """The sum of (Input - InputZeroPoint) * (Filter - FilterZeroPoint) over a group's channels and the filter's positions."""
    n, m, *o = i
    c, *k = terms = each((x.sizes[1] // d.group_count, *filters.sizes[2:]), "cuvw")
    read = x.skipped([n, channel(d, m, c, d.output_tensor.sizes[1] // d.group_count), *window(d, o, k)])
    weight = filters[[m, c, *k]]
    if x_zero_point is not None:
        read = read - x_zero_point[[0] * len(x_zero_point.sizes)]
    if filter_zero_point is not None:
        weight = weight - of_channel(filter_zero_point, m)
    return Sum(terms, read * weight)


def window_fields(size: int, rank: int = 4) -> dict[str, Any]:
    """The tensors of an example with one channel and a filter of 2 in every spatial dimension."""
    spatial = rank - 2
    return dict(
        input_tensor=uint8(1, 1, *(3,) * spatial), input_zero_point_tensor=uint8(1), filter_tensor=uint8(1, 1, *(2,) * spatial),
        filter_zero_point_tensor=uint8(1), output_tensor=int32(1, 1, *(size,) * spatial), strides=(1,) * spatial,
        dilations=(1,) * spatial,
    )  # fmt: skip


PADDED = dict(start_padding=(1, 1), end_padding=(1, 1))
UNPADDED = dict(start_padding=(0, 0), end_padding=(0, 0))
NINE = dict(
    input_tensor=np.arange(2, 11, dtype=np.uint8).reshape(1, 1, 3, 3), input_zero_point_tensor=np.array([1], np.uint8),
    filter_tensor=np.ones((1, 1, 2, 2), np.uint8), filter_zero_point_tensor=np.array([0], np.uint8),
)  # fmt: skip


@operator("DML_OPERATOR_CONVOLUTION_INTEGER", 119, since=FeatureLevel.FL_2_1)
class ConvolutionInteger(Desc):
    """Convolves 8-bit integers with filters, in groups: Output = sum of (Input - InputZeroPoint) * (Filter - FilterZeroPoint).

    Output[n, m, o] sums over the positions k of the filter and the channels c of m's group, with Input at o * Stride +
    k * Dilation - StartPadding. Elements outside of the input are left out, as if they were the zero point. An absent zero
    point is 0. Sums outside of INT32 wrap modulo 2^32.
    """

    input_tensor: TensorDesc = field.input("InputTensor", "{BatchCount, InputChannelCount, [Height,] Width}.")
    input_zero_point_tensor: TensorDesc | None = field.input(
        "InputZeroPointTensor", "The input's zero point, one element.", default=None
    )
    filter_tensor: TensorDesc = field.input(
        "FilterTensor", "{OutputChannelCount, InputChannelCount / GroupCount, [FilterHeight,] FilterWidth}."
    )
    filter_zero_point_tensor: TensorDesc | None = field.input(
        "FilterZeroPointTensor", "The filter's zero point; {1, OutputChannelCount, 1, 1} per output channel.", default=None
    )
    output_tensor: TensorDesc = field.output("OutputTensor", "{BatchCount, OutputChannelCount, [OutputHeight,] OutputWidth}.")
    dimension_count: int | None = field.count(
        "DimensionCount", "The number of spatial dimensions, and of entries of the arrays.", default=None
    )
    strides: tuple[int, ...] = field.attribute(
        "Strides", field.UINT, "Elements from one position of the filter to the next.", sized_by="DimensionCount"
    )
    dilations: tuple[int, ...] = field.attribute(
        "Dilations", field.UINT, "Elements from one element of the filter to the next.", sized_by="DimensionCount"
    )
    start_padding: tuple[int, ...] = field.attribute(
        "StartPadding", field.UINT, "Elements of padding before the input, which add nothing.", sized_by="DimensionCount"
    )
    end_padding: tuple[int, ...] = field.attribute(
        "EndPadding", field.UINT, "Elements of padding after the input, which add nothing.", sized_by="DimensionCount"
    )
    group_count: int = field.attribute("GroupCount", field.UINT, "Groups that the channels are divided into.", default=1)

    eager = defaults(**{name: Convolution.eager[name] for name in ("strides", "dilations", "start_padding", "end_padding")})

    rows = (
        support("2_1", "InputTensor InputZeroPointTensor FilterTensor FilterZeroPointTensor", (4, 4), EIGHT_BIT),
        support("2_1", "OutputTensor", (4, 4), (DataType.INT32,)),
        support("4_0", "InputTensor FilterTensor", (3, 4), EIGHT_BIT),
        support("4_0", "InputZeroPointTensor FilterZeroPointTensor", (1, 4), EIGHT_BIT),
        support("4_0", "OutputTensor", (3, 4), (DataType.INT32,)),
    )
    same_input = same("DataType", "InputTensor InputZeroPointTensor", name="input")
    same_filter = same("DataType", "FilterTensor FilterZeroPointTensor", name="filter")
    same_zero_points = same("DimensionCount", "InputZeroPointTensor FilterZeroPointTensor", name="zero_point")
    same = same("DimensionCount", DATA)
    single = single_element("InputZeroPointTensor")
    filter_zero_point_sizes = by_channel("FilterZeroPointTensor")

    dimension_count_is_spatial = Convolution.dimension_count_is_spatial
    stride_not_zero = Convolution.stride_not_zero
    dilation_not_zero = Convolution.dilation_not_zero
    group_count_not_zero = Convolution.group_count_not_zero
    batch_sizes_match = Convolution.batch_sizes_match
    group_count_divides = Convolution.group_count_divides

    @constraint(
        "`FilterTensor.Sizes` must begin with OutputChannelCount, the second of `OutputTensor.Sizes`, and InputChannelCount, "
        "the second of `InputTensor.Sizes`, divided by `GroupCount`."
    )
    def channels_match(d) -> bool:
        if d.group_count < 1:
            raise ValueError("there are no groups")
        written, of_group = d.filter_tensor.sizes[:2]
        return written == d.output_tensor.sizes[1] and of_group * d.group_count == d.input_tensor.sizes[1]

    @constraint(
        "The padded input must have room for the filter: the spatial `InputTensor.Sizes` + `StartPadding` + `EndPadding` are "
        "at least 1 + (`FilterTensor.Sizes` - 1) * `Dilations`.",
        each="Strides",
    )
    def filter_fits(d, i: int) -> bool:
        return extent(d, i) <= padded(d, i)

    @constraint(
        "The spatial `OutputTensor.Sizes` must be those that follow from `InputTensor.Sizes`, `FilterTensor.Sizes`, `Strides`, "
        "`Dilations`, `StartPadding` and `EndPadding`.",
        each="Strides",
        expected=lambda d, i: {f"OutputTensor.Sizes[{i + 2}]": positions(d, i)},
    )
    def output_sizes(d, i: int) -> bool:
        if d.dilations[i] < 1 or len(d.output_tensor.sizes) != len(d.input_tensor.sizes):
            raise ValueError("another rule is broken, so that no output size follows")
        if extent(d, i) > padded(d, i):
            raise ValueError("the filter does not fit, so that no output size follows")
        return d.output_tensor.sizes[i + 2] == positions(d, i)

    def outputs(d) -> Outputs:
        spatial = (positions(d, i) for i in range(len(d.strides)))
        return {"output_tensor": ((d.input_tensor.sizes[0], d.filter_tensor.sizes[0], *spatial), DataType.INT32)}

    def statement(d, x: Tensor, x_zero_point: Tensor | None, filters: Tensor, filter_zero_point: Tensor | None) -> Nest:
        i = each(d.output_tensor.sizes)
        return nest(i, convolved(d, i, x, x_zero_point, filters, filter_zero_point))

    examples = (
        Example(
            "ONNX's ConvInteger",
            window_fields(2) | UNPADDED,
            NINE,
            np.array([[[[12, 16], [24, 28]]]], np.int32),
        ),
        Example(
            "Padding is no term, so it counts as the zero point, not as 0",
            window_fields(4) | PADDED,
            NINE,
            np.array([[[[1, 3, 5, 3], [5, 12, 16, 9], [11, 24, 28, 15], [7, 15, 17, 9]]]], np.int32),
        ),
        Example(
            "Two groups, a zero point for each output channel, every second position, and a filter spread out",
            dict(
                input_tensor=int8(1, 2, 1, 5), filter_tensor=uint8(2, 1, 1, 2), filter_zero_point_tensor=uint8(1, 2, 1, 1),
                output_tensor=int32(1, 2, 1, 2), strides=(1, 2), dilations=(1, 2), **UNPADDED, group_count=2,
            ),
            dict(
                input_tensor=np.array([[[[1, 2, 3, 4, 5]], [[-1, -2, -3, -4, -5]]]], np.int8),
                filter_tensor=np.array([[[[1, 2]]], [[[3, 4]]]], np.uint8),
                filter_zero_point_tensor=np.array([[[[0]], [[3]]]], np.uint8),
            ),
            np.array([[[[7, 13]], [[-3, -5]]]], np.int32),
        ),
        Example(
            "One spatial dimension",
            window_fields(2, 3) | dict(start_padding=(0,), end_padding=(0,)),
            dict(
                input_tensor=np.array([[[1, 2, 4]]], np.uint8), input_zero_point_tensor=np.array([2], np.uint8),
                filter_tensor=np.array([[[3, 5]]], np.uint8), filter_zero_point_tensor=np.array([4], np.uint8),
            ),
            np.array([[[1, 2]]], np.int32),
        ),
    )  # fmt: skip
    rejecting = (
        rejects("dimension_count_supported", at=FeatureLevel.FL_3_1),
        rejects("same_dimension_count", output_tensor=int32(1, 1, 2)),
        rejects("dimension_count_is_spatial", dimension_count=1, strides=(1,), dilations=(1,), start_padding=(0,),
                end_padding=(0,)),
        rejects("stride_not_zero", strides=(0, 1)),
        rejects("dilation_not_zero", dilations=(1, 0)),
        rejects("batch_sizes_match", output_tensor=int32(2, 1, 2, 2)),
        rejects("channels_match", input_tensor=uint8(1, 2, 3, 3)),
        rejects("group_count_divides", group_count=2, input_tensor=uint8(1, 2, 3, 3)),
        rejects("filter_fits", filter_tensor=uint8(1, 1, 2, 4)),
        rejects("output_sizes", output_tensor=int32(1, 1, 2, 3)),
    )  # fmt: skip
    errata = (
        "The page does not print the formula of the output's sizes; DirectML's helper library has it.",
        "The table of 4_0 has three dimensions, the text only a DimensionCount of 2; it is 1 there (our decision).",
        "The page says that paddings apply to the filter, too; they apply to the input alone.",
        "The page does not say what padding stands for; it adds nothing, as in ONNX (our decision).",
        "The page does not say how zero points of fewer than four dimensions lie: the channels are in the second, of one "
        "dimension in that (our decision).",
        "The page does not say what becomes of a sum that INT32 lacks; it wraps modulo 2^32 (our decision).",
        "The page does not say what groups, strides and dilations are legal: those of at least 1 (our decision).",
    )
