"""DML_OPERATOR_ACTIVATION_SOFTSIGN: the softsign function.

Source: ns-directml-dml_activation_softsign_operator_desc.
"""

from __future__ import annotations

from anydml.operators.shared.vocabulary import *

BOTH = "InputTensor OutputTensor"
TRIPLE = TensorDesc(DataType.FLOAT32, (3,))


@operator("DML_OPERATOR_ACTIVATION_SOFTSIGN", 50, since=FeatureLevel.FL_1_0, in_place=("InputTensor",), fusable=True)
class ActivationSoftsign(Desc):
    """Applies the softsign function to every element: Output = x / (1 + |x|)."""

    input_tensor: TensorDesc | None = field.input("InputTensor", "The elements x.", default=None)
    output_tensor: TensorDesc | None = field.output("OutputTensor", "The results.", default=None)

    rows = (
        support("1_0", BOTH, (4, 4), FLOATS),
        support("2_0", BOTH, (4, 5), FLOATS),
        support("3_0", BOTH, (1, 8), FLOATS),
    )
    same = same("DataType DimensionCount Sizes", BOTH)

    outputs = like("input_tensor")

    statement = elementwise(lambda d, x: at_limits(x, x / (1 + absolute(x)), low=-1, high=1))

    examples = (
        Example(
            "Softsign at -1, 0 and 3",
            dict(input_tensor=TRIPLE, output_tensor=TRIPLE),
            dict(input_tensor=np.array([-1, 0, 3], np.float32)),
            np.array([-0.5, 0, 0.75], np.float32),
        ),
    )
    rejecting = ()
    errata = ("The page's quotient has no value at infinities; the results there are -1 and 1, the limits (our decision).",)
