"""DML_OPERATOR_ELEMENT_WISE_BIT_OR: the bits that at least one of two elements has.

Source: ns-directml-dml_element_wise_bit_or_operator_desc.
"""

from __future__ import annotations

from anydml.operators.shared.vocabulary import *
from anydml.schema.bits import bit_or

ALL = "ATensor BTensor OutputTensor"
TRIPLE = TensorDesc(DataType.UINT8, (3,))


@operator("DML_OPERATOR_ELEMENT_WISE_BIT_OR", 122, since=FeatureLevel.FL_3_0, in_place=("ATensor", "BTensor"))
class ElementWiseBitOr(Desc):
    """Combines the bits of every two elements: Output = A | B. Floats are combined by their encodings."""

    a_tensor: TensorDesc = field.input("ATensor", "The elements on the left.")
    b_tensor: TensorDesc = field.input("BTensor", "The elements on the right.")
    output_tensor: TensorDesc = field.output("OutputTensor", "The combined bits.")

    rows = (
        support("3_0", ALL, (1, 8), UNSIGNED),
        support("4_1", ALL, (1, 8), ELEVEN),
    )
    same = same("DataType DimensionCount Sizes", ALL)

    outputs = like("a_tensor")

    statement = elementwise(lambda d, a, b: bit_or(a, b), moves=True)

    examples = (
        Example(
            "Bits of bytes",
            dict(a_tensor=TRIPLE, b_tensor=TRIPLE, output_tensor=TRIPLE),
            dict(a_tensor=np.array([0b1100, 255, 7], np.uint8), b_tensor=np.array([0b1010, 1, 0], np.uint8)),
            np.array([0b1110, 255, 7], np.uint8),
        ),
    )
    rejecting = ()
    errata = ()
