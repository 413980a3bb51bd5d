"""DML_OPERATOR_QUANTIZE: floats to integers of 8 or 4 bits, in blocks that share a scale and a zero point.

Source: ns-directml-dml_quantize_operator_desc.
"""

from __future__ import annotations

from anydml.exact.formats import FORMATS, significand
from anydml.operators.shared.vocabulary import *

SCALE, SCALE_ZERO_POINT = QuantizationType.SCALE, QuantizationType.SCALE_ZERO_POINT
INTEGERS = (DataType.INT8, DataType.INT4, DataType.UINT8, DataType.UINT4)
FLOAT32, INT8, UINT8, INT4, UINT4 = (DataType[name] for name in ["FLOAT32", "INT8", "UINT8", "INT4", "UINT4"])
DATA = np.array([[0, 2, 4, 6], [-1, 1, 3, 5]], np.float32)
SCALES = np.array([[1, 2], [0.5, 1]], np.float32)


def tensor(data_type: DataType, *sizes: int) -> TensorDesc:
    return TensorDesc(data_type, sizes)


TYPE_BY_COUNT = defaults(
    quantization_type=(
        "SCALE for one quantization tensor, SCALE_ZERO_POINT for two",
        lambda d: "SCALE" if len(d.quantization_tensors) == 1 else "SCALE_ZERO_POINT",
    )
)
QUANTIZATION_REJECTED = (
    rejects("quantization_type_known", quantization_type="NONE"),
    rejects("quantization_tensors_counted", quantization_tensors=(tensor(FLOAT32, 2, 1),)),
    rejects(
        "quantization_tensor_count_matches",
        quantization_tensors=(tensor(FLOAT32, 2, 1),),
        quantization_tensor_count=1,
    ),
    rejects("same_sizes_quantization", quantization_tensors=(tensor(FLOAT32, 2, 1), tensor(UINT8, 1, 1))),
    rejects(
        "same_dimension_count_quantization",
        quantization_type=SCALE,
        quantization_tensor_count=1,
        quantization_tensors=(tensor(FLOAT32, 1, 2, 1),),
    ),
    rejects("scale_data_type", quantization_tensors=(tensor(DataType.FLOAT16, 2, 1), tensor(UINT8, 2, 1))),
    rejects("zero_point_data_type", quantization_tensors=(tensor(FLOAT32, 2, 1), tensor(INT8, 2, 1))),
    rejects("blocks_divide", quantization_tensors=(tensor(FLOAT32, 2, 3), tensor(UINT8, 2, 3))),
)
QUANTIZATION_ERRATA = (
    "The page does not say what QuantizationType and the quantization tensors mean; it is read as the header's names, "
    "DirectMLX and onnxruntime have it (our decision).",
    "The page does not say that sizes may be those of blocks; they may, if they divide the input's (our decision).",
    "The page does not say what an absent zero point is: the middle of an unsigned type, as onnxruntime says of DirectML "
    "(our decision).",
)


