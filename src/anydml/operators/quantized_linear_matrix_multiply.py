"""DML_OPERATOR_QUANTIZED_LINEAR_MATRIX_MULTIPLY: the product of dequantized 8-bit matrices, quantized again.

Source: ns-directml-dml_quantized_linear_matrix_multiply_operator_desc.
"""

from __future__ import annotations

from anydml.operators.matrix_multiply_integer import product_sum
from anydml.operators.shared.quantization_rules import granular
from anydml.operators.shared.vocabulary import *

MATRICES = "ATensor BTensor OutputTensor"
ZERO_POINTS = "AZeroPointTensor BZeroPointTensor OutputZeroPointTensor"
SCALES = "AScaleTensor BScaleTensor OutputScaleTensor"


def uint8(*sizes: int) -> TensorDesc:
    return TensorDesc(DataType.UINT8, sizes)


def int8(*sizes: int) -> TensorDesc:
    return TensorDesc(DataType.INT8, sizes)


def float32(*sizes: int) -> TensorDesc:
    return TensorDesc(DataType.FLOAT32, sizes)


BY_BATCH: dict[str, Any] = {  # two batches, quantized per tensor
    "a_tensor": uint8(2, 2, 4),
    "b_tensor": uint8(2, 4, 3),
    "output_tensor": uint8(2, 2, 3),
    **{f"{of}_scale_tensor": float32(1, 1, 1) for of in ("a", "b", "output")},
    **{f"{of}_zero_point_tensor": uint8(1, 1, 1) for of in ("a", "b", "output")},
}


