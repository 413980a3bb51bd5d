"""DML_OPERATOR_REVERSE_SUBSEQUENCES: lines whose first elements are reversed; their numbers are data.

Source: ns-directml-dml_reverse_subsequences_desc.
"""

from __future__ import annotations

from anydml.operators.shared.vocabulary import *

BOTH = "InputTensor OutputTensor"
UINT32 = DataType.UINT32
TWELVE = TensorDesc(DataType.FLOAT32, (1, 1, 3, 4))
DATA = np.arange(1, 13, dtype=np.float32).reshape(1, 1, 3, 4)


def one_in_place(d: Any) -> tuple[int, ...]:
    sizes: tuple[int, ...] = d.input_tensor.sizes
    if d.axis >= len(sizes):
        raise ValueError("the axis is not there")
    return (*sizes[: d.axis], 1, *sizes[d.axis + 1 :])


@operator("DML_OPERATOR_REVERSE_SUBSEQUENCES", 106, since=FeatureLevel.FL_2_1, page_name="dml_reverse_subsequences_desc")
class ReverseSubsequences(Desc):
    """Reverses the first elements of each line along an axis and copies the others: Output[i] = Input[L - 1 - i] where i < L.

    L is the line's length in SequenceLengths, or the size of the axis if that is less. Bits are copied unchanged.
    """

    input_tensor: TensorDesc = field.input("InputTensor", "The lines.")
    sequence_lengths_tensor: TensorDesc = field.input(
        "SequenceLengthsTensor", "How many elements of each line are reversed; of size 1 along Axis."
    )
    output_tensor: TensorDesc = field.output("OutputTensor", "The lines, reversed.")
    axis: int = field.attribute("Axis", field.UINT, "The axis along which the lines lie.")

    eight_bit_floats = BOTH
    rows = (
        support("2_1", BOTH, (4, 4), EIGHT),
        support("2_1", "SequenceLengthsTensor", (4, 4), (UINT32,)),
        support("3_0", BOTH, (4, 5), EIGHT),
        support("3_0", "SequenceLengthsTensor", (4, 5), (UINT32,)),
        support("4_0", BOTH, (1, 8), EIGHT),
        support("4_0", "SequenceLengthsTensor", (1, 8), (UINT32,)),
        support("5_0", BOTH, (1, 8), ELEVEN),
        support("5_0", "SequenceLengthsTensor", (1, 8), (DataType.UINT64, UINT32)),
    )
    same = (
        *same("DataType DimensionCount Sizes", BOTH),
        *same("DimensionCount", "InputTensor SequenceLengthsTensor", name="lengths"),
    )
    axis_in_range = axis_in_range()
    lengths_sizes = sizes_are(
        "SequenceLengthsTensor", "`SequenceLengthsTensor.Sizes` must be `InputTensor.Sizes` with 1 at `Axis`.", one_in_place
    )

    outputs = like("input_tensor")

    def statement(d, x: Tensor, lengths: Tensor) -> Nest:
        i = each(x.sizes)
        before, here, after = i[: d.axis], i[d.axis], i[d.axis + 1 :]
        length = minimum(index(lengths[[*before, 0, *after]]), x.sizes[d.axis])
        return move(i, x[[*before, select(here < length, length - 1 - here, here), *after]])

    examples = (
        Example(
            "Page, example 1: rows",
            dict(
                input_tensor=TWELVE,
                sequence_lengths_tensor=TensorDesc(UINT32, (1, 1, 3, 1)),
                output_tensor=TWELVE,
                axis=3,
            ),
            dict(input_tensor=DATA, sequence_lengths_tensor=np.array([[[[2], [4], [3]]]], np.uint32)),
            np.array([[[[2, 1, 3, 4], [8, 7, 6, 5], [11, 10, 9, 12]]]], np.float32),
        ),
        Example(
            "Page, example 2: columns",
            dict(
                input_tensor=TWELVE,
                sequence_lengths_tensor=TensorDesc(UINT32, (1, 1, 1, 4)),
                output_tensor=TWELVE,
                axis=2,
            ),
            dict(input_tensor=DATA, sequence_lengths_tensor=np.array([[[[2, 3, 1, 0]]]], np.uint32)),
            np.array([[[[5, 10, 3, 4], [1, 6, 7, 8], [9, 2, 11, 12]]]], np.float32),
        ),
        Example(
            "A length beyond the line",
            dict(
                input_tensor=TensorDesc(DataType.INT64, (3,)),
                sequence_lengths_tensor=TensorDesc(DataType.UINT64, (1,)),
                output_tensor=TensorDesc(DataType.INT64, (3,)),
                axis=0,
            ),
            dict(input_tensor=np.array([1, 2, 3], np.int64), sequence_lengths_tensor=np.array([2**64 - 1], np.uint64)),
            np.array([3, 2, 1], np.int64),
        ),
    )
    rejecting = ()
    errata = ("The examples of the page call the tensor of lengths SequenceTensor.",)
