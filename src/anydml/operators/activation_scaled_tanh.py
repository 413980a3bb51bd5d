"""DML_OPERATOR_ACTIVATION_SCALED_TANH: the scaled hyperbolic tangent.

Source: ns-directml-dml_activation_scaled_tanh_operator_desc.
"""

from __future__ import annotations

from anydml.operators.shared.vocabulary import *

BOTH = "InputTensor OutputTensor"
TRIPLE = TensorDesc(DataType.FLOAT32, (3,))


@operator("DML_OPERATOR_ACTIVATION_SCALED_TANH", 46, since=FeatureLevel.FL_1_0, in_place=("InputTensor",), fusable=True)
class ActivationScaledTanh(Desc):
    """Applies the scaled hyperbolic tangent to every element: Output = Alpha * tanh(Beta * x)."""

    input_tensor: TensorDesc | None = field.input("InputTensor", "The elements x.", default=None)
    output_tensor: TensorDesc | None = field.output("OutputTensor", "The results.", default=None)
    alpha: float = field.attribute("Alpha", field.FLOAT, "The factor of the tangent.", default=1.0)
    beta: float = field.attribute("Beta", field.FLOAT, "The factor of x.", default=0.5)

    rows = (
        support("1_0", BOTH, (4, 4), FLOATS),
        support("2_0", BOTH, (4, 5), FLOATS),
        support("3_0", BOTH, (1, 8), FLOATS),
    )
    same = same("DataType DimensionCount Sizes", BOTH)

    outputs = like("input_tensor")

    statement = elementwise(lambda d, x: d.alpha * tanh(d.beta * x))

    examples = (
        Example(
            "The tangent of half of x, at -1, 0 and 2",
            dict(input_tensor=TRIPLE, output_tensor=TRIPLE),
            dict(input_tensor=np.array([-1, 0, 2], np.float32)),
            np.array([-0.46211717, 0, 0.7615942], np.float32),
        ),
    )
    rejecting = ()
    errata = ()
