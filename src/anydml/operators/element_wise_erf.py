"""DML_OPERATOR_ELEMENT_WISE_ERF: the error function.

Source: ns-directml-dml_element_wise_erf_operator_desc.
"""

from __future__ import annotations

from anydml.operators.shared.vocabulary import *

BOTH = "InputTensor OutputTensor"
TRIPLE = TensorDesc(DataType.FLOAT32, (3,))


@operator("DML_OPERATOR_ELEMENT_WISE_ERF", 81, since=FeatureLevel.FL_2_0, in_place=("InputTensor",))
class ElementWiseErf(Desc):
    """Applies the error function to every element: Output = erf(x), or erf(x * Scale + Bias) where there is a ScaleBias.

    erf(x) is 2 / sqrt(pi) times the integral of exp(-t^2) from 0 to x.
    """

    input_tensor: TensorDesc = field.input("InputTensor", "The elements x.")
    output_tensor: TensorDesc = field.output("OutputTensor", "The results.")
    scale_bias: ScaleBias | None = field.attribute(
        "ScaleBias", field.SCALE_BIAS, "A factor and a term, applied exactly to every x; if absent, x is used.", default=None
    )

    rows = (support("2_0", BOTH, (4, 4), FLOATS), support("3_0", BOTH, (1, 8), FLOATS))
    same = same("DataType DimensionCount Sizes", BOTH)

    outputs = like("input_tensor")

    statement = elementwise(lambda d, x: erf(scaled(d, x)))

    examples = (
        Example(
            "The error function at -1, 0 and 0.5",
            dict(input_tensor=TRIPLE, output_tensor=TRIPLE),
            dict(input_tensor=np.array([-1, 0, 0.5], np.float32)),
            np.array([-0.8427008, 0, 0.5204999], np.float32),
        ),
    )
    rejecting = ()
    errata = ()
