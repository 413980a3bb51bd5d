"""DML_OPERATOR_ACTIVATION_IDENTITY: every element unchanged.

Source: ns-directml-dml_activation_identity_operator_desc.
"""

from __future__ import annotations

from anydml.operators.shared.vocabulary import *

BOTH = "InputTensor OutputTensor"
TRIPLE = TensorDesc(DataType.FLOAT32, (3,))


@operator("DML_OPERATOR_ACTIVATION_IDENTITY", 38, since=FeatureLevel.FL_1_0, in_place=("InputTensor",), fusable=True)
class ActivationIdentity(Desc):
    """Copies every element: Output = x. Bits are copied, also those of a NaN."""

    input_tensor: TensorDesc | None = field.input("InputTensor", "The elements x.", default=None)
    output_tensor: TensorDesc | None = field.output("OutputTensor", "The results.", default=None)

    rows = (
        support("1_0", BOTH, (4, 4), FLOATS),
        support("2_0", BOTH, (4, 5), FLOATS),
        support("3_0", BOTH, (1, 8), FLOATS),
    )
    same = same("DataType DimensionCount Sizes", BOTH)

    outputs = like("input_tensor")

    statement = elementwise(lambda d, x: x, moves=True)

    examples = (
        Example(
            "Nothing changes",
            dict(input_tensor=TRIPLE, output_tensor=TRIPLE),
            dict(input_tensor=np.array([-1, 0, 2.5], np.float32)),
            np.array([-1, 0, 2.5], np.float32),
        ),
    )
    rejecting = ()
    errata = ("The page swaps the descriptions of the input and the output.",)
