"""DML_OPERATOR_ELEMENT_WISE_QUANTIZE_LINEAR: elements to 8-bit integers, each with a scale and a zero point.

Source: ns-directml-dml_element_wise_quantize_linear_operator_desc.
"""

from __future__ import annotations

from anydml.operators.shared.vocabulary import *

ALL = "InputTensor ScaleTensor ZeroPointTensor OutputTensor"
QUANTIZED = "ZeroPointTensor OutputTensor"
FLOAT32, INT32 = DataType.FLOAT32, DataType.INT32
OF_SIX = TensorDesc(FLOAT32, (6,))
BYTES = TensorDesc(DataType.UINT8, (6,))


@operator("DML_OPERATOR_ELEMENT_WISE_QUANTIZE_LINEAR", 33, since=FeatureLevel.FL_1_0)
class ElementWiseQuantizeLinear(Desc):
    """Quantizes every element: Output = clamp(round(Input / Scale) + ZeroPoint, Min, Max).

    The quotient is rounded to FLOAT32, as in ONNX, and round takes ties to even. Min and Max are the limits of the output's
    type. An absent zero point is 0; a quotient that is NaN gives Min.
    """

    input_tensor: TensorDesc = field.input("InputTensor", "The elements to quantize.")
    scale_tensor: TensorDesc = field.input("ScaleTensor", "A scale for each element.")
    zero_point_tensor: TensorDesc | None = field.input(
        "ZeroPointTensor", "A zero point for each element, of the output's type.", default=None
    )
    output_tensor: TensorDesc = field.output("OutputTensor", "The quantized elements.")

    rows = (
        support("1_0", "InputTensor ScaleTensor", (4, 4), (FLOAT32,)),
        support("1_0", QUANTIZED, (4, 4), (DataType.UINT8,)),
        support("2_1", "InputTensor", (4, 4), (FLOAT32, INT32)),
        support("2_1", "ScaleTensor", (4, 4), (FLOAT32,)),
        support("2_1", QUANTIZED, (4, 4), EIGHT_BIT),
        support("3_0", "InputTensor", (1, 8), (FLOAT32, INT32)),
        support("3_0", "ScaleTensor", (1, 8), (FLOAT32,)),
        support("3_0", QUANTIZED, (1, 8), EIGHT_BIT),
        support("6_0", "InputTensor", (1, 8), (*FLOATS, INT32)),
        support("6_0", "ScaleTensor", (1, 8), FLOATS),
    )
    same_quantized = same("DataType", QUANTIZED, name="quantized")
    same = same("DimensionCount Sizes", ALL)

    @constraint(
        "`ScaleTensor.DataType` must equal `InputTensor.DataType`, or be FLOAT32 where that is INT32.",
        expected=lambda d: {"ScaleTensor.DataType": FLOAT32 if d.input_tensor.data_type == INT32 else d.input_tensor.data_type},
    )
    def scale_data_type(d) -> bool:
        return d.scale_tensor.data_type == (FLOAT32 if d.input_tensor.data_type == INT32 else d.input_tensor.data_type)

    @constraint("`ZeroPointTensor` must be there below feature level 6_2.", before=FeatureLevel.FL_6_2)
    def zero_point_present(d) -> bool:
        return d.zero_point_tensor is not None

    def outputs(d) -> Outputs:
        quantized = DataType.UINT8 if d.zero_point_tensor is None else d.zero_point_tensor.data_type
        return {"output_tensor": (d.input_tensor.sizes, quantized)}

    def statement(d, x: Tensor, scale: Tensor, zero_point: Tensor | None) -> Nest:
        i = each(d.output_tensor.sizes)
        low, high = limits(d.output_tensor.data_type)
        quotient = rounded(x[i] / scale[i], DataType.FLOAT32)
        quantized = half_to_even(quotient) + (0 if zero_point is None else zero_point[i])
        return nest(i, select(is_nan(quotient), low, clamp(quantized, low, high)))

    examples = (
        Example(
            "onnxruntime's QuantizeLinear: ties go to even, and what lies outside saturates",
            dict(input_tensor=OF_SIX, scale_tensor=OF_SIX, zero_point_tensor=BYTES, output_tensor=BYTES),
            dict(
                input_tensor=np.array([0, 2, 3, 1000, -254, -1000], np.float32),
                scale_tensor=np.full(6, 2, np.float32),
                zero_point_tensor=np.full(6, 128, np.uint8),
            ),
            np.array([128, 129, 130, 255, 1, 0], np.uint8),
        ),
        Example(
            "The quotient is rounded before the zero point is added: halves, with a zero point of 1",
            dict(
                input_tensor=OF_SIX,
                scale_tensor=OF_SIX,
                zero_point_tensor=TensorDesc(DataType.INT8, (6,)),
                output_tensor=TensorDesc(DataType.INT8, (6,)),
            ),
            dict(
                input_tensor=np.array([-1.25, -0.75, -0.25, 0.25, 0.75, 1.25], np.float32),
                scale_tensor=np.full(6, 0.5, np.float32),
                zero_point_tensor=np.full(6, 1, np.int8),
            ),
            np.array([-1, -1, 1, 1, 3, 3], np.int8),
        ),
        Example(
            "Without a zero point",
            dict(input_tensor=OF_SIX, scale_tensor=OF_SIX, output_tensor=BYTES),
            dict(input_tensor=np.array([3, 5, 7, 9, 11, -3], np.float32), scale_tensor=np.full(6, 2, np.float32)),
            np.array([2, 2, 4, 4, 6, 0], np.uint8),
        ),
    )
    rejecting = (
        rejects("scale_data_type", scale_tensor=TensorDesc(DataType.FLOAT16, (6,))),
        rejects("zero_point_present", at=FeatureLevel.FL_6_1, zero_point_tensor=None),
    )
    errata = (
        "The page does not define round; it takes ties to even, as in ONNX (our decision).",
        "The page does not say that the quotient is rounded; it is, to FLOAT32 whatever the scale's type (our decision).",
        "The page says of a scale of 0 that it is undefined; the quotient is then what IEEE 754 says, infinities saturate "
        "and NaN gives Min (our decision).",
        "The page prints the zero point's type without the mark of an optional one, which it is from 6_2 on.",
    )
