"""DML_OPERATOR_ELEMENT_WISE_BIT_COUNT: the number of ones in an element.

Source: ns-directml-dml_element_wise_bit_count_operator_desc.
"""

from __future__ import annotations

from anydml.operators.shared.vocabulary import *
from anydml.schema.bits import bit_count

COUNTS = (DataType.UINT32, DataType.UINT8)
FOUR_WORDS = TensorDesc(DataType.UINT32, (2, 2))
BYTES = TensorDesc(DataType.UINT8, (2, 2))
PAIR = TensorDesc(DataType.FLOAT32, (2,))
COUNTED = TensorDesc(DataType.UINT32, (2,))


@operator("DML_OPERATOR_ELEMENT_WISE_BIT_COUNT", 125, since=FeatureLevel.FL_3_0)
class ElementWiseBitCount(Desc):
    """Counts the ones among the bits of every element: Output = popcount(x).

    The bits are those of the encoding: -1 as INT8 has 8, and 1 as FLOAT32 has 7. The output is UINT8 or UINT32.
    """

    input_tensor: TensorDesc = field.input("InputTensor", "The elements x.")
    output_tensor: TensorDesc = field.output("OutputTensor", "The numbers of ones.")

    rows = (
        support("3_0", "InputTensor", (1, 8), UNSIGNED),
        support("3_0", "OutputTensor", (1, 8), COUNTS),
        support("4_1", "InputTensor", (1, 8), ELEVEN),
    )
    same = same("DimensionCount Sizes", "InputTensor OutputTensor")

    def outputs(d) -> Outputs:
        return {"output_tensor": (d.input_tensor.sizes, DataType.UINT8)}

    statement = elementwise(lambda d, x: bit_count(x))

    examples = (
        Example(
            "Page: ones in integers",
            dict(input_tensor=FOUR_WORDS, output_tensor=BYTES),
            dict(input_tensor=np.array([[0, 123], [456, 789]], np.uint32)),
            np.array([[0, 6], [4, 5]], np.uint8),
        ),
        Example(
            "Ones in the encodings of floats",
            dict(input_tensor=PAIR, output_tensor=COUNTED),
            dict(input_tensor=np.array([1, -0.0], np.float32)),
            np.array([7, 1], np.uint32),
        ),
    )
    rejecting = ()
    errata = ()
