"""DML_OPERATOR_ELEMENT_WISE_LOGICAL_LESS_THAN_OR_EQUAL: where a tensor is less than another or equal.

Source: ns-directml-dml_element_wise_logical_less_than_or_equal_operator_desc.
"""

from __future__ import annotations

from anydml.operators.shared.vocabulary import *

INPUTS = "ATensor BTensor"
FIVE = TensorDesc(DataType.FLOAT32, (5,))
BYTES = TensorDesc(DataType.UINT8, (5,))


@operator("DML_OPERATOR_ELEMENT_WISE_LOGICAL_LESS_THAN_OR_EQUAL", 127, since=FeatureLevel.FL_3_0)
class ElementWiseLogicalLessThanOrEqual(Desc):
    """Compares two tensors element by element: Output = (A <= B), 1 or 0.

    A comparison with NaN is false, and -0 equals +0. The output is UINT8 or UINT32, whatever the inputs are.
    """

    a_tensor: TensorDesc = field.input("ATensor", "The elements on the left.")
    b_tensor: TensorDesc = field.input("BTensor", "The elements on the right.")
    output_tensor: TensorDesc = field.output("OutputTensor", "The results, 1 where it holds and 0 elsewhere.")

    rows = (
        support("3_0", INPUTS, (1, 8), EIGHT),
        support("3_0", "OutputTensor", (1, 8), TRUTHS),
        support("4_1", INPUTS, (1, 8), TEN),
    )
    same = (*same("DataType", INPUTS), *same("DimensionCount Sizes", f"{INPUTS} OutputTensor"))

    def outputs(d) -> Outputs:
        return {"output_tensor": (d.a_tensor.sizes, DataType.UINT8)}

    statement = elementwise(lambda d, a, b: as_number(a <= b))

    examples = (
        Example(
            "Numbers below, above and equal, both zeros, and NaN",
            dict(a_tensor=FIVE, b_tensor=FIVE, output_tensor=BYTES),
            dict(a_tensor=np.array([1, 2, 3, -0.0, np.nan], np.float32), b_tensor=np.array([2, 1, 3, 0, np.nan], np.float32)),
            np.array([1, 0, 1, 1, 0], np.uint8),
        ),
    )
    rejecting = ()
    errata = (
        "The page does not speak of NaN and zeros: IEEE 754 says how they compare (our decision).",
        "The page names two feature levels for the operator, 1_0 and 3_0; it came with 3_0.",
    )
