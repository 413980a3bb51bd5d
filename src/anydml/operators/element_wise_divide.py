"""DML_OPERATOR_ELEMENT_WISE_DIVIDE: the quotient of two tensors.

Source: ns-directml-dml_element_wise_divide_operator_desc.
"""

from __future__ import annotations

from anydml.operators.shared.vocabulary import *

ALL = "ATensor BTensor OutputTensor"
FOUR = TensorDesc(DataType.FLOAT32, (4,))
BYTES = TensorDesc(DataType.INT8, (4,))


@operator("DML_OPERATOR_ELEMENT_WISE_DIVIDE", 10, since=FeatureLevel.FL_1_0, in_place=("ATensor", "BTensor"))
class ElementWiseDivide(Desc):
    """Divides two tensors element by element: Output = A / B.

    The quotient of integers is truncated toward zero, and is 0 if B is 0. The lowest integer divided by -1 wraps to itself.
    """

    a_tensor: TensorDesc = field.input("ATensor", "The dividends.")
    b_tensor: TensorDesc = field.input("BTensor", "The divisors.")
    output_tensor: TensorDesc = field.output("OutputTensor", "The quotients.")

    rows = (
        support("1_0", ALL, (4, 4), FLOATS),
        support("2_1", ALL, (4, 4), WORDS),
        support("3_0", ALL, (1, 8), WORDS),
        support("5_1", ALL, (1, 8), EIGHT),
        support("6_0", ALL, (1, 8), TEN),
    )
    same = same("DataType DimensionCount Sizes", ALL)

    outputs = like("a_tensor")

    statement = elementwise(lambda d, a, b: a / b if d.a_tensor.data_type.is_float else select(equal(b, 0), 0, truncate(a / b)))

    examples = (
        Example(
            "Quotients, and division by 0",
            dict(a_tensor=FOUR, b_tensor=FOUR, output_tensor=FOUR),
            dict(a_tensor=np.array([1, -7, 1, 0], np.float32), b_tensor=np.array([3, 2, 0, 0], np.float32)),
            np.array([1 / 3, -3.5, np.inf, np.nan], np.float32),
        ),
        Example(
            "Quotients of integers are truncated",
            dict(a_tensor=BYTES, b_tensor=BYTES, output_tensor=BYTES),
            dict(a_tensor=np.array([7, -7, 5, -128], np.int8), b_tensor=np.array([2, 2, 0, -1], np.int8)),
            np.array([3, -3, 0, -128], np.int8),
        ),
    )
    rejecting = ()
    errata = (
        "The page does not say what an integer divided by 0 is: 0 (our decision).",
        "The page does not say what the lowest integer divided by -1 is: it wraps to itself (our decision).",
    )
