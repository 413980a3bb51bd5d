"""DML_OPERATOR_ELEMENT_WISE_BIT_NOT: the bits of an element inverted.

Source: ns-directml-dml_element_wise_bit_not_operator_desc.
"""

from __future__ import annotations

from anydml.operators.shared.vocabulary import *
from anydml.schema.bits import bit_not

BOTH = "InputTensor OutputTensor"
SQUARE = TensorDesc(DataType.UINT8, (2, 2))


@operator("DML_OPERATOR_ELEMENT_WISE_BIT_NOT", 124, since=FeatureLevel.FL_3_0, in_place=("InputTensor",))
class ElementWiseBitNot(Desc):
    """Inverts the bits of every element: Output = ~x. Floats are inverted by their encodings."""

    input_tensor: TensorDesc = field.input("InputTensor", "The elements x.")
    output_tensor: TensorDesc = field.output("OutputTensor", "The inverted elements.")

    rows = (
        support("3_0", BOTH, (1, 8), UNSIGNED),
        support("4_1", BOTH, (1, 8), ELEVEN),
    )
    same = same("DataType DimensionCount Sizes", BOTH)

    outputs = like("input_tensor")

    statement = elementwise(lambda d, x: bit_not(x), moves=True)

    examples = (
        Example(
            "Page: inverted bytes",
            dict(input_tensor=SQUARE, output_tensor=SQUARE),
            dict(input_tensor=np.array([[0, 128], [42, 255]], np.uint8)),
            np.array([[255, 127], [213, 0]], np.uint8),
        ),
    )
    rejecting = ()
    errata = ()
