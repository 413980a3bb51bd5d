"""DML_OPERATOR_ELEMENT_WISE_MIN: the smaller of two elements.

Source: ns-directml-dml_element_wise_min_operator_desc.
"""

from __future__ import annotations

from anydml.operators.shared.vocabulary import *

ALL = "ATensor BTensor OutputTensor"
FOUR = TensorDesc(DataType.FLOAT32, (4,))


@operator("DML_OPERATOR_ELEMENT_WISE_MIN", 23, since=FeatureLevel.FL_1_0, in_place=("ATensor", "BTensor"))
class ElementWiseMin(Desc):
    """Takes the smaller of every two elements: Output = min(A, B). NaN where either is NaN, and -0 is below +0."""

    a_tensor: TensorDesc = field.input("ATensor", "The elements on the left.")
    b_tensor: TensorDesc = field.input("BTensor", "The elements on the right.")
    output_tensor: TensorDesc = field.output("OutputTensor", "The smaller ones.")

    rows = (
        support("1_0", ALL, (4, 4), FLOATS),
        support("2_1", ALL, (4, 4), EIGHT),
        support("3_0", ALL, (1, 8), EIGHT),
        support("5_0", ALL, (1, 8), TEN),
    )
    same = same("DataType DimensionCount Sizes", ALL)

    outputs = like("a_tensor")

    statement = elementwise(lambda d, a, b: minimum(a, b))

    examples = (
        Example(
            "The smaller one of two, of a number and NaN, and of both zeros",
            dict(a_tensor=FOUR, b_tensor=FOUR, output_tensor=FOUR),
            dict(a_tensor=np.array([1, -2, np.nan, -0.0], np.float32), b_tensor=np.array([0, 5, 1, 0], np.float32)),
            np.array([0, -2, np.nan, -0.0], np.float32),
        ),
    )
    rejecting = ()
    errata = ("The page does not speak of NaN: the result is NaN where either element is, as in ONNX (our decision).",)
