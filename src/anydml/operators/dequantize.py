"""DML_OPERATOR_DEQUANTIZE: integers of 8 or 4 bits to floats, in blocks that share a scale and a zero point.

Source: ns-directml-dml_dequantize_operator_desc.
"""

from __future__ import annotations

from anydml.operators.quantize import (
    FLOAT32,
    INTEGERS,
    QUANTIZATION_ERRATA,
    QUANTIZATION_REJECTED,
    SCALE,
    SCALE_ZERO_POINT,
    TYPE_BY_COUNT,
    UINT4,
    UINT8,
    block_parameters,
    quantization_rules,
    tensor,
)
from anydml.operators.shared.vocabulary import *

SCALES = np.array([[1, 0.5], [2, 0.25]], np.float32)


@operator("DML_OPERATOR_DEQUANTIZE", 174, since=FeatureLevel.FL_6_3)
class Dequantize(Desc):
    """Dequantizes every element by its block: Output = (Input - ZeroPoint) * Scale.

    In each dimension, the quantization tensors have a size n, and the input is divided into n blocks of equal size: with n = 1
    all elements share a scale, and with the input's size each has its own. The product is exact and rounded once. An absent
    zero point is 0 for a signed type, and the middle of an unsigned one: 128 for UINT8, 8 for UINT4. (In ONNX it is 0; give
    a tensor for that.)

    At `FeatureLevel.EXTENDED`, the input may have 8-bit floats.

    Elements of 4 bits are bound as bytes, two in each, the first in the low half. The eager function takes arrays of
    ml_dtypes' int4 and uint4.
    """

    input_tensor: TensorDesc = field.input("InputTensor", "The elements to dequantize.")
    quantization_type: QuantizationType = field.attribute(
        "QuantizationType", field.QUANTIZATION_TYPE, "SCALE, or SCALE_ZERO_POINT: what the quantization tensors are."
    )
    quantization_tensor_count: int | None = field.count(
        "QuantizationTensorCount", "The quantization tensors, 1 or 2.", default=None
    )
    quantization_tensors: tuple[TensorDesc, ...] = field.input(
        "QuantizationTensors",
        "The scale of each block, of the output's type, and its zero point, of the input's type.",
        sized_by="QuantizationTensorCount",
    )
    output_tensor: TensorDesc = field.output("OutputTensor", "The numbers that the elements stand for.")

    eager = TYPE_BY_COUNT

    eight_bit_floats = "InputTensor QuantizationTensors"
    rows = (
        support("6_3", "InputTensor", (1, 8), INTEGERS),
        support("6_3", "QuantizationTensors", (1, 8), (*FLOATS, *INTEGERS)),
        support("6_3", "OutputTensor", (1, 8), FLOATS),
    )
    same = same("DimensionCount Sizes", "InputTensor OutputTensor")
    quantization = quantization_rules("OutputTensor", "InputTensor")

    def outputs(d) -> Outputs:
        return {"output_tensor": (d.input_tensor.sizes, d.quantization_tensors[0].data_type)}

    def statement(d, x: Tensor, tensors: list[Tensor]) -> Nest:
        i = each(x.sizes)
        scale, zero_point = block_parameters(i, x.sizes, tensors, x.data_type)
        if x.data_type.is_float and len(tensors) == 1:
            return nest(i, x[i] * scale)
        return nest(i, (x[i] - zero_point) * scale)

    examples = (
        Example(
            "A scale and a zero point for each row",
            dict(
                input_tensor=tensor(UINT8, 2, 4),
                quantization_type=SCALE_ZERO_POINT,
                quantization_tensors=(tensor(FLOAT32, 2, 1), tensor(UINT8, 2, 1)),
                output_tensor=tensor(FLOAT32, 2, 4),
            ),
            dict(
                input_tensor=np.array([[0, 1, 2, 3], [98, 102, 106, 110]], np.uint8),
                quantization_tensors=[np.array([[2], [0.5]], np.float32), np.array([[0], [100]], np.uint8)],
            ),
            np.array([[0, 2, 4, 6], [-1, 1, 3, 5]], np.float32),
        ),
        Example(
            "Elements of 4 bits, bound as bytes of two: 0 to 11 in blocks of three, with zero points 8, 8, 0 and 4",
            dict(
                input_tensor=tensor(UINT4, 2, 6),
                quantization_type=SCALE_ZERO_POINT,
                quantization_tensors=(tensor(FLOAT32, 2, 2), tensor(UINT4, 2, 2)),
                output_tensor=tensor(FLOAT32, 2, 6),
            ),
            dict(
                input_tensor=np.array([0x10, 0x32, 0x54, 0x76, 0x98, 0xBA], np.uint8),
                quantization_tensors=[SCALES, np.array([0x88, 0x40], np.uint8)],
            ),
            np.array([[-8, -7, -6, -2.5, -2, -1.5], [12, 14, 16, 1.25, 1.5, 1.75]], np.float32),
        ),
        Example(
            "Without zero points, they are 8 in UINT4",
            dict(
                input_tensor=tensor(UINT4, 2, 6),
                quantization_type=SCALE,
                quantization_tensors=(tensor(FLOAT32, 2, 2),),
                output_tensor=tensor(FLOAT32, 2, 6),
            ),
            dict(
                input_tensor=np.array([0x10, 0x32, 0x54, 0x76, 0x98, 0xBA], np.uint8),
                quantization_tensors=[SCALES],
            ),
            np.array([[-8, -7, -6, -2.5, -2, -1.5], [-4, -2, 0, 0.25, 0.5, 0.75]], np.float32),
        ),
    )
    rejecting = QUANTIZATION_REJECTED
    errata = (
        *QUANTIZATION_ERRATA,
        "The page does not say that the product is exact; it is, and rounded once to the output's type (our decision).",
    )
