"""DML_OPERATOR_ELEMENT_WISE_POW: elements to the power of others.

Source: ns-directml-dml_element_wise_pow_operator_desc.
"""

from __future__ import annotations

from anydml.operators.shared.vocabulary import *

ALL = "InputTensor ExponentTensor OutputTensor"
FOUR = TensorDesc(DataType.FLOAT32, (1, 1, 1, 4))
BYTES = TensorDesc(DataType.INT8, (1, 1, 1, 4))


@operator("DML_OPERATOR_ELEMENT_WISE_POW", 25, since=FeatureLevel.FL_1_0, in_place=("InputTensor",))
class ElementWisePow(Desc):
    """Raises every element to a power: Output = pow(x, Exponent), or pow(x * Scale + Bias, Exponent) with a ScaleBias.

    The function is IEEE 754's pow: a power of a negative number is NaN unless the exponent is an integer, and x^0 and 1^y are
    1 for all x and y. Powers of integers with integer exponents wrap modulo 2^bits; with negative exponents they are 0, except
    for bases of 1 and -1. For an integer with a ScaleBias or a float exponent, the exact result is truncated toward zero and
    saturates.
    """

    input_tensor: TensorDesc = field.input("InputTensor", "The bases x.")
    exponent_tensor: TensorDesc = field.input("ExponentTensor", "The exponents.")
    output_tensor: TensorDesc = field.output("OutputTensor", "The powers.")
    scale_bias: ScaleBias | None = field.attribute(
        "ScaleBias", field.SCALE_BIAS, "A factor and a term, applied exactly to every base; if absent, x is used.", default=None
    )

    rows = (support("1_0", ALL, (4, 4), FLOATS), support("3_0", ALL, (1, 8), EIGHT))
    same_data_type = same("DataType", "InputTensor OutputTensor")
    same = same("DimensionCount Sizes", ALL)

    @constraint(
        "`ExponentTensor.DataType` must equal `InputTensor.DataType` below feature level 3_0.",
        expected=lambda d: {"ExponentTensor.DataType": d.input_tensor.data_type},
        before=FeatureLevel.FL_3_0,
    )
    def exponent_data_type(d) -> bool:
        return d.exponent_tensor.data_type == d.input_tensor.data_type

    outputs = like("input_tensor")

    def statement(d, x: Tensor, y: Tensor) -> Nest:
        i = each(x.sizes)
        if d.scale_bias is None and not x.data_type.is_float and not y.data_type.is_float:
            return nest(i, integer_power(x[i], y[i], x.data_type.element_bits))
        return nest(i, pow(scaled(d, x[i]), y[i]))

    examples = (
        Example(
            "Powers of floats: -8 has a third power, and no root",
            dict(input_tensor=FOUR, exponent_tensor=FOUR, output_tensor=FOUR),
            dict(
                input_tensor=np.array([[[[2, -8, -8, np.nan]]]], np.float32),
                exponent_tensor=np.array([[[[0.5, 3, 0.5, 0]]]], np.float32),
            ),
            np.array([[[[1.4142135, -512, np.nan, 1]]]], np.float32),
        ),
        Example(
            "Powers of integers with integers: 5^3 fits, 2^7 wraps, and 2^-1 is 0",
            dict(input_tensor=BYTES, exponent_tensor=BYTES, output_tensor=BYTES),
            dict(
                input_tensor=np.array([[[[5, 2, 2, -1]]]], np.int8),
                exponent_tensor=np.array([[[[3, 7, -1, -3]]]], np.int8),
            ),
            np.array([[[[125, -128, 0, -1]]]], np.int8),
        ),
        Example(
            "Powers of integers with floats are truncated toward zero and saturate",
            dict(input_tensor=BYTES, exponent_tensor=FOUR, output_tensor=BYTES),
            dict(
                input_tensor=np.array([[[[5, 2, 3, -1]]]], np.int8),
                exponent_tensor=np.array([[[[1.5, 7, -1, 0.5]]]], np.float32),
            ),
            np.array([[[[11, 127, 0, 0]]]], np.int8),
        ),
    )
    rejecting = (
        rejects("exponent_data_type", at=FeatureLevel.FL_2_1, exponent_tensor=TensorDesc(DataType.FLOAT16, (1, 1, 1, 4))),
    )
    errata = (
        "The page does not say what powers of zeros, infinities and NaN are: those of IEEE 754 (our decision).",
        "The page does not say what becomes of powers that an integer type cannot hold: with integer exponents they wrap, and "
        "those below 1 are 0, also that of 0; with others the exact result is truncated toward zero and saturates, and NaN is "
        "0 (our decision).",
    )
