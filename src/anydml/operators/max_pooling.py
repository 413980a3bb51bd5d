"""DML_OPERATOR_MAX_POOLING2 and its older versions, MAX_POOLING1 and MAX_POOLING: the largest at each position of a window.

Sources: ns-directml-dml_max_pooling2_operator_desc, ns-directml-dml_max_pooling1_operator_desc,
ns-directml-dml_max_pooling_operator_desc.
"""

from __future__ import annotations

import math
from dataclasses import replace

from anydml.operators.average_pooling import float32, plane, squares
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
    inside,
    pooled,
    pooled_sizes,
    positions,
    undilated,
    window_rules,
)

BOTH, PLACES, ALL = "InputTensor OutputTensor", "OutputIndicesTensor", "InputTensor OutputTensor OutputIndicesTensor"
UINT32 = DataType.UINT32
ERRATA = (
    *WINDOW_ERRATA,
    "The page does not say what a window without elements gives: the lowest value of the type, -infinity of floats, and the "
    "index 0 (our decision).",
    "The page does not say what NaN does: the first one in a window is its largest element (our decision).",
)


def supported(since: str, *, indices: bool) -> tuple[Support, ...]:
    rows = (
        support(since, BOTH, (4, 5), FLOATS),
        support("3_0", BOTH, (4, 5), (*FLOATS, *EIGHT_BIT)),
        support("5_0", BOTH, (4, 5), TEN),
    )
    if not indices:
        return rows
    return (*rows, support(since, PLACES, (4, 5), (UINT32,)), support("5_0", PLACES, (4, 5), (DataType.UINT64, UINT32)))


def indices_sizes() -> Any:
    return sizes_are(PLACES, "`OutputIndicesTensor.Sizes` must equal `OutputTensor.Sizes`.", lambda d: d.output_tensor.sizes)


def both_outputs(d: Any) -> Outputs:
    sizes = pooled_sizes(d, dilated=hasattr(d, "dilations"))
    return {"output_tensor": (sizes, d.input_tensor.data_type), "output_indices_tensor": (sizes, UINT32)}


def places(rows: Any) -> NDArray[Any]:
    return np.array([[rows]], np.uint32)


def indexed(**fields: Any) -> dict[str, Any]:
    """The fields of an example, with the tensor of indices."""
    return fields | dict(output_indices_tensor=replace(fields["output_tensor"], data_type=UINT32))


TIES = plane([[1, 2, 2, 1], [3, 3, 0, 5], [0, 5, 5, 5], [1, 1, 1, 1]])


@operator("DML_OPERATOR_MAX_POOLING2", 110, since=FeatureLevel.FL_2_1)
class MaxPooling2(Desc):
    """Selects the largest element at every position of a window that slides over the spatial dimensions, and its index.

    The elements at position o are Input[o * Stride + k * Dilation - StartPadding], for k from 0 to WindowSize - 1, that are
    inside the input. The largest is the first NaN or, if there is none, the first of the largest numbers; zeros of both signs
    are equal. The output has the bits of this element. Its index is its row-major position in the whole input, modulo 2^32 if
    it is UINT32.
    """

    input_tensor: TensorDesc = field.input("InputTensor", "{BatchCount, ChannelCount, [Depth,] Height, Width}.")
    output_tensor: TensorDesc = field.output("OutputTensor", "The largest elements.")
    output_indices_tensor: TensorDesc | None = field.output(
        "OutputIndicesTensor", "The row-major position of each in the whole input.", default=None
    )
    dimension_count: int | None = field.count("DimensionCount", COUNT, default=None)
    strides: tuple[int, ...] = field.attribute("Strides", field.UINT, STRIDES, sized_by="DimensionCount")
    window_size: tuple[int, ...] = field.attribute("WindowSize", field.UINT, WINDOW_SIZE, sized_by="DimensionCount")
    start_padding: tuple[int, ...] = field.attribute("StartPadding", field.UINT, START_PADDING, sized_by="DimensionCount")
    end_padding: tuple[int, ...] = field.attribute("EndPadding", field.UINT, END_PADDING, sized_by="DimensionCount")
    dilations: tuple[int, ...] = field.attribute("Dilations", field.UINT, DILATIONS, sized_by="DimensionCount")

    eager = DILATED

    rows = supported("2_1", indices=True)
    same = (*same("DataType", BOTH), *same("DimensionCount", ALL))
    windows = window_rules()
    indices = indices_sizes()

    outputs = both_outputs

    def statement(d, x: Tensor) -> tuple[Nest, Nest | None]:
        n, c, *o = i = each(d.output_tensor.sizes)
        k: Indices = each(d.window_size, "uvw")
        place = first_largest(k, x.skipped([n, c, *positions(d, o, k)]))
        at = positions(d, o, unraveled(place, d.window_size))
        lowest = -math.inf if x.data_type.is_float else limits(x.data_type)[0]
        largest = move(i, x.or_else([n, c, *at], lowest))
        if d.output_indices_tensor is None:
            return largest, None
        return largest, nest(i, select(inside(at, x.sizes[2:]), row_major([n, c, *at], x.sizes), 0))

    examples = (
        Example(
            "The largest of four corners, and its position",
            dict(
                input_tensor=float32(1, 1, 4, 5),
                output_tensor=float32(1, 1, 2, 3),
                output_indices_tensor=TensorDesc(UINT32, (1, 1, 2, 3)),
                strides=(1, 1),
                window_size=(2, 2),
                start_padding=(0, 0),
                end_padding=(0, 0),
                dilations=(2, 2),
            ),
            dict(input_tensor=plane([[1, 3, 2, 4, -1], [5, 7, 6, 8, -2], [9, 11, 10, 12, -3], [13, 15, 14, 16, -4]])),
            dict(
                output_tensor=plane([[10, 12, 10], [14, 16, 14]]),
                output_indices_tensor=places([[12, 13, 12], [17, 18, 17]]),
            ),
        ),
        Example(
            "An output whose sizes are rounded up: the last windows end beyond the input",
            squares(4, 2, 3, 2, dilations=(1, 1)),
            dict(input_tensor=plane(np.arange(1, 17).reshape(4, 4))),
            dict(output_tensor=plane([[11, 12], [15, 16]])),
        ),
    )
    rejecting = ()
    errata = (
        *ERRATA,
        *DILATED_ERRATA,
        "The page calls the older struct DML_MAX_POOLING_OPERATOR1_DESC; it is DML_MAX_POOLING1_OPERATOR_DESC.",
    )


