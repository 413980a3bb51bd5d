"""DML_OPERATOR_MATRIX_MULTIPLY_INTEGER_TO_FLOAT: the product of dequantized matrices of integers, in floats.

Source: ns-directml-dml_matrix_multiply_integer_to_float_operator_desc.
"""

from __future__ import annotations

from anydml.operators.matrix_multiply_integer import MatrixMultiplyInteger, product_sum
from anydml.operators.shared.quantization_rules import granular
from anydml.operators.shared.vocabulary import *

INTEGERS = (DataType.INT32, DataType.INT16, DataType.INT8, DataType.UINT32, DataType.UINT16, DataType.UINT8)
PARAMETERS = "AScaleTensor AZeroPointTensor BScaleTensor BZeroPointTensor"


def int8(*sizes: int) -> TensorDesc:
    return TensorDesc(DataType.INT8, sizes)


def float32(*sizes: int) -> TensorDesc:
    return TensorDesc(DataType.FLOAT32, sizes)


SQUARE: dict[str, Any] = dict(
    a_tensor=int8(2, 2), a_scale_tensor=float32(1), a_zero_point_tensor=int8(1), b_tensor=int8(2, 2),
    b_scale_tensor=float32(2), b_zero_point_tensor=int8(1), bias_tensor=float32(2, 2), output_tensor=float32(2, 2),
)  # fmt: skip
BY_BATCH: dict[str, Any] = dict(
    a_tensor=int8(2, 2, 4), a_scale_tensor=float32(1, 1, 1), a_zero_point_tensor=int8(1, 1, 1), b_tensor=int8(2, 4, 3),
    b_scale_tensor=float32(1, 1, 1), b_zero_point_tensor=int8(1, 1, 1), bias_tensor=None, output_tensor=float32(2, 2, 3),
)  # fmt: skip


