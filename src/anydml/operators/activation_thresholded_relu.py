"""DML_OPERATOR_ACTIVATION_THRESHOLDED_RELU: a rectifier with a threshold.

Source: ns-directml-dml_activation_thresholded_relu_operator_desc.
"""

from __future__ import annotations

from anydml.operators.shared.vocabulary import *

BOTH = "InputTensor OutputTensor"
TRIPLE = TensorDesc(DataType.FLOAT32, (3,))


@operator("DML_OPERATOR_ACTIVATION_THRESHOLDED_RELU", 52, since=FeatureLevel.FL_1_0, in_place=("InputTensor",), fusable=True)
class ActivationThresholdedRelu(Desc):
    """Applies the thresholded rectified linear unit to every element: Output = x if x > Alpha, else 0."""

    input_tensor: TensorDesc | None = field.input("InputTensor", "The elements x.", default=None)
    output_tensor: TensorDesc | None = field.output("OutputTensor", "The results.", default=None)
    alpha: float = field.attribute("Alpha", field.FLOAT, "The threshold.", default=1.0)

    rows = (
        support("1_0", BOTH, (4, 4), FLOATS),
        support("2_0", BOTH, (4, 5), FLOATS),
        support("3_0", BOTH, (1, 8), FLOATS),
    )
    same = same("DataType DimensionCount Sizes", BOTH)

    outputs = like("input_tensor")

    statement = elementwise(lambda d, x: select(either(x > d.alpha, is_nan(x)), x, 0))

    examples = (
        Example(
            "What does not exceed 1 becomes 0",
            dict(input_tensor=TRIPLE, output_tensor=TRIPLE),
            dict(input_tensor=np.array([-1, 1, 2.5], np.float32)),
            np.array([0, 0, 2.5], np.float32),
        ),
    )
    rejecting = ()
    errata = ("The page's formula would make 0 of a NaN, which exceeds nothing; a NaN stays NaN (our decision).",)
