"""DML_OPERATOR_ELEMENT_WISE_ACOSH: the inverse hyperbolic cosine.

Source: ns-directml-dml_element_wise_acosh_operator_desc.
"""

from __future__ import annotations

from anydml.operators.shared.vocabulary import *

BOTH = "InputTensor OutputTensor"
TRIPLE = TensorDesc(DataType.FLOAT32, (3,))


@operator("DML_OPERATOR_ELEMENT_WISE_ACOSH", 86, since=FeatureLevel.FL_2_0, in_place=("InputTensor",))
class ElementWiseAcosh(Desc):
    """Takes the inverse hyperbolic cosine of every element: Output = acosh(x).

    Where there is a ScaleBias, it is acosh(x * Scale + Bias).
    """

    input_tensor: TensorDesc = field.input("InputTensor", "The elements x.")
    output_tensor: TensorDesc = field.output("OutputTensor", "The inverse hyperbolic cosines.")
    scale_bias: ScaleBias | None = field.attribute(
        "ScaleBias", field.SCALE_BIAS, "A factor and a term, applied exactly to every x; if absent, x is used.", default=None
    )

    rows = (support("2_0", BOTH, (4, 4), FLOATS), support("3_0", BOTH, (1, 8), FLOATS))
    same = same("DataType DimensionCount Sizes", BOTH)

    outputs = like("input_tensor")

    statement = elementwise(lambda d, x: acosh(scaled(d, x)))

    examples = (
        Example(
            "The inverse hyperbolic cosine at 1 and 2, and at 0.5, where there is none",
            dict(input_tensor=TRIPLE, output_tensor=TRIPLE),
            dict(input_tensor=np.array([1, 2, 0.5], np.float32)),
            np.array([0, 1.316958, np.nan], np.float32),
        ),
    )
    rejecting = ()
    errata = (
        "The page does not say what becomes of an element below 1: NaN (our decision).",
        "Older versions of the page scale the result; ScaleBias is about x, as in all operators of the family.",
    )
