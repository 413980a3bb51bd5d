"""DML_OPERATOR_ACTIVATION_GELU: the Gaussian error linear unit.

Source: ns-directml-dml_activation_gelu_operator_desc.
"""

from __future__ import annotations

from anydml.operators.shared.vocabulary import *

BOTH = "InputTensor OutputTensor"
TRIPLE = TensorDesc(DataType.FLOAT32, (3,))


@operator("DML_OPERATOR_ACTIVATION_GELU", 157, since=FeatureLevel.FL_5_1, in_place=("InputTensor",), fusable=True)
class ActivationGelu(Desc):
    """Applies the Gaussian error linear unit to every element: Output = 0.5 * x * (1 + erf(x / sqrt(2)))."""

    input_tensor: TensorDesc | None = field.input("InputTensor", "The elements x.", default=None)
    output_tensor: TensorDesc | None = field.output("OutputTensor", "The results.", default=None)

    rows = (support("5_1", BOTH, (1, 8), FLOATS),)
    same = same("DataType DimensionCount Sizes", BOTH)

    outputs = like("input_tensor")

    statement = elementwise(lambda d, x: at_limits(x, 0.5 * x * (1 + erf(x / sqrt(2))), low=-0.0))

    examples = (
        Example(
            "The unit at -1, 0 and 2",
            dict(input_tensor=TRIPLE, output_tensor=TRIPLE),
            dict(input_tensor=np.array([-1, 0, 2], np.float32)),
            np.array([-0.15865526, 0, 1.9544997], np.float32),
        ),
    )
    rejecting = ()
    errata = ("The page does not say whether the output may be the input; the header's schema says it may.",)
