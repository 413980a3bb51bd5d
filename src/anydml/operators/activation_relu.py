"""DML_OPERATOR_ACTIVATION_RELU: the rectified linear unit.

Source: ns-directml-dml_activation_relu_operator_desc.
"""

from __future__ import annotations

from anydml.operators.shared.vocabulary import *

BOTH = "InputTensor OutputTensor"
TRIPLE = TensorDesc(DataType.FLOAT32, (3,))


@operator("DML_OPERATOR_ACTIVATION_RELU", 44, since=FeatureLevel.FL_1_0, in_place=("InputTensor",), fusable=True)
class ActivationRelu(Desc):
    """Applies the rectified linear unit to every element: Output = max(0, x)."""

    input_tensor: TensorDesc | None = field.input("InputTensor", "The elements x.", default=None)
    output_tensor: TensorDesc | None = field.output("OutputTensor", "The results.", default=None)

    rows = (
        support("1_0", BOTH, (4, 4), FLOATS),
        support("2_0", BOTH, (4, 5), FLOATS),
        support("3_0", BOTH, (1, 8), FLOATS),
        support("5_1", BOTH, (1, 8), (*FLOATS, *SIGNED)),
    )
    same = same("DataType DimensionCount Sizes", BOTH)

    outputs = like("input_tensor")

    statement = elementwise(lambda d, x: maximum(0, x))

    examples = (
        Example(
            "Negative numbers become 0",
            dict(input_tensor=TRIPLE, output_tensor=TRIPLE),
            dict(input_tensor=np.array([-1, 0, 2.5], np.float32)),
            np.array([0, 0, 2.5], np.float32),
        ),
    )
    rejecting = ()
    errata = ()
