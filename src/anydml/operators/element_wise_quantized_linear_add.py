"""DML_OPERATOR_ELEMENT_WISE_QUANTIZED_LINEAR_ADD: the sum of two quantized tensors, quantized again.

Source: ns-directml-dml_element_wise_quantized_linear_add_operator_desc.
"""

from __future__ import annotations

from anydml.operators.shared.vocabulary import *

DATA = "ATensor BTensor OutputTensor"
SCALES = "AScaleTensor BScaleTensor OutputScaleTensor"
ZERO_POINTS = "AZeroPointTensor BZeroPointTensor OutputZeroPointTensor"
BYTES, BYTE, SCALE = (TensorDesc(DataType.UINT8, (4,)), TensorDesc(DataType.UINT8, (1,)), TensorDesc(DataType.FLOAT32, (1,)))


@operator("DML_OPERATOR_ELEMENT_WISE_QUANTIZED_LINEAR_ADD", 147, since=FeatureLevel.FL_4_0)
class ElementWiseQuantizedLinearAdd(Desc):
    """Adds two quantized tensors element by element: Output = quantize(dequantize(A) + dequantize(B)).

    dequantize(x) = (x - ZeroPoint) * Scale; quantize(x) = clamp(round(x / Scale) + ZeroPoint, Min, Max). Everything is exact
    except for this one rounding, half to even. An absent zero point is 0; a quotient that is NaN gives Min.
    """

    a_tensor: TensorDesc = field.input("ATensor", "The left terms.")
    a_scale_tensor: TensorDesc = field.input("AScaleTensor", "A's scale, one element.")
    a_zero_point_tensor: TensorDesc | None = field.input("AZeroPointTensor", "A's zero point, one element.", default=None)
    b_tensor: TensorDesc = field.input("BTensor", "The right terms.")
    b_scale_tensor: TensorDesc = field.input("BScaleTensor", "B's scale, one element.")
    b_zero_point_tensor: TensorDesc | None = field.input("BZeroPointTensor", "B's zero point, one element.", default=None)
    output_scale_tensor: TensorDesc = field.input("OutputScaleTensor", "The output's scale, one element.")
    output_zero_point_tensor: TensorDesc | None = field.input(
        "OutputZeroPointTensor", "The output's zero point, one element.", default=None
    )
    output_tensor: TensorDesc = field.output("OutputTensor", "The sums.")

    rows = (support("4_0", f"{DATA} {ZERO_POINTS}", (1, 8), EIGHT_BIT), support("4_0", SCALES, (1, 8), (DataType.FLOAT32,)))
    same_a = same("DataType", "ATensor AZeroPointTensor", name="a")
    same_b = same("DataType", "BTensor BZeroPointTensor", name="b")
    same_output = same("DataType", "OutputZeroPointTensor OutputTensor", name="output")
    same = (*same("DimensionCount Sizes", DATA), *same("DimensionCount", f"ATensor {SCALES} {ZERO_POINTS}", name="single"))
    single = single_element(f"{SCALES} {ZERO_POINTS}")

    def outputs(d) -> Outputs:
        quantized = d.output_zero_point_tensor or d.a_tensor
        return {"output_tensor": (d.a_tensor.sizes, quantized.data_type)}

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
        i = each(d.output_tensor.sizes)
        one = [0] * len(i)

        def dequantized(x: Tensor, scale: Tensor, zero_point: Tensor | None) -> Expr:
            return (x[i] if zero_point is None else x[i] - zero_point[one]) * scale[one]

        total = dequantized(a, a_scale, a_zero_point) + dequantized(b, b_scale, b_zero_point)
        quotient = total / output_scale[one]
        low, high = limits(d.output_tensor.data_type)
        quantized = half_to_even(quotient) + (0 if output_zero_point is None else output_zero_point[one])
        return nest(i, select(is_nan(quotient), low, clamp(quantized, low, high)))

    examples = (
        Example(
            "Tenths above 128 and halves, added in fifths around 64; what lies outside saturates",
            dict(
                a_tensor=BYTES,
                a_scale_tensor=SCALE,
                a_zero_point_tensor=BYTE,
                b_tensor=BYTES,
                b_scale_tensor=SCALE,
                b_zero_point_tensor=BYTE,
                output_scale_tensor=SCALE,
                output_zero_point_tensor=BYTE,
                output_tensor=BYTES,
            ),
            dict(
                a_tensor=np.array([0, 100, 200, 255], np.uint8),
                a_scale_tensor=np.array([0.1], np.float32),
                a_zero_point_tensor=np.array([128], np.uint8),
                b_tensor=np.array([10, 20, 30, 100], np.uint8),
                b_scale_tensor=np.array([0.5], np.float32),
                b_zero_point_tensor=np.array([0], np.uint8),
                output_scale_tensor=np.array([0.2], np.float32),
                output_zero_point_tensor=np.array([64], np.uint8),
            ),
            np.array([25, 100, 175, 255], np.uint8),
        ),
        Example(
            "Without zero points, ties go to even",
            dict(
                a_tensor=BYTES,
                a_scale_tensor=SCALE,
                b_tensor=BYTES,
                b_scale_tensor=SCALE,
                output_scale_tensor=SCALE,
                output_tensor=BYTES,
            ),
            dict(
                a_tensor=np.array([1, 2, 3, 4], np.uint8),
                a_scale_tensor=np.array([1], np.float32),
                b_tensor=np.array([0, 1, 2, 3], np.uint8),
                b_scale_tensor=np.array([1], np.float32),
                output_scale_tensor=np.array([2], np.float32),
            ),
            np.array([0, 2, 2, 4], np.uint8),
        ),
    )
    rejecting = ()
    errata = (
        "The page does not say that A, B and Output have equal sizes; they do (our decision).",
        "The page does not define round; it is half to even, of the exact quotient (our decision).",
        "The page does not say what a scale of 0 does; the quotient is then what IEEE 754 says, infinities saturate and NaN "
        "gives Min (our decision).",
        "The page speaks of the desired scales of A and B, which are those that A and B have.",
    )
