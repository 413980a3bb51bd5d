"""DML_OPERATOR_ELEMENT_WISE_SQRT: the square root.

Source: ns-directml-dml_element_wise_sqrt_operator_desc.
"""

from __future__ import annotations

from anydml.operators.shared.vocabulary import *

BOTH = "InputTensor OutputTensor"
FOUR = TensorDesc(DataType.FLOAT32, (4,))


@operator("DML_OPERATOR_ELEMENT_WISE_SQRT", 29, since=FeatureLevel.FL_1_0, in_place=("InputTensor",))
class ElementWiseSqrt(Desc):
    """Takes the square root of every element: Output = sqrt(x), or sqrt(x * Scale + Bias) where there is a ScaleBias."""

    input_tensor: TensorDesc = field.input("InputTensor", "The elements x.")
    output_tensor: TensorDesc = field.output("OutputTensor", "The square roots.")
    scale_bias: ScaleBias | None = field.attribute(
        "ScaleBias", field.SCALE_BIAS, "A factor and a term, applied exactly to every x; if absent, x is used.", default=None
    )

    rows = (support("1_0", BOTH, (4, 4), FLOATS), support("3_0", BOTH, (1, 8), FLOATS))
    same = same("DataType DimensionCount Sizes", BOTH)

    outputs = like("input_tensor")

    statement = elementwise(lambda d, x: sqrt(scaled(d, x)))

    examples = (
        Example(
            "The roots of two squares, of 2, and of -1, which has none",
            dict(input_tensor=FOUR, output_tensor=FOUR),
            dict(input_tensor=np.array([0, 9, 2, -1], np.float32)),
            np.array([0, 3, 1.4142135, np.nan], np.float32),
        ),
    )
    rejecting = ()
    errata = ("The page does not say what becomes of a negative element: NaN (our decision).",)
