"""DML_OPERATOR_ELEMENT_WISE_DIFFERENCE_SQUARE: the square of the difference of two tensors.

Source: ns-directml-dml_element_wise_difference_square_operator_desc.
"""

from __future__ import annotations

from anydml.operators.shared.vocabulary import *

ALL = "ATensor BTensor OutputTensor"
TRIPLE = TensorDesc(DataType.FLOAT32, (3,))
WHOLE = TensorDesc(DataType.UINT32, (3,))


@operator("DML_OPERATOR_ELEMENT_WISE_DIFFERENCE_SQUARE", 143, since=FeatureLevel.FL_3_1, in_place=("ATensor", "BTensor"))
class ElementWiseDifferenceSquare(Desc):
    """Squares the difference of every two elements: Output = (A - B) * (A - B).

    The difference is exact and the square rounded once. Squares of integers wrap modulo 2^bits.
    """

    a_tensor: TensorDesc = field.input("ATensor", "The elements to subtract from.")
    b_tensor: TensorDesc = field.input("BTensor", "The elements to subtract.")
    output_tensor: TensorDesc = field.output("OutputTensor", "The squares.")

    rows = (support("3_1", ALL, (1, 8), WORDS),)
    same = same("DataType DimensionCount Sizes", ALL)

    outputs = like("a_tensor")

    statement = elementwise(lambda d, a, b: (a - b) * (a - b))

    examples = (
        Example(
            "The square of an exact difference: that of 1 and -2^-24 is no FLOAT32",
            dict(a_tensor=TRIPLE, b_tensor=TRIPLE, output_tensor=TRIPLE),
            dict(a_tensor=np.array([3, -1, 1], np.float32), b_tensor=np.array([1, 0.5, -(2**-24)], np.float32)),
            np.array([4, 2.25, 1.0000001], np.float32),
        ),
        Example(
            "Squares of integers wrap",
            dict(a_tensor=WHOLE, b_tensor=WHOLE, output_tensor=WHOLE),
            dict(a_tensor=np.array([3, 2, 65536], np.uint32), b_tensor=np.array([1, 5, 0], np.uint32)),
            np.array([4, 9, 0], np.uint32),
        ),
    )
    rejecting = ()
    errata = ("The page does not say what an integer does that is out of range: it wraps (our decision).",)
