"""DML_OPERATOR_ELEMENT_WISE_IF: the elements of one of two tensors, by a condition.

Source: ns-directml-dml_element_wise_if_operator_desc.
"""

from __future__ import annotations

from anydml.operators.shared.vocabulary import *

ALL = "ATensor BTensor OutputTensor"
UINT8 = DataType.UINT8
SQUARE = TensorDesc(DataType.FLOAT32, (2, 2))
FOUR_TRUTHS = TensorDesc(UINT8, (2, 2))


@operator("DML_OPERATOR_ELEMENT_WISE_IF", 88, since=FeatureLevel.FL_2_0)
class ElementWiseIf(Desc):
    """Selects every element from one of two tensors: Output = A where Condition is not 0, else B.

    The bits of the element are moved, those of a NaN too.
    """

    condition_tensor: TensorDesc = field.input("ConditionTensor", "The conditions: 0 selects B, all else A.", truth=True)
    a_tensor: TensorDesc = field.input("ATensor", "The elements to take where the condition is true.")
    b_tensor: TensorDesc = field.input("BTensor", "The elements to take where the condition is false.")
    output_tensor: TensorDesc = field.output("OutputTensor", "The elements taken.")

    eight_bit_floats = ALL
    rows = (
        support("2_0", "ConditionTensor", (4, 4), (UINT8,)),
        support("2_0", ALL, (4, 4), FLOATS),
        support("2_1", ALL, (4, 4), EIGHT),
        support("3_0", "ConditionTensor", (1, 8), (UINT8,)),
        support("3_0", ALL, (1, 8), EIGHT),
        support("5_0", ALL, (1, 8), ELEVEN),
    )
    same = (*same("DataType", ALL), *same("DimensionCount Sizes", f"ConditionTensor {ALL}"))

    outputs = like("a_tensor")

    statement = elementwise(lambda d, condition, a, b: select(is_true(condition), a, b), moves=True)

    examples = (
        Example(
            "Page: elements of A where the condition is 1",
            dict(condition_tensor=FOUR_TRUTHS, a_tensor=SQUARE, b_tensor=SQUARE, output_tensor=SQUARE),
            dict(
                condition_tensor=np.array([[1, 0], [1, 1]], np.uint8),
                a_tensor=np.array([[1, 2], [3, 4]], np.float32),
                b_tensor=np.array([[9, 8], [7, 6]], np.float32),
            ),
            np.array([[1, 8], [3, 4]], np.float32),
        ),
    )
    rejecting = ()
    errata = (
        "The page's table has FLOAT16 alone at 2_0 and no row for 2_1, where the history of feature levels speaks of "
        "integers: FLOAT32 and FLOAT16 at 2_0, integers of up to 32 bits from 2_1 on (our decision).",
    )
