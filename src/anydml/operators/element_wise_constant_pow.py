"""DML_OPERATOR_ELEMENT_WISE_CONSTANT_POW: every element to the power of one number.

Source: ns-directml-dml_element_wise_constant_pow_operator_desc.
"""

from __future__ import annotations

from anydml.operators.shared.vocabulary import *

BOTH = "InputTensor OutputTensor"
FOUR = TensorDesc(DataType.FLOAT32, (4,))


@operator("DML_OPERATOR_ELEMENT_WISE_CONSTANT_POW", 26, since=FeatureLevel.FL_1_0, in_place=("InputTensor",))
class ElementWiseConstantPow(Desc):
    """Raises every element to one power: Output = pow(x, Exponent).

    With a ScaleBias, it is pow(x * Scale + Bias, Exponent). The function is IEEE 754's pow: a power of a negative number is
    NaN unless the exponent is an integer, and x^0 and 1^y are 1 for all x and y.
    """

    input_tensor: TensorDesc = field.input("InputTensor", "The bases x.")
    output_tensor: TensorDesc = field.output("OutputTensor", "The powers.")
    scale_bias: ScaleBias | None = field.attribute(
        "ScaleBias", field.SCALE_BIAS, "A factor and a term, applied exactly to every x; if absent, x is used.", default=None
    )
    exponent: float = field.attribute("Exponent", field.FLOAT, "The exponent of every power.")

    rows = (support("1_0", BOTH, (4, 4), FLOATS), support("3_0", BOTH, (1, 8), FLOATS))
    same = same("DataType DimensionCount Sizes", BOTH)

    outputs = like("input_tensor")

    statement = elementwise(lambda d, x: pow(scaled(d, x), d.exponent))

    examples = (
        Example(
            "The third powers",
            dict(input_tensor=FOUR, output_tensor=FOUR, exponent=3.0),
            dict(input_tensor=np.array([-2, -0.0, 0.5, np.inf], np.float32)),
            np.array([-8, -0.0, 0.125, np.inf], np.float32),
        ),
        Example(
            "The exponent 0.5: the power of -1 is NaN, that of minus infinity is infinite",
            dict(input_tensor=FOUR, output_tensor=FOUR, exponent=0.5),
            dict(input_tensor=np.array([-1, 2, 9, -np.inf], np.float32)),
            np.array([np.nan, 1.4142135, 3, np.inf], np.float32),
        ),
    )
    rejecting = ()
    errata = (
        "The history of the feature levels gives the operator integer types at 3_0, the page's table does not; it has none "
        "(our decision).",
        "The page does not say what powers of zeros, infinities and NaN are: those of IEEE 754 (our decision).",
    )
