"""DML_OPERATOR_AVERAGE_POOLING1 and its older version DML_OPERATOR_AVERAGE_POOLING: the mean at each position of a window.

Sources: ns-directml-dml_average_pooling1_operator_desc, ns-directml-dml_average_pooling_operator_desc.
"""

from __future__ import annotations

from anydml.operators.shared.vocabulary import *
from anydml.schema.windows import (
    COUNT,
    DILATED,
    DILATED_ERRATA,
    DILATIONS,
    EAGER,
    END_PADDING,
    START_PADDING,
    STRIDES,
    WINDOW_ERRATA,
    WINDOW_SIZE,
    divisor,
    pooled,
    positions,
    undilated,
    window_rules,
)

BOTH = "InputTensor OutputTensor"
ERRATA = (
    *WINDOW_ERRATA,
    "The page does not say what the mean of a window without elements is: 0 (our decision).",
    "The page does not say whether IncludePadding counts what lies beyond EndPadding, where sizes are rounded up: it does not "
    "(our decision, as ONNX has it).",
)


def float32(*sizes: int) -> TensorDesc:
    return TensorDesc(DataType.FLOAT32, sizes)


def plane(rows: Any) -> NDArray[Any]:
    return np.array([[rows]], np.float32)


def squares(size: int, output: int, window: int, stride: int, **others: Any) -> dict[str, Any]:
    """The fields of an example: a square of elements, a square window, a square of results."""
    return (
        dict(
            input_tensor=float32(1, 1, size, size),
            output_tensor=float32(1, 1, output, output),
            strides=(stride, stride),
            window_size=(window, window),
            start_padding=(0, 0),
            end_padding=(0, 0),
        )
        | others
    )


SIXTEEN = np.arange(1, 17, dtype=np.float32).reshape(1, 1, 4, 4)
NINE = np.arange(1, 10, dtype=np.float32).reshape(1, 1, 3, 3)
AROUND = dict(start_padding=(1, 1), end_padding=(1, 1))


@operator("DML_OPERATOR_AVERAGE_POOLING1", 166, since=FeatureLevel.FL_6_2)
class AveragePooling1(Desc):
    """Averages every position of a window that slides over the spatial dimensions: Output = sum of elements / their number.

    The elements at position o are Input[o * Stride + k * Dilation - StartPadding], for k from 0 to WindowSize - 1. Those
    outside of the input are left out of the sum. The number counts the terms of the sum or, with IncludePadding, all elements
    in the padded input. The quotient is exact, and rounded once.
    """

    input_tensor: TensorDesc = field.input("InputTensor", "{BatchCount, ChannelCount, [Depth,] Height, Width}.")
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

    rows = (support("6_2", BOTH, (4, 5), FLOATS),)
    same = same("DataType DimensionCount", BOTH)
    windows = window_rules()

    outputs = pooled

    def statement(d, x: Tensor) -> Nest:
        n, c, *o = i = each(d.output_tensor.sizes)
        k = each(d.window_size, "uvw")
        at = positions(d, o, k)
        return nest(i, Sum(k, x.skipped([n, c, *at])) / divisor(d, k, at, x.sizes[2:]))

    examples = (
        Example(
            "Every second element of 3 x 3",
            squares(4, 2, 2, 1, dilations=(2, 2)),
            dict(input_tensor=SIXTEEN),
            plane([[6, 7], [10, 11]]),
        ),
        Example(
            "Padding that counts as zeros",
            squares(3, 3, 3, 1, dilations=(1, 1), **AROUND, include_padding=True),
            dict(input_tensor=NINE),
            plane([[4 / 3, 7 / 3, 16 / 9], [3, 5, 11 / 3], [8 / 3, 13 / 3, 28 / 9]]),
        ),
        Example(
            "An output whose sizes are rounded up: the last windows end beyond the input",
            squares(4, 2, 3, 2, dilations=(1, 1)),
            dict(input_tensor=SIXTEEN),
            plane([[6, 7.5], [12, 13.5]]),
        ),
    )
    rejecting = ()
    errata = (
        *ERRATA,
        *DILATED_ERRATA,
    )


@operator("DML_OPERATOR_AVERAGE_POOLING", 56, since=FeatureLevel.FL_1_0)
class AveragePooling(Desc):
    """Averages every position of a window that slides over the spatial dimensions: Output = sum of elements / their number.

    It is AVERAGE_POOLING1 with Dilations of 1.
    """

    input_tensor: TensorDesc = field.input("InputTensor", "{BatchCount, ChannelCount, [Depth,] Height, Width}.")
    output_tensor: TensorDesc = field.output("OutputTensor", "The means.")
    dimension_count: int | None = field.count("DimensionCount", COUNT, default=None)
    strides: tuple[int, ...] = field.attribute("Strides", field.UINT, STRIDES, sized_by="DimensionCount")
    window_size: tuple[int, ...] = field.attribute("WindowSize", field.UINT, WINDOW_SIZE, sized_by="DimensionCount")
    start_padding: tuple[int, ...] = field.attribute("StartPadding", field.UINT, START_PADDING, sized_by="DimensionCount")
    end_padding: tuple[int, ...] = field.attribute("EndPadding", field.UINT, END_PADDING, sized_by="DimensionCount")
    include_padding: bool = field.attribute(
        "IncludePadding", field.BOOL, "Whether the padding counts in the number of elements.", default=False
    )

    eager = EAGER

    rows = (support("1_0", BOTH, (4, 5), FLOATS),)
    same = same("DataType DimensionCount", BOTH)
    windows = window_rules(dilated=False)

    outputs = pooled

    def as_newest(d) -> AveragePooling1:
        return AveragePooling1(
            input_tensor=d.input_tensor,
            output_tensor=d.output_tensor,
            include_padding=d.include_padding,
            **undilated(d),
        )

    examples = (
        Example(
            "Squares of 2 x 2 side by side",
            squares(4, 2, 2, 2),
            dict(input_tensor=SIXTEEN),
            plane([[3.5, 5.5], [11.5, 13.5]]),
        ),
        Example(
            "Padding that does not count",
            squares(3, 3, 3, 1, **AROUND),
            dict(input_tensor=NINE),
            plane([[3, 3.5, 4], [4.5, 5, 5.5], [6, 6.5, 7]]),
        ),
    )
    rejecting = ()
    errata = ERRATA
