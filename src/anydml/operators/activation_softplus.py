"""DML_OPERATOR_ACTIVATION_SOFTPLUS: a smooth rectifier.

Source: ns-directml-dml_activation_softplus_operator_desc.
"""

from __future__ import annotations

from anydml.operators.shared.vocabulary import *

BOTH = "InputTensor OutputTensor"
TRIPLE = TensorDesc(DataType.FLOAT32, (3,))


@operator("DML_OPERATOR_ACTIVATION_SOFTPLUS", 49, since=FeatureLevel.FL_1_0, in_place=("InputTensor",), fusable=True)
class ActivationSoftplus(Desc):
    """Applies the softplus function to every element: Output = ln(1 + exp(Steepness * x)) / Steepness."""

    input_tensor: TensorDesc | None = field.input("InputTensor", "The elements x.", default=None)
    output_tensor: TensorDesc | None = field.output("OutputTensor", "The results.", default=None)
    steepness: float = field.attribute("Steepness", field.FLOAT, "How sharply the curve bends at 0.", default=1.0)

    rows = (
        support("1_0", BOTH, (4, 4), FLOATS),
        support("2_0", BOTH, (4, 5), FLOATS),
        support("3_0", BOTH, (1, 8), FLOATS),
    )
    same = same("DataType DimensionCount Sizes", BOTH)

    @constraint("`Steepness` must be at least 1 below feature level 6_4.", before=FeatureLevel.FL_6_4)
    def steepness_at_least_one(d) -> bool:
        return d.steepness >= 1

    outputs = like("input_tensor")

    statement = elementwise(lambda d, x: log(1 + exp(d.steepness * x)) / d.steepness)

    examples = (
        Example(
            "Softplus at -1, 0 and 2",
            dict(input_tensor=TRIPLE, output_tensor=TRIPLE),
            dict(input_tensor=np.array([-1, 0, 2], np.float32)),
            np.array([0.3132617, 0.6931472, 2.126928], np.float32),
        ),
    )
    rejecting = (rejects("steepness_at_least_one", at=FeatureLevel.FL_6_3, steepness=0.5),)
    errata = (
        "The page limits Steepness in its paragraph about the output, and does not say that 6_4 lifts the limit.",
        "The page does not say what Steepness 0 means; the quotient is then what IEEE 754 says (our decision).",
    )