@operator("DML_OPERATOR_MATRIX_MULTIPLY_INTEGER_TO_FLOAT", 170, since=FeatureLevel.FL_6_2)
class MatrixMultiplyIntegerToFloat(Desc):
    """Multiplies matrices of integers, batch by batch, into floats: Output = dequantize(A) @ dequantize(B) + Bias.

    dequantize(x) = (x - ZeroPoint) * Scale. The result, AScale * BScale * (the sum over k of (A - AZeroPoint) *
    (B - BZeroPoint)) + Bias, is exact, and rounded once. A is {.., M, K}, B {.., K, N}, Bias and Output {.., M, N}. An absent
    zero point is 0.
    """

    a_tensor: TensorDesc = field.input("ATensor", "The left matrices, {BatchCount, ChannelCount, M, K}.")
    a_scale_tensor: TensorDesc = field.input("AScaleTensor", "A's scale; {.., M, 1} per row.")
    a_zero_point_tensor: TensorDesc | None = field.input(
        "AZeroPointTensor", "A's zero point; {.., M, 1} per row.", default=None
    )
    b_tensor: TensorDesc = field.input("BTensor", "The right matrices, {BatchCount, ChannelCount, K, N}.")
    b_scale_tensor: TensorDesc = field.input("BScaleTensor", "B's scale; {.., 1, N} per column.")
    b_zero_point_tensor: TensorDesc | None = field.input(
        "BZeroPointTensor", "B's zero point; {.., 1, N} per column.", default=None
    )
    bias_tensor: TensorDesc | None = field.input(
        "BiasTensor", "A matrix to add, {BatchCount, ChannelCount, M, N}; strides of 0 broadcast.", default=None
    )
    output_tensor: TensorDesc = field.output("OutputTensor", "The results, {BatchCount, ChannelCount, M, N}.")

    rows = (
        support("6_2", "ATensor BTensor", (2, 4), INTEGERS),
        support("6_2", "AScaleTensor BScaleTensor", (1, 4), FLOATS),
        support("6_2", "AZeroPointTensor BZeroPointTensor", (1, 4), INTEGERS),
        support("6_2", "BiasTensor OutputTensor", (2, 4), FLOATS),
    )
    same_a = same("DataType", "ATensor AZeroPointTensor", name="a")
    same_b = same("DataType", "BTensor BZeroPointTensor", name="b")
    same_real = same("DataType", "AScaleTensor BScaleTensor BiasTensor OutputTensor", name="real")
    same_parameters = same("DimensionCount", PARAMETERS, name="parameters")
    same = same("DimensionCount", "ATensor BTensor BiasTensor OutputTensor")

    @constraint("`ATensor.DataType` and `BTensor.DataType` must have as many bits as each other.")
    def integer_bits_match(d) -> bool:
        return d.a_tensor.data_type.element_bits == d.b_tensor.data_type.element_bits

    integer_types_match = Constraint(
        "integer_types_match",
        "`ATensor.DataType` and `BTensor.DataType` must be equal, or differ in the number of bits, too: documented are "
        "matrices of one type.",
        lambda d: (
            d.a_tensor.data_type == d.b_tensor.data_type
            or d.a_tensor.data_type.element_bits != d.b_tensor.data_type.element_bits
        ),
        extension=True,
    )
    inner_sizes_match = MatrixMultiplyInteger.inner_sizes_match
    output_sizes_match = MatrixMultiplyInteger.output_sizes_match
    batch_sizes_match = MatrixMultiplyInteger.batch_sizes_match
    a_scale_sizes, a_scale_not_by_batch = granular("AScaleTensor", "row", of="ATensor")
    a_zero_point_sizes, a_zero_point_not_by_batch = granular("AZeroPointTensor", "row", of="ATensor")
    b_scale_sizes, b_scale_not_by_batch = granular("BScaleTensor", "column", of="BTensor")
    b_zero_point_sizes, b_zero_point_not_by_batch = granular("BZeroPointTensor", "column", of="BTensor")
    bias_sizes = sizes_are(
        "BiasTensor",
        "`BiasTensor.Sizes` must equal `OutputTensor.Sizes`; a broadcast has strides of 0.",
        lambda d: d.output_tensor.sizes,
    )

    def outputs(d) -> Outputs:
        return {"output_tensor": ((*d.a_tensor.sizes[:-1], d.b_tensor.sizes[-1]), d.a_scale_tensor.data_type)}

    def statement(
        d,
        a: Tensor,
        a_scale: Tensor,
        a_zero_point: Tensor | None,
        b: Tensor,
        b_scale: Tensor,
        b_zero_point: Tensor | None,
        bias: Tensor | None,
    ) -> Nest:
        *batch, m, n = i = each(d.output_tensor.sizes)
        row: list[Operand] = [*batch, m, 0]
        column: list[Operand] = [*batch, 0, n]
        total = product_sum(i, a, a_zero_point, b, b_zero_point) * a_scale.broadcast(row) * b_scale.broadcast(column)
        return nest(i, total if bias is None else total + bias[i])

    examples = (
        Example(
            "A scale for each column, and a bias",
            SQUARE,
            dict(
                a_tensor=np.array([[1, 2], [3, 4]], np.int8), a_scale_tensor=np.array([0.5], np.float32),
                a_zero_point_tensor=np.array([2], np.int8), b_tensor=np.array([[1, -1], [2, 0]], np.int8),
                b_scale_tensor=np.array([0.25, 2], np.float32), b_zero_point_tensor=np.array([0], np.int8),
                bias_tensor=np.ones((2, 2), np.float32),
            ),
            np.array([[0.875, 2], [1.625, 0]], np.float32),
        ),
        Example(
            "2^62 less (2^31 - 1)^2, of INT32: the sum is exact, and so is the product of the scales, which is no float32",
            dict(
                a_tensor=TensorDesc(DataType.INT32, (1, 2)), a_scale_tensor=float32(1, 1),
                b_tensor=TensorDesc(DataType.INT32, (2, 1)), b_scale_tensor=float32(1, 1), output_tensor=float32(1, 1),
            ),
            dict(
                a_tensor=np.array([[-(2**31), 2**31 - 1]], np.int32), a_scale_tensor=np.array([[2.0**-100]], np.float32),
                b_tensor=np.array([[-(2**31)], [-(2**31 - 1)]], np.int32), b_scale_tensor=np.array([[2.0**-60]], np.float32),
            ),
            np.array([[2.0**-128]], np.float32),
        ),
    )  # fmt: skip
    rejecting = (
        rejects("same_dimension_count", a_tensor=int8(1, 2, 2), b_tensor=int8(1, 1, 2, 2), output_tensor=float32(1, 2, 2),
                bias_tensor=float32(1, 2, 2)),
        rejects("same_dimension_count_parameters", a_scale_tensor=float32(1, 1)),
        rejects("integer_bits_match", a_tensor=TensorDesc(DataType.INT16, (2, 2)),
                a_zero_point_tensor=TensorDesc(DataType.INT16, (1,))),
        rejects("integer_types_match", strict=True, a_tensor=TensorDesc(DataType.UINT8, (2, 2)),
                a_zero_point_tensor=TensorDesc(DataType.UINT8, (1,))),
        rejects("inner_sizes_match", b_tensor=int8(3, 2)),
        rejects("output_sizes_match", output_tensor=float32(2, 3), bias_tensor=float32(2, 3)),
        rejects("batch_sizes_match", a_tensor=int8(2, 2, 2), b_tensor=int8(1, 2, 2), output_tensor=float32(2, 2, 2),
                bias_tensor=None),
        rejects("a_scale_sizes", a_scale_tensor=float32(2)),
        rejects("a_zero_point_sizes", a_zero_point_tensor=int8(2)),
        rejects("b_scale_sizes", b_scale_tensor=float32(3)),
        rejects("b_zero_point_sizes", b_zero_point_tensor=int8(3)),
        *(rejects(f"{name}_not_by_batch", strict=True, **(BY_BATCH | {f"{name}_tensor": finest})) for name, finest in (
            ("a_scale", float32(2, 2, 1)), ("a_zero_point", int8(2, 1, 1)), ("b_scale", float32(2, 1, 3)),
            ("b_zero_point", int8(2, 1, 1)))),
    )  # fmt: skip
    errata = (
        "The page prints no formula. The scales multiply the sum of integers (our decision), which differs from a sum of "
        "dequantized products only where a scale is infinite or NaN.",
        "The page documents an output scale and an output zero point that neither its own syntax nor the header has.",
        "The page asks for one integer type of A and B, but clients mix INT8 and UINT8: types of as many bits are legal here "
        "unless the check is strict.",
        "The prose asks for 4 dimensions where the table allows 2 to 4.",
        "Scales and zero points that vary by batch are beyond the page; they are legal here unless the check is strict.",
    )
