"""DML_OPERATOR_ELEMENT_WISE_LOG: the natural logarithm.

Source: ns-directml-dml_element_wise_log_operator_desc.
"""

from __future__ import annotations

from anydml.operators.shared.vocabulary import *

BOTH = "InputTensor OutputTensor"
TRIPLE = TensorDesc(DataType.FLOAT32, (3,))


@operator("DML_OPERATOR_ELEMENT_WISE_LOG", 13, since=FeatureLevel.FL_1_0, in_place=("InputTensor",))
class ElementWiseLog(Desc):
    """Takes the natural logarithm of every element: Output = ln(x), or ln(x * Scale + Bias) where there is a ScaleBias."""

    input_tensor: TensorDesc = field.input("InputTensor", "The elements x.")
    output_tensor: TensorDesc = field.output("OutputTensor", "The logarithms.")
    scale_bias: ScaleBias | None = field.attribute(
        "ScaleBias", field.SCALE_BIAS, "A factor and a term, applied exactly to every x; if absent, x is used.", default=None
    )

    rows = (support("1_0", BOTH, (4, 4), FLOATS), support("3_0", BOTH, (1, 8), FLOATS))
    same = same("DataType DimensionCount Sizes", BOTH)

    outputs = like("input_tensor")

    statement = elementwise(lambda d, x: log(scaled(d, x)))

    examples = (
        Example(
            "The logarithm of x + 1, exactly added, near 0 and at 1, and at -1, where it is of 0",
            dict(input_tensor=TRIPLE, output_tensor=TRIPLE, scale_bias=ScaleBias(1, 1)),
            dict(input_tensor=np.array([1e-20, 1, -1], np.float32)),
            np.array([1e-20, 0.6931472, -np.inf], np.float32),
        ),
    )
    rejecting = ()
    errata = ("The page calls the logarithm of a negative number indefinite: it is NaN (our decision).",)
