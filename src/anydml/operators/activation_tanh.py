"""DML_OPERATOR_ACTIVATION_TANH: the hyperbolic tangent.

Source: ns-directml-dml_activation_tanh_operator_desc.
"""

from __future__ import annotations

from anydml.operators.shared.vocabulary import *

BOTH = "InputTensor OutputTensor"
TRIPLE = TensorDesc(DataType.FLOAT32, (3,))


@operator("DML_OPERATOR_ACTIVATION_TANH", 51, since=FeatureLevel.FL_1_0, in_place=("InputTensor",), fusable=True)
class ActivationTanh(Desc):
    """Applies the hyperbolic tangent to every element: Output = tanh(x) = (1 - exp(-2x)) / (1 + exp(-2x))."""

    input_tensor: TensorDesc | None = field.input("InputTensor", "The elements x.", default=None)
    output_tensor: TensorDesc | None = field.output("OutputTensor", "The results.", default=None)

    rows = (
        support("1_0", BOTH, (4, 4), FLOATS),
        support("2_0", BOTH, (4, 5), FLOATS),
        support("3_0", BOTH, (1, 8), FLOATS),
    )
    same = same("DataType DimensionCount Sizes", BOTH)

    outputs = like("input_tensor")

    statement = elementwise(lambda d, x: tanh(x))

    examples = (
        Example(
            "The hyperbolic tangent at -1, 0 and 0.5",
            dict(input_tensor=TRIPLE, output_tensor=TRIPLE),
            dict(input_tensor=np.array([-1, 0, 0.5], np.float32)),
            np.array([-0.7615942, 0, 0.46211717], np.float32),
        ),
    )
    rejecting = ()
    errata = (
        "The page's quotient of exponentials has no value at -infinity; the result there is -1, the limit (our decision).",
    )
