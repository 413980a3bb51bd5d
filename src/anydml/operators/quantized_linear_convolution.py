"""DML_OPERATOR_QUANTIZED_LINEAR_CONVOLUTION: the convolution of dequantized 8-bit integers, quantized again.

Source: ns-directml-dml_quantized_linear_convolution_operator_desc.
"""

from __future__ import annotations

from anydml.operators.convolution import Convolution, positions
from anydml.operators.convolution_integer import ConvolutionInteger, by_channel, convolved, of_channel
from anydml.operators.quantized_linear_matrix_multiply import QuantizedLinearMatrixMultiply
from anydml.operators.shared.vocabulary import *

DATA = "InputTensor FilterTensor OutputTensor"
ZERO_POINTS = "InputZeroPointTensor FilterZeroPointTensor OutputZeroPointTensor"
SINGLE = "InputScaleTensor InputZeroPointTensor OutputScaleTensor OutputZeroPointTensor"
INT32, FLOAT32 = (DataType.INT32,), (DataType.FLOAT32,)


def uint8(*sizes: int) -> TensorDesc:
    return TensorDesc(DataType.UINT8, sizes)


def int8(*sizes: int) -> TensorDesc:
    return TensorDesc(DataType.INT8, sizes)


def int32(*sizes: int) -> TensorDesc:
    return TensorDesc(DataType.INT32, sizes)


def float32(*sizes: int) -> TensorDesc:
    return TensorDesc(DataType.FLOAT32, sizes)


SQUARE: dict[str, Any] = dict(
    input_tensor=uint8(1, 1, 2, 2), input_scale_tensor=float32(1), input_zero_point_tensor=uint8(1),
    filter_tensor=int8(1, 1, 2, 2), filter_scale_tensor=float32(1), filter_zero_point_tensor=int8(1),
    bias_tensor=int32(1, 1, 1, 1), output_scale_tensor=float32(1), output_zero_point_tensor=uint8(1),
    output_tensor=uint8(1, 1, 2, 2), strides=(1, 1), dilations=(1, 1), start_padding=(1, 1), end_padding=(0, 0),
)  # fmt: skip
SQUARE_DATA: dict[str, Any] = dict(
    input_tensor=np.array([[[[130, 128], [126, 140]]]], np.uint8), input_scale_tensor=np.array([0.5], np.float32),
    input_zero_point_tensor=np.array([128], np.uint8), filter_tensor=np.array([[[[1, -2], [3, 4]]]], np.int8),
    filter_scale_tensor=np.array([0.25], np.float32), filter_zero_point_tensor=np.array([0], np.int8),
    bias_tensor=np.array([[[[8]]]], np.int32), output_scale_tensor=np.array([0.5], np.float32),
    output_zero_point_tensor=np.array([10], np.uint8),
)  # fmt: skip


