"""DML_OPERATOR_ELEMENT_WISE_LOGICAL_OR: the disjunction of two tensors of truth values.

Source: ns-directml-dml_element_wise_logical_or_operator_desc.
"""

from __future__ import annotations

from anydml.operators.shared.vocabulary import *

ALL = "ATensor BTensor OutputTensor"
FOUR = TensorDesc(DataType.UINT8, (4,))


@operator("DML_OPERATOR_ELEMENT_WISE_LOGICAL_OR", 19, since=FeatureLevel.FL_1_0, in_place=("ATensor", "BTensor"))
class ElementWiseLogicalOr(Desc):
    """Says where at least one element is true: Output = A || B. Any element but 0 is true; results are 1 and 0."""

    a_tensor: TensorDesc = field.input("ATensor", "The truth values on the left.", truth=True)
    b_tensor: TensorDesc = field.input("BTensor", "The truth values on the right.", truth=True)
    output_tensor: TensorDesc = field.output("OutputTensor", "The results.")

    rows = (
        support("1_0", ALL, (4, 4), (DataType.UINT32,)),
        support("2_0", ALL, (4, 4), TRUTHS),
        support("3_0", ALL, (1, 8), TRUTHS),
    )
    same = same("DataType DimensionCount Sizes", ALL)

    outputs = like("a_tensor")

    statement = elementwise(lambda d, a, b: as_number(either(is_true(a), is_true(b))))

    examples = (
        Example(
            "The four cases; 2 is as true as 1",
            dict(a_tensor=FOUR, b_tensor=FOUR, output_tensor=FOUR),
            dict(a_tensor=np.array([0, 0, 2, 1], np.uint8), b_tensor=np.array([0, 1, 0, 2], np.uint8)),
            np.array([0, 1, 1, 1], np.uint8),
        ),
    )
    rejecting = ()
    errata = ()
