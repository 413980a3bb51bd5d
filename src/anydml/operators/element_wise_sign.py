"""DML_OPERATOR_ELEMENT_WISE_SIGN: -1, 0 or 1.

Source: ns-directml-dml_element_wise_sign_operator_desc.
"""

from __future__ import annotations

from anydml.operators.shared.vocabulary import *

BOTH = "InputTensor OutputTensor"
FOUR = TensorDesc(DataType.FLOAT32, (4,))


@operator("DML_OPERATOR_ELEMENT_WISE_SIGN", 79, since=FeatureLevel.FL_2_0, in_place=("InputTensor",))
class ElementWiseSign(Desc):
    """Takes the sign of every element: Output = 1 if x > 0, -1 if x < 0, else 0. That of -0 is 0, and NaN stays."""

    input_tensor: TensorDesc = field.input("InputTensor", "The elements x.")
    output_tensor: TensorDesc = field.output("OutputTensor", "The signs.")

    rows = (
        support("2_0", BOTH, (4, 4), FLOATS),
        support("2_1", BOTH, (4, 4), EIGHT),
        support("3_0", BOTH, (1, 8), EIGHT),
        support("4_1", BOTH, (1, 8), TEN),
    )
    same = same("DataType DimensionCount Sizes", BOTH)

    outputs = like("input_tensor")

    statement = elementwise(lambda d, x: select(x > 0, 1, select(x < 0, -1, select(is_nan(x), x, 0))))

    examples = (
        Example(
            "The signs of -2, -0, a small number and NaN",
            dict(input_tensor=FOUR, output_tensor=FOUR),
            dict(input_tensor=np.array([-2, -0.0, 1e-30, np.nan], np.float32)),
            np.array([-1, 0, 1, np.nan], np.float32),
        ),
    )
    rejecting = ()
    errata = ("By the page's formula the sign of NaN would be 0; it is NaN, as in ONNX and NumPy (our decision).",)
