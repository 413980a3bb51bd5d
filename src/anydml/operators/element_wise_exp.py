"""DML_OPERATOR_ELEMENT_WISE_EXP: the exponential function.

Source: ns-directml-dml_element_wise_exp_operator_desc.
"""

from __future__ import annotations

from anydml.operators.shared.vocabulary import *

BOTH = "InputTensor OutputTensor"
TRIPLE = TensorDesc(DataType.FLOAT32, (3,))


@operator("DML_OPERATOR_ELEMENT_WISE_EXP", 11, since=FeatureLevel.FL_1_0, in_place=("InputTensor",))
class ElementWiseExp(Desc):
    """Raises e to the power of every element: Output = exp(x), or exp(x * Scale + Bias) where there is a ScaleBias."""

    input_tensor: TensorDesc = field.input("InputTensor", "The elements x.")
    output_tensor: TensorDesc = field.output("OutputTensor", "The results.")
    scale_bias: ScaleBias | None = field.attribute(
        "ScaleBias", field.SCALE_BIAS, "A factor and a term, applied exactly to every x; if absent, x is used.", default=None
    )

    rows = (support("1_0", BOTH, (4, 4), FLOATS), support("3_0", BOTH, (1, 8), FLOATS))
    same = same("DataType DimensionCount Sizes", BOTH)

    outputs = like("input_tensor")

    statement = elementwise(lambda d, x: exp(scaled(d, x)))

    examples = (
        Example(
            "e to the power of 2 x + 1, at -0.5, 0 and 1",
            dict(input_tensor=TRIPLE, output_tensor=TRIPLE, scale_bias=ScaleBias(2, 1)),
            dict(input_tensor=np.array([-0.5, 0, 1], np.float32)),
            np.array([1, 2.7182817, 20.085537], np.float32),
        ),
    )
    rejecting = ()
    errata = ()
