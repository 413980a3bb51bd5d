"""DML_OPERATOR_ELEMENT_WISE_IS_NAN: whether an element is NaN.

Source: ns-directml-dml_element_wise_is_nan_operator_desc.
"""

from __future__ import annotations

from anydml.operators.shared.vocabulary import *

BOTH = "InputTensor OutputTensor"
TRIPLE = TensorDesc(DataType.FLOAT32, (3,))


@operator("DML_OPERATOR_ELEMENT_WISE_IS_NAN", 80, since=FeatureLevel.FL_2_0)
class ElementWiseIsNan(Desc):
    """Tells which elements are NaN: Output = 1 where x is NaN, else 0."""

    input_tensor: TensorDesc = field.input("InputTensor", "The elements x.")
    output_tensor: TensorDesc = field.output("OutputTensor", "The truths, 1 or 0: UINT8 in an eager call, or UINT32.")

    rows = (
        support("2_0", "InputTensor", (4, 4), FLOATS),
        support("2_0", "OutputTensor", (4, 4), TRUTHS),
        support("3_0", "InputTensor", (1, 8), FLOATS),
        support("3_0", "OutputTensor", (1, 8), TRUTHS),
    )
    same = same("DimensionCount Sizes", BOTH)

    def outputs(d) -> Outputs:
        return {"output_tensor": (d.input_tensor.sizes, DataType.UINT8)}

    statement = elementwise(lambda d, x: select(is_nan(x), 1, 0))

    examples = (
        Example(
            "One of three is",
            dict(input_tensor=TRIPLE, output_tensor=TensorDesc(DataType.UINT8, (3,))),
            dict(input_tensor=np.array([1, np.nan, np.inf], np.float32)),
            np.array([0, 1, 0], np.uint8),
        ),
    )
    rejecting = ()
    errata = ()
