"""DML_OPERATOR_ELEMENT_WISE_RECIP: the reciprocal.

Source: ns-directml-dml_element_wise_recip_operator_desc.
"""

from __future__ import annotations

from anydml.operators.shared.vocabulary import *

BOTH = "InputTensor OutputTensor"
TRIPLE = TensorDesc(DataType.FLOAT32, (3,))


@operator("DML_OPERATOR_ELEMENT_WISE_RECIP", 27, since=FeatureLevel.FL_1_0, in_place=("InputTensor",))
class ElementWiseRecip(Desc):
    """Takes the reciprocal of every element: Output = 1 / x, or 1 / (x * Scale + Bias) where there is a ScaleBias."""

    input_tensor: TensorDesc = field.input("InputTensor", "The elements x.")
    output_tensor: TensorDesc = field.output("OutputTensor", "The reciprocals.")
    scale_bias: ScaleBias | None = field.attribute(
        "ScaleBias", field.SCALE_BIAS, "A factor and a term, applied exactly to every x; if absent, x is used.", default=None
    )

    rows = (support("1_0", BOTH, (4, 4), FLOATS), support("3_0", BOTH, (1, 8), FLOATS))
    same = same("DataType DimensionCount Sizes", BOTH)

    outputs = like("input_tensor")

    statement = elementwise(lambda d, x: 1 / scaled(d, x))

    examples = (
        Example(
            "The reciprocals of a number, and of zeros of both signs",
            dict(input_tensor=TRIPLE, output_tensor=TRIPLE),
            dict(input_tensor=np.array([4, 0, -0.0], np.float32)),
            np.array([0.25, np.inf, -np.inf], np.float32),
        ),
    )
    rejecting = ()
    errata = ("The page does not say what the reciprocal of a zero is: an infinity of its sign (our decision).",)
