"""DML_OPERATOR_SLICE1 and its older version DML_OPERATOR_SLICE: one subregion of a tensor, copied.

Sources: ns-directml-dml_slice1_operator_desc, ns-directml-dml_slice_operator_desc.
"""

from __future__ import annotations

from anydml.operators.shared.vocabulary import *

BOTH = "InputTensor OutputTensor"

SIXTEEN = np.arange(1, 17, dtype=np.float32).reshape(1, 1, 4, 4)  # the pages' input, 1 to 16
FOUR_BY_FOUR = TensorDesc(DataType.FLOAT32, (1, 1, 4, 4))


def float32(*sizes: int) -> TensorDesc:
    return TensorDesc(DataType.FLOAT32, sizes)


def output(values: list[list[int]]) -> NDArray[np.float32]:
    return np.array([[values]], np.float32)


@operator("DML_OPERATOR_SLICE1", 111, since=FeatureLevel.FL_2_1)
class Slice1(Desc):
    """Copies the elements of a window, with a signed stride in each dimension: Output[c] = Input[start + stride * c].

    Here start is the window's first element, or its last one if the stride is negative. If the output is smaller than the
    window allows, it has the first of the elements.
    """

    input_tensor: TensorDesc = field.input("InputTensor", "The tensor to copy from.")
    output_tensor: TensorDesc = field.output("OutputTensor", "The tensor to copy to.")
    dimension_count: int | None = field.count("DimensionCount", "Entries of the three window arrays.", default=None)
    input_window_offsets: tuple[int, ...] = field.attribute(
        "InputWindowOffsets", field.UINT, "Where the window begins, in elements.", sized_by="DimensionCount"
    )
    input_window_sizes: tuple[int, ...] = field.attribute(
        "InputWindowSizes", field.UINT, "Extent of the window, in elements of the input.", sized_by="DimensionCount"
    )
    input_window_strides: tuple[int, ...] = field.attribute(
        "InputWindowStrides",
        field.INT,
        "Elements to advance; negative: from the window's end backwards.",
        sized_by="DimensionCount",
    )

    eight_bit_floats = BOTH
    rows = (
        support(FeatureLevel.FL_2_1, BOTH, (4, 5), EIGHT),
        support(FeatureLevel.FL_3_0, BOTH, (1, 8), EIGHT),
        support(FeatureLevel.FL_4_1, BOTH, (1, 8), ELEVEN),
    )

    @constraint(
        "`OutputTensor.DataType` must equal `InputTensor.DataType`.",
        expected=lambda d: {"OutputTensor.DataType": d.input_tensor.data_type},
    )
    def same_data_type(d) -> bool:
        return d.output_tensor.data_type == d.input_tensor.data_type

    @constraint("`InputTensor.DimensionCount`, `OutputTensor.DimensionCount` and `DimensionCount` must be equal.")
    def same_dimension_count(d) -> bool:
        return d.input_tensor.dimension_count == d.output_tensor.dimension_count == d.dimension_count

    @constraint(
        "`InputWindowSizes` must be at least 1: the window may not be empty.",
        each=DIMENSION,
        expected=lambda d, i: {f"InputWindowSizes[{i}]": range(1, d.input_tensor.sizes[i] - d.input_window_offsets[i] + 1)},
    )
    def window_not_empty(d, i: int) -> bool:
        return d.input_window_sizes[i] >= 1

    @constraint(
        "`InputWindowOffsets` and `InputWindowSizes` must add up to at most `InputTensor.Sizes`: the window lies inside the "
        "input.",
        each=DIMENSION,
        expected=lambda d, i: {
            f"InputWindowOffsets[{i}]": range(d.input_tensor.sizes[i] - d.input_window_sizes[i] + 1),
            f"InputWindowSizes[{i}]": range(1, d.input_tensor.sizes[i] - d.input_window_offsets[i] + 1),
        },
    )
    def window_inside_input(d, i: int) -> bool:
        return d.input_window_offsets[i] + d.input_window_sizes[i] <= d.input_tensor.sizes[i]

    @constraint("`InputWindowStrides` must not be 0.", each=DIMENSION)
    def stride_not_zero(d, i: int) -> bool:
        return d.input_window_strides[i] != 0

    @constraint(
        "`OutputTensor.Sizes` must be at most 1 + (`InputWindowSizes` - 1) / |`InputWindowStrides`|, rounded down: the "
        "elements that the window has.",
        each=DIMENSION,
        expected=lambda d, i: {
            f"OutputTensor.Sizes[{i}]": range(1, max_copied(d.input_window_sizes[i], d.input_window_strides[i]) + 1)
        },
    )
    def output_within_window(d, i: int) -> bool:
        return d.output_tensor.sizes[i] <= max_copied(d.input_window_sizes[i], d.input_window_strides[i])

    def outputs(d) -> Outputs:
        sizes = tuple(map(max_copied, d.input_window_sizes, d.input_window_strides))
        return {"output_tensor": (sizes, d.input_tensor.data_type)}

    def start(d) -> tuple[int, ...]:
        """The index of the input element that is copied to the output's first element."""
        window = zip(d.input_window_offsets, d.input_window_sizes, d.input_window_strides, strict=True)
        return tuple(offset if stride > 0 else offset + size - 1 for offset, size, stride in window)

    def statement(d, x: Tensor) -> Nest:
        c = each(d.output_tensor.sizes)
        return move(c, x[[a + stride * i for a, stride, i in zip(Slice1.start(d), d.input_window_strides, c, strict=True)]])

    examples = (
        Example(
            "Page, example 1: strided slice with positive strides",
            dict(
                input_tensor=FOUR_BY_FOUR,
                output_tensor=float32(1, 1, 2, 2),
                input_window_offsets=(0, 0, 0, 1),
                input_window_sizes=(1, 1, 4, 3),
                input_window_strides=(1, 1, 2, 2),
            ),
            dict(input_tensor=SIXTEEN),
            output([[2, 4], [10, 12]]),
        ),
        Example(
            "Page, example 2: strided slice with negative strides",
            dict(
                input_tensor=FOUR_BY_FOUR,
                output_tensor=float32(1, 1, 2, 2),
                input_window_offsets=(0, 0, 0, 1),
                input_window_sizes=(1, 1, 4, 3),
                input_window_strides=(1, 1, -2, 2),
            ),
            dict(input_tensor=SIXTEEN),
            output([[14, 16], [6, 8]]),
        ),
        Example(
            "An output smaller than the window allows: the leading part",
            dict(
                input_tensor=FOUR_BY_FOUR,
                output_tensor=float32(1, 1, 1, 1),
                input_window_offsets=(0, 0, 0, 1),
                input_window_sizes=(1, 1, 4, 3),
                input_window_strides=(1, 1, -2, 2),
            ),
            dict(input_tensor=SIXTEEN),
            output([[14]]),
        ),
    )
    rejecting = (
        rejects("available", at=FeatureLevel.FL_2_0),
        rejects("dimension_count_supported", at=FeatureLevel.FL_2_1, dimension_count=3, input_window_offsets=(0, 0, 1),
                input_window_sizes=(1, 4, 3), input_window_strides=(1, 2, 2), input_tensor=float32(1, 4, 4),
                output_tensor=float32(1, 2, 2)),
        rejects("data_type_supported", at=FeatureLevel.FL_4_0, input_tensor=TensorDesc(DataType.INT64, (1, 1, 4, 4)),
                output_tensor=TensorDesc(DataType.INT64, (1, 1, 2, 2))),
        rejects("dimension_count_fits", dimension_count=2**32),
        rejects("input_window_offsets_fits", input_window_offsets=(0, 0, 0, -1)),
        rejects("input_window_offsets_counted", input_window_offsets=(0, 0, 0, 1, 0)),
        rejects("input_window_sizes_fits", input_window_sizes=(1, 1, 4, 2**32)),
        rejects("input_window_sizes_counted", input_window_sizes=(1, 1, 4, 3, 1)),
        rejects("input_window_strides_fits", input_window_strides=(1, 1, 2, 2**31)),
        rejects("input_window_strides_counted", input_window_strides=(1, 1, 2, 2, 1)),
        rejects("same_data_type", output_tensor=TensorDesc(DataType.UINT32, (1, 1, 2, 2))),
        rejects("same_dimension_count", output_tensor=float32(1, 1, 2, 2, 1)),
        rejects("window_not_empty", input_window_sizes=(1, 1, 0, 3), output_tensor=float32(1, 1, 1, 2),
                input_window_strides=(1, 1, 4, 2)),
        rejects("window_inside_input", input_window_offsets=(0, 0, 0, 2)),
        rejects("stride_not_zero", input_window_strides=(1, 1, 0, 2)),
        rejects("output_within_window", output_tensor=float32(1, 1, 3, 2)),
    )  # fmt: skip
    errata = (
        "The page prints MaxCopiedElements without the absolute value of the stride; its own example 2 needs it.",
        "The text of InputWindowStrides says UINT; the header declares INT.",
        "The explanation of example 2 writes InputWindowSizes[0] where it means InputWindowSizes[2].",
        "The page of SLICE_GRAD hints that SLICE1 may take a stride of 0; this operator's own page forbids it.",
    )


