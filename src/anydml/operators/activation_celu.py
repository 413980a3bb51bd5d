"""DML_OPERATOR_ACTIVATION_CELU: the continuously differentiable exponential linear unit.

Source: ns-directml-dml_activation_celu_operator_desc.
"""

from __future__ import annotations

from anydml.operators.shared.vocabulary import *

BOTH = "InputTensor OutputTensor"
TRIPLE = TensorDesc(DataType.FLOAT32, (3,))


@operator("DML_OPERATOR_ACTIVATION_CELU", 128, since=FeatureLevel.FL_3_0, in_place=("InputTensor",), fusable=True)
class ActivationCelu(Desc):
    """Applies the continuously differentiable exponential linear unit to every element.

    Output = max(0, x) + min(0, Alpha * (exp(x / Alpha) - 1)).
    """

    input_tensor: TensorDesc | None = field.input("InputTensor", "The elements x.", default=None)
    output_tensor: TensorDesc | None = field.output("OutputTensor", "The results.", default=None)
    alpha: float = field.attribute("Alpha", field.FLOAT, "The negated limit of the result at -infinity.", default=1.0)

    rows = (support("3_0", BOTH, (1, 8), FLOATS),)
    same = same("DataType DimensionCount Sizes", BOTH)

    outputs = like("input_tensor")

    statement = elementwise(lambda d, x: maximum(0, x) + minimum(0, d.alpha * (exp(x / d.alpha) - 1)))

    examples = (
        Example(
            "The unit at -1, 0 and 2",
            dict(input_tensor=TRIPLE, output_tensor=TRIPLE, alpha=2.0),
            dict(input_tensor=np.array([-1, 0, 2], np.float32)),
            np.array([-0.78693867, 0, 2], np.float32),
        ),
    )
    rejecting = ()
    errata = (
        "The page does not say what Alpha 0 means; x / 0 is then what IEEE 754 says, and so is the result (our decision).",
    )
