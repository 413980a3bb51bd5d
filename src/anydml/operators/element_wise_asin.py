"""DML_OPERATOR_ELEMENT_WISE_ASIN: the arc sine.

Source: ns-directml-dml_element_wise_asin_operator_desc.
"""

from __future__ import annotations

from anydml.operators.shared.vocabulary import *

BOTH = "InputTensor OutputTensor"
FOUR = TensorDesc(DataType.FLOAT32, (4,))


@operator("DML_OPERATOR_ELEMENT_WISE_ASIN", 5, since=FeatureLevel.FL_1_0, in_place=("InputTensor",))
class ElementWiseAsin(Desc):
    """Takes the arc sine of every element, in radians from -pi / 2 to pi / 2: Output = asin(x).

    Where there is a ScaleBias, it is asin(x * Scale + Bias).
    """

    input_tensor: TensorDesc = field.input("InputTensor", "The elements x.")
    output_tensor: TensorDesc = field.output("OutputTensor", "The angles in radians.")
    scale_bias: ScaleBias | None = field.attribute(
        "ScaleBias", field.SCALE_BIAS, "A factor and a term, applied exactly to every x; if absent, x is used.", default=None
    )

    rows = (support("1_0", BOTH, (4, 4), FLOATS), support("3_0", BOTH, (1, 8), FLOATS))
    same = same("DataType DimensionCount Sizes", BOTH)

    outputs = like("input_tensor")

    statement = elementwise(lambda d, x: asin(scaled(d, x)))

    examples = (
        Example(
            "The sines -1, 0, 0.5 and 2, of which there is none",
            dict(input_tensor=FOUR, output_tensor=FOUR),
            dict(input_tensor=np.array([-1, 0, 0.5, 2], np.float32)),
            np.array([-1.5707964, 0, 0.5235988, np.nan], np.float32),
        ),
    )
    rejecting = ()
    errata = ("The page does not say what becomes of an element below -1 or above 1: NaN (our decision).",)
