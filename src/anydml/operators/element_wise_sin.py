"""DML_OPERATOR_ELEMENT_WISE_SIN: the sine.

Source: ns-directml-dml_element_wise_sin_operator_desc.
"""

from __future__ import annotations

from anydml.operators.shared.vocabulary import *

BOTH = "InputTensor OutputTensor"
TRIPLE = TensorDesc(DataType.FLOAT32, (3,))


@operator("DML_OPERATOR_ELEMENT_WISE_SIN", 28, since=FeatureLevel.FL_1_0, in_place=("InputTensor",))
class ElementWiseSin(Desc):
    """Takes the sine of every element, an angle in radians: Output = sin(x).

    Where there is a ScaleBias, it is sin(x * Scale + Bias).
    """

    input_tensor: TensorDesc = field.input("InputTensor", "The elements x.")
    output_tensor: TensorDesc = field.output("OutputTensor", "The sines.")
    scale_bias: ScaleBias | None = field.attribute(
        "ScaleBias", field.SCALE_BIAS, "A factor and a term, applied exactly to every x; if absent, x is used.", default=None
    )

    rows = (support("1_0", BOTH, (4, 4), FLOATS), support("3_0", BOTH, (1, 8), FLOATS))
    same = same("DataType DimensionCount Sizes", BOTH)

    outputs = like("input_tensor")

    statement = elementwise(lambda d, x: sin(scaled(d, x)))

    examples = (
        Example(
            "Angles of -0 and 1, and one near 10^30, exactly reduced",
            dict(input_tensor=TRIPLE, output_tensor=TRIPLE),
            dict(input_tensor=np.array([-0.0, 1, 1e30], np.float32)),
            np.array([-0.0, 0.84147096, -0.79116344], np.float32),
        ),
    )
    rejecting = ()
    errata = ("The page does not say what becomes of an infinite element: NaN (our decision).",)
