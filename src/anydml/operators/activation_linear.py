"""DML_OPERATOR_ACTIVATION_LINEAR: a linear function of every element.

Source: ns-directml-dml_activation_linear_operator_desc.
"""

from __future__ import annotations

from anydml.operators.shared.vocabulary import *

BOTH = "InputTensor OutputTensor"
TRIPLE = TensorDesc(DataType.FLOAT32, (3,))


@operator("DML_OPERATOR_ACTIVATION_LINEAR", 40, since=FeatureLevel.FL_1_0, in_place=("InputTensor",), fusable=True)
class ActivationLinear(Desc):
    """Applies a linear function to every element: Output = Alpha * x + Beta."""

    input_tensor: TensorDesc | None = field.input("InputTensor", "The elements x.", default=None)
    output_tensor: TensorDesc | None = field.output("OutputTensor", "The results.", default=None)
    alpha: float = field.attribute("Alpha", field.FLOAT, "The factor.")
    beta: float = field.attribute("Beta", field.FLOAT, "The term.")

    rows = (
        support("1_0", BOTH, (4, 4), FLOATS),
        support("2_0", BOTH, (4, 5), FLOATS),
        support("3_0", BOTH, (1, 8), FLOATS),
    )
    same = same("DataType DimensionCount Sizes", BOTH)

    outputs = like("input_tensor")

    statement = elementwise(lambda d, x: d.alpha * x + d.beta)

    examples = (
        Example(
            "Twice x, and 1 more",
            dict(input_tensor=TRIPLE, output_tensor=TRIPLE, alpha=2.0, beta=1.0),
            dict(input_tensor=np.array([-1, 0, 2], np.float32)),
            np.array([-1, 1, 5], np.float32),
        ),
    )
    rejecting = ()
    errata = ()