@operator("DML_OPERATOR_QUANTIZED_LINEAR_MATRIX_MULTIPLY", 118, since=FeatureLevel.FL_2_1)
class QuantizedLinearMatrixMultiply(Desc):
    """Multiplies quantized matrices, batch by batch: Output = quantize(dequantize(A) @ dequantize(B)).

    dequantize(x) = (x - ZeroPoint) * Scale; quantize(x) = clamp(round(x / Scale) + ZeroPoint, Min, Max). Everything is
    exact except for this one rounding, half to even. A is {.., M, K}, B {.., K, N}, Output {.., M, N}. An absent zero point
    is 0.

    The eager function `quantized_linear_matrix_multiply` takes its arguments in the order of ONNX's QLinearMatMul.
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
    output_scale_tensor: TensorDesc = field.input("OutputScaleTensor", "The output's scale; {.., M, 1} per row.")
    output_zero_point_tensor: TensorDesc | None = field.input(
        "OutputZeroPointTensor", "The output's zero point; {.., M, 1} per row.", default=None
    )
    output_tensor: TensorDesc = field.output("OutputTensor", "The products, {BatchCount, ChannelCount, M, N}.")

    rows = (
        support(FeatureLevel.FL_2_1, f"{MATRICES} {ZERO_POINTS}", (4, 4), EIGHT_BIT),
        support(FeatureLevel.FL_2_1, SCALES, (4, 4), (DataType.FLOAT32,)),
        support(FeatureLevel.FL_4_0, MATRICES, (2, 4), EIGHT_BIT),
        support(FeatureLevel.FL_4_0, ZERO_POINTS, (1, 4), EIGHT_BIT),
        support(FeatureLevel.FL_4_0, SCALES, (1, 4), (DataType.FLOAT32,)),
    )

    @constraint("`ATensor.DimensionCount`, `BTensor.DimensionCount` and `OutputTensor.DimensionCount` must be equal.")
    def same_dimension_count(d) -> bool:
        return d.a_tensor.dimension_count == d.b_tensor.dimension_count == d.output_tensor.dimension_count

    @constraint(
        "`AScaleTensor.DimensionCount`, `AZeroPointTensor.DimensionCount`, `BScaleTensor.DimensionCount`, "
        "`BZeroPointTensor.DimensionCount`, `OutputScaleTensor.DimensionCount` and "
        "`OutputZeroPointTensor.DimensionCount` must be equal where they are not absent."
    )
    def same_quantization_dimension_count(d) -> bool:
        count = d.a_scale_tensor.dimension_count
        return (
            d.b_scale_tensor.dimension_count == count
            and d.output_scale_tensor.dimension_count == count
            and (d.a_zero_point_tensor is None or d.a_zero_point_tensor.dimension_count == count)
            and (d.b_zero_point_tensor is None or d.b_zero_point_tensor.dimension_count == count)
            and (d.output_zero_point_tensor is None or d.output_zero_point_tensor.dimension_count == count)
        )

    @constraint("The last of `ATensor.Sizes` and the second last of `BTensor.Sizes` must be equal (K).")
    def inner_sizes_match(d) -> bool:
        return d.a_tensor.sizes[-1] == d.b_tensor.sizes[-2]

    @constraint(
        "`OutputTensor.Sizes` must end with M, the second last of `ATensor.Sizes`, and N, the last of `BTensor.Sizes`.",
        expected=lambda d: {"OutputTensor.Sizes": (*d.output_tensor.sizes[:-2], d.a_tensor.sizes[-2], d.b_tensor.sizes[-1])},
    )
    def output_sizes_match(d) -> bool:
        return d.output_tensor.sizes[-2:] == (d.a_tensor.sizes[-2], d.b_tensor.sizes[-1])

    @constraint(
        "`ATensor.Sizes`, `BTensor.Sizes` and `OutputTensor.Sizes` must begin with the same batch sizes; a broadcast has "
        "strides of 0."
    )
    def batch_sizes_match(d) -> bool:
        batches = zip(d.a_tensor.sizes[:-2], d.b_tensor.sizes[:-2], d.output_tensor.sizes[:-2], strict=True)
        return all(a == b == output for a, b, output in batches)

    @constraint(
        "`AZeroPointTensor.DataType` must equal `ATensor.DataType`.",
        expected=lambda d: {"AZeroPointTensor.DataType": d.a_tensor.data_type},
    )
    def a_zero_point_data_type(d) -> bool:
        return d.a_zero_point_tensor is None or d.a_zero_point_tensor.data_type == d.a_tensor.data_type

    @constraint(
        "`BZeroPointTensor.DataType` must equal `BTensor.DataType`.",
        expected=lambda d: {"BZeroPointTensor.DataType": d.b_tensor.data_type},
    )
    def b_zero_point_data_type(d) -> bool:
        return d.b_zero_point_tensor is None or d.b_zero_point_tensor.data_type == d.b_tensor.data_type

    @constraint(
        "`OutputZeroPointTensor.DataType` must equal `OutputTensor.DataType`.",
        expected=lambda d: {"OutputZeroPointTensor.DataType": d.output_tensor.data_type},
    )
    def output_zero_point_data_type(d) -> bool:
        return d.output_zero_point_tensor is None or d.output_zero_point_tensor.data_type == d.output_tensor.data_type

    a_scale_sizes, a_scale_not_by_batch = granular("AScaleTensor", "row", of="ATensor")
    a_zero_point_sizes, a_zero_point_not_by_batch = granular("AZeroPointTensor", "row", of="ATensor")
    b_scale_sizes, b_scale_not_by_batch = granular("BScaleTensor", "column", of="BTensor")
    b_zero_point_sizes, b_zero_point_not_by_batch = granular("BZeroPointTensor", "column", of="BTensor")
    output_scale_sizes, output_scale_not_by_batch = granular("OutputScaleTensor", "row", of="OutputTensor")
    output_zero_point_sizes, output_zero_point_not_by_batch = granular("OutputZeroPointTensor", "row", of="OutputTensor")

    @data_rule("a scale must not be 0, infinite or NaN.", "AScaleTensor", "BScaleTensor", "OutputScaleTensor")
    def scale_usable(d: Desc, scale: NDArray[Any]) -> NDArray[np.bool_]:
        magnitude = scale.view(np.uint32) & 0x7FFFFFFF  # bits: under denormals-are-zero a subnormal compares equal to 0
        unusable: NDArray[np.bool_] = (magnitude == 0) | (magnitude >= 0x7F800000)
        return unusable

    def outputs(d) -> Outputs:
        quantized = d.output_zero_point_tensor or d.a_tensor
        return {"output_tensor": ((*d.a_tensor.sizes[:-1], d.b_tensor.sizes[-1]), quantized.data_type)}

    def statement(
        d,
        a: Tensor,
        a_scale: Tensor,
        a_zero_point: Tensor | None,
        b: Tensor,
        b_scale: Tensor,
        b_zero_point: Tensor | None,
        output_scale: Tensor,
        output_zero_point: Tensor | None,
    ) -> Nest:
        *batch, m, n = i = each(d.output_tensor.sizes)
        row: list[Operand] = [*batch, m, 0]
        column: list[Operand] = [*batch, 0, n]
        total = product_sum(i, a, a_zero_point, b, b_zero_point)
        scaled = total * a_scale.broadcast(row) * b_scale.broadcast(column) / output_scale.broadcast(row)
        zero_point = 0 if output_zero_point is None else output_zero_point.broadcast(row)
        return nest(i, clamp(half_to_even(scaled) + zero_point, *limits(d.output_tensor.data_type)))

    examples = (
        Example(
            "onnxruntime's QLinearMatMul",
            dict(
                a_tensor=uint8(2, 4),
                a_scale_tensor=float32(1),
                a_zero_point_tensor=uint8(1),
                b_tensor=uint8(4, 3),
                b_scale_tensor=float32(1),
                b_zero_point_tensor=uint8(1),
                output_scale_tensor=float32(1),
                output_zero_point_tensor=uint8(1),
                output_tensor=uint8(2, 3),
            ),
            dict(
                a_tensor=np.array([[208, 236, 0, 238], [3, 214, 255, 29]], np.uint8),
                a_scale_tensor=np.array([0.0066], np.float32),
                a_zero_point_tensor=np.array([113], np.uint8),
                b_tensor=np.array([[152, 51, 244], [60, 26, 255], [0, 127, 246], [127, 254, 247]], np.uint8),
                b_scale_tensor=np.array([0.00705], np.float32),
                b_zero_point_tensor=np.array([114], np.uint8),
                output_scale_tensor=np.array([0.0107], np.float32),
                output_zero_point_tensor=np.array([118], np.uint8),
            ),
            np.array([[168, 115, 255], [1, 66, 151]], np.uint8),
        ),
        Example(
            "Ties round to even before the zero point is added: 1, 3, 5 and -1 halves, with zero points 0 and 1",
            dict(
                a_tensor=int8(2, 1),
                a_scale_tensor=float32(1, 1),
                b_tensor=int8(1, 4),
                b_scale_tensor=float32(1, 1),
                output_scale_tensor=float32(1, 1),
                output_zero_point_tensor=int8(2, 1),
                output_tensor=int8(2, 4),
            ),
            dict(
                a_tensor=np.array([[1], [1]], np.int8),
                a_scale_tensor=np.array([[0.5]], np.float32),
                b_tensor=np.array([[1, 3, 5, -1]], np.int8),
                b_scale_tensor=np.array([[1]], np.float32),
                output_scale_tensor=np.array([[1]], np.float32),
                output_zero_point_tensor=np.array([[0], [1]], np.int8),
            ),
            np.array([[0, 2, 2, 0], [1, 3, 3, 1]], np.int8),
        ),
    )
    rejecting = (
        rejects("available", at=FeatureLevel.FL_2_0),
        rejects("data_type_supported", a_scale_tensor=TensorDesc(DataType.FLOAT16, (1,))),
        rejects("dimension_count_supported", at=FeatureLevel.FL_3_1),
        rejects("same_dimension_count", a_tensor=uint8(1, 2, 4), b_tensor=uint8(1, 1, 4, 3), output_tensor=uint8(1, 2, 3)),
        rejects("same_quantization_dimension_count", a_scale_tensor=float32(1, 1)),
        rejects("inner_sizes_match", b_tensor=uint8(5, 3)),
        rejects("output_sizes_match", output_tensor=uint8(2, 4)),
        rejects("batch_sizes_match", a_tensor=uint8(2, 2, 4), b_tensor=uint8(1, 4, 3), output_tensor=uint8(2, 2, 3)),
        rejects("a_zero_point_data_type", a_zero_point_tensor=int8(1)),
        rejects("b_zero_point_data_type", b_zero_point_tensor=int8(1)),
        rejects("output_zero_point_data_type", output_zero_point_tensor=int8(1)),
        rejects("a_scale_sizes", a_scale_tensor=float32(2)),
        rejects("a_zero_point_sizes", a_zero_point_tensor=uint8(2)),
        rejects("b_scale_sizes", b_scale_tensor=float32(2)),
        rejects("b_zero_point_sizes", b_zero_point_tensor=uint8(4)),
        rejects("output_scale_sizes", output_scale_tensor=float32(3)),
        rejects("output_zero_point_sizes", output_zero_point_tensor=uint8(3)),
        *(rejects(f"{name}_not_by_batch", strict=True, **(BY_BATCH | {f"{name}_tensor": finest})) for name, finest in (
            ("a_scale", float32(2, 2, 1)), ("a_zero_point", uint8(2, 1, 1)), ("b_scale", float32(2, 1, 3)),
            ("b_zero_point", uint8(2, 1, 1)), ("output_scale", float32(2, 2, 1)), ("output_zero_point", uint8(2, 1, 1)))),
    )  # fmt: skip
    errata = (
        "The prose asks for 4 dimensions where the table of 4_0 allows 2 to 4.",
        "The page says that the output's scale and zero point dequantize; they quantize. An older page calls them the "
        "filter's.",
        "The page does not define round; it is half to even, of the exact quotient (our decision).",
        "Scales and zero points that vary by batch are beyond the page; they are legal here unless the check is strict.",
    )
