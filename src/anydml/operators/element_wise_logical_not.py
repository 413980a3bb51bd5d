"""DML_OPERATOR_ELEMENT_WISE_LOGICAL_NOT: the negation of truth values.

Source: ns-directml-dml_element_wise_logical_not_operator_desc.
"""

from __future__ import annotations

from anydml.operators.shared.vocabulary import *

BOTH = "InputTensor OutputTensor"
TRIPLE = TensorDesc(DataType.UINT8, (3,))


@operator("DML_OPERATOR_ELEMENT_WISE_LOGICAL_NOT", 18, since=FeatureLevel.FL_1_0, in_place=("InputTensor",))
class ElementWiseLogicalNot(Desc):
    """Negates every truth value: Output = !x. Any element but 0 is true; results are 1 and 0."""

    input_tensor: TensorDesc = field.input("InputTensor", "The truth values x.", truth=True)
    output_tensor: TensorDesc = field.output("OutputTensor", "The results.")

    rows = (
        support("1_0", BOTH, (4, 4), (DataType.UINT32,)),
        support("2_0", BOTH, (4, 4), TRUTHS),
        support("3_0", BOTH, (1, 8), TRUTHS),
    )
    same = same("DataType DimensionCount Sizes", BOTH)

    outputs = like("input_tensor")

    statement = elementwise(lambda d, x: as_number(equal(x, 0)))

    examples = (
        Example(
            "0 becomes 1, and all else 0",
            dict(input_tensor=TRIPLE, output_tensor=TRIPLE),
            dict(input_tensor=np.array([0, 1, 255], np.uint8)),
            np.array([1, 0, 0], np.uint8),
        ),
    )
    rejecting = ()
    errata = ()
