"""DML_OPERATOR_QUANTIZED_LINEAR_AVERAGE_POOLING: the mean at each position of a window, of dequantized elements, quantized
again.

Source: ns-directml-dml_quantized_linear_average_pooling_operator_desc.
"""

from __future__ import annotations

from anydml.operators.shared.vocabulary import *
from anydml.schema.windows import (
    COUNT,
    DILATED,
    DILATED_ERRATA,
    DILATIONS,
    END_PADDING,
    START_PADDING,
    STRIDES,
    WINDOW_ERRATA,
    WINDOW_SIZE,
    divisor,
    pooled_sizes,
    positions,
    window_rules,
)
from anydml.spelling import snake_case

DATA = "InputTensor OutputTensor"
SCALES = "InputScaleTensor OutputScaleTensor"
ZERO_POINTS = "InputZeroPointTensor OutputZeroPointTensor"


def per_channel(wire: str) -> Constraint:
    """A scale or zero point is one for all, or one for each channel."""
    name = snake_case(wire)

    def allowed(d: Any) -> list[tuple[int, ...]]:
        count, channels = len(getattr(d, name).sizes), d.input_tensor.sizes[1]
        found = [(1,) * count]
        if count == 3:
            found.append((channels, 1, 1))
        elif count in (4, len(d.input_tensor.sizes)):
            found.append((1, channels, *(1,) * (count - 2)))
        return found

    def fits(d: Any) -> bool:
        t = getattr(d, name)
        return t is None or t.sizes.count(1) == len(t.sizes) or t.sizes in allowed(d)

    return Constraint(
        f"{name.removesuffix('_tensor')}_sizes",
        f"`{wire}.Sizes` must be all 1, or {{1, ChannelCount, 1, 1}}, {{ChannelCount, 1, 1}} or, of an input of five "
        "dimensions, {1, ChannelCount, 1, 1, 1}; ChannelCount is the second of `InputTensor.Sizes`.",
        fits,
        expected=lambda d: {f"{wire}.Sizes": list(dict.fromkeys(allowed(d)))},
        breaks=lambda d: {name: TensorDesc(getattr(d, name).data_type, (1, 1, 1, d.input_tensor.sizes[1] + 1))},
    )


def of_channel(t: Tensor, c: Expr) -> Expr:
    """The scale or zero point of a channel."""
    return t[[0 if n == 1 else c for n in t.sizes]]


FOUR = np.array([[[[10, 20], [30, 41]]]], np.uint8)


def bytes_(*sizes: int) -> TensorDesc:
    return TensorDesc(DataType.UINT8, sizes)


def case(output: int, **others: Any) -> dict[str, Any]:
    """The fields of an example."""
    one = TensorDesc(DataType.FLOAT32, (1,))
    return (
        dict(
            input_tensor=bytes_(1, 1, 2, 2),
            input_scale_tensor=one,
            input_zero_point_tensor=bytes_(1),
            output_scale_tensor=one,
            output_zero_point_tensor=bytes_(1),
            output_tensor=bytes_(1, 1, output, output),
            strides=(1, 1),
            window_size=(2, 2),
            start_padding=(0, 0),
            end_padding=(0, 0),
            dilations=(1, 1),
        )
        | others
    )


GIVEN = dict(
    input_tensor=FOUR,
    input_scale_tensor=np.array([0.5], np.float32),
    input_zero_point_tensor=np.array([5], np.uint8),
    output_scale_tensor=np.array([0.25], np.float32),
    output_zero_point_tensor=np.array([3], np.uint8),
)


