"""DML_OPERATOR_ELEMENT_WISE_ACOS: the arc cosine.

Source: ns-directml-dml_element_wise_acos_operator_desc.
"""

from __future__ import annotations

from anydml.operators.shared.vocabulary import *

BOTH = "InputTensor OutputTensor"
FOUR = TensorDesc(DataType.FLOAT32, (4,))


@operator("DML_OPERATOR_ELEMENT_WISE_ACOS", 3, since=FeatureLevel.FL_1_0, in_place=("InputTensor",))
class ElementWiseAcos(Desc):
    """Takes the arc cosine of every element, in radians from 0 to pi: Output = acos(x).

    Where there is a ScaleBias, it is acos(x * Scale + Bias).
    """

    input_tensor: TensorDesc = field.input("InputTensor", "The elements x.")
    output_tensor: TensorDesc = field.output("OutputTensor", "The angles in radians.")
    scale_bias: ScaleBias | None = field.attribute(
        "ScaleBias", field.SCALE_BIAS, "A factor and a term, applied exactly to every x; if absent, x is used.", default=None
    )

    rows = (support("1_0", BOTH, (4, 4), FLOATS), support("3_0", BOTH, (1, 8), FLOATS))
    same = same("DataType DimensionCount Sizes", BOTH)

    outputs = like("input_tensor")

    statement = elementwise(lambda d, x: acos(scaled(d, x)))

    examples = (
        Example(
            "The cosines -1, 0, 0.5 and 1",
            dict(input_tensor=FOUR, output_tensor=FOUR),
            dict(input_tensor=np.array([-1, 0, 0.5, 1], np.float32)),
            np.array([3.1415927, 1.5707964, 1.0471976, 0], np.float32),
        ),
    )
    rejecting = ()
    errata = ("The page does not say what becomes of an element below -1 or above 1: NaN (our decision).",)
