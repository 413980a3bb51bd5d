"""DML_OPERATOR_ELEMENT_WISE_ATAN: the arc tangent.

Source: ns-directml-dml_element_wise_atan_operator_desc.
"""

from __future__ import annotations

from anydml.operators.shared.vocabulary import *

BOTH = "InputTensor OutputTensor"
TRIPLE = TensorDesc(DataType.FLOAT32, (3,))


@operator("DML_OPERATOR_ELEMENT_WISE_ATAN", 6, since=FeatureLevel.FL_1_0, in_place=("InputTensor",))
class ElementWiseAtan(Desc):
    """Takes the arc tangent of every element, in radians from -pi / 2 to pi / 2: Output = atan(x).

    Where there is a ScaleBias, it is atan(x * Scale + Bias).
    """

    input_tensor: TensorDesc = field.input("InputTensor", "The elements x.")
    output_tensor: TensorDesc = field.output("OutputTensor", "The angles in radians.")
    scale_bias: ScaleBias | None = field.attribute(
        "ScaleBias", field.SCALE_BIAS, "A factor and a term, applied exactly to every x; if absent, x is used.", default=None
    )

    rows = (support("1_0", BOTH, (4, 4), FLOATS), support("3_0", BOTH, (1, 8), FLOATS))
    same = same("DataType DimensionCount Sizes", BOTH)

    outputs = like("input_tensor")

    statement = elementwise(lambda d, x: atan(scaled(d, x)))

    examples = (
        Example(
            "The tangents -1, 0 and infinity",
            dict(input_tensor=TRIPLE, output_tensor=TRIPLE),
            dict(input_tensor=np.array([-1, 0, np.inf], np.float32)),
            np.array([-0.7853982, 0, 1.5707964], np.float32),
        ),
    )
    rejecting = ()
    errata = ()