@operator("DML_OPERATOR_MAX_POOLING1", 91, since=FeatureLevel.FL_2_0)
class MaxPooling1(Desc):
    """Selects the largest element at every position of a window that slides over the spatial dimensions, and its index.

    It is MAX_POOLING2 with Dilations of 1.
    """

    input_tensor: TensorDesc = field.input("InputTensor", "{BatchCount, ChannelCount, [Depth,] Height, Width}.")
    output_tensor: TensorDesc = field.output("OutputTensor", "The largest elements.")
    output_indices_tensor: TensorDesc | None = field.output(
        "OutputIndicesTensor", "The row-major position of each in the whole input.", default=None
    )
    dimension_count: int | None = field.count("DimensionCount", COUNT, default=None)
    strides: tuple[int, ...] = field.attribute("Strides", field.UINT, STRIDES, sized_by="DimensionCount")
    window_size: tuple[int, ...] = field.attribute("WindowSize", field.UINT, WINDOW_SIZE, sized_by="DimensionCount")
    start_padding: tuple[int, ...] = field.attribute("StartPadding", field.UINT, START_PADDING, sized_by="DimensionCount")
    end_padding: tuple[int, ...] = field.attribute("EndPadding", field.UINT, END_PADDING, sized_by="DimensionCount")

    eager = EAGER

    rows = supported("2_0", indices=True)
    same = (*same("DataType", BOTH), *same("DimensionCount", ALL))
    windows = window_rules(dilated=False)
    indices = indices_sizes()

    outputs = both_outputs

    def as_newest(d) -> MaxPooling2:
        return MaxPooling2(
            input_tensor=d.input_tensor,
            output_tensor=d.output_tensor,
            output_indices_tensor=d.output_indices_tensor,
            **undilated(d),
        )

    examples = (
        Example(
            "Of equal elements the first",
            indexed(**squares(4, 2, 2, 2)),
            dict(input_tensor=TIES),
            dict(output_tensor=plane([[3, 5], [5, 5]]), output_indices_tensor=places([[4, 7], [9, 10]])),
        ),
        Example(
            "Positions count from the start of the whole input, batches and channels too",
            dict(
                input_tensor=float32(2, 1, 2, 4),
                output_tensor=float32(2, 1, 1, 2),
                output_indices_tensor=TensorDesc(UINT32, (2, 1, 1, 2)),
                strides=(2, 2),
                window_size=(2, 2),
                start_padding=(0, 0),
                end_padding=(0, 0),
            ),
            dict(input_tensor=np.arange(1, 17, dtype=np.float32).reshape(2, 1, 2, 4)),
            dict(
                output_tensor=np.array([[[[6, 8]]], [[[14, 16]]]], np.float32),
                output_indices_tensor=np.array([[[[5, 7]]], [[[13, 15]]]], np.uint32),
            ),
        ),
    )
    rejecting = ()
    errata = ERRATA


@operator("DML_OPERATOR_MAX_POOLING", 58, since=FeatureLevel.FL_1_0)
class MaxPooling(Desc):
    """Selects the largest element at every position of a window that slides over the spatial dimensions.

    It is MAX_POOLING2 with Dilations of 1, and without indices.
    """

    input_tensor: TensorDesc = field.input("InputTensor", "{BatchCount, ChannelCount, [Depth,] Height, Width}.")
    output_tensor: TensorDesc = field.output("OutputTensor", "The largest elements.")
    dimension_count: int | None = field.count("DimensionCount", COUNT, default=None)
    strides: tuple[int, ...] = field.attribute("Strides", field.UINT, STRIDES, sized_by="DimensionCount")
    window_size: tuple[int, ...] = field.attribute("WindowSize", field.UINT, WINDOW_SIZE, sized_by="DimensionCount")
    start_padding: tuple[int, ...] = field.attribute("StartPadding", field.UINT, START_PADDING, sized_by="DimensionCount")
    end_padding: tuple[int, ...] = field.attribute("EndPadding", field.UINT, END_PADDING, sized_by="DimensionCount")

    eager = EAGER

    rows = supported("1_0", indices=False)
    same = same("DataType DimensionCount", BOTH)
    windows = window_rules(dilated=False)

    outputs = pooled

    def as_newest(d) -> MaxPooling2:
        return MaxPooling2(input_tensor=d.input_tensor, output_tensor=d.output_tensor, **undilated(d))

    examples = (
        Example(
            "Squares of 2 x 2 side by side",
            squares(4, 2, 2, 2),
            dict(input_tensor=TIES),
            plane([[3, 5], [5, 5]]),
        ),
    )
    rejecting = ()
    errata = ERRATA
