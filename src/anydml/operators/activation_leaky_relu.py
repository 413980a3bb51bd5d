"""DML_OPERATOR_ACTIVATION_LEAKY_RELU: a rectifier with a slope below 0.

Source: ns-directml-dml_activation_leaky_relu_operator_desc.
"""

from __future__ import annotations

from anydml.operators.shared.vocabulary import *

BOTH = "InputTensor OutputTensor"
TRIPLE = TensorDesc(DataType.FLOAT32, (3,))


@operator("DML_OPERATOR_ACTIVATION_LEAKY_RELU", 39, since=FeatureLevel.FL_1_0, in_place=("InputTensor",), fusable=True)
class ActivationLeakyRelu(Desc):
    """Applies the leaky rectified linear unit to every element: Output = x if x >= 0, else Alpha * x."""

    input_tensor: TensorDesc | None = field.input("InputTensor", "The elements x.", default=None)
    output_tensor: TensorDesc | None = field.output("OutputTensor", "The results.", default=None)
    alpha: float = field.attribute("Alpha", field.FLOAT, "The slope below 0.", default=0.01)

    rows = (
        support("1_0", BOTH, (4, 4), FLOATS),
        support("2_0", BOTH, (4, 5), FLOATS),
        support("3_0", BOTH, (1, 8), FLOATS),
    )
    same = same("DataType DimensionCount Sizes", BOTH)

    outputs = like("input_tensor")

    statement = elementwise(lambda d, x: select(x >= 0, x, d.alpha * x))

    examples = (
        Example(
            "Negative numbers become a quarter",
            dict(input_tensor=TRIPLE, output_tensor=TRIPLE, alpha=0.25),
            dict(input_tensor=np.array([-1, 0, 2.5], np.float32)),
            np.array([-0.25, 0, 2.5], np.float32),
        ),
    )
    rejecting = ()
    errata = ()
