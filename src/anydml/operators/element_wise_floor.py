"""DML_OPERATOR_ELEMENT_WISE_FLOOR: the greatest integer that is not above an element.

Source: ns-directml-dml_element_wise_floor_operator_desc.
"""

from __future__ import annotations

from anydml.operators.shared.vocabulary import *

BOTH = "InputTensor OutputTensor"
FOUR = TensorDesc(DataType.FLOAT32, (4,))


@operator("DML_OPERATOR_ELEMENT_WISE_FLOOR", 12, since=FeatureLevel.FL_1_0, in_place=("InputTensor",))
class ElementWiseFloor(Desc):
    """Rounds every element down to an integer: Output = floor(x), or floor(x * Scale + Bias) where there is a ScaleBias."""

    input_tensor: TensorDesc = field.input("InputTensor", "The elements x.")
    output_tensor: TensorDesc = field.output("OutputTensor", "The integers, as floats.")
    scale_bias: ScaleBias | None = field.attribute(
        "ScaleBias", field.SCALE_BIAS, "A factor and a term, applied exactly to every x; if absent, x is used.", default=None
    )

    rows = (support("1_0", BOTH, (4, 4), FLOATS), support("3_0", BOTH, (1, 8), FLOATS))
    same = same("DataType DimensionCount Sizes", BOTH)

    outputs = like("input_tensor")

    statement = elementwise(lambda d, x: floor(scaled(d, x)))

    examples = (
        Example(
            "Down to integers",
            dict(input_tensor=FOUR, output_tensor=FOUR),
            dict(input_tensor=np.array([-1.5, -0.5, 0.5, 2], np.float32)),
            np.array([-2, -1, 0, 2], np.float32),
        ),
    )
    rejecting = ()
    errata = ()
