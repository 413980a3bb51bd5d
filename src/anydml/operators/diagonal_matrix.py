"""DML_OPERATOR_DIAGONAL_MATRIX1 and its older version DML_OPERATOR_DIAGONAL_MATRIX: diagonals filled with a number.

Sources: ns-directml-dml_diagonal_matrix1_operator_desc, ns-directml-dml_diagonal_matrix_operator_desc.
"""

from __future__ import annotations

from anydml.operators.shared.vocabulary import *

BOTH = "InputTensor OutputTensor"
BEFORE_ALL = -(2**31)
SQUARE, TALL, WIDE = (TensorDesc(DataType.FLOAT32, (1, 1, *sizes)) for sizes in ((3, 3), (3, 2), (4, 5)))
TWENTY = np.array([[[[4, 7, 3, 7, 9], [1, 2, 8, 6, 9], [9, 4, 1, 8, 7], [4, 3, 4, 2, 4]]]], np.float32)


def float32(*rows: Any) -> NDArray[Any]:
    return np.array([[rows]], np.float32)


def band(title: str, want: Any, begin: int, end: int, value: float, of: TensorDesc | None = None) -> Example:
    fields = dict(
        input_tensor=of, output_tensor=WIDE, value_data_type=DataType.FLOAT32, value=value,
        diagonal_fill_begin=begin, diagonal_fill_end=end,
    )  # fmt: skip
    return Example(title, fields, {} if of is None else dict(input_tensor=TWENTY), want)


@operator("DML_OPERATOR_DIAGONAL_MATRIX1", 163, since=FeatureLevel.FL_5_1)
class DiagonalMatrix1(Desc):
    """Fills diagonals of matrices with a number, and copies the other elements from an input, or fills them with 0.

    Element [y, x] is on diagonal t = x - y. Diagonals with DiagonalFillBegin <= t < DiagonalFillEnd are filled; if the begin
    is greater than the end, those with t < DiagonalFillEnd or t >= DiagonalFillBegin. Bits are copied unchanged.
    """

    input_tensor: TensorDesc | None = field.input("InputTensor", "The other elements; without it, 0.", default=None)
    output_tensor: TensorDesc = field.output("OutputTensor", "Matrices of {Height, Width}.")
    value_data_type: DataType = field.attribute("ValueDataType", field.DATA_TYPE, "The type of Value.")
    value: float = field.scalar("Value", "ValueDataType", "The number.")
    diagonal_fill_begin: int = field.attribute("DiagonalFillBegin", field.INT, "The first diagonal that is filled.")
    diagonal_fill_end: int = field.attribute("DiagonalFillEnd", field.INT, "The diagonal behind the last one that is filled.")

    eight_bit_floats = BOTH
    rows = (support("5_1", BOTH, (2, 4), ELEVEN),)
    same = same("DataType DimensionCount Sizes", BOTH)
    typed = scalar_type("ValueDataType")

    def outputs(d) -> Outputs:
        return {} if d.input_tensor is None else {"output_tensor": (d.input_tensor.sizes, d.input_tensor.data_type)}

    def statement(d, x: Tensor | None) -> Nest:
        i = each(d.output_tensor.sizes)
        t = i[-1] - i[-2]
        begun, not_ended = t >= d.diagonal_fill_begin, t < d.diagonal_fill_end
        between = d.diagonal_fill_begin <= d.diagonal_fill_end
        filled = both(begun, not_ended) if between else either(begun, not_ended)
        return move(i, select(filled, lift(d.value), lift(0) if x is None else x[i]))

    examples = (
        band("Page: the diagonal and those below are 0", np.triu(TWENTY, 1), BEFORE_ALL, 1, 0.0, WIDE),
        band("Page: all but the diagonal is 0", np.triu(np.tril(TWENTY)), 1, 0, 0.0, WIDE),
        band(
            "Page: three diagonals of 7",
            float32([7, 7, 7, 0, 0], [0, 7, 7, 7, 0], [0, 0, 7, 7, 7], [0, 0, 0, 7, 7]),
            *(0, 3, 7.0),
        ),
        band("A begin that is the end fills nothing", TWENTY, 2, 2, 7.0, WIDE),
    )
    rejecting = (
        rejects("same_data_type", input_tensor=TensorDesc(DataType.FLOAT64, (1, 1, 4, 5))),
        rejects("same_dimension_count", input_tensor=TensorDesc(DataType.FLOAT32, (1, 4, 5))),
        rejects(
            "value_fits",
            input_tensor=None,
            output_tensor=TensorDesc(DataType.UINT8, (3, 3)),
            value_data_type=DataType.UINT8,
            value=256,
        ),
    )
    errata = (
        "The first example of the page says Value 7 and shows ones.",
        "The page does not say that the sizes of Input are those of Output: they are (our decision).",
        "The page does not say in which integers x - y is compared: none of them wraps here.",
    )


@operator("DML_OPERATOR_DIAGONAL_MATRIX", 93, since=FeatureLevel.FL_2_0)
class DiagonalMatrix(Desc):
    """Fills a diagonal of matrices with a number, and the rest with 0: Output[y, x] = Value where x = y + Offset, else 0.

    It is DIAGONAL_MATRIX1 without an input, from Offset to Offset + 1. In integer tensors Value is truncated and saturated.
    """

    output_tensor: TensorDesc = field.output("OutputTensor", "Matrices of {Height, Width}.")
    offset: int = field.attribute("Offset", field.INT, "The diagonal: above the main one if positive.", default=0)
    value: float = field.attribute("Value", field.FLOAT, "The number.", default=1.0)

    eight_bit_floats = "OutputTensor"
    rows = (
        support("2_0", "OutputTensor", (4, 4), FLOATS),
        support("2_1", "OutputTensor", (4, 4), EIGHT),
        support("4_0", "OutputTensor", (2, 4), EIGHT),
        support("5_1", "OutputTensor", (2, 4), ELEVEN),
    )

    def as_newest(d) -> DiagonalMatrix1:
        return DiagonalMatrix1(
            output_tensor=d.output_tensor,
            value_data_type=d.output_tensor.data_type,
            value=stored_in(d.value, d.output_tensor.data_type),
            diagonal_fill_begin=d.offset,
            diagonal_fill_end=d.offset + 1,
        )

    examples = (
        Example("Page: the identity", dict(output_tensor=SQUARE), {}, float32([1, 0, 0], [0, 1, 0], [0, 0, 1])),
        Example("Page: one above", dict(output_tensor=SQUARE, offset=1), {}, float32([0, 1, 0], [0, 0, 1], [0, 0, 0])),
        Example("Page: one below", dict(output_tensor=TALL, offset=-1), {}, float32([0, 0], [1, 0], [0, 1])),
        Example("Page: beyond the matrix", dict(output_tensor=TALL, offset=-3), {}, float32([0, 0], [0, 0], [0, 0])),
    )
    rejecting = ()
    errata = (
        "The page does not say what becomes of a Value that an integer tensor cannot hold: it is truncated and saturates, and "
        "NaN is 0 (our decision).",
    )
