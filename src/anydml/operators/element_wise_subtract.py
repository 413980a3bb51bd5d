"""DML_OPERATOR_ELEMENT_WISE_SUBTRACT: the difference of two tensors.

Source: ns-directml-dml_element_wise_subtract_operator_desc.
"""

from __future__ import annotations

from anydml.operators.shared.vocabulary import *

ALL = "ATensor BTensor OutputTensor"
PAIR = TensorDesc(DataType.FLOAT32, (2,))
BYTES = TensorDesc(DataType.UINT8, (2,))


@operator("DML_OPERATOR_ELEMENT_WISE_SUBTRACT", 30, since=FeatureLevel.FL_1_0, in_place=("ATensor", "BTensor"))
class ElementWiseSubtract(Desc):
    """Subtracts two tensors element by element: Output = A - B. Differences of integers wrap modulo 2^bits."""

    a_tensor: TensorDesc = field.input("ATensor", "The elements to subtract from.")
    b_tensor: TensorDesc = field.input("BTensor", "The elements to subtract.")
    output_tensor: TensorDesc = field.output("OutputTensor", "The differences.")

    rows = (
        support("1_0", ALL, (4, 4), FLOATS),
        support("2_1", ALL, (4, 4), WORDS),
        support("3_0", ALL, (1, 8), WORDS),
        support("4_1", ALL, (1, 8), (*WORDS, *SIXTY_FOUR)),
        support("5_1", ALL, (1, 8), TEN),
    )
    same = same("DataType DimensionCount Sizes", ALL)

    outputs = like("a_tensor")

    statement = elementwise(lambda d, a, b: a - b)

    examples = (
        Example(
            "A difference is rounded half to even",
            dict(a_tensor=PAIR, b_tensor=PAIR, output_tensor=PAIR),
            dict(a_tensor=np.array([1, 2**24], np.float32), b_tensor=np.array([3, -1], np.float32)),
            np.array([-2, 2**24], np.float32),
        ),
        Example(
            "Differences of integers wrap",
            dict(a_tensor=BYTES, b_tensor=BYTES, output_tensor=BYTES),
            dict(a_tensor=np.array([7, 3], np.uint8), b_tensor=np.array([5, 5], np.uint8)),
            np.array([2, 254], np.uint8),
        ),
    )
    rejecting = ()
    errata = ("The page does not say what an integer does that is out of range: it wraps (our decision).",)
