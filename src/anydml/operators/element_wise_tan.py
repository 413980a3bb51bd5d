"""DML_OPERATOR_ELEMENT_WISE_TAN: the tangent.

Source: ns-directml-dml_element_wise_tan_operator_desc.
"""

from __future__ import annotations

from anydml.operators.shared.vocabulary import *

BOTH = "InputTensor OutputTensor"
TRIPLE = TensorDesc(DataType.FLOAT32, (3,))


@operator("DML_OPERATOR_ELEMENT_WISE_TAN", 31, since=FeatureLevel.FL_1_0, in_place=("InputTensor",))
class ElementWiseTan(Desc):
    """Takes the tangent of every element, an angle in radians: Output = tan(x).

    Where there is a ScaleBias, it is tan(x * Scale + Bias).
    """

    input_tensor: TensorDesc = field.input("InputTensor", "The elements x.")
    output_tensor: TensorDesc = field.output("OutputTensor", "The tangents.")
    scale_bias: ScaleBias | None = field.attribute(
        "ScaleBias", field.SCALE_BIAS, "A factor and a term, applied exactly to every x; if absent, x is used.", default=None
    )

    rows = (support("1_0", BOTH, (4, 4), FLOATS), support("3_0", BOTH, (1, 8), FLOATS))
    same = same("DataType DimensionCount Sizes", BOTH)

    outputs = like("input_tensor")

    statement = elementwise(lambda d, x: tan(scaled(d, x)))

    examples = (
        Example(
            "Angles of 0, 1, and next to pi / 2, where the tangent is large and finite",
            dict(input_tensor=TRIPLE, output_tensor=TRIPLE),
            dict(input_tensor=np.array([0, 1, 1.5707964], np.float32)),
            np.array([0, 1.5574077, -22877332], np.float32),
        ),
    )
    rejecting = ()
    errata = ("The page does not say what becomes of an infinite element: NaN (our decision).",)
