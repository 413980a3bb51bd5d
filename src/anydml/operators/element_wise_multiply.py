"""DML_OPERATOR_ELEMENT_WISE_MULTIPLY: the product of two tensors.

Source: ns-directml-dml_element_wise_multiply_operator_desc.
"""

from __future__ import annotations

from anydml.operators.shared.vocabulary import *

ALL = "ATensor BTensor OutputTensor"
TRIPLE = TensorDesc(DataType.FLOAT32, (3,))
BYTES = TensorDesc(DataType.INT8, (3,))


@operator("DML_OPERATOR_ELEMENT_WISE_MULTIPLY", 24, since=FeatureLevel.FL_1_0, in_place=("ATensor", "BTensor"))
class ElementWiseMultiply(Desc):
    """Multiplies two tensors element by element: Output = A * B. Products of integers wrap modulo 2^bits."""

    a_tensor: TensorDesc = field.input("ATensor", "The left factors.")
    b_tensor: TensorDesc = field.input("BTensor", "The right factors.")
    output_tensor: TensorDesc = field.output("OutputTensor", "The products.")

    rows = (
        support("1_0", ALL, (4, 5), FLOATS),
        support("2_1", ALL, (4, 5), WORDS),
        support("3_0", ALL, (1, 8), WORDS),
        support("4_1", ALL, (1, 8), (*WORDS, *SIXTY_FOUR)),
        support("5_1", ALL, (1, 8), TEN),
    )
    same = same("DataType DimensionCount Sizes", ALL)

    outputs = like("a_tensor")

    statement = elementwise(lambda d, a, b: a * b)

    examples = (
        Example(
            "Products, one of which is too large for FLOAT32",
            dict(a_tensor=TRIPLE, b_tensor=TRIPLE, output_tensor=TRIPLE),
            dict(a_tensor=np.array([1.5, -2, 1e38], np.float32), b_tensor=np.array([3, 0.5, 10], np.float32)),
            np.array([4.5, -1, np.inf], np.float32),
        ),
        Example(
            "Products of integers wrap",
            dict(a_tensor=BYTES, b_tensor=BYTES, output_tensor=BYTES),
            dict(a_tensor=np.array([3, 16, -128], np.int8), b_tensor=np.array([5, 8, -1], np.int8)),
            np.array([15, -128, -128], np.int8),
        ),
    )
    rejecting = ()
    errata = ("The page does not say what an integer does that is out of range: it wraps (our decision).",)
