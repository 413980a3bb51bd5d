"""DML_OPERATOR_ELEMENT_WISE_ATANH: the inverse hyperbolic tangent.

Source: ns-directml-dml_element_wise_atanh_operator_desc.
"""

from __future__ import annotations

from anydml.operators.shared.vocabulary import *

BOTH = "InputTensor OutputTensor"
TRIPLE = TensorDesc(DataType.FLOAT32, (3,))


@operator("DML_OPERATOR_ELEMENT_WISE_ATANH", 87, since=FeatureLevel.FL_2_0, in_place=("InputTensor",))
class ElementWiseAtanh(Desc):
    """Takes the inverse hyperbolic tangent of every element: Output = atanh(x).

    Where there is a ScaleBias, it is atanh(x * Scale + Bias).
    """

    input_tensor: TensorDesc = field.input("InputTensor", "The elements x.")
    output_tensor: TensorDesc = field.output("OutputTensor", "The inverse hyperbolic tangents.")
    scale_bias: ScaleBias | None = field.attribute(
        "ScaleBias", field.SCALE_BIAS, "A factor and a term, applied exactly to every x; if absent, x is used.", default=None
    )

    rows = (support("2_0", BOTH, (4, 4), FLOATS), support("3_0", BOTH, (1, 8), FLOATS))
    same = same("DataType DimensionCount Sizes", BOTH)

    outputs = like("input_tensor")

    statement = elementwise(lambda d, x: atanh(scaled(d, x)))

    examples = (
        Example(
            "The inverse hyperbolic tangent at 0.5 and 1, and at 2, where there is none",
            dict(input_tensor=TRIPLE, output_tensor=TRIPLE),
            dict(input_tensor=np.array([0.5, 1, 2], np.float32)),
            np.array([0.54930615, np.inf, np.nan], np.float32),
        ),
    )
    rejecting = ()
    errata = ("The page does not say what becomes of an element below -1 or above 1: NaN (our decision).",)
