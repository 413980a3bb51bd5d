"""DML_OPERATOR_ELEMENT_WISE_NEGATE: the number with the opposite sign.

Source: ns-directml-dml_element_wise_negate_operator_desc.
"""

from __future__ import annotations

from anydml.operators.shared.vocabulary import *

BOTH = "InputTensor OutputTensor"
TRIPLE = TensorDesc(DataType.FLOAT32, (3,))
INTEGERS = TensorDesc(DataType.INT8, (3,))


@operator("DML_OPERATOR_ELEMENT_WISE_NEGATE", 156, since=FeatureLevel.FL_5_0, in_place=("InputTensor",))
class ElementWiseNegate(Desc):
    """Negates every element: Output = -x. The sign of a zero changes too; the lowest integer of a type wraps to itself."""

    input_tensor: TensorDesc = field.input("InputTensor", "The elements x.")
    output_tensor: TensorDesc = field.output("OutputTensor", "The results.")

    rows = (support("5_0", BOTH, (1, 8), (*FLOATS, *SIGNED, DataType.INT64)),)
    same = same("DataType DimensionCount Sizes", BOTH)

    outputs = like("input_tensor")

    statement = elementwise(lambda d, x: -x)

    examples = (
        Example(
            "The negatives of -1.5, 0 and infinity",
            dict(input_tensor=TRIPLE, output_tensor=TRIPLE),
            dict(input_tensor=np.array([-1.5, 0, np.inf], np.float32)),
            np.array([1.5, -0.0, -np.inf], np.float32),
        ),
        Example(
            "Of integers, among which the lowest has none",
            dict(input_tensor=INTEGERS, output_tensor=INTEGERS),
            dict(input_tensor=np.array([-128, -127, 5], np.int8)),
            np.array([-128, 127, -5], np.int8),
        ),
    )
    rejecting = ()
    errata = ("The page does not say what becomes of the lowest integer: it wraps to itself (our decision).",)
