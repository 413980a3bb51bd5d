"""DML_OPERATOR_ACTIVATION_PARAMETRIC_SOFTPLUS: a smooth rectifier with two parameters.

Source: ns-directml-dml_activation_parametric_softplus_operator_desc.
"""

from __future__ import annotations

from anydml.operators.shared.vocabulary import *

BOTH = "InputTensor OutputTensor"
TRIPLE = TensorDesc(DataType.FLOAT32, (3,))


@operator("DML_OPERATOR_ACTIVATION_PARAMETRIC_SOFTPLUS", 43, since=FeatureLevel.FL_1_0, in_place=("InputTensor",), fusable=True)
class ActivationParametricSoftplus(Desc):
    """Applies the parametric softplus function to every element: Output = Alpha * ln(1 + exp(Beta * x))."""

    input_tensor: TensorDesc | None = field.input("InputTensor", "The elements x.", default=None)
    output_tensor: TensorDesc | None = field.output("OutputTensor", "The results.", default=None)
    alpha: float = field.attribute("Alpha", field.FLOAT, "The factor of the logarithm.")
    beta: float = field.attribute("Beta", field.FLOAT, "The factor of x.")

    rows = (
        support("1_0", BOTH, (4, 4), FLOATS),
        support("2_0", BOTH, (4, 5), FLOATS),
        support("3_0", BOTH, (1, 8), FLOATS),
    )
    same = same("DataType DimensionCount Sizes", BOTH)

    outputs = like("input_tensor")

    statement = elementwise(lambda d, x: d.alpha * log(1 + exp(d.beta * x)))

    examples = (
        Example(
            "A half of the softplus of 2 x, at -1, 0 and 2",
            dict(input_tensor=TRIPLE, output_tensor=TRIPLE, alpha=0.5, beta=2.0),
            dict(input_tensor=np.array([-1, 0, 2], np.float32)),
            np.array([0.06346401, 0.3465736, 2.009075], np.float32),
        ),
    )
    rejecting = ()
    errata = ()
