"""DML_OPERATOR_ELEMENT_WISE_DEQUANTIZE_LINEAR: integers to floats, each with a scale and a zero point.

Source: ns-directml-dml_element_wise_dequantize_linear_operator_desc.
"""

from __future__ import annotations

from anydml.operators.shared.vocabulary import *

ALL = "InputTensor ScaleTensor ZeroPointTensor OutputTensor"
QUANTIZED, REAL = "InputTensor ZeroPointTensor", "ScaleTensor OutputTensor"
INTEGERS = (*SIGNED, *UNSIGNED)
FLOAT32 = DataType.FLOAT32
BYTES, FOUR = TensorDesc(DataType.UINT8, (4,)), TensorDesc(FLOAT32, (4,))


@operator("DML_OPERATOR_ELEMENT_WISE_DEQUANTIZE_LINEAR", 34, since=FeatureLevel.FL_1_0)
class ElementWiseDequantizeLinear(Desc):
    """Dequantizes every element: Output = (Input - ZeroPoint) * Scale.

    The product is exact and rounded once. An absent zero point is 0.
    """

    input_tensor: TensorDesc = field.input("InputTensor", "The elements to dequantize.")
    scale_tensor: TensorDesc = field.input("ScaleTensor", "A scale for each element, of the output's type.")
    zero_point_tensor: TensorDesc | None = field.input(
        "ZeroPointTensor", "A zero point for each element, of the input's type.", default=None
    )
    output_tensor: TensorDesc = field.output("OutputTensor", "The numbers that the elements stand for.")

    rows = (
        support("1_0", QUANTIZED, (4, 4), (DataType.UINT8,)),
        support("1_0", REAL, (4, 4), (FLOAT32,)),
        support("2_1", QUANTIZED, (4, 4), INTEGERS),
        support("3_0", QUANTIZED, (1, 8), INTEGERS),
        support("3_0", REAL, (1, 8), (FLOAT32,)),
        support("6_0", REAL, (1, 8), FLOATS),
    )
    same_quantized = same("DataType", QUANTIZED, name="quantized")
    same_real = same("DataType", REAL, name="real")
    same = same("DimensionCount Sizes", ALL)

    @constraint("`ZeroPointTensor` must be there below feature level 6_2.", before=FeatureLevel.FL_6_2)
    def zero_point_present(d) -> bool:
        return d.zero_point_tensor is not None

    def outputs(d) -> Outputs:
        return {"output_tensor": (d.input_tensor.sizes, d.scale_tensor.data_type)}

    statement = elementwise(lambda d, x, scale, zero_point: (x if zero_point is None else x - zero_point) * scale)

    examples = (
        Example(
            "With a zero point of 128, bytes stand for numbers of both signs",
            dict(input_tensor=BYTES, scale_tensor=FOUR, zero_point_tensor=BYTES, output_tensor=FOUR),
            dict(
                input_tensor=np.array([0, 3, 128, 255], np.uint8),
                scale_tensor=np.full(4, 2, np.float32),
                zero_point_tensor=np.full(4, 128, np.uint8),
            ),
            np.array([-256, -250, 0, 254], np.float32),
        ),
        Example(
            "Without a zero point",
            dict(input_tensor=BYTES, scale_tensor=FOUR, output_tensor=FOUR),
            dict(input_tensor=np.array([0, 3, 128, 255], np.uint8), scale_tensor=np.array([1, 0.5, 0.25, -1], np.float32)),
            np.array([0, 1.5, 32, -255], np.float32),
        ),
    )
    rejecting = (rejects("zero_point_present", at=FeatureLevel.FL_6_1, zero_point_tensor=None),)
    errata = (
        "The page says of a scale of 0 that it is undefined; the product is then what IEEE 754 says (our decision).",
        "The page does not say that the product is exact; it is, and rounded once to the output's type (our decision).",
    )
