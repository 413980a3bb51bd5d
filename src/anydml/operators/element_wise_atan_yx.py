"""DML_OPERATOR_ELEMENT_WISE_ATAN_YX: the angle of a point in the plane.

Source: ns-directml-dml_element_wise_atan_yx_operator_desc.
"""

from __future__ import annotations

from anydml.operators.shared.vocabulary import *

ALL = "ATensor BTensor OutputTensor"
FOUR = TensorDesc(DataType.FLOAT32, (4,))


@operator("DML_OPERATOR_ELEMENT_WISE_ATAN_YX", 141, since=FeatureLevel.FL_3_1, in_place=("ATensor", "BTensor"))
class ElementWiseAtanYx(Desc):
    """Takes the angle of every point (B, A) from the x axis, in radians from -pi to pi: Output = atan2(A, B)."""

    a_tensor: TensorDesc = field.input("ATensor", "The y coordinates.")
    b_tensor: TensorDesc = field.input("BTensor", "The x coordinates.")
    output_tensor: TensorDesc = field.output("OutputTensor", "The angles in radians.")

    rows = (support("3_1", ALL, (1, 8), FLOATS),)
    same = same("DataType DimensionCount Sizes", ALL)

    outputs = like("a_tensor")

    statement = elementwise(lambda d, y, x: atan2(y, x))

    examples = (
        Example(
            "A point in each of two quadrants, one on the x axis, and the origin",
            dict(a_tensor=FOUR, b_tensor=FOUR, output_tensor=FOUR),
            dict(a_tensor=np.array([1, -2, 0, 0], np.float32), b_tensor=np.array([1, -2, -1, 0], np.float32)),
            np.array([0.7853982, -2.3561945, 3.1415927, 0], np.float32),
        ),
    )
    rejecting = ()
    errata = ("The page leaves the angle at the origin undefined; it is C's atan2, 0 or pi with the sign of y (our decision).",)
