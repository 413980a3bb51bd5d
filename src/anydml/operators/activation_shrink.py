"""DML_OPERATOR_ACTIVATION_SHRINK: the shrink function.

Source: ns-directml-dml_activation_shrink_operator_desc.
"""

from __future__ import annotations

from anydml.operators.shared.vocabulary import *

BOTH = "InputTensor OutputTensor"
FOUR = TensorDesc(DataType.FLOAT32, (4,))


@operator("DML_OPERATOR_ACTIVATION_SHRINK", 90, since=FeatureLevel.FL_2_0, in_place=("InputTensor",), fusable=True)
class ActivationShrink(Desc):
    """Moves every element toward 0 by Bias, and gives 0 for elements within Threshold of it.

    Output = x - Bias if x > Threshold; x + Bias if x < -Threshold; else 0. In integer tensors, the result is truncated
    toward zero and saturated.
    """

    input_tensor: TensorDesc | None = field.input("InputTensor", "The elements x.", default=None)
    output_tensor: TensorDesc | None = field.output("OutputTensor", "The results.", default=None)
    bias: float = field.attribute("Bias", field.FLOAT, "The amount by which an element is moved.", default=0.0)
    threshold: float = field.attribute("Threshold", field.FLOAT, "Below this magnitude, the result is 0.", default=0.5)

    rows = (
        support("2_0", BOTH, (4, 5), FLOATS),
        support("3_0", BOTH, (1, 8), FLOATS),
        support("5_1", BOTH, (1, 8), EIGHT),
    )
    same = same("DataType DimensionCount Sizes", BOTH)

    outputs = like("input_tensor")

    def shrink(d, x: Expr) -> Expr:
        lower = select(x < -d.threshold, x + d.bias, select(is_nan(x), x, 0))
        return select(x > d.threshold, x - d.bias, lower)

    statement = elementwise(shrink)

    examples = (
        Example(
            "What lies between -1.5 and 1.5 becomes 0; the rest moves by 1",
            dict(input_tensor=FOUR, output_tensor=FOUR, bias=1.0, threshold=1.5),
            dict(input_tensor=np.array([-3, -1.5, 1, 2.5], np.float32)),
            np.array([-2, 0, 0, 1.5], np.float32),
        ),
    )
    rejecting = ()
    errata = (
        "The page's formula would make 0 of a NaN, which exceeds nothing; a NaN stays NaN (our decision).",
        "The page does not say what becomes of a fraction in an integer tensor: it is truncated toward zero (our decision).",
        "The page does not say what becomes of a result that an integer tensor cannot hold: it saturates (our decision).",
        "The feature level history has integers from 2_1 on, the page from 5_1; the page's table holds.",
    )
