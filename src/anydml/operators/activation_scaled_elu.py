"""DML_OPERATOR_ACTIVATION_SCALED_ELU: the scaled exponential linear unit.

Source: ns-directml-dml_activation_scaled_elu_operator_desc.
"""

from __future__ import annotations

from anydml.operators.shared.vocabulary import *

BOTH = "InputTensor OutputTensor"
TRIPLE = TensorDesc(DataType.FLOAT32, (3,))


@operator("DML_OPERATOR_ACTIVATION_SCALED_ELU", 45, since=FeatureLevel.FL_1_0, in_place=("InputTensor",), fusable=True)
class ActivationScaledElu(Desc):
    """Applies the scaled exponential linear unit to every element.

    Output = Gamma * x if x > 0, else Gamma * (Alpha * exp(x) - Alpha).
    """

    input_tensor: TensorDesc | None = field.input("InputTensor", "The elements x.", default=None)
    output_tensor: TensorDesc | None = field.output("OutputTensor", "The results.", default=None)
    alpha: float = field.attribute(
        "Alpha",
        field.FLOAT,
        "The negated limit of the unscaled result at -infinity.",
        default=1.67326319217681884765625,
    )
    gamma: float = field.attribute("Gamma", field.FLOAT, "The factor of the whole.", default=1.05070102214813232421875)

    rows = (
        support("1_0", BOTH, (4, 4), FLOATS),
        support("2_0", BOTH, (4, 5), FLOATS),
        support("3_0", BOTH, (1, 8), FLOATS),
    )
    same = same("DataType DimensionCount Sizes", BOTH)

    outputs = like("input_tensor")

    statement = elementwise(lambda d, x: select(x > 0, d.gamma * x, d.gamma * (d.alpha * exp(x) - d.alpha)))

    examples = (
        Example(
            "The unit at -1, 0 and 2",
            dict(input_tensor=TRIPLE, output_tensor=TRIPLE),
            dict(input_tensor=np.array([-1, 0, 2], np.float32)),
            np.array([-1.1113307, 0, 2.101402], np.float32),
        ),
    )
    rejecting = ()
    errata = ()
