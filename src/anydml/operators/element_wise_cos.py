"""DML_OPERATOR_ELEMENT_WISE_COS: the cosine.

Source: ns-directml-dml_element_wise_cos_operator_desc.
"""

from __future__ import annotations

from anydml.operators.shared.vocabulary import *

BOTH = "InputTensor OutputTensor"
TRIPLE = TensorDesc(DataType.FLOAT32, (3,))


@operator("DML_OPERATOR_ELEMENT_WISE_COS", 9, since=FeatureLevel.FL_1_0, in_place=("InputTensor",))
class ElementWiseCos(Desc):
    """Takes the cosine of every element, an angle in radians: Output = cos(x).

    Where there is a ScaleBias, it is cos(x * Scale + Bias).
    """

    input_tensor: TensorDesc = field.input("InputTensor", "The elements x.")
    output_tensor: TensorDesc = field.output("OutputTensor", "The cosines.")
    scale_bias: ScaleBias | None = field.attribute(
        "ScaleBias", field.SCALE_BIAS, "A factor and a term, applied exactly to every x; if absent, x is used.", default=None
    )

    rows = (support("1_0", BOTH, (4, 4), FLOATS), support("3_0", BOTH, (1, 8), FLOATS))
    same = same("DataType DimensionCount Sizes", BOTH)

    outputs = like("input_tensor")

    statement = elementwise(lambda d, x: cos(scaled(d, x)))

    examples = (
        Example(
            "Angles of 0, about pi / 2, where the cosine shows the distance, and -1",
            dict(input_tensor=TRIPLE, output_tensor=TRIPLE),
            dict(input_tensor=np.array([0, 1.5707964, -1], np.float32)),
            np.array([1, -4.371139e-08, 0.5403023], np.float32),
        ),
    )
    rejecting = ()
    errata = ("The page does not say what becomes of an infinite element: NaN (our decision).",)
