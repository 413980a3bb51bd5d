"""DML_OPERATOR_ACTIVATION_HARD_SIGMOID: a linear function, clamped to 0 and 1.

Source: ns-directml-dml_activation_hard_sigmoid_operator_desc.
"""

from __future__ import annotations

from anydml.operators.shared.vocabulary import *

BOTH = "InputTensor OutputTensor"
TRIPLE = TensorDesc(DataType.FLOAT32, (3,))


@operator("DML_OPERATOR_ACTIVATION_HARD_SIGMOID", 37, since=FeatureLevel.FL_1_0, in_place=("InputTensor",), fusable=True)
class ActivationHardSigmoid(Desc):
    """Applies the hard sigmoid to every element: Output = max(0, min(Alpha * x + Beta, 1))."""

    input_tensor: TensorDesc | None = field.input("InputTensor", "The elements x.", default=None)
    output_tensor: TensorDesc | None = field.output("OutputTensor", "The results.", default=None)
    alpha: float = field.attribute("Alpha", field.FLOAT, "The slope.", default=0.2)
    beta: float = field.attribute("Beta", field.FLOAT, "The value at 0.", default=0.5)

    rows = (
        support("1_0", BOTH, (4, 4), FLOATS),
        support("2_0", BOTH, (4, 5), FLOATS),
        support("3_0", BOTH, (1, 8), FLOATS),
    )
    same = same("DataType DimensionCount Sizes", BOTH)

    outputs = like("input_tensor")

    statement = elementwise(lambda d, x: maximum(0, minimum(d.alpha * x + d.beta, 1)))

    examples = (
        Example(
            "A quarter of x and a half, between 0 and 1",
            dict(input_tensor=TRIPLE, output_tensor=TRIPLE, alpha=0.25),
            dict(input_tensor=np.array([-1, 0, 3], np.float32)),
            np.array([0.25, 0.5, 1], np.float32),
        ),
    )
    rejecting = ()
    errata = ()
