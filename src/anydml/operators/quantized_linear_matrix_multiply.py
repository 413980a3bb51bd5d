"""DML_OPERATOR_QUANTIZED_LINEAR_MATRIX_MULTIPLY: the product of dequantized 8-bit matrices, quantized again.

Source: ns-directml-dml_quantized_linear_matrix_multiply_operator_desc.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from anydml.feature_level import FeatureLevel
from anydml.spec.constraint import constraint, data_rule
from anydml.spec.fields import input_tensor, optional_input_tensor, output_tensor
from anydml.spec.operator import Desc, Example, aligned, granular, operator, rejects
from anydml.spec.support import support
from anydml.tensor import DataType, TensorDesc

EIGHT_BIT = (DataType.INT8, DataType.UINT8)
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
@dataclass(frozen=True, kw_only=True)
class QuantizedLinearMatrixMultiply(Desc):
    """Multiplies quantized matrices, batch by batch: Output = quantize(dequantize(A) @ dequantize(B)).

    dequantize(x) = (x - ZeroPoint) * Scale; quantize(x) = clamp(round(x / Scale) + ZeroPoint, Min, Max). All of it is
    exact but the one rounding, half to even. A is {.., M, K}, B {.., K, N}, Output {.., M, N}. An absent zero point is 0.

    The eager function `quantized_linear_matrix_multiply` takes its arguments in the order of ONNX's QLinearMatMul.
    """

    a_tensor: TensorDesc = input_tensor("ATensor", "The left matrices, {BatchCount, ChannelCount, M, K}.")
    a_scale_tensor: TensorDesc = input_tensor("AScaleTensor", "A's scale; {.., M, 1} per row.")
    a_zero_point_tensor: TensorDesc | None = optional_input_tensor("AZeroPointTensor", "A's zero point; {.., M, 1} per row.")
    b_tensor: TensorDesc = input_tensor("BTensor", "The right matrices, {BatchCount, ChannelCount, K, N}.")
    b_scale_tensor: TensorDesc = input_tensor("BScaleTensor", "B's scale; {.., 1, N} per column.")
    b_zero_point_tensor: TensorDesc | None = optional_input_tensor("BZeroPointTensor", "B's zero point; {.., 1, N} per column.")
    output_scale_tensor: TensorDesc = input_tensor("OutputScaleTensor", "The output's scale; {.., M, 1} per row.")
    output_zero_point_tensor: TensorDesc | None = optional_input_tensor(
        "OutputZeroPointTensor", "The output's zero point; {.., M, 1} per row."
    )
    output_tensor: TensorDesc = output_tensor("OutputTensor", "The products, {BatchCount, ChannelCount, M, N}.")

    rows = (
        support(FeatureLevel.FL_2_1, f"{MATRICES} {ZERO_POINTS}", (4, 4), EIGHT_BIT),
        support(FeatureLevel.FL_2_1, SCALES, (4, 4), (DataType.FLOAT32,)),
        support(FeatureLevel.FL_4_0, MATRICES, (2, 4), EIGHT_BIT),
        support(FeatureLevel.FL_4_0, ZERO_POINTS, (1, 4), EIGHT_BIT),
        support(FeatureLevel.FL_4_0, SCALES, (1, 4), (DataType.FLOAT32,)),
    )

    @constraint("`ATensor.DimensionCount`, `BTensor.DimensionCount` and `OutputTensor.DimensionCount` are equal.")
    def same_dimension_count(d) -> bool:
        return d.a_tensor.dimension_count == d.b_tensor.dimension_count == d.output_tensor.dimension_count

    @constraint(
        "`AScaleTensor.DimensionCount`, `AZeroPointTensor.DimensionCount`, `BScaleTensor.DimensionCount`, "
        "`BZeroPointTensor.DimensionCount`, `OutputScaleTensor.DimensionCount` and "
        "`OutputZeroPointTensor.DimensionCount` are equal, where present."
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

    @constraint("The last of `ATensor.Sizes` and the second last of `BTensor.Sizes` are equal: K.")
    def inner_sizes_match(d) -> bool:
        return d.a_tensor.sizes[-1] == d.b_tensor.sizes[-2]

    @constraint(
        "`OutputTensor.Sizes` end with the second last of `ATensor.Sizes` and the last of `BTensor.Sizes`: M and N.",
        expected=lambda d: {"OutputTensor.Sizes": (*d.output_tensor.sizes[:-2], d.a_tensor.sizes[-2], d.b_tensor.sizes[-1])},
    )
    def output_sizes_match(d) -> bool:
        return d.output_tensor.sizes[-2:] == (d.a_tensor.sizes[-2], d.b_tensor.sizes[-1])

    @constraint(
        "`ATensor.Sizes`, `BTensor.Sizes` and `OutputTensor.Sizes` lead with the same batch sizes; "
        "strides of 0 spell a broadcast."
    )
    def batch_sizes_match(d) -> bool:
        batches = zip(d.a_tensor.sizes[:-2], d.b_tensor.sizes[:-2], d.output_tensor.sizes[:-2], strict=True)
        return all(a == b == output for a, b, output in batches)

    @constraint(
        "`AZeroPointTensor.DataType` = `ATensor.DataType`.",
        expected=lambda d: {"AZeroPointTensor.DataType": d.a_tensor.data_type},
    )
    def a_zero_point_data_type(d) -> bool:
        return d.a_zero_point_tensor is None or d.a_zero_point_tensor.data_type == d.a_tensor.data_type

    @constraint(
        "`BZeroPointTensor.DataType` = `BTensor.DataType`.",
        expected=lambda d: {"BZeroPointTensor.DataType": d.b_tensor.data_type},
    )
    def b_zero_point_data_type(d) -> bool:
        return d.b_zero_point_tensor is None or d.b_zero_point_tensor.data_type == d.b_tensor.data_type

    @constraint(
        "`OutputZeroPointTensor.DataType` = `OutputTensor.DataType`.",
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

    @data_rule("a scale is not 0, infinite or NaN.", "AScaleTensor", "BScaleTensor", "OutputScaleTensor")
    def scale_usable(scale: NDArray[Any]) -> NDArray[np.bool_]:
        magnitude = scale.view(np.uint32) & 0x7FFFFFFF  # bits: under denormals-are-zero a subnormal compares equal to 0
        unusable: NDArray[np.bool_] = (magnitude == 0) | (magnitude >= 0x7F800000)
        return unusable

    @staticmethod
    def infer(a_sizes: tuple[int, ...], b_sizes: tuple[int, ...]) -> tuple[int, ...]:
        """The output's sizes."""
        return (*a_sizes[:-1], b_sizes[-1])

    def reference(d, **arrays: NDArray[Any]) -> NDArray[Any]:
        rank, sizes = d.a_tensor.dimension_count, d.output_tensor.sizes

        def centred(tensor: str) -> NDArray[np.int64]:
            x = arrays[f"{tensor}_tensor"].astype(np.int64)
            zero_point = arrays.get(f"{tensor}_zero_point_tensor")
            return x if zero_point is None else x - aligned(zero_point, rank)

        def each(array: NDArray[Any]) -> list[int]:
            return np.broadcast_to(aligned(array, rank), sizes).ravel().tolist()  # type: ignore[no-any-return]

        q = np.matmul(centred("a"), centred("b"))  # |q| < 2^48
        scales = [each(arrays[f"{of}_scale_tensor"].view(np.uint32)) for of in ("a", "b", "output")]
        zero_point = each(arrays.get("output_zero_point_tensor", np.zeros(1, np.int64)))
        limits = np.iinfo(d.output_tensor.data_type.dtype)
        rounded = map(rounded_quotient, q.ravel().tolist(), *scales)
        clamped = [min(max(r + z, limits.min), limits.max) for r, z in zip(rounded, zero_point, strict=True)]
        return np.array(clamped, limits.dtype).reshape(sizes)

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


def rounded_quotient(q: int, a_scale: int, b_scale: int, output_scale: int) -> int:
    """q * a_scale * b_scale / output_scale rounded half to even; scales are the bit patterns of float32."""
    (a, a_exponent), (b, b_exponent), (y, y_exponent) = map(significand, (a_scale, b_scale, output_scale))
    numerator, exponent = q * a * b, a_exponent + b_exponent - y_exponent
    if y < 0:
        numerator, y = -numerator, -y
    if exponent >= 0:
        numerator <<= exponent
    else:
        y <<= -exponent
    quotient, remainder = divmod(numerator, y)
    return quotient + (2 * remainder > y or (2 * remainder == y and quotient % 2))


def significand(bits: int) -> tuple[int, int]:
    """The integers (m, e) with m * 2^e the value of a finite float32's bit pattern."""
    exponent, fraction = bits >> 23 & 0xFF, bits & 0x7FFFFF
    m = fraction | 0x800000 if exponent else fraction
    return (-m if bits >> 31 else m), max(exponent, 1) - 150
