"""DML_OPERATOR_ACTIVATION_SIGMOID: the logistic function.

Source: ns-directml-dml_activation_sigmoid_operator_desc.
"""

from __future__ import annotations

from anydml.operators.shared.vocabulary import *

BOTH = "InputTensor OutputTensor"
TRIPLE = TensorDesc(DataType.FLOAT32, (3,))


@operator("DML_OPERATOR_ACTIVATION_SIGMOID", 47, since=FeatureLevel.FL_1_0, in_place=("InputTensor",), fusable=True)
class ActivationSigmoid(Desc):
    """Applies the logistic function to every element: Output = 1 / (1 + exp(-x))."""

    input_tensor: TensorDesc | None = field.input("InputTensor", "The elements x.", default=None)
    output_tensor: TensorDesc | None = field.output("OutputTensor", "The results.", default=None)

    rows = (
        support("1_0", BOTH, (4, 4), FLOATS),
        support("2_0", BOTH, (4, 5), FLOATS),
        support("3_0", BOTH, (1, 8), FLOATS),
    )
    same = same("DataType DimensionCount Sizes", BOTH)

    outputs = like("input_tensor")

    statement = elementwise(lambda d, x: 1 / (1 + exp(-x)))

    examples = (
        Example(
            "The logistic function at -1, 0 and 2",
            dict(input_tensor=TRIPLE, output_tensor=TRIPLE),
            dict(input_tensor=np.array([-1, 0, 2], np.float32)),
            np.array([0.26894143, 0.5, 0.8807971], np.float32),
        ),
    )
    rejecting = ()
    errata = ()
