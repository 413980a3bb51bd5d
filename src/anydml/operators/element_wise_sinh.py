"""DML_OPERATOR_ELEMENT_WISE_SINH: the hyperbolic sine.

Source: ns-directml-dml_element_wise_sinh_operator_desc.
"""

from __future__ import annotations

from anydml.operators.shared.vocabulary import *

BOTH = "InputTensor OutputTensor"
TRIPLE = TensorDesc(DataType.FLOAT32, (3,))


@operator("DML_OPERATOR_ELEMENT_WISE_SINH", 82, since=FeatureLevel.FL_2_0, in_place=("InputTensor",))
class ElementWiseSinh(Desc):
    """Takes the hyperbolic sine of every element: Output = sinh(x), or sinh(x * Scale + Bias) where there is a ScaleBias."""

    input_tensor: TensorDesc = field.input("InputTensor", "The elements x.")
    output_tensor: TensorDesc = field.output("OutputTensor", "The hyperbolic sines.")
    scale_bias: ScaleBias | None = field.attribute(
        "ScaleBias", field.SCALE_BIAS, "A factor and a term, applied exactly to every x; if absent, x is used.", default=None
    )

    rows = (support("2_0", BOTH, (4, 4), FLOATS), support("3_0", BOTH, (1, 8), FLOATS))
    same = same("DataType DimensionCount Sizes", BOTH)

    outputs = like("input_tensor")

    statement = elementwise(lambda d, x: sinh(scaled(d, x)))

    examples = (
        Example(
            "The hyperbolic sine at -1, 0 and 100, where it is beyond FLOAT32",
            dict(input_tensor=TRIPLE, output_tensor=TRIPLE),
            dict(input_tensor=np.array([-1, 0, 100], np.float32)),
            np.array([-1.1752012, 0, np.inf], np.float32),
        ),
    )
    rejecting = ()
    errata = ()