def quantization_rules(real: str, quantized: str) -> tuple[Constraint, ...]:
    """The rules of the quantization tensors: `real` has the type of the scale, `quantized` that of the zero point."""
    scale_of, zero_point_of = ("input_tensor" if wire == "InputTensor" else "output_tensor" for wire in (real, quantized))

    @constraint("`QuantizationType` must be SCALE or SCALE_ZERO_POINT.", expected=lambda d: {"QuantizationType": SCALE})
    def quantization_type_known(d: Any) -> bool:
        return d.quantization_type in (SCALE, SCALE_ZERO_POINT)

    @constraint(
        "`QuantizationTensorCount` must be 1 where `QuantizationType` is SCALE, and 2 where it is SCALE_ZERO_POINT.",
        expected=lambda d: {"QuantizationTensorCount": int(d.quantization_type)},
    )
    def quantization_tensor_count_matches(d: Any) -> bool:
        return bool(d.quantization_type == QuantizationType.NONE or d.quantization_tensor_count == d.quantization_type)

    def scale_data_type(d: Any) -> bool:
        return bool(d.quantization_tensors[0].data_type == getattr(d, scale_of).data_type)

    def zero_point_data_type(d: Any) -> bool:
        types = [t.data_type for t in d.quantization_tensors[1:]]
        return all(t == getattr(d, zero_point_of).data_type for t in types)

    @constraint("`QuantizationTensors.Sizes` must divide `InputTensor.Sizes` in every dimension.", each="QuantizationTensors")
    def blocks_divide(d: Any, i: int) -> bool:
        pairs = zip(d.input_tensor.sizes, d.quantization_tensors[i].sizes, strict=True)
        return all(n % blocks == 0 for n, blocks in pairs)

    return (
        *same("DimensionCount", "InputTensor QuantizationTensors", name="quantization"),
        *same("Sizes", "QuantizationTensors", name="quantization"),
        quantization_type_known,
        quantization_tensor_count_matches,
        Constraint(
            "scale_data_type", f"The first of `QuantizationTensors.DataType` must equal `{real}.DataType`.", scale_data_type
        ),
        Constraint(
            "zero_point_data_type",
            f"The second of `QuantizationTensors.DataType` must equal `{quantized}.DataType`.",
            zero_point_data_type,
        ),
        blocks_divide,
    )


def least_and_largest(data_type: DataType) -> tuple[int, int]:
    """The least and the largest number of an integer type or of 8-bit floats, whose largest numbers are integers, too."""
    form = FORMATS.get(data_type)
    if form is None:
        return limits(data_type)
    m, e = significand(form.largest, form)
    return -(m << e), m << e