@operator("DML_OPERATOR_QUANTIZED_LINEAR_AVERAGE_POOLING", 169, since=FeatureLevel.FL_6_2)
class QuantizedLinearAveragePooling(Desc):
    """Averages a quantized tensor in a window that slides: Output = quantize(sum of dequantized elements / their number).

    dequantize(x) = (x - ZeroPoint) * Scale; quantize(x) = clamp(round(x / Scale) + ZeroPoint, Min, Max). Everything is
    exact except for this one rounding, half to even. The elements and their number are those of AVERAGE_POOLING1; padding is
    the real number 0. An absent zero point is 0; a quotient that is NaN gives Min.
    """

    input_tensor: TensorDesc = field.input("InputTensor", "{BatchCount, ChannelCount, [Depth,] Height, Width}.")
    input_scale_tensor: TensorDesc = field.input("InputScaleTensor", "The input's scale, or one for each channel.")
    input_zero_point_tensor: TensorDesc | None = field.input(
        "InputZeroPointTensor", "The input's zero point, or one for each channel.", default=None
    )
    output_scale_tensor: TensorDesc = field.input("OutputScaleTensor", "The output's scale, or one for each channel.")
    output_zero_point_tensor: TensorDesc | None = field.input(
        "OutputZeroPointTensor", "The output's zero point, or one for each channel.", default=None
    )
    output_tensor: TensorDesc = field.output("OutputTensor", "The means.")
    dimension_count: int | None = field.count("DimensionCount", COUNT, default=None)
    strides: tuple[int, ...] = field.attribute("Strides", field.UINT, STRIDES, sized_by="DimensionCount")
    window_size: tuple[int, ...] = field.attribute("WindowSize", field.UINT, WINDOW_SIZE, sized_by="DimensionCount")
    start_padding: tuple[int, ...] = field.attribute("StartPadding", field.UINT, START_PADDING, sized_by="DimensionCount")
    end_padding: tuple[int, ...] = field.attribute("EndPadding", field.UINT, END_PADDING, sized_by="DimensionCount")
    dilations: tuple[int, ...] = field.attribute("Dilations", field.UINT, DILATIONS, sized_by="DimensionCount")
    include_padding: bool = field.attribute(
        "IncludePadding", field.BOOL, "Whether the padding counts in the number of elements.", default=False
    )

    eager = DILATED

    rows = (
        support("6_2", DATA, (4, 5), EIGHT_BIT),
        support("6_2", SCALES, (1, 5), (DataType.FLOAT32,)),
        support("6_2", ZERO_POINTS, (1, 5), EIGHT_BIT),
    )
    same_input = same("DataType", "InputTensor InputZeroPointTensor", name="input")
    same_output = same("DataType", "OutputZeroPointTensor OutputTensor", name="output")
    same = same("DimensionCount", DATA)
    windows = window_rules()
    input_scale_sizes = per_channel("InputScaleTensor")
    input_zero_point_sizes = per_channel("InputZeroPointTensor")
    output_scale_sizes = per_channel("OutputScaleTensor")
    output_zero_point_sizes = per_channel("OutputZeroPointTensor")

    def outputs(d) -> Outputs:
        quantized = d.output_zero_point_tensor or d.input_tensor
        return {"output_tensor": (pooled_sizes(d), quantized.data_type)}

    def statement(
        d,
        x: Tensor,
        x_scale: Tensor,
        x_zero_point: Tensor | None,
        y_scale: Tensor,
        y_zero_point: Tensor | None,
    ) -> Nest:
        n, c, *o = i = each(d.output_tensor.sizes)
        k = each(d.window_size, "uvw")
        at = positions(d, o, k)
        element = x.skipped([n, c, *at])
        centred = element if x_zero_point is None else element - of_channel(x_zero_point, c)
        mean = Sum(k, centred * of_channel(x_scale, c)) / divisor(d, k, at, x.sizes[2:])
        quotient = mean / of_channel(y_scale, c)
        low, high = limits(d.output_tensor.data_type)
        quantized = half_to_even(quotient) + (0 if y_zero_point is None else of_channel(y_zero_point, c))
        return nest(i, select(is_nan(quotient), low, clamp(quantized, low, high)))

    examples = (
        Example("A mean of 10.125 is 40.5 steps of 0.25; a tie goes to even", case(1), GIVEN, np.array([[[[43]]]], np.uint8)),
        Example(
            "Padding that does not count",
            case(2, start_padding=(1, 1)),
            GIVEN,
            np.array([[[[13, 23], [33, 43]]]], np.uint8),
        ),
        Example(
            "Padding that counts as zeros",
            case(2, start_padding=(1, 1), include_padding=True),
            GIVEN,
            np.array([[[[5, 13], [18, 43]]]], np.uint8),
        ),
    )
    rejecting = ()
    errata = (
        *WINDOW_ERRATA,
        *DILATED_ERRATA,
        "The page does not define round; it is half to even, of the exact quotient (our decision).",
        "The page leaves a scale of 0 undefined; the quotient is then what IEEE 754 says, infinities saturate and NaN gives "
        "Min (our decision).",
        "The page does not say what padding stands for: the real number 0, whatever the zero point (our decision, as the page "
        "calls the operator equal to one that dequantizes first).",
        "The page does not say what a window without elements gives: the zero point (our decision).",
        "Scales and zero points may have one to five dimensions; which sizes have one for each channel is said of four alone. "
        "Without the first 1, and with one more 1 where the input has five, it is the same (our decision).",
    )
