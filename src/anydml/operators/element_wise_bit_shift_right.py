"""DML_OPERATOR_ELEMENT_WISE_BIT_SHIFT_RIGHT: the bits of an element shifted to the right.

Source: ns-directml-dml_element_wise_bit_shift_right_operator_desc.
"""

from __future__ import annotations

from anydml.operators.shared.vocabulary import *
from anydml.schema.bits import shift_right

ALL = "ATensor BTensor OutputTensor"
TRIPLE = TensorDesc(DataType.UINT8, (3,))


@operator("DML_OPERATOR_ELEMENT_WISE_BIT_SHIFT_RIGHT", 98, since=FeatureLevel.FL_2_1, in_place=("ATensor", "BTensor"))
class ElementWiseBitShiftRight(Desc):
    """Shifts the bits of every element of A to the right by B places: Output = A >> B.

    Zeros are shifted in from the left; the result is 0 if B is the width of the type or more.
    """

    a_tensor: TensorDesc = field.input("ATensor", "The elements whose bits are moved.")
    b_tensor: TensorDesc = field.input("BTensor", "The number of places.")
    output_tensor: TensorDesc = field.output("OutputTensor", "The shifted bits.")

    rows = (
        support("2_1", ALL, (4, 4), UNSIGNED),
        support("3_0", ALL, (1, 8), UNSIGNED),
        support("4_1", ALL, (1, 8), (*UNSIGNED, DataType.UINT64)),
    )
    same = same("DataType DimensionCount Sizes", ALL)

    outputs = like("a_tensor")

    statement = elementwise(lambda d, a, b: shift_right(a, b), moves=True)

    examples = (
        Example(
            "By 3, by 1, and by the width of the type",
            dict(a_tensor=TRIPLE, b_tensor=TRIPLE, output_tensor=TRIPLE),
            dict(a_tensor=np.array([8, 255, 128], np.uint8), b_tensor=np.array([3, 1, 8], np.uint8)),
            np.array([1, 127, 0], np.uint8),
        ),
    )
    rejecting = ()
    errata = ("The page does not say what a shift by the width of the type or more is: 0 (our decision).",)