def block_parameters(
    i: Sequence[Expr], sizes: Sequence[Any], tensors: Sequence[Tensor], quantized: DataType
) -> tuple[Expr, Operand]:
    """The scale and the zero point of an element's block; the zero point of SCALE alone is in the middle of an integer type.

    8-bit floats that have no zero point get -0, which adds nothing to any number, -0 included.
    """
    scale, *zero_points = (t[[a // (n // blocks) for a, n, blocks in zip(i, sizes, t.sizes, strict=True)]] for t in tensors)
    if quantized.is_float:
        return scale, zero_points[0] if zero_points else -0.0
    low, high = limits(quantized)
    return scale, zero_points[0] if zero_points else (low + high + 1) // 2


@operator("DML_OPERATOR_QUANTIZE", 173, since=FeatureLevel.FL_6_3)
class Quantize(Desc):
    """Quantizes every element by its block: Output = clamp(round(Input / Scale) + ZeroPoint, Min, Max).

    In each dimension, the quantization tensors have a size n, and the input is divided into n blocks of equal size: with n = 1
    all elements share a scale, and with the input's size each has its own. The quotient is rounded to FLOAT32, as in ONNX, and
    round takes ties to even. Min and Max are the limits of the output's type; a quotient that is NaN gives Min. An absent zero
    point is 0 for a signed type, and the middle of an unsigned one: 128 for UINT8, 8 for UINT4. (In ONNX it is 0; give a
    tensor for that.)

    At `FeatureLevel.EXTENDED`, the output may have 8-bit floats. Then the sum of the quotient and the zero point is not rounded
    to an integer, numbers beyond the largest become the largest, and NaN stays NaN: ONNX's saturation, which CAST lacks.

    Elements of 4 bits are bound as bytes, two in each, the first in the low half. The eager function takes and returns arrays
    of ml_dtypes' int4 and uint4.
    """

    input_tensor: TensorDesc = field.input("InputTensor", "The elements to quantize.")
    quantization_type: QuantizationType = field.attribute(
        "QuantizationType", field.QUANTIZATION_TYPE, "SCALE, or SCALE_ZERO_POINT: what the quantization tensors are."
    )
    quantization_tensor_count: int | None = field.count(
        "QuantizationTensorCount", "The quantization tensors, 1 or 2.", default=None
    )
    quantization_tensors: tuple[TensorDesc, ...] = field.input(
        "QuantizationTensors",
        "The scale of each block, of the input's type, and its zero point, of the output's type.",
        sized_by="QuantizationTensorCount",
    )
    output_tensor: TensorDesc = field.output("OutputTensor", "The quantized elements.")

    eager = TYPE_BY_COUNT

    eight_bit_floats = "QuantizationTensors OutputTensor"
    rows = (
        support("6_3", "InputTensor", (1, 8), FLOATS),
        support("6_3", "QuantizationTensors", (1, 8), (*FLOATS, *INTEGERS)),
        support("6_3", "OutputTensor", (1, 8), INTEGERS),
    )
    same = same("DimensionCount Sizes", "InputTensor OutputTensor")
    quantization = quantization_rules("InputTensor", "OutputTensor")

    def outputs(d) -> Outputs:
        types = [t.data_type for t in d.quantization_tensors[1:]]
        return {"output_tensor": (d.input_tensor.sizes, types[0] if types else None)}

    def statement(d, x: Tensor, tensors: list[Tensor]) -> Nest:
        i = each(x.sizes)
        low, high = least_and_largest(d.output_tensor.data_type)
        scale, zero_point = block_parameters(i, x.sizes, tensors, d.output_tensor.data_type)
        quotient = rounded(x[i] / scale, FLOAT32)
        if d.output_tensor.data_type.is_float:
            return nest(i, clamp(quotient + zero_point, low, high))
        return nest(i, select(is_nan(quotient), low, clamp(half_to_even(quotient) + zero_point, low, high)))

    examples = (
        Example(
            "A scale and a zero point for each row",
            dict(
                input_tensor=tensor(FLOAT32, 2, 4),
                quantization_type=SCALE_ZERO_POINT,
                quantization_tensors=(tensor(FLOAT32, 2, 1), tensor(UINT8, 2, 1)),
                output_tensor=tensor(UINT8, 2, 4),
            ),
            dict(
                input_tensor=DATA,
                quantization_tensors=[np.array([[2], [0.5]], np.float32), np.array([[0], [100]], np.uint8)],
            ),
            np.array([[0, 1, 2, 3], [98, 102, 106, 110]], np.uint8),
        ),
        Example(
            "Blocks of two elements, each with a scale; ties go to even",
            dict(
                input_tensor=tensor(FLOAT32, 2, 4),
                quantization_type=SCALE,
                quantization_tensors=(tensor(FLOAT32, 2, 2),),
                output_tensor=tensor(INT8, 2, 4),
            ),
            dict(input_tensor=DATA, quantization_tensors=[SCALES * 4]),
            np.array([[0, 0, 0, 1], [0, 0, 1, 1]], np.int8),
        ),
        Example(
            "The same blocks in 4 bits, bound as bytes of two: 0, 2, 2, 3, -2, 2, 3, 5",
            dict(
                input_tensor=tensor(FLOAT32, 2, 4),
                quantization_type=SCALE,
                quantization_tensors=(tensor(FLOAT32, 2, 2),),
                output_tensor=tensor(INT4, 2, 4),
            ),
            dict(input_tensor=DATA, quantization_tensors=[SCALES]),
            np.array([0x20, 0x32, 0x2E, 0x53], np.uint8),
        ),
        Example(
            "In UINT4 without a zero point, it is 8: 8, 10, 10, 11, 6, 10, 11, 13",
            dict(
                input_tensor=tensor(FLOAT32, 2, 4),
                quantization_type=SCALE,
                quantization_tensors=(tensor(FLOAT32, 2, 2),),
                output_tensor=tensor(UINT4, 2, 4),
            ),
            dict(input_tensor=DATA, quantization_tensors=[SCALES]),
            np.array([0xA8, 0xBA, 0xA6, 0xDB], np.uint8),
        ),
    )
    rejecting = QUANTIZATION_REJECTED
    errata = (
        *QUANTIZATION_ERRATA,
        "The page does not define round; it takes ties to even, of the quotient rounded to FLOAT32 (our decision).",
        "The page does not say what a scale of 0 does; the quotient is then what IEEE 754 says, infinities saturate and NaN "
        "gives Min (our decision).",
    )
