"""DML_OPERATOR_ELEMENT_WISE_ASINH: the inverse hyperbolic sine.

Source: ns-directml-dml_element_wise_asinh_operator_desc.
"""

from __future__ import annotations

from anydml.operators.shared.vocabulary import *

BOTH = "InputTensor OutputTensor"
TRIPLE = TensorDesc(DataType.FLOAT32, (3,))


@operator("DML_OPERATOR_ELEMENT_WISE_ASINH", 85, since=FeatureLevel.FL_2_0, in_place=("InputTensor",))
class ElementWiseAsinh(Desc):
    """Takes the inverse hyperbolic sine of every element: Output = asinh(x).

    Where there is a ScaleBias, it is asinh(x * Scale + Bias).
    """

    input_tensor: TensorDesc = field.input("InputTensor", "The elements x.")
    output_tensor: TensorDesc = field.output("OutputTensor", "The inverse hyperbolic sines.")
    scale_bias: ScaleBias | None = field.attribute(
        "ScaleBias", field.SCALE_BIAS, "A factor and a term, applied exactly to every x; if absent, x is used.", default=None
    )

    rows = (support("2_0", BOTH, (4, 4), FLOATS), support("3_0", BOTH, (1, 8), FLOATS))
    same = same("DataType DimensionCount Sizes", BOTH)

    outputs = like("input_tensor")

    statement = elementwise(lambda d, x: asinh(scaled(d, x)))

    examples = (
        Example(
            "The inverse hyperbolic sine at -1, 0 and infinity",
            dict(input_tensor=TRIPLE, output_tensor=TRIPLE),
            dict(input_tensor=np.array([-1, 0, np.inf], np.float32)),
            np.array([-0.8813736, 0, np.inf], np.float32),
        ),
    )
    rejecting = ()
    errata = ()