@operator("DML_OPERATOR_QUANTIZED_LINEAR_CONVOLUTION", 120, since=FeatureLevel.FL_2_1)
class QuantizedLinearConvolution(Desc):
    """Convolves quantized numbers, in groups: Output = quantize(dequantize(Input) convolved with dequantize(Filter) + Bias).

    dequantize(x) = (x - ZeroPoint) * Scale; quantize(x) = clamp(round(x / Scale) + ZeroPoint, Min, Max). Everything is
    exact except for this one rounding, half to even. Bias is in units of InputScale * FilterScale. Elements outside of the
    input are left out, as if they were the zero point. An absent zero point is 0.
    """

    input_tensor: TensorDesc = field.input("InputTensor", "{BatchCount, InputChannelCount, [Height,] Width}.")
    input_scale_tensor: TensorDesc = field.input("InputScaleTensor", "The input's scale, one element.")
    input_zero_point_tensor: TensorDesc | None = field.input(
        "InputZeroPointTensor", "The input's zero point, one element.", default=None
    )
    filter_tensor: TensorDesc = field.input(
        "FilterTensor", "{OutputChannelCount, InputChannelCount / GroupCount, [FilterHeight,] FilterWidth}."
    )
    filter_scale_tensor: TensorDesc = field.input(
        "FilterScaleTensor", "The filter's scale; {1, OutputChannelCount, 1, 1} per output channel."
    )
    filter_zero_point_tensor: TensorDesc | None = field.input(
        "FilterZeroPointTensor", "The filter's zero point; {1, OutputChannelCount, 1, 1} per output channel.", default=None
    )
    bias_tensor: TensorDesc | None = field.input(
        "BiasTensor", "An integer for each output channel, {1, OutputChannelCount, 1, 1}.", default=None
    )
    output_scale_tensor: TensorDesc = field.input("OutputScaleTensor", "The output's scale, one element.")
    output_zero_point_tensor: TensorDesc | None = field.input(
        "OutputZeroPointTensor", "The output's zero point, one element.", default=None
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

    eager = ConvolutionInteger.eager

    rows = (
        support("2_1", f"{DATA} {ZERO_POINTS}", (4, 4), EIGHT_BIT),
        support("2_1", "BiasTensor", (4, 4), INT32),
        support("2_1", "InputScaleTensor FilterScaleTensor OutputScaleTensor", (4, 4), FLOAT32),
        support("4_0", DATA, (3, 4), EIGHT_BIT),
        support("4_0", "BiasTensor", (3, 4), INT32),
        support("4_0", ZERO_POINTS, (1, 4), EIGHT_BIT),
        support("4_0", "FilterScaleTensor", (3, 4), FLOAT32),
        support("4_0", "InputScaleTensor OutputScaleTensor", (1, 4), FLOAT32),
        support("5_2", "FilterScaleTensor", (1, 4), FLOAT32),
    )
    same_input = same("DataType", "InputTensor InputZeroPointTensor", name="input")
    same_filter = same("DataType", "FilterTensor FilterZeroPointTensor", name="filter")
    same_output = same("DataType", "OutputZeroPointTensor OutputTensor", name="output")
    same = same("DimensionCount", "InputTensor FilterTensor BiasTensor OutputTensor")
    single = single_element(SINGLE)
    filter_scale_sizes = by_channel("FilterScaleTensor")
    filter_zero_point_sizes = by_channel("FilterZeroPointTensor")
    bias_sizes = Convolution.bias_sizes

    dimension_count_is_spatial = Convolution.dimension_count_is_spatial
    stride_not_zero = Convolution.stride_not_zero
    dilation_not_zero = Convolution.dilation_not_zero
    group_count_not_zero = Convolution.group_count_not_zero
    batch_sizes_match = Convolution.batch_sizes_match
    group_count_divides = Convolution.group_count_divides
    channels_match = ConvolutionInteger.channels_match
    filter_fits = ConvolutionInteger.filter_fits
    output_sizes = ConvolutionInteger.output_sizes

    scale_usable = QuantizedLinearMatrixMultiply.scale_usable._replace(
        tensors=("InputScaleTensor", "FilterScaleTensor", "OutputScaleTensor")
    )

    vectors = dict.fromkeys(("bias_tensor",), 1)

    def outputs(d) -> Outputs:
        # a call that has a number for the output's zero point asks for the data type before it knows the strides
        spatial = (positions(d, i) for i in range(len(d.strides or ())))
        quantized = d.output_zero_point_tensor or d.input_tensor
        return {"output_tensor": ((d.input_tensor.sizes[0], d.filter_tensor.sizes[0], *spatial), quantized.data_type)}

    def statement(
        d,
        x: Tensor,
        x_scale: Tensor,
        x_zero_point: Tensor | None,
        filters: Tensor,
        filter_scale: Tensor,
        filter_zero_point: Tensor | None,
        bias: Tensor | None,
        output_scale: Tensor,
        output_zero_point: Tensor | None,
    ) -> Nest:
        _, m, *o = i = each(d.output_tensor.sizes)
        total = convolved(d, i, x, x_zero_point, filters, filter_zero_point)
        if bias is not None:
            total = total + bias[[0, m, *[0] * len(o)]]
        scaled = total * x_scale.broadcast([0]) * of_channel(filter_scale, m) / output_scale.broadcast([0])
        zero_point = 0 if output_zero_point is None else output_zero_point.broadcast([0])
        return nest(i, clamp(half_to_even(scaled) + zero_point, *limits(d.output_tensor.data_type)))

    examples = (
        Example(
            "Sums of 8, 6, -12 and 44 in eighths, a bias of 8 eighths, in halves around 10; 3.5 goes to 4",
            SQUARE,
            SQUARE_DATA,
            np.array([[[[14, 14], [9, 23]]]], np.uint8),
        ),
        Example(
            "A scale for each output channel, without bias and zero points, in one spatial dimension",
            dict(
                input_tensor=int8(1, 2, 3), input_scale_tensor=float32(1), filter_tensor=int8(2, 1, 2),
                filter_scale_tensor=float32(1, 2, 1), output_scale_tensor=float32(1), output_tensor=int8(1, 2, 2),
                strides=(1,), dilations=(1,), start_padding=(0,), end_padding=(0,), group_count=2,
            ),
            dict(
                input_tensor=np.array([[[1, 2, 3], [4, 5, 6]]], np.int8), input_scale_tensor=np.array([0.5], np.float32),
                filter_tensor=np.array([[[1, 2]], [[3, 10]]], np.int8),
                filter_scale_tensor=np.array([[[1], [4]]], np.float32), output_scale_tensor=np.array([1], np.float32),
            ),
            np.array([[[2, 4], [124, 127]]], np.int8),
        ),
    )  # fmt: skip
    rejecting = (
        rejects("dimension_count_supported", at=FeatureLevel.FL_5_1),
        rejects("same_dimension_count", output_tensor=uint8(1, 1, 2)),
        rejects("dimension_count_is_spatial", dimension_count=1, strides=(1,), dilations=(1,), start_padding=(1,),
                end_padding=(0,)),
        rejects("stride_not_zero", strides=(0, 1)),
        rejects("dilation_not_zero", dilations=(1, 0)),
        rejects("batch_sizes_match", output_tensor=uint8(2, 1, 2, 2)),
        rejects("channels_match", input_tensor=uint8(1, 2, 2, 2)),
        rejects("group_count_divides", group_count=2, input_tensor=uint8(1, 2, 2, 2)),
        rejects("filter_fits", filter_tensor=int8(1, 1, 2, 4)),
        rejects("output_sizes", output_tensor=uint8(1, 1, 2, 3)),
    )  # fmt: skip
    errata = (
        "The page does not say in which units Bias counts: InputScale * FilterScale, with a zero point of 0, as in ONNX (our "
        "decision).",
        "The page calls the output's zero point the filter's, and its scale an input scale; they quantize the output.",
        "The page does not define round; it is half to even, of the exact quotient (our decision).",
        "The page says that a scale of 0 has undefined results; it is an error here, as one that is infinite or NaN (our "
        "decision).",
        "The page does not print the formula of the output's sizes; DirectML's helper library has it.",
        "The table of 4_0 has three dimensions, the text only a DimensionCount of 2; it is 1 there (our decision).",
        "The page does not say what padding stands for; it adds nothing, as in ONNX (our decision).",
        "The page does not say how a filter's scales and zero points of fewer than four dimensions lie: the channels are in "
        "the second, of one dimension in that (our decision).",
        "The page does not say what groups, strides and dilations are legal: those of at least 1 (our decision).",
    )
