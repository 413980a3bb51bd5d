"""DML_OPERATOR_ELEMENT_WISE_COSH: the hyperbolic cosine.

Source: ns-directml-dml_element_wise_cosh_operator_desc.
"""

from __future__ import annotations

from anydml.operators.shared.vocabulary import *

BOTH = "InputTensor OutputTensor"
TRIPLE = TensorDesc(DataType.FLOAT32, (3,))


@operator("DML_OPERATOR_ELEMENT_WISE_COSH", 83, since=FeatureLevel.FL_2_0, in_place=("InputTensor",))
class ElementWiseCosh(Desc):
    """Takes the hyperbolic cosine of every element: Output = cosh(x), or cosh(x * Scale + Bias) where there is a ScaleBias."""

    input_tensor: TensorDesc = field.input("InputTensor", "The elements x.")
    output_tensor: TensorDesc = field.output("OutputTensor", "The hyperbolic cosines.")
    scale_bias: ScaleBias | None = field.attribute(
        "ScaleBias", field.SCALE_BIAS, "A factor and a term, applied exactly to every x; if absent, x is used.", default=None
    )

    rows = (support("2_0", BOTH, (4, 4), FLOATS), support("3_0", BOTH, (1, 8), FLOATS))
    same = same("DataType DimensionCount Sizes", BOTH)

    outputs = like("input_tensor")

    statement = elementwise(lambda d, x: cosh(scaled(d, x)))

    examples = (
        Example(
            "The hyperbolic cosine at -1, 0 and 2",
            dict(input_tensor=TRIPLE, output_tensor=TRIPLE),
            dict(input_tensor=np.array([-1, 0, 2], np.float32)),
            np.array([1.5430807, 1, 3.7621956], np.float32),
        ),
    )
    rejecting = ()
    errata = ("Older versions of the page scale the result; ScaleBias is about x, as in all operators of the family.",)