def max_copied(size: int, stride: int) -> int:
    """The number of elements that are copied of a window. The page lacks the absolute value; its example 2 needs it."""
    if size < 1:
        raise ValueError("an empty window has no first element")
    return 1 + (size - 1) // abs(stride)


@operator("DML_OPERATOR_SLICE", 60, since=FeatureLevel.FL_1_0)
class Slice(Desc):
    """Copies every stride-th element from an offset on: Output[c] = Input[offset + stride * c].

    Sizes counts elements of the output, not of the input as SLICE1's InputWindowSizes does.
    """

    input_tensor: TensorDesc = field.input("InputTensor", "The tensor to copy from.")
    output_tensor: TensorDesc = field.output("OutputTensor", "The tensor to copy to.")
    dimension_count: int | None = field.count("DimensionCount", "Entries of the three arrays.", default=None)
    offsets: tuple[int, ...] = field.attribute("Offsets", field.UINT, "The first element copied.", sized_by="DimensionCount")
    sizes: tuple[int, ...] = field.attribute(
        "Sizes", field.UINT, "Elements copied: the sizes of the output.", sized_by="DimensionCount"
    )
    strides: tuple[int, ...] = field.attribute(
        "Strides", field.UINT, "Elements to advance in the input.", sized_by="DimensionCount"
    )

    eight_bit_floats = BOTH
    rows = (
        support(FeatureLevel.FL_1_0, BOTH, (4, 5), SIX),
        support(FeatureLevel.FL_2_1, BOTH, (4, 5), EIGHT),
        support(FeatureLevel.FL_3_0, BOTH, (1, 8), EIGHT),
        support(FeatureLevel.FL_4_1, BOTH, (1, 8), ELEVEN),
    )

    @constraint(
        "`OutputTensor.DataType` must equal `InputTensor.DataType`.",
        expected=lambda d: {"OutputTensor.DataType": d.input_tensor.data_type},
    )
    def same_data_type(d) -> bool:
        return d.output_tensor.data_type == d.input_tensor.data_type

    @constraint("`InputTensor.DimensionCount`, `OutputTensor.DimensionCount` and `DimensionCount` must be equal.")
    def same_dimension_count(d) -> bool:
        return d.input_tensor.dimension_count == d.output_tensor.dimension_count == d.dimension_count

    @constraint("`Sizes` must be at least 1.", each=DIMENSION)
    def size_not_zero(d, i: int) -> bool:
        return d.sizes[i] >= 1

    @constraint("`Strides` must not be 0.", each=DIMENSION)
    def stride_not_zero(d, i: int) -> bool:
        return d.strides[i] != 0

    @constraint(
        "`Sizes` must equal `OutputTensor.Sizes`.",
        each=DIMENSION,
        expected=lambda d, i: {f"Sizes[{i}]": d.output_tensor.sizes[i]},
    )
    def sizes_are_output_sizes(d, i: int) -> bool:
        if d.sizes[i] < 1:
            raise ValueError("no output has a size below 1")
        return d.sizes[i] == d.output_tensor.sizes[i]

    @constraint(
        "The last element copied, `Offsets` + (`Sizes` - 1) * `Strides`, must be less than `InputTensor.Sizes`.",
        each=DIMENSION,
        expected=lambda d, i: {
            f"Offsets[{i}]": range(d.input_tensor.sizes[i] - (d.sizes[i] - 1) * d.strides[i]),
        },
    )
    def last_inside_input(d, i: int) -> bool:
        if d.sizes[i] < 1:
            raise ValueError("nothing copied has no last element")
        return d.offsets[i] + (d.sizes[i] - 1) * d.strides[i] < d.input_tensor.sizes[i]

    def as_newest(d) -> Slice1:
        """As SLICE1. A stride over INT's range stays as it is: kernels calculate in unbounded integers."""
        window = tuple(1 + (size - 1) * stride for size, stride in zip(d.sizes, d.strides, strict=True))
        return Slice1(
            input_tensor=d.input_tensor,
            output_tensor=d.output_tensor,
            input_window_offsets=d.offsets,
            input_window_sizes=window,
            input_window_strides=d.strides,
        )

    def outputs(d) -> Outputs:
        return {"output_tensor": (d.sizes, d.input_tensor.data_type)}

    examples = (
        Example(
            "Page, example 1: offsets and sizes",
            dict(
                input_tensor=FOUR_BY_FOUR,
                output_tensor=float32(1, 1, 3, 2),
                offsets=(0, 0, 1, 2),
                sizes=(1, 1, 3, 2),
                strides=(1, 1, 1, 1),
            ),
            dict(input_tensor=SIXTEEN),
            output([[7, 8], [11, 12], [15, 16]]),
        ),
        Example(
            "Page, example 2: strides",
            dict(
                input_tensor=FOUR_BY_FOUR,
                output_tensor=float32(1, 1, 2, 2),
                offsets=(0, 0, 1, 0),
                sizes=(1, 1, 2, 2),
                strides=(1, 1, 2, 3),
            ),
            dict(input_tensor=SIXTEEN),
            output([[5, 8], [13, 16]]),
        ),
    )
    rejecting = (
        rejects("dimension_count_supported", at=FeatureLevel.FL_2_1, dimension_count=3, offsets=(0, 1, 2),
                sizes=(1, 3, 2), strides=(1, 1, 1), input_tensor=float32(1, 4, 4), output_tensor=float32(1, 3, 2)),
        rejects("data_type_supported", at=FeatureLevel.FL_1_0, input_tensor=TensorDesc(DataType.UINT8, (1, 1, 4, 4)),
                output_tensor=TensorDesc(DataType.UINT8, (1, 1, 3, 2))),
        rejects("dimension_count_fits", dimension_count=-1),
        rejects("offsets_fits", offsets=(0, 0, -1, 2)),
        rejects("offsets_counted", offsets=(0, 0, 1, 2, 0)),
        rejects("sizes_fits", sizes=(1, 1, 3, 2**32)),
        rejects("sizes_counted", sizes=(1, 1, 3, 2, 1)),
        rejects("strides_fits", strides=(1, 1, 1, 2**32)),
        rejects("strides_counted", strides=(1, 1, 1, 1, 1)),
        rejects("same_data_type", output_tensor=TensorDesc(DataType.INT32, (1, 1, 3, 2))),
        rejects("same_dimension_count", output_tensor=float32(1, 1, 3, 2, 1)),
        rejects("size_not_zero", sizes=(1, 1, 0, 2), output_tensor=float32(1, 1, 3, 2)),
        rejects("stride_not_zero", strides=(1, 1, 0, 1)),
        rejects("sizes_are_output_sizes", sizes=(1, 1, 2, 2)),
        rejects("last_inside_input", offsets=(0, 0, 1, 3)),
    )  # fmt: skip
    errata = ("The page does not say whether a stride may be 0; it is refused, as SLICE1's page does (our decision).",)
