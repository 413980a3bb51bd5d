"""DML_OPERATOR_ACTIVATION_ELU: the exponential linear unit.

Source: ns-directml-dml_activation_elu_operator_desc.
"""

from __future__ import annotations

from anydml.operators.shared.vocabulary import *

BOTH = "InputTensor OutputTensor"
TRIPLE = TensorDesc(DataType.FLOAT32, (3,))


@operator("DML_OPERATOR_ACTIVATION_ELU", 35, since=FeatureLevel.FL_1_0, in_place=("InputTensor",), fusable=True)
class ActivationElu(Desc):
    """Applies the exponential linear unit to every element: Output = x if x >= 0, else Alpha * (exp(x) - 1)."""

    input_tensor: TensorDesc | None = field.input("InputTensor", "The elements x.", default=None)
    output_tensor: TensorDesc | None = field.output("OutputTensor", "The results.", default=None)
    alpha: float = field.attribute("Alpha", field.FLOAT, "The negated limit of the result at -infinity.", default=1.0)

    rows = (
        support("1_0", BOTH, (4, 4), FLOATS),
        support("2_0", BOTH, (4, 5), FLOATS),
        support("3_0", BOTH, (1, 8), FLOATS),
    )
    same = same("DataType DimensionCount Sizes", BOTH)

    outputs = like("input_tensor")

    statement = elementwise(lambda d, x: select(x >= 0, x, d.alpha * (exp(x) - 1)))

    examples = (
        Example(
            "The unit at -1, 0 and 2",
            dict(input_tensor=TRIPLE, output_tensor=TRIPLE, alpha=2.0),
            dict(input_tensor=np.array([-1, 0, 2], np.float32)),
            np.array([-1.2642411, 0, 2], np.float32),
        ),
    )
    rejecting = ()
    errata = ()
